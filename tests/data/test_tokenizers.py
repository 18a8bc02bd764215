"""One set of symbols: SentencePiece's pieces are fairseq's dictionary with `<mask>`."""

import pytest
import sentencepiece
from fairseq.data import Dictionary

from tupe.data.tokenizers import MASK, MODEL, open_tokenizer, symbols, train, write_dictionary

LINES = [
    f"The {animal} is in the {place}, said Anna." for animal in ("cat", "dog", "bird") for place in ("house", "sea")
]


@pytest.fixture(scope="module", params=[("bpe", 48), ("unigram", 28)], ids=["bpe", "unigram"])
def model(request, tmp_path_factory):
    path = tmp_path_factory.mktemp(request.param[0]) / "sentencepiece.bpe.model"
    model_type, size = request.param
    train(LINES * 20, path, size, model_type, lower_case=True)
    write_dictionary(path.with_name("dict.txt"), symbols(path))
    return path


def test_the_dictionary_with_mask_has_the_same_symbols(model):
    dictionary = Dictionary.load(str(model.with_name("dict.txt")))
    assert MASK not in dictionary
    dictionary.add_symbol(MASK)  # as fairseq's tasks do
    assert sorted(dictionary.symbols) == sorted(symbols(model))
    assert len(dictionary) in (48, 28)


def pieces(model, numbers):
    dictionary = Dictionary.load(str(model.with_name("dict.txt")))
    return [dictionary.symbols[number] for number in numbers]


def test_text_is_never_a_symbol_of_fairseq(model):
    """Not even where it spells one, in capitals, or in characters that are normalized to it."""
    encode = open_tokenizer(model)
    text = "the cat <mask> <MASK> ＜mask＞ <s> </s> <pad> <unk> ☃</s>☃"
    assert set(pieces(model, encode(text))) & {MASK, "<s>", "</s>", "<pad>"} == set()
    plain = sentencepiece.SentencePieceProcessor(model_file=str(model))
    assert pieces(model, encode("the cat")) == plain.encode("THE CAT", out_type=str)
    assert pieces(model, encode("☃")) == ["▁", "<unk>"]


def test_numbers_are_the_dictionarys(model):
    """`fairseq-preprocess` gives the pieces the same numbers."""
    dictionary = Dictionary.load(str(model.with_name("dict.txt")))
    plain = sentencepiece.SentencePieceProcessor(model_file=str(model))
    for line in (*LINES, "a <url> b", "Ωmega"):
        expected = dictionary.encode_line(" ".join(plain.encode(line, out_type=str)), add_if_not_exist=False)
        assert open_tokenizer(model)(line) == expected[:-1].tolist()
    assert dictionary.unk() not in open_tokenizer(model)(" ".join(LINES))


def test_long_and_reserved_lines_count(tmp_path):
    train(["ab " * 2000, "c" * 5000, "d▅", "e\0"], tmp_path / MODEL, 15, "unigram", lower_case=False)
    assert {*"abcde"} <= {*"".join(symbols(tmp_path / MODEL))}
