"""Tokenizers of Transformers: the numbers that fairseq's hub interface gives, whatever the model and the text."""

import random
import sys
import sysconfig
import unicodedata
from pathlib import Path

import pytest
import sentencepiece

from tests.samples import write_manifest
from tupe.data import tokenizers as vocabulary
from tupe.data.text import PROFILES, repaired
from tupe.data.tokenizers import FAIRSEQ_SYMBOLS, UNKNOWN_NUMBER, open_tokenizer
from tupe.models import TupeModel

pytest.importorskip("tokenizers")
pytest.importorskip("transformers")
from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers

from tupe.hf.tokenizer import build_tokenizer, cleaning, imported_tokenizer, save_tokenizer


@pytest.fixture(scope="module")
def lines():
    """20,000 different lines of English prose and code: those of Python's library."""
    files = sorted(Path(sysconfig.get_path("stdlib")).glob("*.py"))
    found = dict.fromkeys(line for file in files for line in file.read_text("utf-8").splitlines() if line.strip())
    return random.Random(0).sample(list(found), 20_000)


@pytest.fixture(scope="module", params=["bpe-cased", "unigram-lower"])
def both(request, lines, make_checkpoint, tmp_path_factory):
    """The tokenizer, loaded as a user loads it, and `encode` of fairseq's hub interface, which reads the manifest."""
    from transformers import AutoTokenizer

    import tupe.hf  # noqa: F401

    kind, case = request.param.split("-")
    folder = tmp_path_factory.mktemp(request.param)
    model = folder / "sentencepiece.bpe.model"
    accents = ["Zoë naïve façade Ærø Łódź", "Ǎ ë ï Ő ű č ž ñ"] * 50
    vocabulary.train([*lines[:3000], *accents], model, 1000, kind, case == "lower")
    vocabulary.write_dictionary(folder / "dict.txt", vocabulary.symbols(model))
    write_manifest(folder)
    make_checkpoint(folder / "best.pt", of=folder)
    hub = TupeModel.from_pretrained(str(folder), "best.pt", str(folder))
    dictionary = hub.task.source_dictionary
    save_tokenizer(build_tokenizer(model, dictionary.symbols, PROFILES["sentencepiece"]), folder, 64)
    return AutoTokenizer.from_pretrained(folder), lambda *texts: hub.encode(*texts).tolist(), kind, dictionary


def differing(tokenizer, encode, texts):
    return [text for text, ids in zip(texts, tokenizer(texts)["input_ids"]) if ids != encode(text)]


def test_real_lines(both, lines):
    tokenizer, encode, kind, _ = both
    wrong = differing(tokenizer, encode, lines)
    if kind == "unigram":  # of two cuts of equal score each takes its own: the same pieces in another order
        assert len(wrong) < len(lines) / 500
        wrong = [text for text in wrong if sorted(tokenizer(text)["input_ids"]) != sorted(encode(text))]
    assert not wrong


def test_accents_apart_and_joined(both):
    tokenizer, encode, _, _ = both
    generator = random.Random(0)
    letters = [chr(c) for c in range(0xC0, 0x250)] + list("abc xyz ABC ,.")
    texts = ["".join(generator.choices(letters, k=20)) for _ in range(500)]
    for form in ("NFC", "NFD"):
        assert not differing(tokenizer, encode, [unicodedata.normalize(form, text) for text in texts])


def test_an_arabic_vowel_stays_after_its_shadda(both):
    """SentencePiece leaves the two as they are, NFC puts the vowel first."""
    normalizer = both[0].backend_tokenizer.normalizer
    assert normalizer.normalize_str("\u0627\u0651\u064e\u062f e\u0301") == "\u0627\u0651\u064e\u062f \xe9"


def test_characters_that_are_no_text(both):
    """The corpus' first stage removes them; SentencePiece alone makes them spaces or unknown pieces."""
    tokenizer, encode, _, _ = both
    generator = random.Random(0)
    odd = "\u00ad\u200b\u200e\ufeff\u202a\u202c\u0085\x1c\x07\t\u2028\u200c\u200d\ue000\ufffd"
    texts = ["".join(generator.choices("abcé a.,", k=4) + generator.choices(odd, k=2)) * 3 for _ in range(500)]
    first = [
        "".join((*generator.choices(odd, k=generator.randint(1, 3)), *generator.choices("ab <", k=3)))
        for _ in range(200)
    ]
    assert not differing(tokenizer, encode, ["co\u00adoperation", "Dubai (\u062f\u200e) is", *texts, *first])


def test_the_cleaning_is_the_corpus_s():
    """Covers every character of Unicode but those that Python's tables do not have yet."""
    pairs = cleaning(PROFILES["sentencepiece"])
    steps = normalizers.Sequence([normalizers.Replace(Regex(pattern), content) for pattern, content in pairs])
    characters = [chr(c) for c in range(sys.maxunicode + 1) if not 0xD800 <= c < 0xE000]
    wanted = [" " if c.isspace() else repaired(c) for c in characters]
    found = steps.normalize_str("|".join(characters)).split("|")
    del wanted[ord("|")], characters[ord("|")], found[ord("|") : ord("|") + 2]
    wrong = [c for c, ours, theirs in zip(characters, wanted, found, strict=True) if ours != theirs]
    assert {unicodedata.category(c) for c in wrong} <= {"Cn"}
    assert cleaning(None) == [] and len(cleaning(["tokenise"])) == 1


def test_spaces_and_nothing(both):
    tokenizer, encode, _, _ = both
    texts = ["", " ", "  a  b ", "a ", "\ta\n", "a\u3000b", "ﬁne…", "<url> is <email>", "a <file>", "  <url>,"]
    assert not differing(tokenizer, encode, texts)
    assert tokenizer("")["input_ids"] == [0, 2]


def test_symbols_and_decoding(both):
    tokenizer, encode, _, dictionary = both
    assert tokenizer.convert_ids_to_tokens(range(len(dictionary))) == dictionary.symbols
    assert len(tokenizer) == len(dictionary) == 1000
    special = tokenizer.bos_token_id, tokenizer.pad_token_id, tokenizer.eos_token_id, tokenizer.unk_token_id
    assert special == (0, 1, 2, 3)
    assert tokenizer.mask_token_id == 999
    assert tokenizer("a <mask>")["input_ids"][-2:] == [999, 2]
    text = "the list of all modules"
    assert tokenizer.decode(encode(text), skip_special_tokens=True) == text


def test_pairs_and_truncation(both, lines):
    tokenizer, encode, _, _ = both
    long, short = " ".join(lines[100:110]), "of this list"
    assert tokenizer(long, short)["input_ids"] == encode(long, short)
    pieces = [encode(text)[1:-1] for text in (long, short)]
    cut = tokenizer(long, short, truncation=True)["input_ids"]
    assert cut == [0, *pieces[0][: 64 - 4 - len(pieces[1])], 2, 2, *pieces[1], 2]
    assert tokenizer(long, truncation=True)["input_ids"] == [0, *pieces[0][:62], 2]
    padded = tokenizer([short, long], padding=True, return_tensors="pt")
    assert padded["input_ids"].eq(1).equal(padded["attention_mask"].eq(0))
    assert set(padded) == {"input_ids", "attention_mask"}


def test_offsets_are_those_of_the_letters(both, tmp_path):
    """Not of the space before a word, so that spans of entities begin where the words do."""
    text = "she  lives in <url>, oslo"
    spans = both[0](text, return_offsets_mapping=True)["offset_mapping"]
    words = [text[a:b] for a, b in spans if text[a:b] not in ("", " ", "<url>")]  # a symbol's own space is a piece
    assert not any(word != word.strip() for word in words)
    assert {place for a, b in spans for place in range(a, b)} >= {n for n, c in enumerate(text) if c != " "}

    symbols = [*FAIRSEQ_SYMBOLS, *"abco", "\u0120", "\u0120b"]  # of GPT-2's bytes: a space
    made = Tokenizer(models.BPE({one: n for n, one in enumerate(symbols)}, [("\u0120", "b")], unk_token="<unk>"))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.save(str(tmp_path / "tokenizer.json"))
    found = imported_tokenizer(tmp_path / "tokenizer.json", symbols, 2).encode("a boc")
    assert found.tokens == ["<s>", "a", "\u0120b", "o", "c", "</s>"]
    assert found.offsets[1:-1] == [(0, 1), (2, 3), (3, 4), (4, 5)]
    made.pre_tokenizer = pre_tokenizers.Whitespace()  # the same character is a letter
    made.save(str(tmp_path / "tokenizer.json"))
    assert imported_tokenizer(tmp_path / "tokenizer.json", symbols, 2).encode("\u0120b").offsets[1:-1] == [(0, 2)]


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_what_no_piece_has_is_bytes(kind, tmp_path, lines):
    """Models with `byte_fallback`, as DeBERTa's third version has."""
    path = tmp_path / "model.model"
    with path.open("wb") as writer:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(lines[:300]), model_writer=writer, vocab_size=600, model_type=kind, minloglevel=2,
            byte_fallback=True,
        )  # fmt: skip
    vocabulary.write_dictionary(tmp_path / "dict.txt", vocabulary.symbols(path))
    ours = open_tokenizer(path.rename(tmp_path / "sentencepiece.bpe.model"))
    tokenizer = build_tokenizer(tmp_path / "sentencepiece.bpe.model", ours.symbols)
    for text in (*lines[:30], "emoji 😀👩\u200d👧 ok", "العربية ไทย", "老房子 1885", "😀"):
        assert tokenizer.encode(text, add_special_tokens=False).ids == ours(text)
        assert UNKNOWN_NUMBER not in ours(text)
        assert tokenizer.decode(ours(text)) == " ".join(text.split())
