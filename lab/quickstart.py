"""Write the report of scripts/quickstart.sh as a page, and print its tables.

    python -m lab.quickstart FOLDER MODEL...

FOLDER has `corpus`, and for each model `pretraining/MODEL` and `finetuning/MODEL`.
"""

import logging
import platform
import sys
from pathlib import Path

import torch

from tupe.analysis.checkpoint import open_encoder
from tupe.analysis.curves import read_log
from tupe.analysis.page import write_page
from tupe.analysis.text import read_tokens
from tupe.models import TupeModel
from tupe.systems import ALIASES, PAPER_NAMES
from tupe.util import read_json

CHECKPOINT = "checkpoint_last.pt"  # not the best one: all systems get the same number of updates
HEADS = (
    *("system", "model", "parameters", "updates", "validation loss (bits)", "perplexity", "masked tokens right (%)"),
    *("word order, MCC x 100", "pre-training (s)"),
)
SENTENCES = (
    "Return a list <mask> all names in the file.",
    "This method must <mask> called only once.",
    "If the argument is not given, the default <mask> is used.",
)


def main(out: str, *models: str) -> None:
    folder = Path(out)
    logging.disable(logging.INFO)
    runs = {model: folder / "pretraining" / model for model in models}
    logs = {label(model): read_log(run) for model, run in runs.items()}
    encoders = [open_encoder(run / CHECKPOINT, label(model)) for model, run in runs.items()]
    hubs = {model: _hub(run, folder / "corpus") for model, run in runs.items()}

    rows = [HEADS]  # the pre-trainings, on held-out documents, and the word-order task, on its development set
    for model, log in zip(models, logs.values()):
        updates, valid = max(log.valid.items())
        parameters = sum(parameter.numel() for parameter in hubs[model].model.parameters())
        score = read_json(folder / "finetuning" / model / "result.json")["score"]
        measured = (f"{value:{form}}" for value, form in (
            *((valid["loss"], ".3f"), (valid["ppl"], ".1f"), (valid["accuracy"], ".1f")),
            *((score, ".1f"), (log.seconds, ".0f")),
        ))  # fmt: skip
        rows.append((label(model), model, f"{parameters:,}", f"{updates}", *measured))
    filled = [["fill_mask", *map(label, models)]]
    for sentence in SENTENCES:
        found = [hub.fill_mask(sentence, topk=3) for hub in hubs.values()]
        filled.append([sentence, *(", ".join(f"{word.strip()} {p:.2f}" for _, p, word in words) for words in found)])

    machine = (
        f"Python {platform.python_version()}, torch {torch.__version__}, CPU, {torch.get_num_threads()} threads. "
        "Same data, updates, settings and seed for every system; one run each, so small differences mean little."
    )
    write_page(
        folder / "report.html",
        encoders,
        texts=[read_tokens(encoder, folder / "corpus", min(128, encoder.args.max_positions)) for encoder in encoders],
        logs=logs,
        against=label(models[-1]) if len(models) > 1 else None,
        tables={"Results": (machine, rows), "Filled masks": ("The likeliest tokens.", filled)},
    )
    print(f"{machine}\n\n{_markdown(rows)}\n\n{_markdown(filled)}\nreport: {folder}/report.html")


def label(model: str) -> str:
    """Return the paper's name for the system of a named model: `tupe_tiny` is `TUPE-R`."""
    system = model.rpartition("_")[0]
    return PAPER_NAMES[ALIASES.get(system, system)]


def _markdown(rows: list) -> str:
    head, *lines = (f"| {' | '.join(cells)} |".replace("<mask>", "`<mask>`") for cells in rows)
    return "\n".join([head, "|---" * len(rows[0]) + "|", *lines])


def _hub(run: Path, corpus: Path):
    data = str(corpus.resolve())
    sentencepiece = f"{data}/sentencepiece.bpe.model"
    return TupeModel.from_pretrained(str(run), CHECKPOINT, data, sentencepiece_model=sentencepiece).eval()


if __name__ == "__main__":
    main(*sys.argv[1:])
