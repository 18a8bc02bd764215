"""A model of another library: fields and weights under this plugin's names, and its forward pass."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from tupe.checkpoints.foreign.names import LM_HEAD, OUTPUT, WORDS
from tupe.checkpoints.foreign.vocabulary import Tokenizer
from tupe.models.config import TupeConfig
from tupe.systems import SIZES, system_of


@dataclass
class Foreign:
    """The contents of a folder."""

    kind: str  # as messages and the manifest call it: `bert of Transformers`
    fields: dict[str, Any]  # of `TupeConfig`, with those of a system; other missing fields have their defaults
    weights: dict[str, Tensor]  # under this plugin's names, float32, in the rows of the original
    symbols: list[str]  # the vocabulary in this plugin's order
    rows: list[int]  # the original row of each symbol
    tokenizer: Tokenizer | None  # if it is requested
    # runs the original on tokens in its own numbers, the places that are not padding, and the segments if it has any;
    # returns `features`, and `logits` and the scores `head` if the original has these heads
    run: Callable[[Tensor, Tensor, Tensor | None], dict[str, Tensor]]
    left: list[str]  # parameters that are left behind
    head: dict[str, Tensor] = field(default_factory=dict)  # `dense.weight`, ... of the requested head
    classes: list[str] | None = None  # the names of the head's classes, if the folder has them

    def __post_init__(self) -> None:
        """Drop the output embeddings if they equal the input's, which many files store twice."""
        output = self.weights.pop(OUTPUT, None)
        if self.has_lm_head and output is not None and not torch.equal(output, self.weights[WORDS]):
            self.weights[OUTPUT] = output
            self.fields["untie_weights_roberta"] = True

    @property
    def name(self) -> str:
        """The name of the model with these fields, or of a similar one."""
        size = next((s for s, row in SIZES.items() if row.items() <= self.fields.items()), "base")
        near = "rope" if self.fields["rotary_dims"] else "bert_a"
        near = "deberta" if self.fields["relative"] == "deberta" else near
        return f"{system_of({**vars(TupeConfig()), **self.fields}) or near}_{size}"

    @property
    def has_lm_head(self) -> bool:
        """Whether it predicts tokens; an encoder without a head does not."""
        return LM_HEAD + "dense.weight" in self.weights
