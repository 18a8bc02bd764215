"""A model of another library: the fields of our configuration, its weights under our names, and checks of both."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from tupe.checkpoints.foreign.names import DISTANCES, ENCODER, HEAD, LM_HEAD, OUTPUT, POOLER, POSITIONS, SEGMENTS, WORDS
from tupe.errors import UserError
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

    def check(self) -> None:
        """Compare the configuration with the shapes of the weights, so that nothing is built that does not fit.

        Raises:
            UserError: for weights that are not finite, or not floating-point, missing, or of another size.
        """
        for name, tensor in self.weights.items():
            if not tensor.is_floating_point():
                raise UserError(
                    f"{self.path}: {name} holds {tensor.dtype}, not floating-point numbers: give the weights as they "
                    "were before they were quantised"
                )
            self.weights[name] = tensor.float()
        self.head = {name: tensor.float() for name, tensor in self.head.items()}
        f = self.fields
        width, ffn, narrow = f["encoder_embed_dim"], f["encoder_ffn_embed_dim"], f.get("embedding_dim", 0)
        table = narrow or width
        wanted = {WORDS: (self.symbols, table)}
        if f["absolute"] == "input":
            wanted[POSITIONS] = (f["max_positions"], table)
        if SEGMENTS in self.weights:
            wanted[SEGMENTS] = (2, table)
        if self.head:
            out = self.head.get("out_proj.weight")
            classes = max(1, len(out)) if out is not None and out.ndim else 1
            wanted |= {f"{HEAD}out_proj.weight": (classes, width), f"{HEAD}out_proj.bias": (classes,)}
        held = {**self.weights, **{HEAD + name: tensor for name, tensor in self.head.items()}}
        for part in (HEAD, POOLER):
            if any(name.startswith(part) for name in held):
                wanted |= {f"{part}dense.weight": (width, width), f"{part}dense.bias": (width,)}
        if f["relative"] == "deberta":
            wanted[DISTANCES] = (2 * (f["relative_buckets"] or f["relative_max_distance"]), width)
        for layer in range(self.layers):
            of = f"{ENCODER}layers.{layer}."
            wanted[f"{of}self_attn.qkv_proj.weight"] = (3 * width, width)
            wanted[f"{of}fc1.weight"] = (ffn, width)
        for name, shape in wanted.items():
            found = tuple(held[name].shape) if name in held else None
            if found != shape:
                raise UserError(
                    f"{self.path} says that {name} has the shape {shape}, but the weights have {found or 'none'}: give "
                    "files that belong together"
                )
        if f["max_positions"] < 1:
            raise UserError(f"{self.path}: the weights have positions for no word: give files that belong together")
        if self.layers != f["encoder_layers"]:
            raise UserError(
                f"{self.path} names {f['encoder_layers']} layers, but the weights have {self.layers}: give files that "
                "belong together"
            )
        if f["encoder_attention_heads"] < 1 or width % f["encoder_attention_heads"]:
            raise UserError(f"{self.path}: {f['encoder_attention_heads']} heads do not divide the width {width}")

    @property
    def layers(self) -> int:
        """How many layers the weights have."""
        begin = f"{ENCODER}layers."
        return len({name[len(begin) :].partition(".")[0] for name in self.weights if name.startswith(begin)})

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
        if output is not None and output.shape != self.weights[WORDS].shape:
            raise UserError(
                f"{self.path}: the output embeddings are {tuple(output.shape)}, the input's "
                f"{tuple(self.weights[WORDS].shape)}: give files that belong together"
            )
        if output is not None and not torch.equal(output, self.weights[WORDS]):
            self.weights[OUTPUT] = output
            self.fields["untie_weights_roberta"] = True

    def split_head(self, name: str | None, pooler: bool) -> None:
        """Keep the classification head if it is asked for by a `name`, and the pooler if that is asked for.

        Raises:
            UserError: if what is asked for is not there.
        """
        head = {key[len(HEAD) :]: self.weights.pop(key) for key in [*self.weights] if key.startswith(HEAD)}
        pooled = {key: self.weights.pop(key) for key in [*self.weights] if key.startswith(POOLER)}
        if name is not None and not head:
            raise UserError(f"{self.path.parent} has no classification head for --head {name}: leave it out")
        if pooler and not pooled and head:
            pooled = {POOLER + key: tensor for key, tensor in head.items() if key.startswith("dense.")}
        if pooler and not pooled:
            raise UserError(f"{self.path.parent} has no pooler: leave out --pooler")
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
