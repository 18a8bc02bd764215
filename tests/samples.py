"""Made in this process and in an instant: checkpoints, prepared tasks and corpora that nothing was taught by."""

from types import SimpleNamespace

import torch
from fairseq.data import Dictionary
from fairseq.models import ARCH_MODEL_REGISTRY

import tupe.models  # noqa: F401  registers them
from tupe.checkpoints.load import model_config, write_weights
from tupe.data.binary import writer
from tupe.data.manifest import DICTIONARY, MODEL, Manifest, Settings
from tupe.data.text import PROFILES
from tupe.models.config import named
from tupe.util import sha256

FIELDS = {"encoder_layers": 1, "encoder_embed_dim": 16, "encoder_ffn_embed_dim": 16, "encoder_attention_heads": 2}
HEAD = "sentence_classification_head"
WORDS = [f"word{index}" for index in range(20)]


def dictionary_of(*symbols):
    """A dictionary of fairseq's, with these symbols after its own."""
    dictionary = Dictionary()
    for symbol in symbols:
        dictionary.add_symbol(symbol)
    return dictionary


def write_dictionary(path, symbols=WORDS):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{symbol} 1\n" for symbol in symbols))


def write_indexed(prefix, rows, tokens=6):
    """fairseq's binary data: `rows` sequences of words and `</s>`."""
    prefix.parent.mkdir(parents=True, exist_ok=True)
    with writer(prefix, 4 + len(WORDS)) as add:
        for row in range(rows):
            add([*(4 + (row + i) % len(WORDS) for i in range(tokens)), 2])


def write_corpus(folder):
    """What pre-training reads."""
    write_dictionary(folder / "dict.txt")
    for split in ("train", "valid"):
        write_indexed(folder / split, 8)
    return folder


def write_manifest(folder, stages=PROFILES["sentencepiece"]):
    """Beside a model and a dictionary."""
    checksums = {name: sha256(folder / name) for name in (MODEL, DICTIONARY)}
    settings = Settings("sentencepiece", tuple(stages), "xx", 100, "unigram", 1, None, 126)
    Manifest(folder, settings, checksums).write()


def write_task(folder, labels=("0", "1"), rows=8):
    """A prepared task of one text a row: `folder` is called as the task."""
    for split in ("train", "valid", "test"):
        write_indexed(folder / "input0" / split, rows)
    write_dictionary(folder / "input0/dict.txt")
    write_dictionary(folder / "label/dict.txt", labels)
    for split in ("train", "valid"):
        with writer(folder / "label" / split, 4 + len(labels)) as add:
            for row in range(rows):
                add([4 + row % len(labels), 2])
    return folder


def write_checkpoint(path, data, **options):
    """Call `write_model` and return the path."""
    write_model(path, data, **options)
    return path


def write_model(path, data, num_classes=0, symbols=WORDS, name="tupe_tiny", spans=False, std=0.0, of_task=(), **fields):
    """A checkpoint as pre-training leaves it, or fine-tuning on classes or answers, of a model that is returned.

    With a `std` its parameters are far from their initial values, so that a wrong term shows.
    """
    torch.manual_seed(3)
    dictionary = dictionary_of(*symbols, "<mask>")
    config = named(name, **{**FIELDS, "max_positions": 32, **fields})
    task = SimpleNamespace(source_dictionary=dictionary, max_positions=lambda: config.max_positions)
    model = ARCH_MODEL_REGISTRY[name].build_model(config, task)
    cfg, criterion = {"_name": "masked_lm", "data": str(data), "tokens_per_sample": config.max_positions}, None
    if num_classes:
        model.register_classification_head(HEAD, num_classes=num_classes)
        criterion = {"_name": "tupe_sentence_prediction", "classification_head_name": HEAD, "regression_target": False}
    if spans:
        model.register_span_head()
        criterion = {"_name": "tupe_question_answering", "max_query": 8, "doc_stride": 8, "max_answer": 30}
    if criterion:
        cfg = {**criterion, "data": str(data), "max_positions": config.max_positions, **dict(of_task)}
        cfg |= {"num_classes": num_classes, "seed": 1} if num_classes else {}
        criterion = {key: cfg[key] for key in ("_name", "classification_head_name", "regression_target") if key in cfg}
    for parameter in model.parameters() if std else ():
        torch.nn.init.normal_(parameter, std=std) if parameter.ndim > 1 else parameter.data.add_(0.1)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_weights(path, model_config(model.args, name), model.state_dict(), cfg, criterion, updates=7)
    return model.eval()
