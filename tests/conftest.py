"""A made corpus with word order worth learning, its SentencePiece model, and tasks on it, as fairseq data."""

import os
import random
import shutil
import signal
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before torch: workers and their commands share the cores

import fairseq_cli.train  # noqa: F401  before the plugin, as in fairseq's commands
import pytest
from hydra.core.config_store import ConfigStore
from hypothesis import settings

from tests.commands import run

# A job in the background ignores Ctrl-C, and so would the commands that the tests start and interrupt.
signal.signal(signal.SIGINT, signal.default_int_handler)

# For each configuration Hydra copies all that is registered, which is more here than in a command, and only reads it.
ConfigStore.__deepcopy__ = lambda self, memo: self

# No test depends on the clock; in CI the examples are the same every time.
settings.register_profile("tests", deadline=None, derandomize=bool(os.environ.get("CI")))
settings.load_profile("tests")

#: Folders, files and tests that run whole commands, start processes, compile, interpret or draw: not for
#: `scripts/test.sh --quick`. The longest come first, for where several processes share the tests, and one that began
#: late would be waited for.
SLOW = (
    "contract/test_end_to_end",
    "end_to_end/test_tutorial",
    "end_to_end/test_quickstart",
    "contract/test_refusals",
    "contract/test_hostile",
    "contract/test_resume",
    "end_to_end/test_training",
    "encoder/test_graphs",
    "hf/test_onnx",
    "end_to_end/",
    "patches/test_epochs",
    "attention/test_compiled",
    "attention/test_triton",
    "encoder/test_compile",
    "cli/test_doctor",
    "scripts/",
    "models/test_wrappers",
    "models/seq2seq/test_model",
    "checkpoints/foreign/test_use",
    "patches/",
    "contract/test_loss",
    "checkpoints/test_release",
    "hf/test_export",
    "checkpoints/warm_start/test_made",
    "cli/test_systems",
    "data/test_languages",
    "data/test_corpus",
    "data/test_training",
    "data/test_translation",
    "examples/",
    "lab/",
    "finetune/test_finetune",
    "finetune/test_sweep",
    "optim/",
    "test_packaging",
    "cli/test_plan",
    "finetune/test_predict",
    "test_plugin",
    "test_docs.py::test_block[docs/encodings.md-",  # a term of one's own needs a process of its own
    "analysis/test_length.py::test_centered_windows_score_the_same_tokens_once",
    "analysis/test_length.py::test_a_window",
)


def pytest_collection_modifyitems(config, items):
    tests = Path(__file__).parent

    def place(item):
        name = f"{item.path.relative_to(tests).as_posix()}::{item.name}"
        return next((place for place, start in enumerate(SLOW) if name.startswith(start)), len(SLOW))

    for item in items:
        if place(item) < len(SLOW):
            item.add_marker("slow")
    if hasattr(config, "workerinput"):  # of pytest-xdist
        items.sort(key=place)


LABELS = ("contradiction", "entailment", "neutral")


def sentence(generator):
    names, verbs = ["Anna", "Bob", "Carl", "Dora", "Emil", "Frida"], ["sees", "likes", "hears", "finds", "calls"]
    things = ["the house", "a red car", "the old dog", "a small bird", "the blue sea"]
    half = [f"{generator.choice(names)} {generator.choice(verbs)} {generator.choice(things)}" for _ in range(2)]
    return " and ".join(half) + " ."


def write(path, lines):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


@pytest.fixture(scope="session")
def corpus(tmp_path_factory):
    """Folder with `dict.txt`, `train`, `valid` and `sentencepiece.bpe.model`."""
    import sentencepiece

    folder = tmp_path_factory.mktemp("corpus")
    generator = random.Random(0)
    raw = {split: [sentence(generator) for _ in range(n)] for split, n in (("train", 600), ("valid", 60))}
    text = write(folder / "raw" / "text", raw["train"])
    sentencepiece.SentencePieceTrainer.train(
        input=str(text), model_prefix=str(folder / "sentencepiece.bpe"), vocab_size=90, model_type="bpe",
        user_defined_symbols=["<mask>"], minloglevel=2,
    )  # fmt: skip
    model = sentencepiece.SentencePieceProcessor(model_file=str(folder / "sentencepiece.bpe.model"))
    pieces = [model.id_to_piece(i) for i in range(model.get_piece_size()) if not model.is_control(i)]
    write(folder / "raw" / "dict", [f"{piece} 1" for piece in pieces if piece not in ("<unk>", "<mask>")])
    for split, lines in raw.items():
        write(folder / "raw" / split, [" ".join(model.encode(line, out_type=str)) for line in lines])
    run("fairseq-preprocess", "--only-source", "--trainpref", folder / "raw/train", "--validpref",
        folder / "raw/valid", "--destdir", folder, "--workers", 1, "--srcdict", folder / "raw/dict")  # fmt: skip
    return folder


@pytest.fixture(scope="session")
def glue(corpus, tmp_path_factory):
    """Folder with `CoLA`, `MNLI` (pairs, three classes, `valid1`) and `STS-B` (a regression), drawn at random."""
    from tests.samples import write_dictionary
    from tupe.data.binary import EOS, writer

    folder, draw = tmp_path_factory.mktemp("glue"), random.Random(1)
    for task, sides, classes in (("CoLA", 1, ("0", "1")), ("MNLI", 2, LABELS), ("STS-B", 2, ())):
        for side in range(sides):
            (folder / task / f"input{side}").mkdir(parents=True)
            shutil.copy(corpus / "dict.txt", folder / task / f"input{side}")
        if classes:
            write_dictionary(folder / task / "label/dict.txt", classes)
        for split, rows in {"train": 96, "valid": 48, **({"valid1": 32} if task == "MNLI" else {})}.items():
            for side in range(sides):
                with writer(folder / task / f"input{side}" / split, 90) as add:
                    for _ in range(rows):
                        add([*(draw.randrange(4, 90) for _ in range(draw.randrange(2, 20))), EOS])
            if classes:
                with writer(folder / task / "label" / split, 8) as add:
                    for _ in range(rows):
                        add([4 + draw.randrange(len(classes)), EOS])
            else:
                write(folder / task / "label" / f"{split}.label", [f"{draw.random():.3f}" for _ in range(rows)])
    return folder
