"""Checkpoints of small models that nobody trained, with the made corpus' dictionary."""

import contextlib
import shutil

import pytest
from fairseq.data import Dictionary

from tests.samples import write_model
from tupe.data.manifest import Manifest, Settings
from tupe.patches.checkpoints import symbols_sha256
from tupe.util import sha256

with contextlib.suppress(ImportError):  # before Transformers, which would import a torchaudio that does not load
    import tupe.hf  # noqa: F401


@pytest.fixture(scope="session")
def make_checkpoint(request):
    """`make_checkpoint(path, "tupe_r_tiny", num_classes=2, ...)`: `write_model` for the symbols of a folder.

    `of` is that folder, the made corpus if it is not given; `data` is the path of the task.
    """

    def make(path, name="tupe_r_tiny", num_classes=0, regression=False, of=None, data="gone", **fields):
        dictionary = Dictionary.load(str((of or request.getfixturevalue("corpus")) / "dict.txt"))
        symbols = dictionary.symbols[dictionary.nspecial :]
        dictionary.add_symbol("<mask>")
        small = {"encoder_layers": 2, "encoder_ffn_embed_dim": 24, "max_positions": 24, **fields}
        small |= {"std": 0.3, "dictionary_sha256": symbols_sha256(dictionary.symbols)}
        of_task = {"regression_target": True} if regression else {}
        return write_model(path, data, num_classes, symbols, name, of_task=of_task, **small)

    return make


@pytest.fixture
def cleaned_corpus(corpus, tmp_path):
    """The made corpus' dictionary and SentencePiece model, with a manifest that says what cleaned the text before."""
    data, names = tmp_path / "cleaned", ("dict.txt", "sentencepiece.bpe.model")
    data.mkdir()
    for name in names:
        shutil.copy(corpus / name, data)
    settings = Settings("paper", ("tokenise", "lower-case"), "en", 92, "bpe", 1, None, 62)
    checksums = {name: sha256(data / name) for name in names}
    Manifest(data, settings, checksums, [{"name": "/home/me/wiki.txt", "language": ""}], ["."]).write()
    return data
