"""Made in this process and in an instant: checkpoints, prepared tasks and corpora that nothing was taught by."""

import dataclasses
from types import SimpleNamespace

import torch
from fairseq.data import Dictionary

from tupe.data.binary import writer
from tupe.data.manifest import DICTIONARY, MODEL, Manifest, Settings
from tupe.data.text import PROFILES
from tupe.models import TupeModel
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


def write_checkpoint(path, data, num_classes=0, max_positions=32, head=True, symbols=WORDS, name="tupe_tiny"):
    """A checkpoint as pre-training, or with `num_classes` as fine-tuning leaves it; `head`: with its weights."""
    torch.manual_seed(3)
    dictionary = dictionary_of(*symbols, "<mask>")
    task = SimpleNamespace(source_dictionary=dictionary, max_positions=lambda: max_positions)
    config = named(name, **FIELDS, max_positions=max_positions)
    model = TupeModel.build_model(config, task)
    cfg = {"_name": "masked_lm", "data": str(data), "tokens_per_sample": max_positions}
    if num_classes:
        cfg = {
            "_name": "tupe_sentence_prediction", "data": str(data), "max_positions": max_positions, "seed": 1,
            "num_classes": num_classes, "regression_target": False, "init_token": 0, "separator_token": 2,
            "classification_head_name": HEAD,
        }  # fmt: skip
        if head:
            model.register_classification_head(HEAD, num_classes=num_classes)
    state = {
        "args": None,
        "cfg": {
            "common": {"seed": 1},
            "task": cfg,
            "model": {**dataclasses.asdict(config), "_name": name},
            "checkpoint": {"best_checkpoint_metric": "mcc", "finetune_from_model": "pretrained.pt"},
            "optimization": {"max_epoch": 3, "lr": [2e-5]},
            "bpe": None,
            "tokenizer": None,
        },
        "model": model.state_dict(),
        "optimizer_history": [{"num_updates": 7, "criterion_name": "", "optimizer_name": "", "lr_scheduler_state": {}}],
        "extra_state": {"train_iterator": {"epoch": 2, "iterations_in_epoch": 0}, "best": 50.0},
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    torch.save(state, path)
    return path
