"""A class for every word: entities, parts of speech. The folders are those of `tupe prepare-task`."""

# No `from __future__ import annotations`: fairseq and omegaconf read the types of the fields.
from dataclasses import dataclass
from pathlib import Path
from typing import Optional

import numpy as np
from fairseq.data import Dictionary, FairseqDataset
from fairseq.dataclass import FairseqDataclass
from fairseq.tasks import register_task
from omegaconf import II, MISSING
from torch import nn

from tupe.criterions.metrics import ExamplesMeter
from tupe.data.glue.own import MADE_BY
from tupe.data.length_order import LENGTH_WINDOW
from tupe.data.words import SPECIAL, LabelledWords, entity_scores, named
from tupe.errors import UserError
from tupe.fairseq_patches.checkpoints import read_dictionary
from tupe.files import check_file
from tupe.systems import setting
from tupe.tasks.sentence_prediction import FROZEN_LAYERS, freeze
from tupe.tasks.windows import WindowTask


@dataclass
class TupeTokenClassificationConfig(FairseqDataclass):
    data: str = setting(MISSING, "folder made by tupe prepare-task of words and labels")
    num_classes: int = setting(-1, "number of classes")
    max_positions: int = setting(512, "tokens of a window at most")
    doc_stride: Optional[int] = setting(
        None, "tokens from the start of a window to the next one's (default: half a window)"
    )
    length_window: int = setting(0, LENGTH_WINDOW)
    frozen_layers: int = setting(0, FROZEN_LAYERS)
    labels_sha256: Optional[str] = setting(None, "checksum of the classes; set by a training")
    seed: int = II("common.seed")


@register_task("tupe_token_classification", dataclass=TupeTokenClassificationConfig)
class TupeTokenClassificationTask(WindowTask):
    """`<s> sentence </s>`, in windows where it is too long; a word's class is read at its first token."""

    head = "token_head"
    scores = ("f1", "precision", "recall")

    def __init__(self, cfg: TupeTokenClassificationConfig, dictionary: Dictionary, labels: Dictionary) -> None:
        super().__init__(cfg, dictionary)
        self.label_dictionary = labels

    @classmethod
    def setup_task(cls, cfg: TupeTokenClassificationConfig, **kwargs: object) -> "TupeTokenClassificationTask":
        """Raise `UserError` for impossible windows, and for a folder without dictionaries or with other classes."""
        room = cfg.max_positions - SPECIAL
        if room < 1 or (cfg.doc_stride is not None and not 0 < cfg.doc_stride <= room):
            raise UserError(
                f"doc_stride is {cfg.doc_stride} and max_positions {cfg.max_positions}, but a window has "
                f"{max(room, 0)} tokens of a sentence: set --doc-stride (task.doc_stride) to a number up to that"
            )
        dictionary = read_dictionary(Path(cfg.data, "input0/dict.txt"))
        path = Path(cfg.data, "label/dict.txt")
        check_file(path, MADE_BY)
        labels = Dictionary.load(str(path))
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
        return self.keep(split, self._words(split))

    def _words(self, split: str) -> LabelledWords:
        data = Path(self.cfg.data)
        return LabelledWords(data, split, self.dictionary, self.label_dictionary, self.cfg, len(self.numbered))

    def build_model(self, cfg: FairseqDataclass, from_checkpoint: bool = False) -> nn.Module:
        """Return the model, with a token head. Raise `UserError` for a model that cannot have one."""
        model = super().build_model(cfg, from_checkpoint)
        model.register_token_head(self.cfg.num_classes)
        freeze(model, self.cfg.frozen_layers)
        return model

    def class_counts(self) -> tuple[list[int], int]:
        """Count how many words of the training data have each class, and how many words there are."""
        classes = np.concatenate([classes for _, classes in self._words("train").sentences()])
        counts = np.bincount(classes[classes >= 0], minlength=self.cfg.num_classes)
        return counts.tolist(), int(counts.sum())

    def percent(self, meter: ExamplesMeter) -> dict[str, float]:
        """Compute the scores of entities; 0 where the split was not validated whole, as before a training."""
        number = next(iter(meter.examples.values()))[0] if meter.examples else 0
        predicted = {place: int(values[1]) for place, values in meter.examples.items()}
        seen = [
            (places, classes)
            for places, classes in self.numbered[int(number)].sentences()
            if all(place in predicted for place in places.tolist()) and (classes >= 0).all()
        ]
        if not seen:
            return dict.fromkeys(self.scores, 0.0)
        return {name: 100 * value for name, value in entity_scores(*named(seen, predicted, self.classes)).items()}
