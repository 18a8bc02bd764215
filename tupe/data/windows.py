"""Windows of contexts that are too long for a model: the dataset, each piece's best window, and the best answers."""

from collections.abc import Mapping
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from fairseq.data import Dictionary, data_utils
from fairseq.data.indexed_dataset import MMapIndexedDataset

from tupe.data.batches import Sized
from tupe.data.manifest import REPORT
from tupe.data.questions import EXAMPLES, QUESTIONS, read
from tupe.data.scores import tokens
from tupe.util import read_json

SPECIAL = 4  # at most: <s> question </s> </s> context </s>


def windows(tokens: np.ndarray, capacity: np.ndarray, stride: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the windows of many contexts: they start at `0, stride, 2 stride, ...`, and the last one reaches the end.

    Args:
        tokens: number of tokens of each context, `(N,)`.
        capacity: largest number of tokens of a window of each context, `(N,)`; at least `stride`.
        stride: tokens from the start of one window to the next.

    Returns:
        For each window its context's place in `tokens`, its first piece, and its number of pieces: `(W,)` each.
    """
    number = 1 + -(-np.maximum(tokens - capacity, 0) // stride)
    context = np.repeat(np.arange(len(tokens)), number)
    start = stride * (np.arange(len(context)) - np.repeat(np.cumsum(number) - number, number))
    return context, start, np.minimum(capacity[context], tokens[context] - start)


@lru_cache(maxsize=1 << 14)
def maximum_context(tokens: int, capacity: int, stride: int) -> np.ndarray:
    """Mark the window in which a token may start an answer: that with the largest `min(left, right) + 0.01 length`.

    `left` and `right` are the tokens before and after it in a window (Devlin et al., 2019, run_squad.py); among equal
    windows, the first is taken.

    Returns:
        Bool `(windows, capacity)`: whether an answer may start at a place of a window.
    """
    _, starts, lengths = windows(np.array([tokens]), np.array([capacity]), stride)

    piece = np.arange(tokens)
    place, length = piece - starts[:, None], lengths[:, None]  # (windows, tokens)
    around = np.minimum(place, length - 1 - place) + 0.01 * length
    around[(place < 0) | (place >= length)] = -1

    best = around.argmax(0)  # (tokens,)
    may_begin = np.zeros((len(starts), capacity), dtype=bool)
    may_begin[best, piece - starts[best]] = True
    return may_begin


class Span(NamedTuple):
    """An answer in a window: the sum of the two scores, and its first and last place there."""

    score: float
    first: int
    last: int


def best_span(
    first: np.ndarray, last: np.ndarray, may_begin: np.ndarray, may_end: np.ndarray, longest: int
) -> Span | None:
    """Return the best span of a window; among equal ones, the one that begins, then ends first.

    All spans are compared. The official code compares the 20 best first and last places, which may give no pair in
    order. `first` and `last` are the scores `(T,)` of a span's first and last place, float32; `may_begin` and `may_end`
    mark where it may start and end, bool `(T,)`. A span has at most `longest` places.
    """
    begins = np.flatnonzero(may_begin)
    ends = np.minimum(begins[:, None] + np.arange(min(longest, len(last))), len(last) - 1)  # (S, L)
    scores = np.where(may_end[ends], first[begins, None] + last[ends], -np.inf)
    best = np.unravel_index(scores.argmax(), scores.shape) if scores.size else None
    if best is None or scores[best] == -np.inf:
        return None
    return Span(float(scores[best]), int(begins[best[0]]), int(ends[best]))


class QuestionWindows(Sized):
    """`<s> question </s> </s> window </s>` with the places of the answer, `<s>` where the window lacks it.

    `tupe prepare-qa` made the split's `folder`. `cfg` has `max_positions`, `max_query`, `doc_stride`,
    `windows_without_answer` and `seed`. One or two `separators` are between question and context.
    `split_number` distinguishes the split from the others of its task.
    """

    def __init__(
        self, folder: Path, dictionary: Dictionary, cfg: Any, split_number: int = 0, separators: int = 2
    ) -> None:
        super().__init__()
        self.name, self.training, self.split_number = folder.name, folder.name == "train", split_number
        self._cfg, self._dictionary = cfg, dictionary
        self._folder, self._separators = folder, separators
        report = read_json(folder / REPORT)
        self.tokens = tokens(report["rules"], report["language"])

        files = (MMapIndexedDataset(str(folder / name)) for name in ("context", "question", "begin", "end"))
        self._context, self._question, self._begins, self._ends = files
        examples = np.load(folder / EXAMPLES, allow_pickle=False)
        self.number, self._place, *target = examples.T  # numbers of the question and paragraph in the file

        special = 2 + separators
        self._question_lengths = np.minimum(self._question.sizes, cfg.max_query)
        self._capacity = cfg.max_positions - special - self._question_lengths
        self._example, self._start, self._length = windows(
            self._context.sizes[self._place], self._capacity, cfg.doc_stride
        )
        first, last = (side[self._example] - self._start for side in target)
        whole = (first >= 0) & (last < self._length)  # -1 without an answer
        self._target = np.where(whole, [first, last], -1).T  # (W, 2): pieces of the window

        if self.training and str(cfg.windows_without_answer) == "drop":
            for name in ("_example", "_start", "_length", "_target"):
                setattr(self, name, getattr(self, name)[whole])
        self.sizes = special + self._question_lengths[self._example] + self._length

    def __getitem__(self, index: int) -> dict[str, Any]:
        """Return a window: its tokens, the places of the answer, and in evaluation where an answer may be."""
        example, begin = self._example[index], self._begin(index)
        start, length, place = self._start[index], self._length[index], self._place[example]

        bos, eos = torch.tensor([self._dictionary.bos()]), torch.tensor([self._dictionary.eos()])
        question = self._question[example][: self._question_lengths[example]].long()
        window = self._context[place][start : start + length].long()
        item = {
            "id": index,
            "source": torch.cat([bos, question, *[eos] * self._separators, window, eos]),
            "target": self._target[index] + begin if self._target[index][0] >= 0 else np.zeros(2, dtype=np.int64),
        }
        if not self.training:
            stride = self._cfg.doc_stride
            may_begin = maximum_context(int(self._context.sizes[place]), int(self._capacity[example]), stride)
            filled = (self._begins[place] < self._ends[place]).numpy()[start : start + length]
            item["may_begin"] = np.flatnonzero(may_begin[start // stride][:length] & filled) + begin
            item["context"] = (int(begin), int(begin + length))
        return item

    def _begin(self, index: int) -> int:
        """Return the start of the context in a window."""
        return int(self._question_lengths[self._example[index]]) + self._separators + 1

    def ordered_indices(self) -> np.ndarray:
        """Order windows at random in training, by the seed; otherwise by length, so that there is little padding."""
        if not self.training:
            return np.argsort(self.sizes, kind="stable")
        with data_utils.numpy_seed(self._cfg.seed):
            return np.random.permutation(len(self))

    def collater(self, samples: list[dict[str, Any]]) -> dict[str, Any]:
        """Return a batch. It is empty without samples, which happens if processes get unequal numbers of batches.

        In evaluation, `may_begin` and `may_end`, bool `(B, T)`, mark the places where answers may start and end.
        """
        if not samples:
            return {}
        sources = [sample["source"] for sample in samples]
        lengths = [len(source) for source in sources]
        tokens = data_utils.collate_tokens(sources, self._dictionary.pad())
        batch = {
            "id": torch.tensor([sample["id"] for sample in samples]),
            "net_input": {"src_tokens": tokens, "src_lengths": torch.tensor(lengths)},
            "nsentences": len(samples),
            "ntokens": sum(lengths),
            "pairs": True,
            "target": torch.from_numpy(np.stack([sample["target"] for sample in samples])),
        }
        if not self.training:
            batch["split"] = self.split_number
            batch["may_begin"], batch["may_end"] = torch.zeros(2, *tokens.shape, dtype=torch.bool)
            for row, sample in enumerate(samples):
                batch["may_begin"][row, sample["may_begin"]] = True
                batch["may_end"][row, slice(*sample["context"])] = True
        return batch

    @cached_property
    def paragraphs(self) -> list[dict[str, Any]]:
        """The paragraphs of the split's file, with their questions; read at the first access."""
        return read(self._folder / QUESTIONS)

    @cached_property
    def questions(self) -> list[dict[str, Any]]:
        """All questions of the split's file."""
        return [question for paragraph in self.paragraphs for question in paragraph["qas"]]

    def question_of(self, window: int) -> dict[str, Any]:
        """Return the question of a window."""
        return self.questions[self.number[self._example[window]]]

    def text(self, window: int, first: int, last: int) -> str:
        """Return the characters of the original context of tokens `first` to `last` of a window."""
        place = self._place[self._example[window]]
        context = self.paragraphs[place]["context"]

        shift = int(self._start[window]) - self._begin(window)
        begin, end = int(self._begins[place][first + shift]), int(self._ends[place][last + shift])
        return context[begin:end].strip()

    def answers(self, spans: Mapping[int, Span]) -> dict[str, str]:
        """Return the best answer to each question by id, from the windows' best spans; the first window wins ties."""
        texts = {}
        for window in sorted(spans, key=lambda window: (spans[window].score, -window)):  # the best comes last
            texts[self.question_of(window)["id"]] = self.text(window, *spans[window][1:])
        return texts
