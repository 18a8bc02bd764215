"""Compare the learnt vectors of two positions (DIET, figure 5), from BERT's table or from an untied one."""

from argparse import Namespace
from pathlib import Path

import torch
from torch import Tensor

from tupe.analysis.checkpoint import Checkpoint, open_encoder
from tupe.analysis.figure import Matrices, heat_maps, save_figure


def has_vectors(args: Namespace) -> bool:
    """Tell whether a system has vectors of positions."""
    return args.absolute in ("input", "untied", "untied_cross", "low_rank", "low_rank_input")


def position_similarity(checkpoint: Checkpoint) -> Matrices:
    """Compute `cos(p_i, p_j)` for every table of position vectors in a checkpoint, `(number of tables, n, n)`.

    For DIET-ABS the vectors are its factors, all heads side by side.
    """
    encoder = open_encoder(checkpoint)
    absolute = encoder.sentence_encoder.position_bias.absolute
    tables = {
        "added to the words": getattr(encoder.sentence_encoder.input_positions, "weight", None),
        "untied": getattr(getattr(absolute, "table", None), "weight", None),
    }
    for name in ("query", "key"):
        factor = getattr(absolute, name, None)  # (H, n, d_p)
        if isinstance(factor, Tensor) and factor.shape[1] == encoder.args.max_positions:  # not a Linformer's mixtures
            tables[f"low rank, {name}"] = factor.transpose(0, 1).flatten(1)
    found = {name: table.detach() for name, table in tables.items() if table is not None}
    unit = [torch.nn.functional.normalize(table, dim=1) for table in found.values()]
    return Matrices(torch.stack([table @ table.t() for table in unit]), list(found), encoder.shown_as)


def plot_similarity(similarity: Matrices, output: str | Path) -> None:
    """Draw one square for each table."""
    axes = ("position", "position")
    figure = heat_maps(similarity.values.numpy(), similarity.names, "cosine similarity", axes)
    save_figure(figure, output, f"Position vectors of {similarity.model}")
