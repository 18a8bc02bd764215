"""The commands and public names that the contract's tests of whole runs use, with the order of their arguments.

A later step that renames a command, moves a function or reorders arguments changes this file, and no test beside it.
"""

import sys

from tests.commands import ROOT, run
from tupe.models import ElectraModel, TupeModel  # noqa: F401
from tupe.position import BucketedRelative, PositionBias, UntiedAbsolute  # noqa: F401
from tupe.safe_load import safe_load  # noqa: F401

SIZE = {"encoder_layers": 1, "encoder_embed_dim": 16, "encoder_ffn_embed_dim": 16, "encoder_attention_heads": 2}
KEYS = tuple(f"+model.{name}={value}" for name, value in SIZE.items())
TOKENS = 32  # of a sequence

#: Name here -> name of the command, and the place of the output among its arguments.
PLACES = {
    "average": ("average-checkpoints", 0),
    "convert-electra": ("export-electra", 1),
    "prepare-corpus": ("prepare-corpus", 0),
    "prepare-qa": ("prepare-qa", 1),
    "prepare-translation": ("prepare-translation", 0),
}
WORKERS = ("--workers", 1)
CORPUS = ("--profile", "sentencepiece", "--max-tokens", 30, "--valid-documents", 10, *WORKERS)
VERIFY = ("--verify",)  # of an import: prints the difference from the original


def tupe(name, *inputs, out=None, options=(), check=True):
    """Run a command of ours on its inputs and output."""
    name, place = PLACES.get(name, (name, len(inputs)))
    output = () if out is None else (out,)
    return run("tupe", name, *inputs[:place], *output, *inputs[place:], *options, check=check)


COMMON = (
    "--user-dir", "tupe", *(part for name, value in SIZE.items() for part in (f"--{name.replace('_', '-')}", value)),
    "--optimizer", "adam", "--lr", 0.01, "--batch-size", 8, "--cpu", "--num-workers", 0, "--no-epoch-checkpoints",
    "--disable-validation", "--log-format", "json", "--log-interval", 1,
)  # fmt: skip
TASKS = {
    "words": ("--task", "masked_lm", "--criterion", "tupe_masked_lm", "--arch", "tupe_tiny", "--tokens-per-sample",
              TOKENS, "--lr-scheduler", "inverse_sqrt", "--warmup-updates", 4),
    "classes": ("--task", "tupe_sentence_prediction", "--criterion", "tupe_sentence_prediction", "--arch", "tupe_tiny",
                "--num-classes", 2, "--init-token", 0, "--separator-token", 2, "--max-positions", TOKENS),
    "translation": ("--task", "translation", "-s", "en", "-t", "de", "--criterion", "label_smoothed_cross_entropy",
                    "--arch", "seq2seq_tupe_r_tiny", "--share-all-embeddings", "--max-source-positions", TOKENS,
                    "--max-target-positions", TOKENS),
}  # fmt: skip
#: fairseq's flag turns its default, padding on the left, off.
PADDED_ON_THE_RIGHT = "--left-pad-source"
#: Flags of `train` with which it goes on where `pretrain` ended.
LIKE_PRETRAINED = ("--lr-scheduler", "linear_decay", "--batch-size", 4, "--update-freq", 2)


def train_command(task, data, save_dir, *options):
    return ("fairseq-train", data, *COMMON, *TASKS[task], "--save-dir", save_dir, *options)


def train(task, data, save_dir, *options, check=True):
    """Train by `fairseq-train`, one record an update."""
    return run(*train_command(task, data, save_dir, *options), check=check)


def validate(data, checkpoint, check=True):
    flags = ("--user-dir", "tupe", "--task", "masked_lm", "--cpu", "--num-workers", 0, "--batch-size", 8)
    return run("fairseq-validate", data, *flags, "--path", checkpoint, check=check)


def generate(data, checkpoint, *options, check=True):
    flags = ("--user-dir", "tupe", PADDED_ON_THE_RIGHT, "--cpu", "--num-workers", 0, "--beam", 2, "--batch-size", 5)
    return run("fairseq-generate", data, *flags, "--path", checkpoint, *options, check=check)


def hydra_without_the_plugin(data, save_dir, launcher):
    """Train by `fairseq-hydra-train` and `configs/`, less what imports the plugin before fairseq reads anything."""
    return run(
        *launcher, "fairseq-hydra-train", "--config-dir", ROOT / "configs/pretraining", "--config-name", "base",
        f"task.data={data}", f"task.tokens_per_sample={TOKENS}", "model._name=tupe_tiny", *KEYS, "common.cpu=true",
        "common.fp16=false", "dataset.num_workers=0", "optimization.max_update=2", "lr_scheduler.warmup_updates=1",
        "dataset.batch_size=8", f"checkpoint.save_dir={save_dir}", "~hydra.callbacks.user_dir", check=False,
    )  # fmt: skip


def pretrain(data, save_dir, *overrides, config="base", model="tupe_tiny", **environment):
    """Pre-train on the CPU by the script, which keeps a batch of 8 sequences, 4 at a time."""
    return run(
        "bash", "scripts/pretrain.sh", data, *KEYS, f"task.tokens_per_sample={TOKENS}", "dataset.num_workers=0",
        "lr_scheduler.warmup_updates=4", "optimization.lr=[0.01]", "common.log_format=json", "common.log_interval=1",
        f"checkpoint.save_dir={save_dir}", *overrides, GPUS="0", CONFIG=config, MODEL=model, BATCH="8",
        BATCH_PER_GPU="4", **environment,
    )  # fmt: skip


SHORT = ("optimization.max_epoch=1", "dataset.num_workers=0")


def finetune(task, checkpoint, tasks, save_dir, *overrides, check=True):
    """Fine-tune by the script; `tasks` is the folder of all."""
    keys = (*SHORT, f"checkpoint.save_dir={save_dir}", *overrides)
    return run("bash", "scripts/finetune_glue.sh", task, checkpoint, tasks, *keys, check=check)


def sweep(script, checkpoint, tasks, out, *overrides, names, lrs, check=True):
    """Sweep by a script, which prints the table."""
    command = ("bash", f"scripts/{script}.sh", checkpoint, tasks, out, *SHORT, *overrides)
    return run(*command, check=check, TASKS=names, LRS=lrs, SEEDS="1")


def study(*texts, design, out, records):
    return run("bash", "scripts/study.sh", *texts, "--size", design, "--out", out, "--records", records)


#: A study of two systems: corpus, two final runs, their losses by length.
DESIGN = """
corpus: [--vocab-size, "150", --valid-documents, "10", --max-tokens, "30", --workers, "1"]
settings: {dataset.batch_size: 8}
updates: 10
validations: 5
mid: 4
search: {rates: [0.001], updates: 4, seed: 1}
groups:
  - bert_a: {seeds: 1, lr: 0.001}
    tupe_a: {seeds: 1, lr: 0.001}
lengths: [16]
masks: 2
jobs: 2
"""
#: Its records of the final runs, below the folder of records, and where they say the loss of validation.
FINAL, LOSS = "*/final/*.json", lambda record: record["curve"][-1][1]


def opened(checkpoint, data, kind=TupeModel):
    """The model in a checkpoint, as the hub of PyTorch opens it."""
    return kind.from_pretrained(str(checkpoint.parent), checkpoint.name, str(data), bpe=None).eval()


def python(code, check=True):
    """Run code in a process of its own."""
    return run(sys.executable, "-c", code, check=check)


def fails(function, *arguments):
    """Whether a call in Python is refused, by any exception."""
    try:
        function(*arguments)
    except Exception:
        return True
    return False
