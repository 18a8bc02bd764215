"""Base of the tasks on texts that are cut into windows: question answering and token classification."""

import contextlib
from typing import ClassVar

from fairseq.data import Dictionary
from fairseq.dataclass import FairseqDataclass
from fairseq.logging import metrics
from omegaconf import OmegaConf, open_dict
from torch import nn

from tupe.criterions.metrics import ExamplesMeter
from tupe.criterions.sentence_prediction import logged_rows
from tupe.data.length_order import TextWindows
from tupe.errors import UserError
from tupe.fairseq_patches.task import TupeTask


class WindowTask(TupeTask):
    """A task whose model reads every position with `head`, and whose validation has `scores` of a whole split."""

    head: ClassVar[str]
    scores: ClassVar[tuple[str, ...]]

    def __init__(self, cfg: FairseqDataclass, dictionary: Dictionary) -> None:
        super().__init__(cfg)
        self.dictionary = dictionary
        #: The splits by their numbers, which the criterion logs with each prediction.
        self.numbered: list[TextWindows] = []

    def keep(self, split: str, windows: TextWindows) -> TextWindows:
        """Keep a loaded split under its name and its number, `len(self.numbered)` when it was made."""
        self.datasets[split] = windows
        self.numbered.append(windows)
        return windows

    def build_model(self, cfg: FairseqDataclass, from_checkpoint: bool = False) -> nn.Module:
        """Return a model for windows of `max_positions`. Raise `UserError` for one that cannot have the head."""
        with open_dict(cfg) if OmegaConf.is_config(cfg) else contextlib.nullcontext():
            cfg.max_positions = self.cfg.max_positions
        model = super().build_model(cfg, from_checkpoint)
        if not hasattr(model, f"register_{self.head}"):
            name = self.head.replace("_", " ")
            raise UserError(f"the model is a {type(model).__name__}, without a {name}: set --arch tupe_base or so")
        return model

    def reduce_metrics(self, logging_outputs: list[dict], criterion: nn.Module) -> None:
        """Log what the criterion does, and in validation the `scores`."""
        super().reduce_metrics(logging_outputs, criterion)
        rows = logged_rows(logging_outputs)
        if rows is not None:
            metrics.log_custom(ExamplesMeter, "_examples", rows)
            for name in self.scores:
                metrics.log_derived(name, lambda meters, name=name: self.percent(meters["_examples"])[name])

    def percent(self, meter: ExamplesMeter) -> dict[str, float]:
        """Compute the `scores` of what was logged, in percent."""
        raise NotImplementedError

    def max_positions(self) -> int:
        return self.cfg.max_positions

    @property
    def source_dictionary(self) -> Dictionary:
        return self.dictionary

    target_dictionary = source_dictionary
