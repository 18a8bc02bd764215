"""What the hub interface says, and what it keeps to itself."""

import logging

import pytest

from tupe.checkpoints.fairseq_checkpoint import write_checkpoint
from tupe.errors import UserError
from tupe.models import TupeModel


@pytest.fixture
def hub(build, dictionary, tmp_path):
    write_checkpoint(tmp_path / "checkpoint_best.pt", build("tupe_tiny"), "tupe_tiny")
    dictionary.save(str(tmp_path / "dict.txt"))
    return TupeModel.from_pretrained(str(tmp_path), bpe=None)


def test_the_configuration_is_not_printed(caplog, request):
    caplog.set_level(logging.INFO)
    request.getfixturevalue("hub")
    assert "dictionary: " in caplog.text  # fairseq's other words are heard
    assert "encoder_embed_dim" not in caplog.text


@pytest.mark.parametrize(("text", "masks"), [("no mask here", "none"), ("<mask> and <mask>", "2")])
def test_one_mask_is_filled(hub, text, masks):
    with pytest.raises(UserError, match=f"^fill_mask fills one <mask>, but this text has {masks}: '{text}'$"):
        hub.fill_mask(text)
