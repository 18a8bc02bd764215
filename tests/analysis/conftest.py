import pytest

from tests.models.small import small_model
from tupe.models.summary import dictionary_of_size


@pytest.fixture
def made():
    """`made("tupe_tiny", **fields)` is an encoder as `open_encoder` returns it, with random parameters."""

    def made(name, shown_as="model", **fields):
        encoder = small_model(name, dictionary_of_size(4), 20, **fields).encoder
        encoder.shown_as = shown_as
        return encoder

    return made
