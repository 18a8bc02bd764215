"""Sequences to look at a model with: of a text, or of what a corpus holds out."""

from types import SimpleNamespace

import pytest
import torch
from fairseq.data import Dictionary

from tests.data.conftest import prepare_made
from tupe.analysis.text import read_tokens
from tupe.patches.checkpoints import dictionary_sha256, read_dictionary


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    return prepare_made(tmp_path_factory.mktemp("text"), 60, "--vocab-size 120 --valid-documents 6 --max-tokens 30")


def encoder_of(dictionary, checksum):
    """The parts of a model that `read_tokens` asks: name, number of symbols, checksum of the dictionary."""
    return SimpleNamespace(
        shown_as="TUPE-A",
        args=SimpleNamespace(dictionary_sha256=checksum, max_positions=64),
        sentence_encoder=SimpleNamespace(embed_tokens=torch.nn.Embedding(len(dictionary), 1)),
    )


@pytest.fixture(scope="module")
def dictionary(corpus):
    return read_dictionary(corpus / "dict.txt")


@pytest.fixture(scope="module")
def encoder(dictionary):
    return encoder_of(dictionary, dictionary_sha256(dictionary))


def test_held_out_text_in_rows_of_equal_length(corpus, encoder):
    tokens = read_tokens(encoder, corpus, 9, 3)
    assert tokens.shape == (3, 9)
    assert tokens.dtype == torch.int64
    assert set(tokens[:, 0].tolist()) == {Dictionary().bos()}
    assert (tokens < encoder.sentence_encoder.embed_tokens.num_embeddings).all()
    torch.testing.assert_close(read_tokens(encoder, corpus, 9, 1), tokens[:1])


def test_a_text_is_cleaned_as_the_corpus_was(corpus, encoder, tmp_path):
    (tmp_path / "text").write_text("ANNA sees the old dog.\n\nBob   hears a small bird.")
    (tmp_path / "clean").write_text("anna sees the old dog .\nbob hears a small bird .")
    tokens, clean = (read_tokens(encoder, corpus, 50, text=tmp_path / name) for name in ("text", "clean"))
    torch.testing.assert_close(tokens, clean)
    assert len(tokens) == 1  # shorter than asked for: one sequence, as long as it is
    assert not tokens.eq(Dictionary().unk()).any()
    words = Dictionary.load(str(corpus / "dict.txt")).string(tokens[0]).replace(" ", "").replace("▁", " ")
    assert "old dog" in words


@pytest.mark.parametrize("recorded", [True, False])
def test_another_dictionary_is_refused(recorded, corpus, dictionary, tmp_path):
    """One of the same size too, where the checkpoint recorded the checksum of its own."""
    other = Dictionary.load(str(corpus / "dict.txt"))
    other.add_symbol("<mask>")
    other.symbols[5:7] = other.symbols[6:4:-1]
    if not recorded:
        other.add_symbol("one-more")
    model = encoder_of(other, dictionary_sha256(other) if recorded else None)
    with pytest.raises(ValueError, match="The checkpoint of TUPE-A was trained with another dictionary"):
        read_tokens(model, corpus, 9)
