"""One small corpus, its tasks and models, made once by the commands from `fixtures/raw/`."""

import shutil

import pytest

from tests.contract import aliases as cli
from tests.contract.fixtures.data import FIXTURES

RAW = FIXTURES / "raw"
TEXT = RAW / "text.txt"  # 150 documents; hardly any line comes twice
LANGUAGES = ("ar", "bg", "de", "el", "en", "es", "fr", "hi", "ru", "sw", "th", "tr", "ur", "vi", "zh")


@pytest.fixture(scope="session")
def data(tmp_path_factory):
    out = tmp_path_factory.mktemp("corpus") / "data"
    cli.tupe_command("prepare-corpus", TEXT, out, "--vocab-size", 300, *cli.CORPUS)
    return out


@pytest.fixture(scope="session")
def pretrained(data, tmp_path_factory):
    """The folder of a pre-training of 40 updates by the script, and what it printed."""
    folder = tmp_path_factory.mktemp("pretrained") / "run"
    return folder, cli.pretrain(data, folder, "optimization.max_update=40").stdout


@pytest.fixture(scope="session")
def checkpoint(pretrained):
    return pretrained[0] / "checkpoint_last.pt"


@pytest.fixture(scope="session")
def other(data, tmp_path_factory):
    folder = tmp_path_factory.mktemp("other")
    cli.train("words", data, folder, "--max-update", 1)
    return folder / "checkpoint_last.pt"


@pytest.fixture(scope="session")
def glue(data, tmp_path_factory):
    """CoLA, whose class is whether Anna is there, and XNLI with the same rows in each language."""
    folder = tmp_path_factory.mktemp("glue")
    downloads = shutil.copytree(RAW / "glue", folder / "from")
    for name in (f"{split}-{language}" for split in ("dev", "test") for language in LANGUAGES):
        shutil.copy(RAW / "glue/XNLI/dev-en.tsv", downloads / f"XNLI/{name}.tsv")
    cli.tupe_command("prepare-glue", downloads, data, "CoLA", "XNLI", folder / "data", *cli.WORKERS)
    return folder / "data"


@pytest.fixture(scope="session")
def finetuned(checkpoint, glue, tmp_path_factory):
    """The folder of a fine-tuning on CoLA, and what it printed."""
    out = tmp_path_factory.mktemp("finetuned") / "run"
    return out, cli.finetune("CoLA", checkpoint, glue, out, "optimization.lr=[0.01]").stdout


@pytest.fixture(scope="session")
def parallel(tmp_path_factory):
    """Prepared parallel text, each word with its translation."""
    out = tmp_path_factory.mktemp("parallel") / "data"
    files = [f"--{split}={RAW}/parallel/{split}" for split in ("train", "valid", "test")]
    cli.tupe_command("prepare-translation", "en", "de", out, *files, "--vocab-size=60", *cli.WORKERS)
    return out


@pytest.fixture(scope="session")
def translator(parallel, tmp_path_factory):
    out = tmp_path_factory.mktemp("translator")
    lengths = "--max-source-positions", 50, "--max-target-positions", 50  # not the defaults of `fairseq-generate`
    cli.train("translation", parallel, out, cli.PADDED_ON_THE_RIGHT, *lengths, "--max-update", 4)
    return out / "checkpoint_last.pt"
