"""Sentences whose words have labels as fairseq's dataset, in windows where they are too long for a model."""

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from fairseq.data import Dictionary, data_utils
from fairseq.data.indexed_dataset import MMapIndexedDataset

from tupe.data.binary import PAD, check_indexed
from tupe.data.glue.own import MADE_BY
from tupe.data.length_order import TextWindows
from tupe.data.qa.windows import maximum_context, windows
from tupe.errors import UserError, needing

SPECIAL = 2  # <s> and </s>
NO_LABEL = -100  # for tokens that begin no word, and for words with an unknown label


class LabelledWords(TextWindows):
    """`<s> window </s>` with the class of each word at its first token, in the window where it has most context.

    The folder `data` was made by `tupe prepare-task` of words. `labels` is the dictionary of the classes, and `cfg` has
    `max_positions`, `doc_stride`, `num_classes`, `length_window` and `seed`.

    Raises:
        UserError: if files are missing or damaged, or do not belong together.
    """

    def __init__(
        self, data: Path, split: str, dictionary: Dictionary, labels: Dictionary, cfg: Any, split_number: int = 0
    ) -> None:
        super().__init__(cfg, split, dictionary, split_number)
        self._nspecial = labels.nspecial
        most = labels.nspecial + cfg.num_classes
        prefixes = {data / "input0" / split: len(dictionary), data / "label" / split: most}
        for prefix, symbols in prefixes.items():
            check_indexed(prefix, MADE_BY, symbols=symbols)
        self._tokens, self._labels = (MMapIndexedDataset(str(prefix)) for prefix in prefixes)
        if not np.array_equal(self._tokens.sizes, self._labels.sizes):
            raise UserError(f"the labels of {split} in {data.resolve()} are not those of its words: prepare it again")
        pieces = self._tokens.sizes.astype(np.int64) - 1
        if not len(pieces):
            raise UserError(f"the split {split} in {data.resolve()} is empty: prepare it again")
        self._room = cfg.max_positions - SPECIAL
        self._stride = cfg.doc_stride or max(1, self._room // 2)
        self._sentence, self._start, self._length = windows(pieces, np.full(len(pieces), self._room), self._stride)
        self._begin = np.cumsum(pieces) - pieces  # first token of each sentence among the tokens of all
        self.sizes = self._length + SPECIAL

    def __getitem__(self, index: int) -> dict[str, Any]:
        sentence, start, length = (int(of[index]) for of in (self._sentence, self._start, self._length))
        tokens = self._tokens[sentence][start : start + length].long()
        labels = self._labels[sentence][start : start + length].long()
        counts = maximum_context(int(self._tokens.sizes[sentence]) - 1, self._room, self._stride)
        word = labels.ne(PAD) & torch.from_numpy(counts[start // self._stride][:length])
        classes = labels - self._nspecial
        bos, eos = torch.tensor([self._dictionary.bos()]), torch.tensor([self._dictionary.eos()])
        return {
            "id": index,
            "source": torch.cat([bos, tokens, eos]),
            "target": F.pad(classes.masked_fill(~word | classes.lt(0), NO_LABEL), (1, 1), value=NO_LABEL),
            "word": F.pad(word, (1, 1)),
            "place": torch.arange(-1, length + 1) + int(self._begin[sentence]) + start,
        }

    def collater(self, samples: list[dict[str, Any]]) -> dict[str, Any]:
        """Return a batch; `word` `(B, T)` tells where words begin that count here, `place` their tokens among all."""
        batch = super().collater(samples)
        if not batch:
            return batch

        def joined(name: str, padding: int) -> torch.Tensor:
            return data_utils.collate_tokens([sample[name] for sample in samples], padding)

        target = joined("target", NO_LABEL)
        return {
            **batch,
            "pairs": False,
            "target": target,
            "words": int(target.ne(NO_LABEL).sum()),
            "word": joined("word", False),
            "place": joined("place", 0),
            "split": self.split_number,
        }

    def sentences(self) -> list[tuple[np.ndarray, np.ndarray]]:
        """Return for each sentence its words' places among the tokens of all, and their classes, -1 if unknown."""
        found = []
        for begin, item in zip(self._begin.tolist(), self._labels):
            labels = item.numpy()[:-1].astype(np.int64)
            first = np.flatnonzero(labels != PAD)
            classes = labels[first] - self._nspecial
            found.append((begin + first, np.maximum(classes, -1)))
        return found


def named(sentences: list[tuple[np.ndarray, np.ndarray]], predicted: dict[int, int], names: list[str]) -> Any:
    """Return the names of the known and of the predicted classes, a list for each sentence."""
    known = [[names[i] for i in classes] for _, classes in sentences]
    found = [[names[predicted[place]] for place in places.tolist()] for places, _ in sentences]
    return known, found


def check_entity_scores() -> None:
    """Raise a `UserError` if `entity_scores` would find no `seqeval`."""
    with needing("the F1 of entities", "tokens"):
        import seqeval  # noqa: F401


def entity_scores(known: list[list[str]], found: list[list[str]]) -> dict[str, float]:
    """Return the F1, the precision and the recall of whole entities by `seqeval`, between 0 and 1."""
    from seqeval.metrics import f1_score, precision_score, recall_score

    scores = {"f1": f1_score, "precision": precision_score, "recall": recall_score}
    return {name: float(score(known, found, zero_division=0)) for name, score in scores.items()}


def word_scores(known: list[list[str]], found: list[list[str]], entities: bool) -> dict[str, float]:
    """Return the share of words whose label is right, after the scores of entities where labels mark them."""
    pairs = [a == b for a, b in zip(itertools.chain(*known), itertools.chain(*found))]
    scores = entity_scores(known, found) if entities else {}
    return {**scores, "accuracy": sum(pairs) / len(pairs) if pairs else 0.0}
