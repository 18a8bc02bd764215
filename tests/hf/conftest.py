"""Checkpoints to export."""

from tests.checkpoints.conftest import cleaned_corpus, make_checkpoint  # noqa: F401
