"""Predict test sets: of GLUE for its server (gluebenchmark.com), of XTREME for its scripts, and of users' tasks."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from fairseq.data import data_utils
from torch import Tensor, nn
from tqdm import tqdm

from tupe.checkpoints.load import open_checkpoint
from tupe.data.glue.tasks import Split, Task, prepared_task
from tupe.finetune.answers import BATCH, load, predict_answers
from tupe.tasks.sentence_prediction import JoinedSentences, TupeSentencePredictionTask
from tupe.util import atomic, check_new


def predict(
    checkpoint: Path,
    data: Path,
    out: Path,
    *,
    splits: Sequence[str] = (),
    doc_stride: int | None = None,
    max_query: int | None = None,
    max_answer: int | None = None,
) -> dict[Path, dict[str, float]]:
    """Predict test sets with a fine-tuned checkpoint: GLUE's as its server takes them, answers as SQuAD and XTREME do.

    OUT gets TASK.tsv for texts, and SPLIT.json for questions. The scores are printed where the labels or answers are
    known. MNLI has two files, and its model predicts AX. XNLI has one per language,
    `test-de.tsv`, or without tests those of its development sets.

    tupe predict runs/squad/checkpoint_best.pt data/squad predictions --splits test-de,test-zh

    Args:
        checkpoint: Checkpoint of this plugin.
        data: Prepared task, such as data/glue/RTE.
        out: Folder to write.
        splits: Questions: splits; all test sets by default.
        doc_stride: Questions: tokens from window to window.
        max_query: Questions: tokens of the longest question.
        max_answer: Questions: tokens of the longest answer.

    Returns:
        By file the metrics in percent, as the criterion calls them; none where the labels are not known.

    Raises:
        UserError: if the checkpoint does not fit the task.
    """
    if any(data.glob("*/report.json")):
        settings = {"doc_stride": doc_stride, "max_query": max_query, "max_answer": max_answer}
        given = {name: value for name, value in settings.items() if value is not None}
        metrics = predict_answers(checkpoint, data, out, splits, **given)
    else:
        metrics = _predict_texts(checkpoint, data, out)
    for path, scores in metrics.items():
        print("".join(f"{name} {value:.2f}, " for name, value in scores.items()) + f"predictions: {path}")
    return metrics


def _predict_texts(checkpoint: Path, data: Path, out: Path) -> dict[Path, dict[str, float]]:
    row = prepared_task(data)
    files = {out / f"{_name(row, split)}.tsv": split for split in _test_sets(row, data)}
    for path in files:
        check_new(path)
    model, task = load(open_checkpoint(checkpoint), data)
    metrics = {}
    for path, split in files.items():
        paths = [data / f"input{side}" / split.name for side in range(len(row.texts))]
        texts = [data_utils.load_indexed_dataset(str(path), task.source_dictionary) for path in paths]
        scores = classify(model, task, task.joined(texts))
        lines = [_prediction(each, row, task) for each in scores]
        if "-" not in split.name:  # for GLUE's server
            lines = ["index\tprediction", *(f"{index}\t{line}" for index, line in enumerate(lines))]
        with atomic(path) as part:
            part.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        found = task.metrics(scores, task.targets(split.name)) if split.labelled else {}
        metrics[path] = {name: 100 * value for name, value in found.items()}
    return metrics


def _test_sets(row: Task, data: Path) -> list[Split]:
    """Return the test sets of a task: of XNLI those languages that are prepared, or else their development sets."""
    languages = [split for split in row.splits if "-" in split.name]
    prepared = [split for split in languages if (data / f"input0/{split.name}.bin").is_file()]
    tests = [split for split in (prepared or row.splits) if split.name.startswith("test")]
    return tests or prepared


def _name(row: Task, split: Split) -> str:
    """Return the name of a test set's file for the server of GLUE or for XTREME."""
    if row.name == "MNLI":
        return {"test": "MNLI-m", "test1": "MNLI-mm"}[split.name]
    return split.name if "-" in split.name else row.name


def _prediction(scores: Tensor, row: Task, task: TupeSentencePredictionTask) -> str:
    """Map scores `(num_classes,)` to a label or a number."""
    if row.scale is not None:
        scale = task.cfg.label_scale or row.scale  # of the training, which the data may have left since
        return f"{min(max(float(scores), 0.0), 1.0) * scale:.3f}"
    labels = task.label_dictionary
    return labels[int(scores.argmax()) + labels.nspecial]


@torch.no_grad()
def classify(model: nn.Module, task: TupeSentencePredictionTask, sentences: JoinedSentences) -> Tensor:
    """Compute the scores `(N, num_classes)` of all examples, in their order; batches are made by length."""
    device = next(model.parameters()).device
    pad, head = task.source_dictionary.pad(), task.cfg.classification_head_name
    order, found = np.argsort(sentences.sizes, kind="stable"), []
    for start in tqdm(range(0, len(order), BATCH), desc="batches", disable=None):
        batch = order[start : start + BATCH].tolist()
        tokens = data_utils.collate_tokens([sentences[i] for i in batch], pad).to(device)
        num_tokens = int(sentences.sizes[batch].sum())
        scores, _ = model(tokens, features_only=True, classification_head_name=head, num_tokens=num_tokens)
        found.append(scores.float().cpu())
    return torch.cat(found)[np.argsort(order)]
