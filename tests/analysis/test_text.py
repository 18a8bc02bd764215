"""Sequences to look at a model with: of a text, or of what a corpus holds out."""

from types import SimpleNamespace

import pytest
import torch
from fairseq.data.indexed_dataset import MMapIndexedDataset

from tests.data.conftest import prepare_made
from tupe.analysis.text import read_tokens
from tupe.patches.checkpoints import read_dictionary, symbols_sha256


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    return prepare_made(tmp_path_factory.mktemp("text"), 60, "--vocab-size 120 --valid-documents 6 --max-tokens 30")


@pytest.fixture
def encoder(corpus):
    """The parts of a model that `read_tokens` reads: name, checksum of the dictionary, number of symbols."""
    dictionary = read_dictionary(corpus / "dict.txt")
    stack = SimpleNamespace(embed_tokens=torch.nn.Embedding(len(dictionary), 1))
    args = SimpleNamespace(dictionary_sha256=symbols_sha256(dictionary.symbols), max_positions=32)
    return SimpleNamespace(shown_as="TUPE-A", args=args, sentence_encoder=stack)


def test_held_out_text_in_rows_of_equal_length(corpus, encoder):
    tokens = read_tokens(encoder, corpus, 9, 3)
    assert (tokens.shape, tokens.dtype, set(tokens[:, 0].tolist())) == ((3, 9), torch.int64, {0})
    assert tokens[:, 1:].flatten().tolist() == torch.cat([*MMapIndexedDataset(str(corpus / "valid"))])[:24].tolist()


def test_another_dictionary_is_refused(corpus, encoder):
    encoder.args.dictionary_sha256 = "another"
    with pytest.raises(ValueError, match="TUPE-A was trained with another dictionary"):
        read_tokens(encoder, corpus, 9)
