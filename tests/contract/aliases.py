"""Commands and public names that the net uses. A later step changes this file where a name moves, and no other here."""

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

os.environ.setdefault("OMP_NUM_THREADS", "1")

import fairseq_cli.train  # noqa: F401  before the plugin, as in fairseq's commands
import torch
from fairseq.data import Dictionary
from fairseq.models import build_model
from omegaconf import OmegaConf

import tupe.plugin  # noqa: F401
from tupe.checkpoints.fairseq_checkpoint import write_checkpoint
from tupe.checkpoints.load import open_checkpoint
from tupe.checkpoints.release import convert_release_state, load_release  # noqa: F401
from tupe.cli.main import main
from tupe.models.seq2seq.model import Seq2SeqModel

ROOT = Path(__file__).parents[2]
_WORDS = "Anna Bob Carl Dora Emil Frida Gert Hanna sees likes hears finds calls meets the a old red small blue big dog "
WORDS = f"{_WORDS} bird car house sea boat tree and near under .".split()
#: Fields that compute tokens alone, without the padding.
UNPADDED = {"unpad": "always"}


def dictionary(words=WORDS, mask=True):
    found = Dictionary()
    for word in [*words, *(["<mask>"] if mask else [])]:
        found.add_symbol(word)
    return found


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


def save(path, model, name):
    """Write a model as a checkpoint to fine-tune from."""
    write_checkpoint(path, model, name)


def load_translator(path, data):
    return Seq2SeqModel.from_pretrained(str(path.parent), path.name, str(data), bpe=None).models[0]


def tupe_command(*arguments):
    """The exit status of `tupe ARGUMENTS`, run in this process."""
    return main([str(argument) for argument in arguments])


def convert_release(source, target):
    assert tupe_command("convert-release", source, target) == 0


def import_exported(folder, target):
    """A folder that `tupe export` wrote as a checkpoint."""
    assert tupe_command("import", folder, target) == 0


def exported_classes():
    """The classes that load exported models, by what they are for."""
    import tupe.transformers as classes

    kinds = ("MaskedLM", "SequenceClassification", "QuestionAnswering")
    return {kind: getattr(classes, f"TupeFor{kind}") for kind in kinds}


def train(*arguments):
    """Run `fairseq-train` with the plugin; return what it printed."""
    command = [Path(sys.executable).with_name("fairseq-train"), *arguments, "--user-dir", "tupe"]
    options = {"cwd": ROOT, "env": {**os.environ, "PYTHONPATH": str(ROOT)}, "capture_output": True, "text": True}
    done = subprocess.run([str(part) for part in command], **options)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout
