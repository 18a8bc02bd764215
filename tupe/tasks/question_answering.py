"""Extractive question answering: which span of a context answers a question, on folders of `tupe prepare-qa`."""

# No `from __future__ import annotations`: fairseq and omegaconf read the types of the fields.
from dataclasses import dataclass
from pathlib import Path

from fairseq.data import FairseqDataset
from fairseq.dataclass import ChoiceEnum, FairseqDataclass
from fairseq.tasks import register_task
from omegaconf import II, MISSING
from torch import nn

from tupe.criterions.metrics import ExamplesMeter
from tupe.data.length_order import LENGTH_WINDOW
from tupe.data.qa.dataset import SPECIAL, QuestionWindows
from tupe.errors import UserError
from tupe.fairseq_patches.checkpoints import read_dictionary
from tupe.systems import setting
from tupe.tasks.windows import WindowTask

WITHOUT_ANSWER_CHOICES = ChoiceEnum(["bos", "drop"])


@dataclass
class TupeQuestionAnsweringConfig(FairseqDataclass):
    data: str = setting(MISSING, "folder made by tupe prepare-qa")
    max_positions: int = setting(512, "tokens of a window at most")
    doc_stride: int = setting(128, "tokens from the start of a window to the next one's (not their overlap)")
    max_query: int = setting(64, "tokens of a question at most; the rest is cut")
    max_answer: int = setting(30, "tokens of a predicted answer at most")
    windows_without_answer: WITHOUT_ANSWER_CHOICES = setting(
        "bos", "in training: their answer is <s> (bos), or they are left out (drop)"
    )
    length_window: int = setting(0, LENGTH_WINDOW)
    seed: int = II("common.seed")


@register_task("tupe_question_answering", dataclass=TupeQuestionAnsweringConfig)
class TupeQuestionAnsweringTask(WindowTask):
    """`<s> question </s> </s> context </s>`, in windows where the context is too long.

    A model with `pair_separators` 1 reads `<s> question </s> context </s>`, from the time when the task builds it.
    """

    head = "span_head"
    scores = ("exact_match", "f1")
    pair_separators = 2

    @classmethod
    def setup_task(cls, cfg: TupeQuestionAnsweringConfig, **kwargs: object) -> "TupeQuestionAnsweringTask":
        """Raise `UserError` for settings that leave no room for a context, and for a folder that was not prepared."""
        room = cfg.max_positions - cfg.max_query - SPECIAL
        if cfg.max_query < 1 or room < 1:
            longest = cfg.max_positions - SPECIAL - 1
            query = f"set --max-query (task.max_query) to a number from 1 to {longest}"
            raise UserError(
                f"max_positions is {cfg.max_positions}, but {SPECIAL} special tokens, a question of {cfg.max_query} "
                f"tokens and a context need more: {query if longest > 0 else 'take a model with more positions'}"
            )
        if not 0 < cfg.doc_stride <= room:
            raise UserError(
                f"doc_stride is {cfg.doc_stride}, but a window has {room} tokens of the context: set --doc-stride "
                f"(task.doc_stride) to a number from 1 to {room}, so that none is left out"
            )
        return cls(cfg, read_dictionary(Path(cfg.data, "dict.txt")))

    def load_dataset(self, split: str, combine: bool = False, **kwargs: object) -> FairseqDataset:
        """Load a split: `train`, `valid`, `valid1`, `test-de`, ..."""
        folder = Path(self.cfg.data, split)
        if not folder.is_dir():
            raise UserError(f"there is no split {split} in {folder.parent.resolve()}: make it with tupe prepare-qa")
        number = len(self.numbered)
        return self.keep(split, QuestionWindows(folder, self.dictionary, self.cfg, number, self.pair_separators))

    def build_model(self, cfg: FairseqDataclass, from_checkpoint: bool = False) -> nn.Module:
        """Return the model, with a span head. Raise `UserError` for a model that cannot have one."""
        self.pair_separators = getattr(cfg, "pair_separators", 2)
        model = super().build_model(cfg, from_checkpoint)
        model.register_span_head()
        return model

    def percent(self, meter: ExamplesMeter) -> dict[str, float]:
        """Compute exact match and F1 of each question's best answer in all its windows, of all questions of a split."""
        if not meter.examples:
            return dict.fromkeys(self.scores, 0.0)
        windows, (split, score, first, last) = sorted(meter.examples), meter.arrays(4)
        data = self.numbered[int(split[0])]
        best: dict[int, int] = {}
        for row, question in enumerate(data.question_of(windows).tolist()):
            if question not in best or score[row] > score[best[question]]:
                best[question] = row
        found = [
            data.scores(question, data.text(windows[row], int(first[row]), int(last[row])))
            for question, row in best.items()
        ]
        return {name: 100 * float(sum(values)) / len(data.questions) for name, values in zip(self.scores, zip(*found))}
