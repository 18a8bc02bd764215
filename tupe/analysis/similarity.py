"""Compare the learnt vectors of two positions (DIET, figure 5), from BERT's table or from an untied one."""

from argparse import Namespace

import torch
import torch.nn.functional as F
from torch import Tensor

from tupe.analysis.figure import Matrices
from tupe.models.tupe import TupeLanguageModelEncoder


def has_vectors(args: Namespace) -> bool:
    """Tell whether a system has vectors of positions."""
    return args.absolute in ("input", "untied", "untied_cross", "low_rank", "low_rank_input")


@torch.no_grad()
def position_similarity(encoder: TupeLanguageModelEncoder, length: int | None = None) -> Matrices:
    """Compute `cos(p_i, p_j)` for every table of position vectors, `(number of tables, n, n)`.

    For DIET-ABS the vectors are its factors, all heads side by side.
    """
    absolute = encoder.sentence_encoder.position_bias.absolute
    tables = {
        "added to the words": getattr(encoder.sentence_encoder.input_positions, "weight", None),
        "untied": getattr(getattr(absolute, "table", None), "weight", None),
    }
    for name in ("query", "key"):
        factor = getattr(absolute, name, None)  # (H, n, d_p)
        if isinstance(factor, Tensor) and factor.shape[1] == encoder.args.max_positions:  # not a Linformer's mixtures
            tables[f"low rank, {name}"] = factor.transpose(0, 1).flatten(1)
    found = {name: F.normalize(table[:length], dim=1) for name, table in tables.items() if table is not None}
    cosines = torch.stack([unit @ unit.t() for unit in found.values()])
    title = f"Position vectors of {encoder.shown_as}"
    return Matrices(cosines, list(found), title, "cosine similarity", ("position", "position"))
