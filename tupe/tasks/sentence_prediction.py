"""Classification and regression of sentences and sentence pairs, in the format of fairseq's GLUE data.

A data folder holds `input0`, for pairs `input1`, and `label`, each made by `fairseq-preprocess`; for regression the
labels of a split are the lines of `label/SPLIT.label`.
"""

# No `from __future__ import annotations`: fairseq and omegaconf read the types of the fields.
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
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
from omegaconf import II, MISSING, DictConfig
from torch import Tensor, nn

from tupe.criterions.metrics import REGRESSION_METRICS, class_counts, class_metrics
from tupe.data.batches import Batches, Sized
from tupe.data.glue.tasks import MANIFEST, prepared_task
from tupe.systems import setting


@dataclass
class TupeSentencePredictionConfig(FairseqDataclass):
    data: str = setting(MISSING, "folder with input0, label and, for pairs, input1")
    num_classes: int = setting(-1, "number of classes; 1 for regression")
    max_positions: Optional[int] = setting(512, "maximum number of tokens; longer examples are cut; null: the model's")
    # fairseq's dictionaries start with <s>, <pad>, </s>
    init_token: Optional[int] = setting(0, "token before the first sentence: <s>")
    separator_token: Optional[int] = setting(2, "token before the second sentence: </s>")
    unordered: bool = setting(False, "the order of the sentences in a pair has no meaning")
    both_orders: bool = setting(False, "train on unordered pairs in both orders, as ELECTRA's fine-tuning does")
    regression_target: bool = II("criterion.regression_target")
    classification_head_name: str = II("criterion.classification_head_name")
    frozen_layers: int = setting(0, "number of first layers to freeze, with embeddings and position terms; 0: nothing")
    label_scale: Optional[float] = setting(None, "regression label that an output of 1 stands for; set by training")
    labels_sha256: Optional[str] = setting(None, "checksum of the classes; set by training")
    seed: int = II("common.seed")


@register_task("tupe_sentence_prediction", dataclass=TupeSentencePredictionConfig)
class TupeSentencePredictionTask(SentencePredictionTask):
    """fairseq's `sentence_prediction`, with `<s> a </s> </s> b </s>` as input, cut so that both sentences stay.

    Once the task has built a model with `pair_separators` 1, its input is `<s> a </s> b </s>`.
    """

    pair_separators = 2

    def build_model(self, cfg: FairseqDataclass, from_checkpoint: bool = False) -> nn.Module:
        """Build the model with its classification head, and store its number of separators."""
        model = super().build_model(cfg, from_checkpoint)
        self.pair_separators = getattr(cfg, "pair_separators", 2)
        self.cfg.max_positions = cfg.max_positions
        if self.cfg.frozen_layers:
            model.freeze_layers(self.cfg.frozen_layers)
        return model

    def before_training(self, cfg: DictConfig) -> None:
        """Record the longest sequence and the scale of the labels in checkpoints."""
        cfg.task.max_positions = self.cfg.max_positions
        if self.cfg.regression_target and Path(self.cfg.data, MANIFEST).is_file():
            cfg.task.label_scale = prepared_task(Path(self.cfg.data)).scale

    def load_dataset(self, split: str, combine: bool = False, **kwargs: object) -> FairseqDataset:
        """Load a split: `train`, shuffled by the seed, or `valid`, `valid1`, ..., in order of length.

        If `combine`, `SPLIT1`, `SPLIT2`, ... are appended to it.
        """
        sides = ["input0", "input1"] if os.path.isdir(os.path.join(self.cfg.data, "input1")) else ["input0"]
        sentences = [self._read(side, split, combine) for side in sides]
        labels = self.targets(split, combine)
        # fairseq would silently join texts and labels of different lengths, and score texts by the wrong labels
        assert {len(part) for part in sentences} == {len(labels)}, f"the files of {split} differ in number of rows"
        if self.cfg.both_orders and self.cfg.unordered and len(sides) == 2 and split == "train":
            sentences = [ConcatDataset(sentences), ConcatDataset(sentences[::-1])]
            labels = [*labels, *labels]
        tokens = self.joined(sentences)
        order = tokens.sizes
        if split == "train":
            with data_utils.numpy_seed(self.cfg.seed):
                order = np.random.permutation(len(tokens))
        examples = {
            "id": IdDataset(),
            "net_input": {
                "src_tokens": RightPadDataset(tokens, pad_idx=self.source_dictionary.pad()),
                "src_lengths": NumelDataset(tokens),
            },
            "nsentences": NumSamplesDataset(),
            "ntokens": NumelDataset(tokens, reduce=True),
            "target": RawLabelDataset(labels),
        }
        dataset = SortDataset(Batches(examples, [tokens.sizes], self.source_dictionary), sort_order=[order])
        self.datasets[split] = dataset
        return dataset

    def joined(self, sentences: Sequence[Sequence[Tensor]]) -> "JoinedSentences":
        """Join the one or two texts of each example as the model reads them."""
        separator = self.cfg.separator_token if self.pair_separators == 2 else None
        return JoinedSentences(sentences, [self.cfg.init_token, separator], self.cfg.max_positions)

    def _read(self, folder: str, split: str, combine: bool) -> Sequence[Tensor]:
        path = os.path.join(self.cfg.data, folder, split)
        dictionary = self.label_dictionary if folder == "label" else self.source_dictionary
        data = data_utils.load_indexed_dataset(path, dictionary, combine=combine)
        if data is None:
            raise FileNotFoundError(f"{path}.idx")
        return data

    def targets(self, split: str, combine: bool = False) -> Sequence:
        """Read the class of every example, `0 .. num_classes - 1`, or its number.

        Numbers are float64, which fairseq does not convert to half precision.
        """
        if self.cfg.regression_target:
            return np.loadtxt(os.path.join(self.cfg.data, "label", f"{split}.label"), ndmin=1)
        first = self.label_dictionary.nspecial
        return [int(item[0]) - first for item in self._read("label", split, combine)]

    def metrics(self, scores: Tensor, targets: Sequence) -> dict[str, float]:
        """Compute the metrics of the scores `(N, num_classes)` of all examples, with the criterion's names, up to 1."""
        if self.cfg.regression_target:
            numbers = scores.flatten().double().numpy(), targets
            return {name: metric(*numbers) for name, metric in REGRESSION_METRICS.items()}
        counts = class_counts(torch.tensor(targets), scores.argmax(1), self.cfg.num_classes, self.label_dictionary)
        return {name: metric(counts.tolist()) for name, metric in class_metrics(self.cfg.num_classes).items()}


class JoinedSentences(Sized):
    """`<s> a </s>`, or `<s> a </s> </s> b </s>`, in at most `max_positions` tokens.

    Sentences that are too long lose tokens at their end, the longer one first; the special tokens stay.

    Args:
        sentences: one or two sequences of examples; each example is tokens and a final `</s>`.
        before: the token before each sentence, or None.
        max_positions: maximum number of tokens.
    """

    def __init__(
        self, sentences: Sequence[Sequence[Tensor]], before: Sequence[Optional[int]], max_positions: int
    ) -> None:
        super().__init__()
        self.sentences = sentences
        self.before = [torch.tensor([] if token is None else [token], dtype=torch.long) for token in before]
        special = sum(len(token) + 1 for token, _ in zip(self.before, sentences))
        room = max_positions - special
        words = [np.asarray(side.sizes) - 1 for side in sentences]
        self.kept = share(room, *words) if len(words) == 2 else (np.minimum(words[0], room),)
        self.sizes = sum(self.kept) + special

    def __getitem__(self, index: int) -> Tensor:
        parts = []
        for token, side, kept in zip(self.before, self.sentences, self.kept):
            parts += [token, side[index][: kept[index]], side[index][-1:]]
        return torch.cat(parts)


def share(room: int, first: np.ndarray, second: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return how many tokens two sentences keep in `room`: the longer is cut first, or the second if they are equal."""
    kept = np.minimum(first, np.maximum(room - second, (room + 1) // 2))
    return kept, np.minimum(second, room - kept)
