"""The quickstart's report: systems side by side, with loss curves and the learnt position correlation; and a page."""

import platform
from pathlib import Path

import torch

from tupe.analysis.checkpoint import open_encoder
from tupe.analysis.curves import TrainingLog, plot_training, read_log
from tupe.analysis.page import Table, write_page
from tupe.analysis.position import plot_position, position_correlation
from tupe.analysis.text import read_tokens
from tupe.checkpoints.card import Score
from tupe.data.corpus.manifest import Manifest
from tupe.errors import UserError
from tupe.files import write_bytes
from tupe.models import TupeModel
from tupe.systems import ALIASES, DESCRIPTIONS

CHECKPOINT = "checkpoint_last.pt"  # not the best one: all systems get the same number of updates
HEADS = (
    *("system", "model", "parameters", "updates", "validation loss (bits)", "perplexity", "masked words right (%)"),
    *("word order, MCC x 100", "pre-training (s)"),
)
SENTENCES = (
    "Return a list <mask> all names in the file.",
    "This method must <mask> called only once.",
    "If the argument is not given, the default <mask> is used.",
)


def write_report(folder: str | Path, models: list[str]) -> Path:
    """Write `report.html`, `report.md` and its pictures into the quickstart's folder; return the path of `report.md`.

    The folder has `corpus`, and for each model `pretraining/<model>` and `finetuning/<model>`. The position correlation
    is that of the first model.

    Raises:
        UserError: if one of them is not finished.
    """
    folder = Path(folder)
    if not (folder / "corpus").is_dir():
        raise UserError(f"{folder} is no folder of scripts/quickstart.sh, as it has no corpus/: give that one.")
    corpus = Manifest.load(folder / "corpus")
    logs = {model: read_log(folder / "pretraining" / model / "hydra_train.log") for model in models}
    labelled = {label(model): log for model, log in logs.items()}
    plot_training(labelled, folder / "curves.png", "Pre-training")
    encoders = [open_encoder(folder / "pretraining" / model / CHECKPOINT, label(model)) for model in models]
    plot_position(position_correlation(encoders[0]), folder / "position.png")
    hubs = {model: _hub(folder / "pretraining" / model, corpus) for model in models}
    results, filled = _results(folder, logs, hubs), _filled(hubs)
    machine = (
        f"Python {platform.python_version()}, torch {torch.__version__}, CPU, {torch.get_num_threads()} threads. "
        "Same data, updates, settings and seed for every system; one run each, so small differences mean little."
    )
    write_page(
        folder / "report.html",
        encoders,
        texts=[read_tokens(encoder, folder / "corpus", min(128, encoder.args.max_positions)) for encoder in encoders],
        logs=labelled,
        against=label(models[-1]) if len(models) > 1 else None,
        tables=[Table("Results", machine, results), Table("Filled masks", "The likeliest words.", filled, words=True)],
    )
    pictures = "![loss curves](curves.png)", f"![position correlation of {label(models[0])}](position.png)"
    text = "\n\n".join(["# Quickstart", machine, _markdown(results), *pictures, _markdown(filled)])
    write_bytes(folder / "report.md", f"{text}\n".encode())
    return folder / "report.md"


def label(model: str) -> str:
    """Return the paper's name for the system of a named model: `tupe_tiny` is `TUPE-R`."""
    system = model.rpartition("_")[0]
    return DESCRIPTIONS[ALIASES.get(system, system)][0]


def _results(folder: Path, logs: dict[str, TrainingLog], hubs: dict) -> list[list[str]]:
    """Tabulate the pre-trainings, on held-out documents, and the word-order task, on its development set."""
    rows = [list(HEADS)]
    for model, log in logs.items():
        updates, valid = max(log.valid.items())
        parameters = sum(parameter.numel() for parameter in hubs[model].model.parameters())
        score = Score.read(folder / "finetuning" / model / "result.json").score
        sizes = label(model), model, f"{parameters:,}", f"{updates}"
        measured = f"{valid['loss']:.3f}", f"{valid['ppl']:.1f}", f"{valid['accuracy']:.1f}", f"{score:.1f}"
        rows.append([*sizes, *measured, f"{log.seconds:.0f}"])
    return rows


def _markdown(rows: list[list[str]]) -> str:
    head, *lines = (f"| {' | '.join(cells)} |".replace("<mask>", "`<mask>`") for cells in rows)
    return "\n".join([head, "|---" * len(rows[0]) + "|", *lines])


def _hub(run: Path, corpus: Manifest):
    folder, model = str(corpus.folder.resolve()), str(corpus.model.resolve())
    return TupeModel.from_pretrained(str(run), CHECKPOINT, folder, sentencepiece_model=model).eval()


def _filled(hubs: dict) -> list[list[str]]:
    """Tabulate the words that each model fills in for `<mask>`, with their probabilities."""
    rows = [["fill_mask", *map(label, hubs)]]
    for sentence in SENTENCES:
        found = [hub.fill_mask(sentence, topk=3) for hub in hubs.values()]
        rows.append([sentence, *(", ".join(f"{word.strip()} {p:.2f}" for _, p, word in words) for words in found)])
    return rows
