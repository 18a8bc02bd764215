"""DeBERTa of Transformers and its import say the same; what has no counterpart is refused by its field."""

import json

import pytest
import torch

from tests.checkpoints.foreign.conftest import HARD, LINES, POSITIONS, write_json
from tests.checkpoints.foreign.test_maps import by_row, opened
from tests.checkpoints.foreign.test_vocabulary import configure
from tupe.checkpoints.foreign.importing import import_model
from tupe.cli.main import main
from tupe.data.corpus.manifest import Manifest
from tupe.safe_load import safe_load
from tupe.util import UserError

transformers = pytest.importorskip("transformers")
sentencepiece = pytest.importorskip("sentencepiece")

#: The third version's fields, with distances of which some are beyond the last bucket.
V3 = {
    "relative_attention": True,
    "pos_att_type": "p2c|c2p",
    "position_biased_input": False,
    "share_att_key": True,
    "norm_rel_ebd": "layer_norm",
    "position_buckets": 8,
    "max_relative_positions": 20,
}
#: What differs from them.
OTHERS = {
    "v3": {},
    "the longest distance is that of the positions": {"max_relative_positions": -1},
    "clipped": {"position_buckets": -1},
    "absolute positions too, and types": {"position_biased_input": True, "type_vocab_size": 2},
    "types": {"type_vocab_size": 2, "layer_norm_eps": 1e-3},
    "not relative": {"relative_attention": False, "pos_att_type": None, "position_biased_input": True},
    "a decoder as Transformers runs it": {"legacy": False},
}


def drawn(folder, out):
    """Sequences of odd lengths in our numbers, with padding; where words are; and the rows of the original."""
    rows = torch.tensor(by_row(folder, out))
    tokens = torch.randint(4, len(rows) - 1, (3, 59), generator=torch.Generator().manual_seed(5))
    for sequence, length in zip(tokens, (59, 37, 11)):
        sequence[0], sequence[length - 1], sequence[length:] = 0, 2, 1
    tokens[1, 7] = 2  # a pair
    return tokens, tokens != 1, rows


def original_logits(original, tokens, words, rows, types):
    inputs = {"input_ids": rows[tokens], "attention_mask": words.long()}
    if types:
        inputs["token_type_ids"] = ((tokens == 2).cumsum(1) - (tokens == 2).long() > 0).long() * words
    return original(**inputs).logits[..., rows]


@pytest.mark.parametrize("name", OTHERS)
@torch.no_grad()
def test_logits(name, saved, tmp_path):
    fields = {**V3, **OTHERS[name]}
    folder, original = saved("deberta-v2", **fields)
    lines = import_model(folder, tmp_path / "out", compare=True)
    assert any(line.startswith("verified") and "logits differ" in line for line in lines)
    relative = fields["relative_attention"]
    assert lines[0].startswith(f"model: deberta-v2 of Transformers as {'deberta' if relative else 'bert_a'}_base, ")
    hub, (tokens, words, rows) = opened(tmp_path / "out"), drawn(folder, tmp_path / "out")
    assert hub.model.args.max_positions == POSITIONS
    wanted = original_logits(original, tokens, words, rows, fields.get("type_vocab_size"))
    assert (hub.model(tokens)[0] - wanted)[words].abs().max() < 1e-5 * wanted.abs().max()


@pytest.mark.parametrize("name", ["v3", "absolute positions too, and types"])
@torch.no_grad()
def test_there_and_back(name, saved, tmp_path):
    import tupe.transformers  # noqa: F401

    fields = {**V3, **OTHERS[name]}
    folder, original = saved("deberta-v2", **fields)
    import_model(folder, tmp_path / "out")
    assert main(["export", str(tmp_path / "out/checkpoint.pt"), str(tmp_path / "out"), str(tmp_path / "exported")]) == 0
    exported = transformers.AutoModelForMaskedLM.from_pretrained(tmp_path / "exported").eval()
    tokens, words, rows = drawn(folder, tmp_path / "out")
    wanted = original_logits(original, tokens, words, rows, fields.get("type_vocab_size"))
    found = exported(tokens, attention_mask=words.long()).logits
    assert (found - wanted)[words].abs().max() < 1e-5 * wanted.abs().max()
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "exported")
    ours = Manifest.load(tmp_path / "out").tokenizer()
    first, second = map(ours, LINES[:2])
    assert tokenizer(*LINES[:2])["input_ids"] == [0, *first, 2, *second, 2]
    for text in HARD[1:]:  # only an exported tokenizer makes symbols of a text that spells ours
        assert tokenizer(text)["input_ids"] == [0, *ours(text), 2]


def test_a_classification_head(saved, tmp_path):
    names = dict(enumerate(["entailment", "neutral", "contradiction"]))
    labels = {"id2label": names, "label2id": {name: number for number, name in names.items()}}
    folder, _ = saved("deberta-v2", "ForSequenceClassification", **V3, **labels)
    lines = import_model(folder, tmp_path / "out", head_name="mnli", compare=True)
    assert "head differ by" in next(line for line in lines if line.startswith("verified"))
    assert any("in the order of MNLI" in line for line in lines)
    assert opened(tmp_path / "out").model.args.pooler_activation_fn == "gelu"


@torch.no_grad()
def test_the_mask_decoder_of_a_release_is_left_behind(saved, tmp_path):
    """Microsoft's files have `lm_predictions` and unused absolute positions; their `config.json` has no `legacy`."""
    folder, original = saved("deberta-v2", **V3, legacy=False)
    configure(folder, legacy=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(original, "_tied_weights_keys", {})
        state = {**original.state_dict(), "deberta.embeddings.position_embeddings.weight": torch.zeros(POSITIONS, 16)}
    torch.save(state, folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()
    lines = import_model(folder, tmp_path / "out")
    assert "untrained: the language-model head, which the folder lacks" in lines
    assert "left behind: deberta.embeddings, the enhanced mask decoder (lm_predictions)" in lines
    assert not any("lm_head" in name for name in safe_load(tmp_path / "out/checkpoint.pt")["model"])
    tokens, words, rows = drawn(folder, tmp_path / "out")
    found = opened(tmp_path / "out").model(tokens, features_only=True)[0]
    wanted = original.deberta(rows[tokens], attention_mask=words.long()).last_hidden_state
    assert (found - wanted)[words].abs().max() < 1e-5 * wanted.abs().max()


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"conv_kernel_size": 3}, "conv_kernel_size is 3, and only 0"),
        ({"pos_att_type": "p2c|p2p"}, r"pos_att_type is \['p2c', 'p2p'\]"),
        ({"relative_attention": False}, r"pos_att_type is \['p2c', 'c2p'\]"),
    ],
)
def test_what_has_no_counterpart(fields, message, saved, tmp_path):
    folder, _ = saved("deberta-v2", **V3)
    configure(folder, **fields)
    with pytest.raises(UserError, match=message):
        import_model(folder, tmp_path / "out")


def test_pieces(saved, deberta_pieces, tmp_path):
    model = sentencepiece.SentencePieceProcessor(str(deberta_pieces))
    mask = len(model) + 1
    folder, _ = saved("deberta-v2", vocab_size=mask + 5)
    write_json(folder / "added_tokens.json", {"[MASK]": mask, "<extra>": mask - 1})
    lines = import_model(folder, tmp_path / "out")
    assert any("1 added token(s), such as '<extra>', are letters here" in line for line in lines)
    ours, rows = Manifest.load(tmp_path / "out").tokenizer(), by_row(folder, tmp_path / "out")
    assert rows[:4] == [1, 0, 2, 3] and rows[-1] == mask
    for text in (*LINES, *HARD):
        assert [rows[number] for number in ours(text)] == model.encode(text)
    original = transformers.DebertaV2Tokenizer.from_pretrained(str(folder))
    for text in LINES[:4]:
        assert [rows[number] for number in ours(text)] == original(text, add_special_tokens=False)["input_ids"]
    for option in ("do_lower_case", "split_by_punct"):
        write_json(folder / "tokenizer_config.json", {option: True})
        with pytest.raises(UserError, match=r"changes a text .*--no-tokenizer"):
            import_model(folder, tmp_path / "none")
    import_model(folder, tmp_path / "none", with_tokenizer=False)


def test_pieces_of_one_file(saved, tmp_path):
    """Transformers 5 saves `tokenizer.json` alone, whose pieces of plain text are those of the SentencePiece model."""
    folder, _ = saved("deberta-v2", **V3)
    import_model(folder, tmp_path / "of_spm")
    transformers.DebertaV2Tokenizer.from_pretrained(str(folder)).save_pretrained(str(folder))
    original = transformers.AutoTokenizer.from_pretrained(str(folder))
    (folder / "spm.model").unlink()
    lines = import_model(folder, tmp_path / "out")
    assert "tokenizer: unigram" in lines
    ours, of_spm = (Manifest.load(tmp_path / name).tokenizer() for name in ("out", "of_spm"))
    assert ours.symbols == of_spm.symbols
    rows = by_row(folder, tmp_path / "out")
    for text in (*LINES, *HARD[2:]):
        assert [rows[number] for number in ours(text)] == original(text, add_special_tokens=False)["input_ids"]
    assert [ours(text) for text in LINES] == [of_spm(text) for text in LINES]
    for text in HARD[:2]:
        assert not {0, 1, 2, len(rows) - 1} & set(ours(text))
    for text in LINES:
        pieces = ours.pieces(text)
        for word in text.split():
            start = text.index(word)
            first, last = pieces.span(start, start + len(word) - 1)
            assert word in text[pieces.begin[first] : pieces.end[last]]
    assert main(["export", str(tmp_path / "out/checkpoint.pt"), str(tmp_path / "out"), str(tmp_path / "exported")]) == 0
    exported = transformers.AutoTokenizer.from_pretrained(tmp_path / "exported")
    assert [exported(text)["input_ids"] for text in LINES] == [[0, *ours(text), 2] for text in LINES]


@pytest.mark.parametrize(
    "change",
    [
        {"normalizer": {"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": "x"}]}},
        {"pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False}},
    ],
)
def test_another_unigram_tokenizer_is_refused(change, saved, tmp_path):
    folder, _ = saved("deberta-v2", **V3)
    transformers.DebertaV2Tokenizer.from_pretrained(str(folder)).save_pretrained(str(folder))
    (folder / "spm.model").unlink()
    content = json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))
    write_json(folder / "tokenizer.json", {**content, **change})
    with pytest.raises(UserError, match="which cannot be imported"):
        import_model(folder, tmp_path / "out")
