"""Extractive question answering: predict the span of a context that answers a question (`tupe prepare-qa`)."""

# No `from __future__ import annotations`: fairseq and omegaconf read the types of the fields.
from dataclasses import dataclass
from pathlib import Path
from typing import Optional

from fairseq.data import Dictionary, FairseqDataset
from fairseq.dataclass import ChoiceEnum, FairseqDataclass
from fairseq.logging import metrics
from fairseq.tasks import FairseqTask, register_task
from omegaconf import II, MISSING, DictConfig
from torch import nn

from tupe.criterions.metrics import ExamplesMeter, log_examples
from tupe.data.questions import score
from tupe.data.windows import SPECIAL, QuestionWindows, Span
from tupe.patches.checkpoints import read_dictionary
from tupe.systems import setting

WITHOUT_ANSWER_CHOICES = ChoiceEnum(["bos", "drop"])
SCORES = ("exact_match", "f1")


@dataclass
class TupeQuestionAnsweringConfig(FairseqDataclass):
    data: str = setting(MISSING, "folder made by tupe prepare-qa")
    max_positions: Optional[int] = setting(512, "maximum number of tokens of a window; null: the model's")
    doc_stride: int = setting(128, "tokens from the start of a window to the next one's (not their overlap)")
    max_query: int = setting(64, "maximum number of tokens of a question; the rest is cut")
    max_answer: int = setting(30, "maximum number of tokens of a predicted answer")
    windows_without_answer: WITHOUT_ANSWER_CHOICES = setting(
        "bos", "training windows without the answer: predict <s> (bos), or leave them out (drop)"
    )
    seed: int = II("common.seed")


@register_task("tupe_question_answering", dataclass=TupeQuestionAnsweringConfig)
class TupeQuestionAnsweringTask(FairseqTask):
    """`<s> question </s> </s> context </s>`, in windows where the context is too long.

    Once the task has built a model with `pair_separators` 1, its input is `<s> question </s> context </s>`.
    """

    pair_separators = 2

    def __init__(self, cfg: TupeQuestionAnsweringConfig, dictionary: Dictionary) -> None:
        super().__init__(cfg)
        self.dictionary = dictionary
        #: The splits by number; the criterion logs the number of the split with each prediction.
        self.numbered: list[QuestionWindows] = []

    @classmethod
    def setup_task(cls, cfg: TupeQuestionAnsweringConfig, **kwargs: object) -> "TupeQuestionAnsweringTask":
        return cls(cfg, read_dictionary(Path(cfg.data, "dict.txt")))

    def load_dataset(self, split: str, combine: bool = False, **kwargs: object) -> FairseqDataset:
        """Load a split: `train`, `valid`, `valid1`, `test-de`, ..."""
        folder = Path(self.cfg.data, split)
        windows = QuestionWindows(folder, self.dictionary, self.cfg, len(self.numbered), self.pair_separators)
        self.datasets[split] = windows
        self.numbered.append(windows)
        return windows

    def build_model(self, cfg: FairseqDataclass, from_checkpoint: bool = False) -> nn.Module:
        """Return the model for windows of `max_positions`, with a span head."""
        cfg.max_positions = self.cfg.max_positions
        model = super().build_model(cfg, from_checkpoint)
        self.pair_separators = getattr(cfg, "pair_separators", 2)
        self.cfg.max_positions = cfg.max_positions
        room = self.cfg.max_positions - self.cfg.max_query - SPECIAL
        assert 0 < self.cfg.doc_stride <= room, f"doc_stride must be from 1 to {room}, got {self.cfg.doc_stride}"
        model.register_span_head()
        return model

    def before_training(self, cfg: DictConfig) -> None:
        """Record the longest window in checkpoints."""
        cfg.task.max_positions = self.cfg.max_positions

    def reduce_metrics(self, logging_outputs: list[dict], criterion: nn.Module) -> None:
        """Log the criterion's values, and in validation exact match and F1."""
        super().reduce_metrics(logging_outputs, criterion)
        if log_examples(logging_outputs):
            for name in SCORES:
                metrics.log_derived(name, lambda meters, name=name: self.percent(meters["_examples"])[name])

    def percent(self, meter: ExamplesMeter) -> dict[str, float]:
        """Compute exact match and F1 over the questions of a split, for the best answer in all windows of each."""
        nothing = dict.fromkeys(SCORES, 0.0)
        if not meter.examples:
            return nothing
        windows, (split, *spans) = sorted(meter.examples), meter.arrays(4)
        data = self.numbered[int(split[0])]
        spans = (Span(best, int(first), int(last)) for best, first, last in zip(*spans))
        return nothing | score(data.paragraphs, data.answers(dict(zip(windows, spans))), data.tokens)

    def max_positions(self) -> int:
        return self.cfg.max_positions

    @property
    def source_dictionary(self) -> Dictionary:
        return self.dictionary

    target_dictionary = source_dictionary
