"""Commands and public names that the net uses. A later step changes this file where a name moves, and no other here."""

import os
from pathlib import Path
from types import SimpleNamespace

os.environ.setdefault("OMP_NUM_THREADS", "1")

import fairseq_cli.train  # noqa: F401  before the plugin, as in fairseq's commands
import torch
from fairseq.models import build_model
from omegaconf import OmegaConf

import tupe.hf
import tupe.plugin
from tests.commands import ROOT, run
from tests.contract.fixtures.data import dictionary
from tupe.checkpoints.load import open_checkpoint, write_checkpoint  # noqa: F401
from tupe.checkpoints.release import convert_release_state, load_release  # noqa: F401
from tupe.cli.main import main
from tupe.models import ElectraModel, TupeModel  # noqa: F401
from tupe.models.seq2seq.model import Seq2SeqModel  # noqa: F401
from tupe.patches.safe_load import safe_load  # noqa: F401
from tupe.position import BucketedRelative, PositionBias, UntiedAbsolute  # noqa: F401


def build(arch, positions=24, **fields):
    """The named model with other `fields`, as fairseq builds it, in evaluation mode."""
    both = {"source_dictionary": dictionary(), "target_dictionary": dictionary()}
    lengths = (positions, positions) if arch.startswith("seq2seq_") else positions
    task = SimpleNamespace(cfg=SimpleNamespace(left_pad_source=False), max_positions=lambda: lengths, **both)
    torch.manual_seed(0)
    return build_model(OmegaConf.create({"_name": arch, **fields}), task).eval()


def load(path, data):
    """The model in a checkpoint, with the dictionaries in the folder `data`."""
    return open_checkpoint(path).model(Path(data))[0].eval()


def opened(checkpoint, data, kind=TupeModel):
    """The model in a checkpoint, as the hub of PyTorch opens it."""
    return kind.from_pretrained(str(checkpoint.parent), checkpoint.name, str(data), bpe=None).eval()


def exported_class(kind):
    return getattr(tupe.hf, f"TupeFor{kind}")


def in_this_process(*arguments):
    assert main([str(argument) for argument in arguments]) == 0


def tupe_command(*arguments, check=True):
    return run("tupe", *arguments, check=check)


def flags(fields):
    return tuple(part for name, value in fields.items() for part in (f"--{name.replace('_', '-')}", value))


WORKERS = ("--workers", 1)
CORPUS = ("--profile", "sentencepiece", "--max-tokens", 30, "--valid-documents", 10, *WORKERS)
SIZE = {"encoder_layers": 1, "encoder_embed_dim": 16, "encoder_ffn_embed_dim": 16, "encoder_attention_heads": 2}
KEYS = tuple(f"+model.{name}={value}" for name, value in SIZE.items())
TOKENS = 32  # of a sequence
COMMON = (
    "--user-dir", "tupe", "--optimizer", "adam", "--batch-size", 8, "--cpu", "--num-workers", 0, "--log-format", "json",
)  # fmt: skip
SHORT = (*flags(SIZE), "--lr", 0.01, "--no-epoch-checkpoints", "--disable-validation", "--log-interval", 1)
MASKED_LM = ("--task", "masked_lm", "--tokens-per-sample", TOKENS, "--criterion", "tupe_masked_lm",
             "--arch", "tupe_tiny")  # fmt: skip
TASKS = {
    "words": (*MASKED_LM, "--lr-scheduler", "inverse_sqrt", "--warmup-updates", 4),
    "classes": ("--task", "tupe_sentence_prediction", "--criterion", "tupe_sentence_prediction", "--arch", "tupe_tiny",
                "--num-classes", 2, "--init-token", 0, "--separator-token", 2, "--max-positions", TOKENS),
    "translation": ("--task", "translation", "-s", "en", "-t", "de", "--criterion", "label_smoothed_cross_entropy",
                    "--arch", "seq2seq_tupe_r_tiny", "--share-all-embeddings", "--max-source-positions", TOKENS,
                    "--max-target-positions", TOKENS),
}  # fmt: skip
PADDED_ON_THE_RIGHT = "--left-pad-source"  # fairseq's flag turns its default off


def train_command(task, data, save_dir, *options):
    """`fairseq-train`, one record an update."""
    return ("fairseq-train", data, *COMMON, *SHORT, *TASKS[task], "--save-dir", save_dir, *options)


def train(task, data, save_dir, *options, check=True):
    return run(*train_command(task, data, save_dir, *options), check=check)


def hydra_without_the_plugin(data, save_dir, *launcher):
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


ONE_EPOCH = ("optimization.max_epoch=1", "dataset.num_workers=0")


def finetune(task, checkpoint, tasks, save_dir, *overrides, check=True):
    keys = (*ONE_EPOCH, f"checkpoint.save_dir={save_dir}", *overrides)
    return run("bash", "scripts/finetune_glue.sh", task, checkpoint, tasks, *keys, check=check)


def sweep(script, checkpoint, tasks, out, *overrides, names, lrs, check=True):
    command = ("bash", f"scripts/{script}.sh", checkpoint, tasks, out, *ONE_EPOCH, *overrides)
    return run(*command, check=check, TASKS=names, LRS=lrs, SEEDS="1")


def validate(path, data):
    command = ("--user-dir", "tupe", "--task", "masked_lm", "--cpu", "--num-workers", 0, "--batch-size", 8)
    return run("fairseq-validate", data, *command, "--path", path, check=False)


def readers(path, data, tasks, out):
    """Run the commands that read a checkpoint of `pretrain` together with data."""
    goes_on = ("--lr-scheduler", "linear_decay", "--batch-size", 4, "--update-freq", 2)  # as `pretrain` ended
    restore = ("--restore-file", path, "--max-update", 41)
    yield train("words", data, out / "resumed", *restore, *goes_on, check=False)
    begins = ("--finetune-from-model", path, "--max-update", 1)
    yield train("words", data, out / "begun", *begins, check=False)
    yield validate(path, data)
    yield finetune("CoLA", path, tasks, out / "fine-tuned", check=False)
    yield tupe_command("export", path, data, out / "exported", "--no-tokenizer", check=False)


def generate(data, checkpoint, *options, check=True):
    command = ("--user-dir", "tupe", PADDED_ON_THE_RIGHT, "--cpu", "--num-workers", 0, "--beam", 2, "--batch-size", 5)
    return run("fairseq-generate", data, *command, "--path", checkpoint, *options, check=check)


def fails(function, *arguments):
    """Whether a call in Python is refused, by any exception."""
    try:
        function(*arguments)
    except Exception:
        return True
    return False


def refused(command, *arguments, **options):
    done = command(*arguments, **options, check=False)
    assert done.returncode, f"{done.args}\n{done.stdout[-2000:]}"
