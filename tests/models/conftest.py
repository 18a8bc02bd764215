from functools import partial

import pytest

from tests.models.small import small_batch, small_dictionary, small_model


@pytest.fixture(scope="session")
def dictionary():
    return small_dictionary()


@pytest.fixture
def build(dictionary):
    """`build("tupe_tiny", dropout=0.0)`: a named model of two layers, small, in evaluation mode, from a fixed seed."""
    return partial(small_model, dictionary=dictionary)


@pytest.fixture
def tokens(dictionary):
    """Three sequences of 13, 8 and 2 tokens, `<s> ... </s>`, padded on the right."""
    return small_batch(dictionary, (13, 8, 2))


@pytest.fixture
def pairs(tokens):
    """`tokens` with the first two as pairs, `<s> a </s> </s> b </s>`; the third is a single sentence."""
    tokens = tokens.clone()
    tokens[0, 5:7] = tokens[1, 3:5] = tokens[0, 12]
    return tokens
