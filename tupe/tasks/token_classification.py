"""A class for every word: entities, parts of speech. The folders are those of `tupe prepare-task`."""

# No `from __future__ import annotations`: fairseq and omegaconf read the types of the fields.
import contextlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Optional

import numpy as np
from fairseq.data import Dictionary, FairseqDataset
from fairseq.dataclass import FairseqDataclass
from fairseq.logging import metrics
from fairseq.tasks import register_task
from omegaconf import II, MISSING, OmegaConf, open_dict
from torch import nn

from tupe.criterions.metrics import ExamplesMeter, has_entities
from tupe.criterions.sentence_prediction import logged_rows
from tupe.data.glue.own import MADE_BY
from tupe.data.length_order import LENGTH_WINDOW, check_length_window
from tupe.data.words import SPECIAL, LabelledWords, entity_scores, named
from tupe.errors import UserError
from tupe.fairseq_patches.checkpoints import read_dictionary
from tupe.fairseq_patches.task import TupeTask
from tupe.tasks.sentence_prediction import FROZEN_LAYERS, freeze


@dataclass
class TupeTokenClassificationConfig(FairseqDataclass):
    data: str = field(default=MISSING, metadata={"help": "folder made by tupe prepare-task of words and labels"})
    num_classes: int = field(default=-1, metadata={"help": "number of classes"})
    max_positions: int = field(default=512, metadata={"help": "tokens of a window at most"})
    doc_stride: Optional[int] = field(
        default=None, metadata={"help": "tokens from the start of a window to the next one's (default: half a window)"}
    )
    length_window: int = field(default=0, metadata={"help": LENGTH_WINDOW})
    frozen_layers: int = field(default=0, metadata={"help": FROZEN_LAYERS})
    labels_sha256: Optional[str] = field(default=None, metadata={"help": "checksum of the classes; set by a training"})
    seed: int = II("common.seed")


@register_task("tupe_token_classification", dataclass=TupeTokenClassificationConfig)
class TupeTokenClassificationTask(TupeTask):
    """`<s> sentence </s>`, in windows where it is too long; a word's class is read at its first token."""

    def __init__(self, cfg: TupeTokenClassificationConfig, dictionary: Dictionary, labels: Dictionary) -> None:
        super().__init__(cfg)
        self.dictionary, self.label_dictionary = dictionary, labels
        self._numbered: list[LabelledWords] = []

    @classmethod
    def setup_task(cls, cfg: TupeTokenClassificationConfig, **kwargs: object) -> "TupeTokenClassificationTask":
        """Raise `UserError` for impossible windows, and for a folder without dictionaries or with other classes."""
        room = cfg.max_positions - SPECIAL
        if room < 1 or (cfg.doc_stride is not None and not 0 < cfg.doc_stride <= room):
            raise UserError(
                f"doc_stride is {cfg.doc_stride} and max_positions {cfg.max_positions}, but a window has "
                f"{max(room, 0)} tokens of a sentence: set --doc-stride (task.doc_stride) to a number up to that"
            )
        check_length_window(cfg)
        dictionary = read_dictionary(Path(cfg.data, "input0/dict.txt"), MADE_BY)
        labels = Dictionary.load(str(_existing(Path(cfg.data, "label/dict.txt"))))
        number = len(labels) - labels.nspecial
        if number != cfg.num_classes or number < 2:
            raise UserError(
                f"num_classes is {cfg.num_classes}, but {cfg.data}/label/dict.txt has {number} classes: set "
                "--num-classes (task.num_classes) to that"
            )
        return cls(cfg, dictionary, labels)

    @property
    def classes(self) -> list[str]:
        """The names of the classes by their numbers."""
        return self.label_dictionary.symbols[self.label_dictionary.nspecial :]

    def load_dataset(self, split: str, combine: bool = False, **kwargs: object) -> FairseqDataset:
        """Load a split: `train`, `valid` or `test`. Raise `UserError` for one that is missing or damaged."""
        data = Path(self.cfg.data)
        number = len(self._numbered)
        words = LabelledWords(data, split, self.dictionary, self.label_dictionary, self.cfg, number)
        self._numbered.append(words)
        self.datasets[split] = words
        return words

    def build_model(self, cfg: FairseqDataclass, from_checkpoint: bool = False) -> nn.Module:
        """Return the model, with a token head. Raise `UserError` for a model that cannot have one."""
        with open_dict(cfg) if OmegaConf.is_config(cfg) else contextlib.nullcontext():
            cfg.max_positions = self.cfg.max_positions
        model = super().build_model(cfg, from_checkpoint)
        if not hasattr(model, "register_token_head"):
            raise UserError(f"the model is a {type(model).__name__}, without a token head: set --arch tupe_base or so")
        model.register_token_head(self.cfg.num_classes)
        freeze(model, self.cfg.frozen_layers)
        return model

    def class_counts(self) -> tuple[list[int], int]:
        """Count how many words of the training data have each class, and how many words there are."""
        train = LabelledWords(Path(self.cfg.data), "train", self.dictionary, self.label_dictionary, self.cfg)
        classes = np.concatenate([classes for _, classes in train.sentences()])
        counts = np.bincount(classes[classes >= 0], minlength=self.cfg.num_classes)
        return counts.tolist(), int(counts.sum())

    def reduce_metrics(self, logging_outputs: list[dict], criterion: nn.Module) -> None:
        """Log what the criterion does, and in validation, of labels of entities, `f1`, `precision` and `recall`."""
        super().reduce_metrics(logging_outputs, criterion)
        rows = logged_rows(logging_outputs)
        if rows is None or not has_entities(self.classes):
            return
        metrics.log_custom(ExamplesMeter, "_examples", rows)
        for name in ("f1", "precision", "recall"):
            metrics.log_derived(name, lambda meters, name=name: self._scores(meters["_examples"])[name])

    def _scores(self, meter: ExamplesMeter) -> dict[str, float]:
        """Percent, of a whole split; 0 where it was not validated whole, as in the check before a training."""
        number = next(iter(meter.examples.values()))[0] if meter.examples else 0
        sentences = self._numbered[int(number)].sentences()
        predicted = {place: int(values[1]) for place, values in meter.examples.items()}
        seen = [
            one for one in sentences if all(place in predicted for place in one[0].tolist()) and (one[1] >= 0).all()
        ]
        if not seen:
            return dict.fromkeys(("f1", "precision", "recall"), 0.0)
        return {name: 100 * value for name, value in entity_scores(*named(seen, predicted, self.classes)).items()}

    def max_positions(self) -> int:
        return self.cfg.max_positions

    @property
    def source_dictionary(self) -> Dictionary:
        return self.dictionary

    @property
    def target_dictionary(self) -> Dictionary:
        return self.dictionary


def _existing(path: Path) -> Path:
    if not path.is_file():
        raise UserError(f"there is no {path}: give a folder that {MADE_BY} made of words and labels")
    return path
