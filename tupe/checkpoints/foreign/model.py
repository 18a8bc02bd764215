"""A model of another library: the fields of our configuration, and its weights under our names."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from tupe.checkpoints.foreign.names import HEAD, LM_HEAD, OUTPUT, POOLER, WORDS
from tupe.models.config import TupeConfig
from tupe.systems import SIZES, system_of

#: The fields of a BERT that are not the defaults of `TupeConfig`, which are TUPE's.
BERT = {
    "absolute": "input",
    "relative": "none",
    "reset": "none",
    "segment": "none",
    "pair_separators": 2,
    "load_checkpoint_heads": False,
}


@dataclass
class Foreign:
    """What a folder holds, before its symbols are put in our order."""

    kind: str  # as messages and the manifest call it: `bert of Transformers`
    path: Path  # of the file of the configuration, or of all
    fields: dict[str, Any]  # of `TupeConfig`; what is not there has its default
    weights: dict[str, Tensor]  # under our names, float32
    rows: int  # of the table of positions, those that are never used among them
    files: list[Path]  # that were read
    left: list[str]  # parameters that are left behind
    classes: list[str] | None = None  # the names of the classes of its classification head, if the folder says them
    head: dict[str, Tensor] = field(default_factory=dict)  # `dense.weight`, ... of the head that is asked for
    multi_label: bool = False  # whether the head gives an example any number of its classes

    @property
    def symbols(self) -> int:
        """The rows of the table of words."""
        return len(self.weights[WORDS])

    @property
    def name(self) -> str:
        """The model of ours: one whose size and system these fields are, or one of which some of them differ."""
        size = next((s for s, row in SIZES.items() if row.items() <= self.fields.items()), "base")
        system = system_of({**vars(TupeConfig()), **BERT, "linformer_k": 0, "sharing": "layer", **self.fields})
        near = "deberta" if self.fields["relative"] == "deberta" else "bert_a"
        return f"{system or near}_{size}"

    @property
    def has_lm_head(self) -> bool:
        """Whether it predicts words; an encoder alone does not."""
        return LM_HEAD + "dense.weight" in self.weights

    def tie(self) -> None:
        """Keep the output embeddings only where they are not the input's, which many files hold twice."""
        if not self.has_lm_head:
            for name in [name for name in self.weights if name.startswith(LM_HEAD)]:
                del self.weights[name]
            return
        output = self.weights.pop(OUTPUT, None)
        if output is not None and not torch.equal(output, self.weights[WORDS]):
            self.weights[OUTPUT] = output
            self.fields["untie_weights_roberta"] = True

    def split_head(self, name: str | None, pooler: bool) -> None:
        """Keep the classification head if it is asked for by a `name`, and the pooler if that is asked for."""
        head = {key[len(HEAD) :]: self.weights.pop(key) for key in [*self.weights] if key.startswith(HEAD)}
        pooled = {key: self.weights.pop(key) for key in [*self.weights] if key.startswith(POOLER)}
        if pooler and not pooled and head:
            pooled = {POOLER + key: tensor for key, tensor in head.items() if key.startswith("dense.")}
        if name is not None:
            self.head = head
        elif head:
            self.left.append("the classification head (--head NAME keeps it)")
        if pooler:
            self.weights.update(pooled)
        elif pooled:
            self.left.append("the pooler (--pooler keeps it, for the head of a task)")


def families(left: Iterable[str]) -> list[str]:
    """Shorten the names of parameters that are left behind to their first two parts, each once."""
    return list(dict.fromkeys(".".join(name.split(".")[:2]) if " " not in name else name for name in left))
