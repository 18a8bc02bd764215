"""Checkpoints of small models that nobody trained, with the made corpus' dictionary."""

import contextlib
import shutil
from types import SimpleNamespace

import pytest
import torch
from fairseq.data import Dictionary
from fairseq.models import ARCH_MODEL_REGISTRY

from tupe.checkpoints.load import write_checkpoint
from tupe.data.manifest import Manifest, Settings
from tupe.models.config import named
from tupe.patches.checkpoints import dictionary_sha256
from tupe.util import sha256

with contextlib.suppress(ImportError):  # before Transformers, which would import a torchaudio that does not load
    import tupe.hf  # noqa: F401

HEAD = "sentence_classification_head"


@pytest.fixture(scope="session")
def make_checkpoint(request):
    """`make_checkpoint(path, "tupe_r_tiny", num_classes=2, ...)`: writes a checkpoint, and returns its model.

    `of` is the folder of the dictionary, the made corpus if it is not given; `spans` asks for a head of answers;
    `data` is the path of its task.
    """

    def make(path, name="tupe_r_tiny", num_classes=None, regression=False, of=None, spans=False, data="gone", **fields):
        path.parent.mkdir(parents=True, exist_ok=True)
        dictionary = Dictionary.load(str((of or request.getfixturevalue("corpus")) / "dict.txt"))
        dictionary.add_symbol("<mask>")
        small = {"encoder_layers": 2, "encoder_embed_dim": 16, "encoder_ffn_embed_dim": 24, "max_positions": 24}
        config = named(name, **{**small, "encoder_attention_heads": 2, **fields})
        config.dictionary_sha256 = dictionary_sha256(dictionary)
        torch.manual_seed(0)
        model = ARCH_MODEL_REGISTRY[name].build_model(config, SimpleNamespace(source_dictionary=dictionary)).eval()
        if spans:
            model.register_span_head()
        for parameter in model.parameters():
            torch.nn.init.normal_(parameter, std=0.3) if parameter.ndim > 1 else parameter.data.add_(0.1)
        task = criterion = None
        data = {"data": data, "max_positions": config.max_positions}
        if num_classes:
            model.register_classification_head(HEAD, num_classes=num_classes)
            model.eval()
            shared = {"_name": "tupe_sentence_prediction", "classification_head_name": HEAD}
            criterion = {**shared, "regression_target": regression}
            task = {**criterion, **data, "num_classes": num_classes, "seed": 1}
        if spans:
            criterion = {"_name": "tupe_question_answering"}
            task = {**criterion, **data, "max_query": 8, "doc_stride": 8, "max_answer": 30}
        write_checkpoint(path, model, name, task, criterion)
        return model

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
