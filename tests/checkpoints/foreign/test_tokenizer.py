"""An imported tokenizer makes the pieces of fairseq and Transformers, and never a special symbol."""

from types import SimpleNamespace

import pytest
import sentencepiece
import torch
from fairseq.data import Dictionary
from fairseq.data.encoders.gpt2_bpe import GPT2BPE
from fairseq.models.roberta import RobertaHubInterface
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.checkpoints.foreign.conftest import HARD, LINES, opened
from tests.checkpoints.foreign.test_importing import rows_of
from tupe.checkpoints.foreign.importing import import_model
from tupe.data.tokenizers import open_tokenizer
from tupe.hf.export import export

transformers = pytest.importorskip("transformers")
SPECIAL = {0, 1, 2}


@pytest.fixture(scope="module")
def byte_level(released, tmp_path_factory):
    """fairseq's hub on a folder, and its import's."""
    folder, original = released()
    out = tmp_path_factory.mktemp("byte_level") / "out"
    import_model(folder, out)
    dictionary = Dictionary.load(str(folder / "dict.txt"))
    task = SimpleNamespace(source_dictionary=dictionary, mask_idx=dictionary.add_symbol("<mask>"))
    theirs = RobertaHubInterface(SimpleNamespace(bpe=None), task, original).eval()
    files = {"gpt2_encoder_json": str(folder / "encoder.json"), "gpt2_vocab_bpe": str(folder / "vocab.bpe")}
    theirs.bpe = GPT2BPE(SimpleNamespace(**files))
    return theirs, opened(out), open_tokenizer(out / "tokenizer.json")


@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=st.sampled_from([*LINES, *HARD]) | st.text(st.characters(exclude_categories=["Cs"]), max_size=30))
def test_any_text_is_as_fairseq_has_it_and_comes_back(text, byte_level):
    theirs, _, ours = byte_level
    pieces = theirs.task.source_dictionary.encode_line(
        theirs.bpe.encode(text), append_eos=False, add_if_not_exist=False
    )
    assert ours(text) == pieces.tolist()
    assert ours.decode([ours.symbols[number] for number in ours(text)]) == text
    assert not SPECIAL & set(ours(text))


def test_the_hub_reads_text_as_fairseq_does(byte_level):
    theirs, hub, _ = byte_level
    for texts in (["Hello world!"], [" world"], ["two  spaces"], ["a\u00a0b"], ["Anna", "and Bob"]):
        assert hub.encode(*texts).tolist() == theirs.encode(*texts).tolist(), texts
    assert hub.decode(hub.encode("Hello world!")) == "Hello world!"
    text = "Anna sees the <mask> and Bob."
    tokens = hub.encode(text)
    with torch.no_grad():
        shares = theirs.model(tokens[None])[0][0, tokens.tolist().index(theirs.task.mask_idx)].softmax(-1)
    for sentence, share, word in hub.fill_mask(text, topk=3):
        assert sentence == text.replace(" <mask>", word)
        assert (shares - share).abs().min() < 1e-6


@pytest.mark.parametrize("kind", ["roberta", "bert", "mpnet", "xlm-roberta", "camembert", "deberta-v2", "modernbert"])
def test_pieces_are_transformers(kind, saved, tmp_path):
    """In a `tokenizer.json`, of SentencePiece's models too where Transformers 5 saved nothing else."""
    folder, _ = saved(kind)
    original = transformers.AutoTokenizer.from_pretrained(folder)
    original.add_tokens(["Anna_sees", *["  ", "\n"] * (kind == "modernbert")])  # mmBERT has line ends
    original.save_pretrained(folder)
    for name in ("spm.model", "sentencepiece.bpe.model"):
        (folder / name).unlink(missing_ok=True)
    model = transformers.AutoModelForMaskedLM.from_pretrained(folder)
    model.resize_token_embeddings(len(original))
    model.save_pretrained(folder)
    import_model(folder, tmp_path / "out")
    ours, rows = open_tokenizer(tmp_path / "out/tokenizer.json"), rows_of(folder).tolist()
    for text in (*LINES, *HARD[3:], f"what Anna_sees {LINES[0]}", "a  b\nc"):
        assert [rows[number] for number in ours(text)] == original(text, add_special_tokens=False)["input_ids"], text
    for text in HARD:
        assert not (SPECIAL | {len(rows) - 1}) & set(ours(text))
    for text in LINES:
        pieces = ours.pieces(text)
        for word in text.split():
            start = text.index(word)
            first, last = pieces.span(start, start + len(word) - 1)
            assert word in text[pieces.begin[first] : pieces.end[last]]
    hub, out = opened(tmp_path / "out"), tmp_path / "export"
    export(tmp_path / "out/checkpoint.pt", tmp_path / "out", out)
    for text in (*LINES, "a  b"):
        assert hub.encode(text).tolist() == transformers.AutoTokenizer.from_pretrained(out)(text)["input_ids"]


@pytest.mark.parametrize("kind", ["xlm-roberta", "camembert", "deberta-v2"])
def test_sentence_pieces(kind, saved, pieces, deberta_pieces, tmp_path):
    folder, _ = saved(kind)
    lines = import_model(folder, tmp_path / "out")
    assert "tokenizer: SentencePiece" in lines
    model = sentencepiece.SentencePieceProcessor(str(deberta_pieces if kind == "deberta-v2" else pieces))
    ours, rows = open_tokenizer(tmp_path / "out/sentencepiece.bpe.model"), rows_of(folder).tolist()
    shift = {"xlm-roberta": 1, "camembert": 4, "deberta-v2": 0}[kind]
    for text in (*LINES, *HARD):
        theirs = [number + shift if number or not shift else 3 for number in model.encode(text)]
        assert [rows[number] for number in ours(text)] == theirs


@pytest.mark.parametrize("wanted", [True, False])
def test_a_tokenizer_that_lies_elsewhere_or_nowhere(wanted, released, tmp_path):
    folder, _ = released()
    for name in ("encoder.json", "vocab.bpe"):
        (folder / name).rename(tmp_path / name)
    lines = import_model(folder, tmp_path / "out", with_tokenizer=wanted, bpe=tmp_path if wanted else None)
    assert ("tokenizer: none" in lines) != wanted
