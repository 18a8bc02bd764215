"""Predict the test sets of GLUE, as its server takes them (gluebenchmark.com), and of a user's own task."""

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import torch
from fairseq.data import Dictionary, data_utils
from fairseq.tasks import FairseqTask
from torch import Tensor, nn
from tqdm import tqdm

from tupe.checkpoints.load import Checkpoint, open_checkpoint
from tupe.criterions.metrics import has_entities
from tupe.data.binary import check_indexed
from tupe.data.glue.own import MADE_BY, description
from tupe.data.glue.prepare import WORDS
from tupe.data.glue.tasks import TASKS, Split, Task
from tupe.data.length_order import TextWindows
from tupe.data.words import check_entity_scores, named, word_scores
from tupe.errors import UserError
from tupe.files import check_file, read_text, typed, write_bytes
from tupe.tasks.sentence_prediction import JoinedSentences, TupeSentencePredictionTask

_BATCH = 32


def predict(
    checkpoint: str | Path | Checkpoint, data: str | Path, out: str | Path, any_size: bool = False
) -> list[Path]:
    """Write a file such as `out/CoLA.tsv` for each test set of a task: two for MNLI, and AX from a model of MNLI.

    `data` is the prepared task, in a folder named like it. `any_size` accepts test sets that do not have the published
    number of rows, which the server refuses.

    Returns:
        The files.

    Raises:
        UserError: if the checkpoint does not fit the task, or a test set is missing or not of the published size.
    """
    data, out = Path(data), Path(out)
    task = TASKS.get(Path(os.path.abspath(data)).name)
    if task is None and description(data) is not None:
        raise UserError(f"{data} is a task of your own: give it to predict_own, or to the command `tupe predict`.")
    if task is None:
        raise UserError(
            f"{data} is not named like a GLUE task ({', '.join(TASKS)}), nor made by tupe prepare-task: give such "
            "a folder."
        )
    classifier = Classifier(checkpoint, data, task)
    splits = [split for split in task.splits if not split.labelled]
    found = [classifier.sentences(split, any_size) for split in splits]  # all are checked before the work begins
    files = []
    for split, sentences in zip(splits, found):
        name = {"test": "MNLI-m", "test1": "MNLI-mm"}[split.name] if task.name == "MNLI" else task.name
        files.append(out / f"{name}.tsv")
        _write_table(files[-1], classifier.labels(sentences))
    return files


def predict_own(checkpoint: Path | Checkpoint, data: Path, task: Task, out: Path) -> dict[Path, dict[str, float]]:
    """Write `out/test.tsv` for a user's own task, or `valid.tsv` where there is no test set.

    Returns:
        By file the metrics in percent, as the criterion calls them; none where labels are not known.

    Raises:
        UserError: if the checkpoint does not fit the task, or its data is damaged.
    """
    splits = {split.name: split for split in task.splits}
    split = splits.get("test") or splits["valid"]
    if task.tokens:
        return predict_words(checkpoint, data, task, split, out)
    classifier = Classifier(checkpoint, data, task)
    scores = classifier.scores(classifier.sentences(split))
    path = out / (f"{split.name}.tsv" if split.rows else f"{task.name}.tsv")
    _write_table(path, map(classifier.shown, scores))
    if not split.labelled:
        return {path: {}}
    return {path: classifier.metrics(scores, split.name)}


def predict_words(
    checkpoint: Path | Checkpoint, data: Path, task: Task, split: Split, out: Path
) -> dict[Path, dict[str, float]]:
    """Write words and their labels to a file such as `out/test.conll`. Returns and raises as `predict_own`."""
    entities = split.labelled and has_entities(task.classes)
    if entities:
        check_entity_scores()
    checkpoint = open_checkpoint(checkpoint)
    head = checkpoint.weights.get("token_head.weight")
    if checkpoint.task.get("_name") != "tupe_token_classification" or not isinstance(head, Tensor):
        raise UserError(
            f"{checkpoint} was not fine-tuned on labels of words: give the checkpoint_best.pt of such a run."
        )
    if len(head) != len(task.classes):
        raise UserError(f"{checkpoint} has {len(head)} classes: give one that was fine-tuned on {task.name}.")
    model, fairseq_task = load(checkpoint, data)
    _check_labels(fairseq_task.label_dictionary, data, task, checkpoint)
    words = fairseq_task.load_dataset(split.name)
    sentences, predicted = words.sentences(), {}
    for sample, scores in scored(model, words, words=True):
        best, word = scores.argmax(-1).cpu(), sample["word"]
        predicted.update(zip(sample["place"][word].tolist(), best[word].tolist()))
    known, found = named(sentences, predicted, fairseq_task.classes)
    path = data / f"label/{split.name}{WORDS}"
    texts = [text.split("\n") for text in read_text(path, MADE_BY).split("\n\n")[:-1]]
    if [len(text) for text in texts] != [len(labels) for labels in found]:
        raise UserError(f"{path} does not have the words of its sentences: prepare the task again.")
    lines = ("".join(f"{word}\t{label}\n" for word, label in zip(*pair)) + "\n" for pair in zip(texts, found))
    target = out / f"{split.name}.conll"
    write_bytes(target, "".join(lines).encode())
    if not split.labelled:
        return {target: {}}
    return {target: {name: 100 * value for name, value in word_scores(known, found, entities).items()}}


@torch.no_grad()
def scored(model: nn.Module, windows: TextWindows, **what: bool) -> Iterator[tuple[dict[str, Any], Any]]:
    """Yield the batches of a split's windows, each with the model's scores of `what`: `spans` or `words`."""
    device = next(model.parameters()).device
    with tqdm(desc=windows.name, total=len(windows), disable=None, unit=" windows") as bar:
        for batch in windows.batch_by_size(windows.ordered_indices(), max_sentences=_BATCH):
            sample = windows.collater([windows[index] for index in batch])
            net_input = {name: tensor.to(device) for name, tensor in sample["net_input"].items()}
            yield sample, model(**net_input, **what, num_tokens=sample["ntokens"])[0]
            bar.update(len(batch))


def _write_table(path: Path, labels: Iterable[str]) -> None:
    lines = (f"{index}\t{label}\n" for index, label in enumerate(labels))
    write_bytes(path, "".join(["index\tprediction\n", *lines]).encode())


class Classifier:
    """A checkpoint that was fine-tuned on `task`, and its task of fairseq, on the `data` of that task.

    Raises:
        UserError: if the checkpoint does not fit the task.
    """

    task: TupeSentencePredictionTask

    def __init__(self, checkpoint: Path | Checkpoint, data: Path, task: Task) -> None:
        checkpoint = open_checkpoint(checkpoint)
        _check_trained(checkpoint, task)
        if task.classes:
            check_file(data / "label/dict.txt", "tupe prepare-glue")
        self._glue, self._data = task, data
        self._model, self.task = load(checkpoint, data)
        if task.classes:
            _check_labels(self.task.label_dictionary, data, task, checkpoint)

    def sentences(self, split: Split, any_size: bool = False) -> JoinedSentences:
        """Read the texts of a split.

        Raises:
            UserError: if it is missing or damaged, or not of the published size, unless `any_size`.
        """
        sides = []
        for side in range(len(self._glue.texts)):
            path = self._data / f"input{side}" / split.name
            if path.with_name(f"{split.name}.bin").exists():
                check_indexed(path, "tupe prepare-glue")
            part = data_utils.load_indexed_dataset(str(path), self.task.source_dictionary)
            if part is None:
                raise UserError(f"there is no test set {path}.bin: prepare the task from a download that has it.")
            if split.rows and len(part) != split.rows and not any_size:
                raise UserError(
                    f"{path} has {len(part)} rows, but the server wants the {split.rows} of GLUE: prepare the task "
                    "from the whole download, or give --partial to write predictions of what is there."
                )
            sides.append(part)
        return self.task.joined(sides)

    def labels(self, sentences: JoinedSentences) -> Iterator[str]:
        """Yield the prediction for each of `sentences` as it is written to files: a label, or a number."""
        return map(self.shown, self.scores(sentences))

    def shown(self, scores: Tensor) -> str:
        """Turn scores `(num_classes,)` into the label, the labels, or the number that they stand for."""
        if self._glue.scale is not None:
            number = min(max(float(scores), 0.0), 1.0) * self._glue.scale + self._glue.offset
            return f"{number:.3f}" if self._glue.name in TASKS else f"{number:.6g}"
        labels = self.task.label_dictionary
        if self._glue.multi_label:
            return self._glue.separator.join(
                labels[i + labels.nspecial] for i in scores.gt(0).nonzero().flatten().tolist()
            )
        return labels[int(scores.argmax()) + labels.nspecial]

    def metrics(self, scores: list[Tensor], split: str) -> dict[str, float]:
        """Compute the metrics of a split in percent, with the criterion's names, from the scores of all examples."""
        found, targets = torch.stack(scores), self.task.targets(split)
        if len(found) != len(targets):
            raise UserError(
                f"the split {split} in {self._data} has {len(found)} texts and {len(targets)} labels: prepare it again."
            )
        return {name: 100 * value for name, value in self.task.metrics(found, targets).items()}

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
    """Load the model for evaluation, on the GPU if there is one, and its task with other data and settings.

    Raises:
        UserError: if they do not fit together.
    """
    model, task = checkpoint.model(data, **settings)
    return model.to("cuda" if torch.cuda.is_available() else "cpu").eval(), task


@dataclass(frozen=True)
class _Trained:
    """Fields of the task that a checkpoint was fine-tuned on, checked by `tupe predict`."""

    num_classes: int
    multi_label: bool = False
    classification_head_name: str = "sentence_classification_head"


def _check_trained(checkpoint: Checkpoint, task: Task) -> None:
    cfg = checkpoint.task
    if cfg.get("_name") != "tupe_sentence_prediction":
        raise UserError(
            f"{checkpoint} was not fine-tuned on labels of texts: give the checkpoint_best.pt of such a run of "
            "`tupe finetune`."
        )
    known = {field.name: cfg[field.name] for field in fields(_Trained) if field.name in cfg}
    trained = typed(_Trained, known, f"{checkpoint}: cfg.task", "tupe finetune")
    if trained.num_classes != (len(task.classes) or 1):
        fine_tuned = "MNLI" if task.name == "AX" else task.name
        raise UserError(
            f"{checkpoint} has {trained.num_classes} output(s): give one that was fine-tuned on {fine_tuned}."
        )
    if trained.multi_label != task.multi_label:
        raise UserError(
            f"{checkpoint} gives an example {'any number of labels' if trained.multi_label else 'one label'}"
            f", but {task.name} is another task: give one that was fine-tuned on it."
        )
    head = checkpoint.weights.get(f"classification_heads.{trained.classification_head_name}.out_proj.weight")
    if not isinstance(head, Tensor) or len(head) != trained.num_classes:
        raise UserError(
            f"{checkpoint} holds no trained classification head, so that its predictions would be random: give the "
            "checkpoint_best.pt of a run of `tupe finetune`."
        )


def _check_labels(dictionary: Dictionary, data: Path, task: Task, checkpoint: Checkpoint) -> None:
    labels = [label for label in dictionary.symbols[dictionary.nspecial :] if label != "<mask>"]  # fairseq adds it
    if sorted(labels) != sorted(task.classes):
        raise UserError(
            f"{data}/label/dict.txt has the labels {', '.join(labels)}, but {task.name} {', '.join(task.classes)}: "
            "prepare the task again with tupe prepare-glue."
        )
    checkpoint.check_classes(data)
