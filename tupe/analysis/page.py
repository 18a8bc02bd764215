"""Write one HTML page on models (`tupe report`): equations, numbers, and the figures of `tupe plot` as inline SVG.

The page has no script and loads nothing.
"""

import html
from argparse import Namespace
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from torch import Tensor

from tupe.analysis.curves import TrainingLog, plot_training
from tupe.analysis.figure import Matrices, as_svg, heat_maps
from tupe.analysis.logits import correlation_maps, logit_ranks, plot_ranks
from tupe.analysis.position import has_correlation, position_maps, reset_maps, segment_maps, similarity_maps
from tupe.models.describe import describe
from tupe.models.tupe import TupeLanguageModelEncoder as Encoder
from tupe.systems import IN_LAYER
from tupe.util import atomic


class Maps(NamedTuple):
    """A figure of heat maps, for each model by itself."""

    text: str
    has: Callable[[Namespace], bool]  # whether the figure applies to a model with these fields
    draw: Callable[[Encoder, Any], Matrices]  # for a number of positions, `correlations` for tokens


FIGURES = {
    "position": Maps(
        "The position terms of the logits. A head is named by its attention if the content were constant.",
        has_correlation,
        position_maps,
    ),
    "reset": Maps(
        "The same terms before and after the reset of [CLS], which puts θ₁ in the first row, θ₂ in the first column.",
        lambda args: args.reset != "none" and has_correlation(args),
        reset_maps,
    ),
    "similarity": Maps(
        "The cosine of the learned vectors of two positions.",
        lambda args: args.absolute in ("input", "untied", "untied_cross", "low_rank", "low_rank_input"),
        similarity_maps,
    ),
    "segments": Maps(
        "The value that a head adds to the logit for each pair of segments of query and key.",
        lambda args: args.segment == "per_head",
        segment_maps,
    ),
    "correlations": Maps(
        "The parts of a logit of the first layer. There are four if positions are added to the content.",
        lambda args: not (args.attention_window or args.linformer_k or args.relative in IN_LAYER),
        correlation_maps,
    ),
}

_PAGE = """<!DOCTYPE html>
<html lang="en">
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; img-src data:">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>
body {{ font: 1rem/1.5 system-ui, sans-serif; color: #1c1d21; max-width: 84rem; margin: auto; padding: 1.5rem }}
p {{ max-width: 46rem }}
pre {{ white-space: pre-wrap }}
svg {{ max-width: 100%; height: auto; vertical-align: top }}
table {{ border-collapse: collapse; display: block; overflow-x: auto }}
td {{ padding: .3rem .8rem; border-bottom: 1px solid #ddd; vertical-align: top }}
td:first-child {{ white-space: nowrap }}
td:first-child, tr:first-child {{ font-weight: 600 }}
summary {{ font-size: 1.4rem; font-weight: 600; margin-top: 1.5rem; cursor: pointer }}
</style>
<h1>{title}</h1>
{sections}
</html>
"""


def write_page(
    output: str | Path,
    encoders: Sequence[Encoder],
    *,
    length: int = 128,
    texts: Sequence[Tensor] = (),
    logs: dict[str, TrainingLog] | None = None,
    against: str | None = None,
    tables: dict[str, tuple[str, Sequence[Sequence[str]]]] | None = None,
) -> None:
    """Write the page of encoders with different names.

    Args:
        length: number of positions that are shown; fewer where a model has fewer.
        texts: sequences of tokens for each encoder, for the correlations and ranks; encoders become float64.
        against: name of a run; the page shows when the others reach its final validation loss.
        tables: title -> the text above a table, and its rows, the first of which is the header.
    """
    sections = [_section("Models", "", "".join(map(_described, encoders)))]
    sections += [_section(title, text, _table(rows)) for title, (text, rows) in (tables or {}).items()]
    if logs:
        sections.append(_section("Pre-training", "", as_svg(plot_training(logs, against=against), "Pre-training")))
    lengths = [min(length, encoder.args.max_positions) for encoder in encoders]
    for name, figure in FIGURES.items():
        inputs = texts if name == "correlations" else lengths
        if inputs and any(figure.has(encoder.args) for encoder in encoders):
            sections.append(_drawn(name, figure, encoders, inputs))
    finite = [(encoder, tokens) for encoder, tokens in zip(encoders, texts) if not encoder.args.attention_window]
    if finite:
        ranks = {encoder.shown_as: logit_ranks(encoder, tokens) for encoder, tokens in finite}
        figure = plot_ranks(ranks, max(tokens.shape[1] for _, tokens in finite))
        text = "The rank of the logits in each layer. The dotted line is the number of positions."
        sections.append(_section("Ranks", text, as_svg(figure, "Ranks")))
    title = html.escape(" and ".join(encoder.shown_as for encoder in encoders))
    with atomic(Path(output), overwrite=True) as part:
        part.write_text(_PAGE.format(title=title, sections="\n".join(sections)), encoding="utf-8")


def _drawn(name: str, figure: Maps, encoders: Sequence[Encoder], shown: Sequence[Any]) -> str:
    """Draw a figure of the models side by side, on one scale of colors."""
    found = {
        encoder.shown_as: figure.draw(encoder, what)
        for encoder, what in zip(encoders, shown)
        if figure.has(encoder.args)
    }
    limit = max(maps.limit for maps in found.values())
    missing = [encoder.shown_as for encoder in encoders if encoder.shown_as not in found]
    text = f"{figure.text} Not in {', '.join(missing)}." if missing else figure.text
    return _section(name.capitalize(), text, "".join(as_svg(heat_maps(maps, limit), of) for of, maps in found.items()))


def _section(title: str, text: str, content: str) -> str:
    title, text = html.escape(title), html.escape(text)
    return f"<details open><summary>{title}</summary><p>{text}</p>{content}</details>"


def _table(rows: Sequence[Sequence[str]]) -> str:
    lines = ("".join(f"<td>{html.escape(cell)}</td>" for cell in row) for row in rows)
    return f"<table>{''.join(f'<tr>{line}</tr>' for line in lines)}</table>"


def _described(encoder: Encoder) -> str:
    lines = describe(encoder.args, encoder.sentence_encoder.embed_tokens.num_embeddings)
    return f"<pre>{html.escape(chr(10).join([encoder.shown_as, *lines]))}</pre>"
