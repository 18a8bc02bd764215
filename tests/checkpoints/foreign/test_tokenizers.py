"""An imported tokenizer makes the pieces of fairseq and Transformers, and never a special symbol."""

import json
import shutil
from types import SimpleNamespace

import numpy as np
import pytest
import sentencepiece
import torch
from fairseq.data import Dictionary
from fairseq.data.encoders.gpt2_bpe import GPT2BPE
from fairseq.models.roberta import RobertaHubInterface
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.checkpoints.foreign.conftest import HARD, LINES, write_json
from tupe.checkpoints.foreign import tokenizer
from tupe.checkpoints.foreign.importing import import_model
from tupe.checkpoints.foreign.vocabulary import by_role
from tupe.data.corpus.manifest import Manifest
from tupe.data.corpus.tokenizers import open_tokenizer
from tupe.models import TupeModel
from tupe.util import UserError

transformers = pytest.importorskip("transformers")
UNKNOWN, SPECIAL = 3, (0, 1, 2)


@pytest.fixture(scope="module")
def byte_level(released, tmp_path_factory):
    """fairseq's encoder of a folder, and its import."""
    from fairseq.data.encoders.gpt2_bpe_utils import get_encoder

    folder, _ = released()
    out = tmp_path_factory.mktemp("byte_level") / "out"
    import_model(folder, out)
    dictionary = Dictionary.load(str(folder / "dict.txt"))
    dictionary.add_symbol("<mask>")
    encoder = get_encoder(str(folder / "encoder.json"), str(folder / "vocab.bpe"))

    def encode(text):
        symbols = " ".join(map(str, encoder.encode(text)))
        return dictionary.encode_line(symbols, append_eos=False, add_if_not_exist=False).tolist()

    return encode, out


@pytest.fixture(scope="module")
def word_piece(saved, tmp_path_factory):
    """Transformers' tokenizer of a folder, without what it makes of special symbols; and its import, with the rows."""
    folder, _ = saved("bert")
    out = tmp_path_factory.mktemp("word_piece") / "out"
    import_model(folder, out)
    original = transformers.BertTokenizer.from_pretrained(str(folder))
    config = json.loads((folder / "config.json").read_text())
    rows = by_role(tokenizer.of_transformers(folder, config, False).source, config["vocab_size"]).rows
    return original, out, rows


@pytest.mark.parametrize("text", [*LINES, *HARD])
def test_byte_level_pieces_are_fairseq_s(text, byte_level):
    encode, out = byte_level
    assert open_tokenizer(out / "tokenizer.json")(text) == encode(text)


@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=st.text(st.characters(exclude_categories=["Cs"]), max_size=30))
def test_any_text_is_as_fairseq_has_it_and_comes_back(text, byte_level):
    encode, out = byte_level
    ours = open_tokenizer(out / "tokenizer.json")
    assert ours(text) == encode(text)
    assert ours.decode([ours.symbols[number] for number in ours(text)]) == text


@pytest.mark.parametrize("text", [*LINES, *(text for text in HARD if "[" not in text)])
def test_word_pieces_are_transformers_(text, word_piece):
    original, out, rows = word_piece
    ours = open_tokenizer(out / "tokenizer.json")(text)
    assert [rows[number] for number in ours] == original(text, add_special_tokens=False)["input_ids"]


@pytest.mark.parametrize("kind", ["xlm-roberta", "camembert"])
def test_sentence_pieces(kind, saved, pieces, tmp_path):
    import_model(saved(kind)[0], tmp_path / "out")
    model = sentencepiece.SentencePieceProcessor(model_file=str(pieces))
    ours = Manifest.load(tmp_path / "out").tokenizer()
    for text in (*LINES, *HARD):
        numbers = [UNKNOWN if number == 0 else number + 1 for number in model.encode(text)]
        assert ours(text) == numbers
        assert list(ours.lines([text])) == [numbers]


@pytest.mark.parametrize("kind", ["xlm-roberta", "camembert"])
def test_sentence_pieces_of_one_file(kind, saved, tmp_path):
    """What Transformers 5 saves, `tokenizer.json` alone."""
    folder, _ = saved(kind)
    import_model(folder, tmp_path / "of_model")
    of = transformers.XLMRobertaTokenizer if kind == "xlm-roberta" else transformers.CamembertTokenizer
    of.from_pretrained(str(folder)).save_pretrained(str(folder))
    (folder / "sentencepiece.bpe.model").unlink()
    import_model(folder, tmp_path / "out")
    ours, of_model = (Manifest.load(tmp_path / name).tokenizer() for name in ("out", "of_model"))
    assert ours.symbols == of_model.symbols
    assert [ours(text) for text in LINES] == [of_model(text) for text in LINES]


@pytest.mark.parametrize("name", ["byte_level", "word_piece"])
@pytest.mark.parametrize("text", HARD)
def test_no_text_spells_a_special_symbol(name, text, request):
    out = request.getfixturevalue(name)[1]
    ours = open_tokenizer(out / "tokenizer.json")
    numbers = ours(text)
    assert not set(numbers) & set(SPECIAL) and len(ours.symbols) not in numbers  # where `<mask>` is
    assert not any(ours.symbols[number].startswith("madeupword") for number in numbers)


@pytest.mark.parametrize("name", ["byte_level", "word_piece"])
def test_pieces_cover_their_characters(name, request):
    ours = open_tokenizer(request.getfixturevalue(name)[1] / "tokenizer.json")
    for text in LINES:
        pieces = ours.pieces(text)
        assert pieces.numbers.tolist() == ours(text)
        assert (np.diff(pieces.begin) >= 0).all() and (np.diff(pieces.end) >= 0).all()
        for word in text.split():
            start = text.index(word)
            first, last = pieces.span(start, start + len(word) - 1)
            found = text[pieces.begin[first] : pieces.end[last]]
            assert word in found
            assert found.strip().startswith(word[0]) or text[start - 1 : start] != " "


def test_all_bytes_of_a_character_have_that_character(byte_level):
    pieces = open_tokenizer(byte_level[1] / "tokenizer.json").pieces("a 😀")
    spans = list(zip(pieces.begin.tolist(), pieces.end.tolist()))
    assert spans[0] == (0, 1) and set(spans[-3:]) == {(2, 3)}


def test_the_hub_reads_text_as_fairseq_does(released, tmp_path):
    folder, original = released()
    out = tmp_path / "out"
    import_model(folder, out)
    hub = TupeModel.from_pretrained(str(out), "checkpoint.pt", str(out.resolve())).eval()
    dictionary = Dictionary.load(str(folder / "dict.txt"))
    task = SimpleNamespace(source_dictionary=dictionary, mask_idx=dictionary.add_symbol("<mask>"))
    theirs = RobertaHubInterface(SimpleNamespace(bpe=None), task, original).eval()
    files = {"gpt2_encoder_json": str(folder / "encoder.json"), "gpt2_vocab_bpe": str(folder / "vocab.bpe")}
    theirs.bpe = GPT2BPE(SimpleNamespace(**files))
    for text in ["Hello world!", " world", "naïve façade", "two  spaces", "a\u00a0b"]:
        assert hub.encode(text).tolist() == theirs.encode(text).tolist(), text
    assert hub.encode("Anna", "and Bob").tolist() == theirs.encode("Anna", "and Bob").tolist()
    assert hub.decode(hub.encode("Hello world!")) == "Hello world!"
    text = "Anna sees the <mask> and Bob."
    tokens = hub.encode(text)
    with torch.no_grad():
        shares = original(tokens[None])[0][0, tokens.tolist().index(task.mask_idx)].softmax(-1)
    for sentence, share, word in hub.fill_mask(text, topk=3):
        assert sentence == text.replace(" <mask>", word)
        assert (shares - share).abs().min() < 1e-6


@pytest.mark.parametrize("form", ["files", "json"])
def test_the_files_and_tokenizer_json_are_one(form, saved, bytes_of_text, tmp_path):
    """What Transformers 5 saves, one file, makes the pieces of the two of before."""
    folder, _ = saved("roberta")
    vocabulary = json.loads((folder / "vocab.json").read_text())
    merges = [tuple(line.split(" ")) for line in (folder / "merges.txt").read_text().split("\n")[1:] if line]
    if form == "json":
        transformers.RobertaTokenizer(vocab=vocabulary, merges=merges).save_pretrained(str(folder))
        for name in ("vocab.json", "merges.txt"):
            (folder / name).unlink(missing_ok=True)
        assert (folder / "tokenizer.json").is_file()
    import_model(folder, tmp_path / "out")
    ours = Manifest.load(tmp_path / "out").tokenizer()
    assert [*ours.symbols, "<mask>"] == sorted(vocabulary, key=vocabulary.get)
    assert ours(LINES[0]) == [vocabulary[token] for token in bytes_of_text[2].encode(LINES[0]).tokens]


def test_lower_case_is_as_the_configuration_says(saved, tmp_path):
    folder, _ = saved("bert")
    transformers.BertTokenizer.from_pretrained(str(folder)).save_pretrained(str(folder))
    config = json.loads((folder / "tokenizer_config.json").read_text())
    for lower in (True, False):
        write_json(folder / "tokenizer_config.json", {**config, "do_lower_case": lower})
        import_model(folder, tmp_path / str(lower))
        ours = Manifest.load(tmp_path / str(lower)).tokenizer()
        assert (ours("The House") == ours("the house")) == lower


@pytest.mark.parametrize("space", [True, False])
def test_a_space_before_the_first_word_is_as_the_configuration_says(space, saved, tmp_path):
    folder, _ = saved("roberta")
    write_json(folder / "tokenizer_config.json", {"tokenizer_class": "RobertaTokenizer", "add_prefix_space": space})
    import_model(folder, tmp_path / "out")
    ours = Manifest.load(tmp_path / "out").tokenizer()
    assert (ours("Anna") == ours(" Anna")) == space


def change(folder, **parts):
    path = folder / "tokenizer.json"
    write_json(path, {**json.loads(path.read_text()), **parts})


@pytest.mark.parametrize(
    "parts",
    [
        {"normalizer": {"type": "Lowercase"}},
        {"pre_tokenizer": {"type": "Whitespace"}},
        {"model": {"type": "WordLevel", "vocab": {"a": 0}, "unk_token": "a"}},
    ],
)
def test_another_kind_of_tokenizer_is_refused(parts, saved, tmp_path):
    folder, _ = saved("bert")
    transformers.BertTokenizer.from_pretrained(str(folder)).save_pretrained(str(folder))
    change(folder, **parts)
    with pytest.raises(UserError, match="which cannot be imported"):
        import_model(folder, tmp_path / "out")
    assert not (tmp_path / "out").exists()
    if "model" not in parts:
        import_model(folder, tmp_path / "out", with_tokenizer=False)


def test_a_class_that_does_more_is_refused(saved, tmp_path):
    folder, _ = saved("bert")
    write_json(folder / "tokenizer_config.json", {"tokenizer_class": "BertJapaneseTokenizer", "do_lower_case": False})
    with pytest.raises(UserError, match=r"BertJapaneseTokenizer.*--no-tokenizer"):
        import_model(folder, tmp_path / "out")


def test_the_tokenizer_may_lie_elsewhere(released, tmp_path):
    folder, _ = released()
    bpe = tmp_path / "bpe"
    bpe.mkdir()
    for name in ("encoder.json", "vocab.bpe"):
        shutil.move(folder / name, bpe)
    import_model(folder, tmp_path / "out", bpe=bpe)
    assert Manifest.load(tmp_path / "out").tokenizer()("Anna")
