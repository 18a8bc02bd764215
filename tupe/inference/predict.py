"""Predict the test sets of GLUE, as its server takes them (gluebenchmark.com), and of tasks of one's own."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from fairseq.data import data_utils
from fairseq.tasks import FairseqTask
from torch import Tensor, nn
from tqdm import tqdm

from tupe.checkpoints.load import Checkpoint, open_checkpoint
from tupe.data.batches import TextWindows
from tupe.data.glue.tasks import Split, Task, prepared_task
from tupe.tasks.sentence_prediction import JoinedSentences, TupeSentencePredictionTask
from tupe.util import UserError, atomic, check_new

_BATCH = 32


def predict(
    checkpoint: str | Path | Checkpoint, data: str | Path, out: str | Path, any_size: bool = False
) -> dict[Path, dict[str, float]]:
    """Write a file such as `out/CoLA.tsv` for each test set of a task: two for MNLI, and AX from a model of MNLI.

    `data` is the prepared task, in a folder named like it. `any_size` accepts test sets that do not have the published
    number of rows, which the server refuses.

    Returns:
        By file the metrics in percent, as the criterion calls them; none where labels are not known.

    Raises:
        UserError: if the checkpoint does not fit the task, or a test set is not of the published size.
    """
    data, out = Path(data), Path(out)
    task = prepared_task(data)
    splits = {out / f"{_name(task, split)}.tsv": split for split in task.splits if split.name in ("test", "test1")}
    for path in splits:
        check_new(path)
    classifier = Classifier(checkpoint, data, task)
    sentences = {path: classifier.sentences(split, any_size) for path, split in splits.items()}
    found = {}
    for path, split in splits.items():
        scores = classifier.scores(sentences[path])
        lines = (f"{index}\t{classifier.shown(score)}\n" for index, score in enumerate(scores))
        with atomic(path) as part:
            part.write_text("".join(["index\tprediction\n", *lines]), encoding="utf-8")
        found[path] = classifier.metrics(scores, split.name) if split.labelled else {}
    return found


def _name(task: Task, split: Split) -> str:
    """Return the name that the server of GLUE gives to a test set."""
    return {"test": "MNLI-m", "test1": "MNLI-mm"}[split.name] if task.name == "MNLI" else task.name


@torch.no_grad()
def scored(model: nn.Module, windows: TextWindows) -> Iterator[tuple[dict[str, Any], Any]]:
    """Yield the batches of a split's windows, each with the model's scores of spans."""
    device = next(model.parameters()).device
    with tqdm(desc=windows.name, total=len(windows), disable=None, unit=" windows") as bar:
        for batch in windows.batch_by_size(windows.ordered_indices(), max_sentences=_BATCH):
            sample = windows.collater([windows[index] for index in batch])
            net_input = {name: tensor.to(device) for name, tensor in sample["net_input"].items()}
            yield sample, model(**net_input, spans=True, num_tokens=sample["ntokens"])[0]
            bar.update(len(batch))


class Classifier:
    """A checkpoint that was fine-tuned on `task`, and its task of fairseq, on the `data` of that task."""

    task: TupeSentencePredictionTask

    def __init__(self, checkpoint: str | Path | Checkpoint, data: Path, task: Task) -> None:
        checkpoint = open_checkpoint(checkpoint)
        checkpoint.check_classes(data)
        self._glue, self._data = task, data
        self._model, self.task = load(checkpoint, data)

    def sentences(self, split: Split, any_size: bool = False) -> JoinedSentences:
        """Read the texts of a split. Raise `UserError` unless they are as many as published, or `any_size`."""
        sides = []
        for side in range(len(self._glue.texts)):
            path = self._data / f"input{side}" / split.name
            part = data_utils.load_indexed_dataset(str(path), self.task.source_dictionary)
            if split.rows and len(part) != split.rows and not any_size:
                raise UserError(
                    f"{path} has {len(part)} rows, but the server takes the {split.rows} of GLUE. Prepare the task "
                    "from the whole download, or pass --partial to predict these rows."
                )
            sides.append(part)
        return self.task.joined(sides)

    def shown(self, scores: Tensor) -> str:
        """Turn scores `(num_classes,)` into the label or the number that they stand for."""
        if self._glue.scale is not None:
            return f"{min(max(float(scores), 0.0), 1.0) * self._glue.scale:.3f}"
        labels = self.task.label_dictionary
        return labels[int(scores.argmax()) + labels.nspecial]

    def metrics(self, scores: list[Tensor], split: str) -> dict[str, float]:
        """Compute the metrics of a split in percent, with the criterion's names, from the scores of all examples."""
        metrics = self.task.metrics(torch.stack(scores), self.task.targets(split))
        return {name: 100 * value for name, value in metrics.items()}

    @torch.no_grad()
    def scores(self, sentences: JoinedSentences) -> list[Tensor]:
        """Compute the scores `(num_classes,)` of each example, batched by length, and return them in order."""
        device = next(self._model.parameters()).device
        pad, head = self.task.source_dictionary.pad(), self.task.cfg.classification_head_name
        order, found = np.argsort(sentences.sizes, kind="stable"), {}
        for start in tqdm(range(0, len(order), _BATCH), desc="batches", disable=None):
            batch = order[start : start + _BATCH].tolist()
            tokens = data_utils.collate_tokens([sentences[i] for i in batch], pad).to(device)
            num_tokens = int(sentences.sizes[batch].sum())
            scores, _ = self._model(tokens, features_only=True, classification_head_name=head, num_tokens=num_tokens)
            found.update(zip(batch, scores.float().cpu()))
        return [found[i] for i in range(len(order))]


def load(checkpoint: Checkpoint, data: Path, **settings: int) -> tuple[nn.Module, FairseqTask]:
    """Load the model for evaluation, on the GPU if there is one, and its task with other data and settings."""
    model, task = checkpoint.model(data, **settings)
    return model.to("cuda" if torch.cuda.is_available() else "cpu").eval(), task
