"""Predict test sets of GLUE for its server (gluebenchmark.com), of XTREME for its scripts, and of users' tasks."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from fairseq.data import data_utils
from torch import Tensor, nn
from tqdm import tqdm

from tupe.checkpoints.load import open_checkpoint
from tupe.data.glue.tasks import Split, Task, prepared_task
from tupe.data.questions import score
from tupe.data.windows import QuestionWindows, Span, best_span
from tupe.tasks.question_answering import TupeQuestionAnsweringTask
from tupe.tasks.sentence_prediction import JoinedSentences, TupeSentencePredictionTask
from tupe.util import atomic, check_new, write_json

BATCH = 32


def predict(checkpoint: Path, data: Path, out: Path, *, splits: Sequence[str] = ()) -> dict[Path, dict[str, float]]:
    """Predict test sets with a fine-tuned checkpoint, in the formats of GLUE's server, SQuAD and XTREME.

    OUT gets TASK.tsv for texts, and SPLIT.json for questions. The scores are printed where the labels or answers are
    known. MNLI has two files, and its model also predicts AX. XNLI has a file per language, such as `test-de.tsv`; if
    no test sets are prepared, the files are for its development sets.

    tupe predict runs/squad/checkpoint_best.pt data/squad predictions --splits test-de,test-zh

    Args:
        checkpoint: Checkpoint of this plugin.
        data: Prepared task, such as data/glue/RTE.
        out: Folder to write.
        splits: Splits, only for questions; by default all test sets, or else the development sets.

    Returns:
        The metrics of each file in percent, under the criterion's names; none where the labels are not known.

    Raises:
        UserError: the checkpoint does not fit the task.
    """
    there = sorted(path.parent.name for path in data.glob("*/report.json") if path.parent.name != "train")
    row = None if there else prepared_task(data)
    if row:
        files = {out / f"{_name(row, split)}.tsv": split for split in _test_sets(row, data)}
    else:
        chosen = splits or [name for name in there if name.startswith("test")] or there
        files = {out / f"{split}.json": split for split in chosen}
    for path in files:
        check_new(path)
    model, task = open_checkpoint(checkpoint).model(data)
    model = model.to("cuda" if torch.cuda.is_available() else "cpu").eval()
    metrics = {}
    for path, split in files.items():
        found = _predict_texts(model, task, row, split, path) if row else _predict_answers(model, task, split, path)
        print("".join(f"{name} {value:.2f}, " for name, value in found.items()) + f"predictions: {path}")
        metrics[path] = found
    return metrics


def _predict_answers(model: nn.Module, task: TupeQuestionAnsweringTask, split: str, path: Path) -> dict[str, float]:
    windows = task.load_dataset(split)
    predictions = answers(model, windows, task.cfg.max_answer)
    write_json(path, predictions)
    return score(windows.paragraphs, predictions, windows.tokens)


def _predict_texts(
    model: nn.Module, task: TupeSentencePredictionTask, row: Task, split: Split, path: Path
) -> dict[str, float]:
    paths = [Path(task.cfg.data) / f"input{side}" / split.name for side in range(len(row.texts))]
    texts = [data_utils.load_indexed_dataset(str(side), task.source_dictionary) for side in paths]
    scores = classify(model, task, task.joined(texts))
    lines = [_prediction(each, row, task) for each in scores]
    if "-" not in split.name:  # for GLUE's server
        lines = ["index\tprediction", *(f"{index}\t{line}" for index, line in enumerate(lines))]
    with atomic(path) as part:
        part.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    found = task.metrics(scores, task.targets(split.name)) if split.labelled else {}
    return {name: 100 * value for name, value in found.items()}


def _test_sets(row: Task, data: Path) -> list[Split]:
    """Return the prepared test sets of a task, or its development sets if there are none."""
    prepared = [split for split in row.splits if (data / f"input0/{split.name}.bin").is_file()]
    tests = [split for split in prepared if split.name.startswith("test")]
    return tests or [split for split in prepared if split.name.startswith("valid")]


def _name(row: Task, split: Split) -> str:
    """Return the name of a test set's file for the server of GLUE or for XTREME."""
    names = {"test": "MNLI-m", "test1": "MNLI-mm"} if row.name == "MNLI" else {"test": row.name}
    return names.get(split.name, split.name if "-" in split.name else f"{row.name}-{split.name}")


def _prediction(scores: Tensor, row: Task, task: TupeSentencePredictionTask) -> str:
    """Map scores `(num_classes,)` to a label or a number."""
    if row.scale is not None:
        scale = task.cfg.label_scale or row.scale  # in training; the data may have changed since
        return f"{min(max(float(scores), 0.0), 1.0) * scale:.6g}"
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


@torch.no_grad()
def answers(model: nn.Module, windows: QuestionWindows, longest: int) -> dict[str, str]:
    """Return the best answer of at most `longest` tokens to each question, by id; the first window wins ties."""
    device, order = next(model.parameters()).device, windows.ordered_indices()
    found: dict[int, Span] = {}
    for start in tqdm(range(0, len(order), BATCH), windows.name, disable=None, unit="batch"):
        sample = windows.collater([windows[index] for index in order[start : start + BATCH]])
        net_input = {name: tensor.to(device) for name, tensor in sample["net_input"].items()}
        scores, _ = model(**net_input, spans=True, num_tokens=sample["ntokens"])
        sides = [side.cpu().numpy() for side in (*scores, sample["may_begin"], sample["may_end"])]
        for window, *of_window in zip(sample["id"].tolist(), *sides):
            if span := best_span(*of_window, longest):
                found[window] = span
    return {question["id"]: "" for question in windows.questions} | windows.answers(found)
