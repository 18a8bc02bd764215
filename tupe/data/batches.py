"""Batches of examples, with the numbers that a criterion needs on the host.

Reading such a number from a GPU would mean waiting for the GPU.
"""

from typing import Any

import numpy as np
import torch
from fairseq.data import Dictionary, FairseqDataset, NestedDictionaryDataset
from torch import Tensor


class Sized(FairseqDataset):
    """Examples with `sizes` tokens."""

    sizes: np.ndarray

    def __len__(self) -> int:
        return len(self.sizes)

    def num_tokens(self, index: int) -> int:
        return self.sizes[index]

    size = num_tokens


class Batches(NestedDictionaryDataset):
    """fairseq's batches of examples with `sizes` tokens. Each has `pairs`: whether any sequence has two segments."""

    def __init__(self, entries: dict[str, Any], sizes: Any, dictionary: Dictionary) -> None:
        super().__init__(entries, sizes)
        self.dictionary = dictionary

    def collater(self, samples: list[dict[str, Any]]) -> dict[str, Any]:
        """Return the batch of `samples`, which is empty if there are none."""
        batch = super().collater(samples)
        if batch:
            batch["pairs"] = has_pairs(self.original(batch), self.dictionary)
        return batch

    def original(self, batch: dict[str, Any]) -> Tensor:
        """Return the tokens `(B, T)` whose separators decide `pairs`."""
        return batch["net_input"]["src_tokens"]


class MaskedBatches(Batches):
    """Batches of a masked language model, whose `target` `(B, T)` is padding where nothing was masked.

    Each also has `ids`, the examples' numbers as a list; `masked_tokens`, the indices `(N,)` of the masked tokens
    among the `B * T`; and `masked_words`, the indices `(M,)` of those that are neither `<s>` nor `</s>`.
    """

    def collater(self, samples: list[dict[str, Any]]) -> dict[str, Any]:
        """Return the batch of `samples`, which is empty if there are none."""
        batch = super().collater(samples)
        if batch:
            target = batch["target"].flatten()
            masked = target.ne(self.dictionary.pad()).nonzero().flatten()
            word = target[masked].ne(self.dictionary.bos()) & target[masked].ne(self.dictionary.eos())
            batch.update(ids=batch["id"].tolist(), masked_tokens=masked, masked_words=masked[word])
        return batch

    def original(self, batch: dict[str, Any]) -> Tensor:
        """Return the tokens `(B, T)` before masking, because a mask can hide a separator."""
        target = batch["target"]
        return torch.where(target.ne(self.dictionary.pad()), target, batch["net_input"]["src_tokens"])


def host_counts(batch: dict[str, Any]) -> dict[str, Any]:
    """Return `num_tokens` and, if the batch has it, `pairs`, so that a model does not wait for the device."""
    return {"num_tokens": batch["ntokens"], "pairs": batch.get("pairs")}


def has_pairs(tokens: Tensor, dictionary: Dictionary) -> bool:
    """Return whether any sequence of `tokens` `(B, T)` has two segments: two separators that follow each other."""
    separator = tokens.eq(dictionary.eos())
    return bool((separator[:, :-1] & separator[:, 1:]).any())
