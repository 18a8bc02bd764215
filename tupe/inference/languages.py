"""Evaluate a fine-tuned checkpoint on the test sets of every language: write XTREME's files, and score them."""

import shutil
from pathlib import Path

from tupe.data.glue.tasks import TASKS
from tupe.inference.answers import predict_answers
from tupe.inference.predict import Classifier
from tupe.util import atomic


def evaluate(checkpoint: Path, data: Path, tests: tuple[str, ...], out: Path) -> dict[str, dict[str, float | None]]:
    """Predict the test sets of `tests` that exist in `data`, and write `out/TEST/test-de.json`, or `.tsv`.

    Files of an earlier evaluation in `out` are replaced.

    Returns:
        By test and split, as in `XQuAD/test-de`, the metrics in percent; sets whose answers are secret are left out.
    """
    shutil.rmtree(out, ignore_errors=True)
    found: dict[str, dict[str, float | None]] = {}
    for folder in tested(data, tests):
        questions = [split.name for split in question_sets(folder)]
        if questions:
            scores = predict_answers(checkpoint, folder, out / folder.name, questions)
        else:
            scores = predict_labels(checkpoint, folder, out / folder.name)
        found.update({f"{folder.name}/{split}": dict(values) for split, values in scores.items() if values})
    return found


def tested(data: Path, tests: tuple[str, ...]) -> list[Path]:
    """Return the folders of `tests` that hold test sets, of questions or of sentences."""
    folders = (data / name for name in tests)
    return [folder for folder in folders if question_sets(folder) or (folder / "input0").is_dir()]


def question_sets(folder: Path) -> list[Path]:
    """Return the test sets by language of a folder that `tupe prepare-qa` made."""
    return sorted(split for split in folder.glob("test-*") if split.is_dir())


def predict_labels(checkpoint: Path, data: Path, out: Path) -> dict[str, dict[str, float]]:
    """Write one label per line for the test set of each language, or where there is none, its development set.

    Returns:
        By split the `accuracy`, percent.
    """
    task = TASKS[data.name]
    there = [split for split in task.splits if "-" in split.name and (data / f"input0/{split.name}.bin").is_file()]
    classifier, scores = Classifier(checkpoint, data, task), {}
    for split in [split for split in there if split.name.startswith("test")] or there:
        predicted = classifier.scores(classifier.sentences(split, any_size=True))
        with atomic(out / f"{split.name}.tsv") as part:
            part.write_text("".join(f"{classifier.shown(each)}\n" for each in predicted), encoding="utf-8")
        scores[split.name] = {"accuracy": classifier.metrics(predicted, split.name)["accuracy"]}
    return scores
