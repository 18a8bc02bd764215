"""Write the report of scripts/quickstart.sh as a page, and print its tables.

    python -m lab.quickstart FOLDER MODEL...

FOLDER has `corpus`, and for each model `pretraining/MODEL` and `finetuning/MODEL`.
"""

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
    corpus = (folder / "corpus").resolve()
    rows, filled = [HEADS], [["fill_mask", *SENTENCES]]
    encoders, logs = [], {}
    for model in models:
        system, run = model.rpartition("_")[0], folder / "pretraining" / model
        name = PAPER_NAMES[ALIASES.get(system, system)]
        log = logs[name] = read_log(run)
        encoders.append(open_encoder(run / CHECKPOINT, name))
        sentencepiece = str(corpus / "sentencepiece.bpe.model")
        hub = TupeModel.from_pretrained(str(run), CHECKPOINT, str(corpus), sentencepiece_model=sentencepiece).eval()

        # the pre-training, on held-out documents, and the word-order task, on its development set
        updates, valid = max(log.valid.items())
        score = read_json(folder / "finetuning" / model / "result.json")["score"]
        found = ((valid["loss"], ".3f"), (valid["ppl"], ".1f"), (valid["accuracy"], ".1f"), (score, ".1f"))
        measured = (f"{value:{form}}" for value, form in (*found, (log.seconds, ".0f")))
        parameters = sum(parameter.numel() for parameter in hub.model.parameters())
        rows.append((name, model, f"{parameters:,}", f"{updates}", *measured))
        words = (hub.fill_mask(sentence, topk=3) for sentence in SENTENCES)
        filled.append([name, *(", ".join(f"{word.strip()} {p:.2f}" for _, p, word in three) for three in words)])

    machine = (
        f"Python {platform.python_version()}, torch {torch.__version__}, CPU, {torch.get_num_threads()} threads. "
        "Same data, updates, settings and seed for every system; one run each, so small differences mean little."
    )
    write_page(
        folder / "report.html",
        encoders,
        texts=[read_tokens(encoder, corpus, 128) for encoder in encoders],
        logs=logs,
        against=[*logs][-1] if len(models) > 1 else None,
        tables={"Results": (machine, rows), "Filled masks": ("The likeliest tokens.", filled)},
    )
    print(f"{machine}\n\n{_markdown(rows)}\n\n{_markdown(filled)}\nreport: {folder}/report.html")


def _markdown(rows: list) -> str:
    head, *lines = (f"| {' | '.join(cells)} |".replace("<mask>", "`<mask>`") for cells in rows)
    return "\n".join([head, "|---" * len(rows[0]) + "|", *lines])


if __name__ == "__main__":
    main(*sys.argv[1:])
