"""Classification and regression of sentences and sentence pairs, in the format of fairseq's GLUE data.

A data folder holds `input0`, for pairs `input1`, and `label`, each made by `fairseq-preprocess`; for regression the
labels of a split are the lines of `label/SPLIT.label`.
"""

# No `from __future__ import annotations`: fairseq and omegaconf read the types of the fields.
import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Optional

import numpy as np
import torch
from fairseq.data import (
    ConcatDataset,
    FairseqDataset,
    IdDataset,
    NumelDataset,
    NumSamplesDataset,
    RawLabelDataset,
    RightPadDataset,
    SortDataset,
    data_utils,
)
from fairseq.dataclass import FairseqDataclass
from fairseq.tasks import register_task
from fairseq.tasks.sentence_prediction import SentencePredictionTask
from omegaconf import II, MISSING
from torch import Tensor, nn

from tupe.criterions.metrics import OF_CLASSES, OF_NUMBERS, OF_SETS, set_counts
from tupe.data.batches import Batches
from tupe.data.length_order import LENGTH_WINDOW, LengthWindows, Sized
from tupe.errors import UserError
from tupe.fairseq_patches.checkpoints import special_symbols
from tupe.fairseq_patches.task import TupeTask
from tupe.systems import setting

FROZEN_LAYERS = "the embeddings, position terms and as many of the first layers stay as they are; 0: all is trained"


@dataclass
class TupeSentencePredictionConfig(FairseqDataclass):
    data: str = setting(MISSING, "folder with input0, label and, for pairs, input1")
    num_classes: int = setting(-1, "number of classes; 1 for regression")
    max_positions: int = setting(512, "tokens of an example at most; longer ones are cut")
    # fairseq's dictionaries begin with <s>, <pad>, </s>
    init_token: Optional[int] = setting(0, "token before the first sentence: <s>")
    separator_token: Optional[int] = setting(2, "token before the second sentence: </s>")
    length_window: int = setting(0, LENGTH_WINDOW)
    unordered: bool = setting(False, "the sentences of a pair could be the other way round")
    both_orders: bool = setting(False, "train on unordered pairs in both orders, as ELECTRA's fine-tuning does")
    regression_target: bool = II("criterion.regression_target")
    classification_head_name: str = II("criterion.classification_head_name")
    multi_label: bool = setting(False, "an example has any number of the classes")
    frozen_layers: int = setting(0, FROZEN_LAYERS)
    labels_sha256: Optional[str] = setting(None, "checksum of the classes; set by a training")
    seed: int = II("common.seed")


@register_task("tupe_sentence_prediction", dataclass=TupeSentencePredictionConfig)
class TupeSentencePredictionTask(TupeTask, SentencePredictionTask):
    """fairseq's `sentence_prediction`, with `<s> a </s> </s> b </s>` as input, cut so that both sentences stay.

    A model with `pair_separators` 1 reads `<s> a </s> b </s>`, from the time when the task builds it.
    Labels are checked when a split is loaded, so that training never meets one that the model has no class for.
    """

    pair_separators = 2

    @classmethod
    def setup_task(cls, cfg: TupeSentencePredictionConfig, **kwargs: object) -> "TupeSentencePredictionTask":
        """Raise `UserError` for impossible numbers of classes or tokens, and for a missing folder or dictionary."""
        if cfg.regression_target and cfg.num_classes != 1:
            raise UserError(
                f"regression predicts one number, but num_classes is {cfg.num_classes}: set --num-classes 1"
            )
        if not cfg.regression_target and cfg.num_classes < 2 - cfg.multi_label:
            raise UserError(
                f"num_classes is {cfg.num_classes}, but there are at least 2 classes: set --num-classes "
                "(task.num_classes), or --regression-target (criterion.regression_target) for numbers"
            )
        _require(cfg.data, "input0", "dict.txt")
        if not cfg.regression_target:
            _require(cfg.data, "label", "dict.txt")
        task = super().setup_task(cfg, **kwargs)
        if not cfg.regression_target:
            number = special_symbols(task.label_dictionary).count(False)
            if cfg.num_classes > max(number, 2):  # there are two at least, also where one has no example
                raise UserError(
                    f"num_classes is {cfg.num_classes}, but {cfg.data}/label/dict.txt has {number} classes: set "
                    "--num-classes (task.num_classes) to that"
                )
        symbols = len(task.source_dictionary)
        for name in ("init_token", "separator_token"):
            token = getattr(cfg, name)
            if token is not None and not 0 <= token < symbols:
                raise UserError(
                    f"{name} is {token}, but the dictionary has {symbols} symbols: give the number of one (fairseq's "
                    "<s> is 0, </s> is 2)"
                )
        return task

    def build_model(self, cfg: FairseqDataclass, from_checkpoint: bool = False) -> nn.Module:
        """Build the model, with its classification head, and keep how it has pairs separated."""
        self.pair_separators = getattr(cfg, "pair_separators", 2)
        model = super().build_model(cfg, from_checkpoint)
        freeze(model, self.cfg.frozen_layers)
        return model

    def load_dataset(self, split: str, combine: bool = False, **kwargs: object) -> FairseqDataset:
        """Load a split: `train`, in an order by the seed, or `valid`, `valid1`, ..., in order of length.

        With `combine`, `SPLIT1`, `SPLIT2`, ... are loaded too, as more of the same.

        Raises:
            UserError: for a split that is missing or empty, or labels that are missing, too few, or not classes.
        """
        sides = ["input0", "input1"] if os.path.isdir(os.path.join(self.cfg.data, "input1")) else ["input0"]
        sentences = [self._read(side, split, combine) for side in sides]
        labels = self.targets(split, combine)
        for side, part in zip([*sides[1:], "label"], [*sentences[1:], labels]):
            if len(part) != len(sentences[0]):
                raise UserError(
                    f"the split {split} in {os.path.abspath(self.cfg.data)} has {len(sentences[0])} examples in input0 "
                    f"and {len(part)} in {side}: make the folders from files of as many lines"
                )
        if self.cfg.both_orders and self.cfg.unordered and len(sides) == 2 and split == "train":
            sentences = [ConcatDataset(sentences), ConcatDataset(sentences[::-1])]
            labels = [*labels, *labels]
        tokens = self.joined(sentences)
        order, window = tokens.sizes, 0
        if split == "train":
            with data_utils.numpy_seed(self.cfg.seed):
                order, window = np.random.permutation(len(tokens)), self.cfg.length_window
        examples = {
            "id": IdDataset(),
            "net_input": {
                "src_tokens": RightPadDataset(tokens, pad_idx=self.source_dictionary.pad()),
                "src_lengths": NumelDataset(tokens),
            },
            "nsentences": NumSamplesDataset(),
            "ntokens": NumelDataset(tokens, reduce=True),
            "target": MultiHot(labels, self.cfg.num_classes) if self.cfg.multi_label else RawLabelDataset(labels),
        }
        dataset = InOrder(Batches(examples, [tokens.sizes], self.source_dictionary), sort_order=[order])
        dataset.length_window = window
        self.datasets[split] = dataset
        return dataset

    def joined(self, sentences: Sequence[Sequence[Tensor]]) -> "JoinedSentences":
        """Join the one or two texts of each example as the model reads them."""
        separator = self.cfg.separator_token if self.pair_separators == 2 else None
        return JoinedSentences(sentences, [self.cfg.init_token, separator], self.cfg.max_positions)

    def _read(self, folder: str, split: str, combine: bool) -> Sequence[Tensor]:
        path = os.path.join(self.cfg.data, folder, split)
        # an empty file cannot be mapped into memory
        has_data = not os.path.exists(path + ".bin") or os.path.getsize(path + ".bin") > 0
        dictionary = self.label_dictionary if folder == "label" else self.source_dictionary
        data = data_utils.load_indexed_dataset(path, dictionary, combine=combine) if has_data else []
        if data is None:
            raise UserError(f"there is no split {split} at {os.path.abspath(path)}: make it with fairseq-preprocess")
        if len(data) == 0:
            raise UserError(f"the split {split} at {os.path.abspath(path)} is empty: make it from a file with examples")
        if getattr(data, "supports_prefetch", False):  # fairseq's older format is read into memory first
            data.prefetch(range(len(data)))
        return data

    def targets(self, split: str, combine: bool = False) -> Sequence:
        """Read the class, classes or number of every example, with the errors of `load_dataset`."""
        return self._numbers(split) if self.cfg.regression_target else self._classes(split, combine)

    def metrics(self, scores: Tensor, targets: Sequence) -> dict[str, float]:
        """Compute the metrics of the scores `(N, num_classes)` of all examples, with the criterion's names, up to 1."""
        number = self.cfg.num_classes
        if self.cfg.regression_target:
            numbers = scores.flatten().double().numpy(), targets
            return {name: metric(*numbers) for name, metric in OF_NUMBERS.items()}
        if self.cfg.multi_label:
            true, chosen = MultiHot([], number).collater(targets).bool(), scores > 0
            found, whole = set_counts(true, chosen).tolist(), float((true == chosen).all(1).double().mean())
            return {**{name: metric(found) for name, metric in OF_SETS.items()}, "accuracy": whole}
        cells = np.asarray(targets) * number + scores.argmax(1).numpy()
        counts = np.bincount(cells, minlength=number**2).reshape(number, number).tolist()
        return {name: metric(counts) for name, metric in OF_CLASSES.items()}

    def class_counts(self) -> tuple[list[int], int]:
        """Count how many training examples have each class, and how many there are."""
        classes = self._classes("train", combine=False)
        counts = np.bincount(np.hstack(classes).astype(int), minlength=self.cfg.num_classes)
        return counts.tolist(), len(classes)

    def _classes(self, split: str, combine: bool) -> list[int] | list[list[int]]:
        """Return the class of every example, `0 .. num_classes - 1`, or with `multi_label` its classes."""
        dictionary, several = self.label_dictionary, self.cfg.multi_label
        classes = []

        def mistake(what: str) -> UserError:
            data = os.path.abspath(self.cfg.data)
            return UserError(f"example {len(classes)} (from 0) of the split {split} in {data} has {what}")

        for item in self._read("label", split, combine):
            words = [token for token in item.tolist() if token != dictionary.eos()]
            if len(words) != 1 and not several:
                raise mistake(
                    f"the label {dictionary.string(item)!r}, but a label is one word: mend the file of labels"
                )
            labels = [word - dictionary.nspecial for word in words]
            if any(label < 0 for label in labels):
                raise mistake("a label that is not in label/dict.txt: make the folder label anew from all splits")
            largest = max(labels, default=0)
            if largest >= self.cfg.num_classes:
                raise mistake(
                    f"the label {dictionary[largest + dictionary.nspecial]}, which is class {largest} (from 0) in "
                    f"label/dict.txt, outside the {self.cfg.num_classes} classes: raise --num-classes "
                    "(task.num_classes)"
                )
            classes.append(labels if several else labels[0])
        return classes

    def _numbers(self, split: str) -> np.ndarray:
        """Return the target of every example, as float64, which fairseq does not convert to half precision."""
        path = os.path.join(self.cfg.data, "label", split + ".label")
        if not os.path.exists(path):
            raise UserError(
                f"the labels of the split {split} are missing: write one number a line to {os.path.abspath(path)}"
            )
        with open(path, encoding="utf-8") as lines:
            return np.array([_number(line, f"line {i} of {os.path.abspath(path)}") for i, line in enumerate(lines, 1)])


class MultiHot(RawLabelDataset):
    """The classes of each example as a row of zeros and ones, float32 `(B, C)`."""

    def __init__(self, labels: Sequence[Sequence[int]], num_classes: int) -> None:
        super().__init__(labels)
        self.num_classes = num_classes

    def collater(self, samples: Sequence[Sequence[int]]) -> Tensor:
        rows = torch.zeros(len(samples), self.num_classes)
        for row, classes in zip(rows, samples):
            row[list(classes)] = 1
        return rows


class InOrder(LengthWindows, SortDataset):
    """Examples in a given order, in training perhaps sorted by length within windows."""


class JoinedSentences(Sized):
    """`<s> a </s>`, or `<s> a </s> </s> b </s>`, in at most `max_positions` tokens.

    Sentences that are too long lose words at their end, the longer one first; the special tokens stay.

    Args:
        sentences: one or two sequences of examples; each example is words and a final `</s>`.
        before: the token before each sentence, or None.
        max_positions: tokens at most.
    """

    def __init__(
        self, sentences: Sequence[Sequence[Tensor]], before: Sequence[Optional[int]], max_positions: int
    ) -> None:
        super().__init__()
        self.sentences = sentences
        self.before = [torch.tensor([] if token is None else [token], dtype=torch.long) for token in before]
        special = sum(len(token) + 1 for token, _ in zip(self.before, sentences))
        room = max_positions - special
        if room < len(sentences):
            raise UserError(
                f"max_positions is {max_positions}, but {special} special tokens and a word of each sentence need "
                f"{special + len(sentences)}: raise --max-positions (under Hydra task.max_positions)"
            )
        words = [np.asarray(side.sizes) - 1 for side in sentences]
        self.kept = share(room, *words) if len(words) == 2 else (np.minimum(words[0], room),)
        self.sizes = sum(self.kept) + special

    def __getitem__(self, index: int) -> Tensor:
        parts = []
        for token, side, kept in zip(self.before, self.sentences, self.kept):
            parts += [token, side[index][: kept[index]], side[index][-1:]]
        return torch.cat(parts)


def share(room: int, first: np.ndarray, second: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return how many words two sentences keep in `room`: the longer loses its last, of equal ones the second."""
    kept = np.minimum(first, np.maximum(room - second, (room + 1) // 2))
    return kept, np.minimum(second, room - kept)


def freeze(model: nn.Module, layers: int) -> None:
    """Freeze the first `layers` layers of a model and what is below them; 0 freezes nothing."""
    if layers and not hasattr(model, "freeze_layers"):
        raise UserError(f"the model is a {type(model).__name__}, without frozen_layers: set --arch tupe_base or so")
    if layers:
        model.freeze_layers(layers)


def _require(*parts: str) -> None:
    path = os.path.abspath(os.path.join(*parts))
    if not os.path.exists(path):
        raise UserError(f"there is no {path}: give the folder that holds input0 and label, made by fairseq-preprocess")


def _number(text: str, where: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise UserError(f"{where} is {text.strip()!r}, but the target of a regression is one number")
    return number
