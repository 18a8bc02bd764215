"""Models as one HTML page (`tupe report`): equations, numbers, and the figures of `tupe plot` as inline SVG.

The page has no script and loads nothing.
"""

import html
from argparse import Namespace
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from torch import Tensor

from tupe.analysis.curves import TrainingLog, plot_training
from tupe.analysis.figure import Matrices, as_svg, heat_maps
from tupe.analysis.logits import correlation_maps, has_correlations, has_finite_logits, logit_ranks, plot_ranks
from tupe.analysis.position import has_correlation, has_reset, position_maps, reset_maps
from tupe.analysis.segments import has_segments, segment_values
from tupe.analysis.similarity import has_vectors, position_similarity
from tupe.models.describe import equation, full_name, size, system
from tupe.models.tupe import TupeLanguageModelEncoder
from tupe.util import atomic


class Maps(NamedTuple):
    """A figure of heat maps, for each model by itself."""

    title: str
    text: str
    has: Callable[[Namespace], bool]  # whether a model with these fields has what the figure shows
    # returns the maps of an encoder, at a number of positions or of sequences of tokens
    maps: Callable[[TupeLanguageModelEncoder, int | None, Tensor | None], Matrices]


FIGURES = {
    "position": Maps(
        "Position correlation",
        "What positions alone add to the logits before the softmax, whatever the words. A head is named by what it "
        "would attend to if all words were alike: global (everything), local (near), previous, next, or broad.",
        has_correlation,
        lambda encoder, length, _: position_maps(encoder, length),
    ),
    "reset": Maps(
        "The reset of [CLS]",
        "The same before and after the first row and column are freed from the position of [CLS]: θ₁ in all of its "
        "row, θ₂ in all of its column.",
        lambda args: has_reset(args) and has_correlation(args),
        lambda encoder, length, _: reset_maps(encoder, length),
    ),
    "similarity": Maps(
        "Similarity of positions",
        "The cosine of the learnt vectors of two positions.",
        has_vectors,
        lambda encoder, length, _: position_similarity(encoder, length),
    ),
    "segments": Maps(
        "Segments",
        "What a head adds to the logit from a word in one segment to a word in the same or the other.",
        has_segments,
        lambda encoder, *_: segment_values(encoder),
    ),
    "correlations": Maps(
        "Words and positions in the first layer",
        "The parts of a logit of the first layer. Where positions are added to the words there are four, of which TUPE "
        "keeps word to word, and gives position to position parameters of its own.",
        has_correlations,
        lambda encoder, _, tokens: correlation_maps(encoder, tokens),
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
    encoders: Sequence[TupeLanguageModelEncoder],
    *,
    length: int = 128,
    texts: Sequence[Tensor] = (),
    logs: dict[str, TrainingLog] | None = None,
    against: str | None = None,
    tables: dict[str, tuple[str, Sequence[Sequence[str]]]] | None = None,
) -> None:
    """Write the page, a file that ends with `.html`.

    Args:
        encoders: from `open_encoder`, with different names; with `texts` they become float64.
        length: number of positions that are shown; fewer where a model has fewer.
        texts: sequences of tokens for each encoder, for the figures that need them.
        against: name of a run; the page says when the others reach the validation loss that it ends with.
        tables: title -> the text above a table, and its rows, the first of which are the heads.
    """
    sections = [_section("Models", "", _table([_HEADS, *map(_facts, encoders)]))]
    sections += [_section(title, text, _table(rows)) for title, (text, rows) in (tables or {}).items()]
    if logs:
        sections.append(_section("Pre-training", "", as_svg(plot_training(logs, against=against), "Pre-training")))
    sections += [
        _drawn(figure, encoders, length, texts) for name, figure in FIGURES.items() if texts or name != "correlations"
    ]
    finite = [(encoder, tokens) for encoder, tokens in zip(encoders, texts) if has_finite_logits(encoder.args)]
    if finite:
        ranks = {encoder.shown_as: logit_ranks(encoder, tokens) for encoder, tokens in finite}
        figure = plot_ranks(ranks, max(tokens.shape[1] for _, tokens in finite))
        text = "The dotted line is the number of positions. A model with an attention_window has no line."
        sections.append(_section("Rank of the logits", text, as_svg(figure, "Rank of the logits")))
    title = html.escape(" and ".join(encoder.shown_as for encoder in encoders))
    with atomic(Path(output), overwrite=True) as part:
        part.write_text(_PAGE.format(title=title, sections="\n".join(sections)), encoding="utf-8")


def _drawn(figure: Maps, encoders: Sequence[TupeLanguageModelEncoder], length: int, texts: Sequence[Tensor]) -> str:
    """Draw a figure of the models side by side, on one scale of colours."""
    found, missing = {}, []
    for encoder, tokens in zip(encoders, texts or [None] * len(encoders)):
        if figure.has(encoder.args):
            found[encoder.shown_as] = figure.maps(encoder, min(length, encoder.args.max_positions), tokens)
        else:
            missing.append(encoder.shown_as)
    limit = max((maps.limit for maps in found.values()), default=None)
    drawn = (as_svg(heat_maps(maps, limit), name) for name, maps in found.items())
    lack = f" Not in {', '.join(missing)}." if missing else ""
    return _section(figure.title, figure.text + lack, "".join(drawn))


def _section(title: str, text: str, content: str) -> str:
    title, text = html.escape(title), html.escape(text)
    return f"<details open><summary>{title}</summary><p>{text}</p>{content}</details>"


def _table(rows: Sequence[Sequence[str]]) -> str:
    lines = ("".join(f"<td>{html.escape(cell)}</td>" for cell in row) for row in rows)
    return f"<table>{''.join(f'<tr>{line}</tr>' for line in lines)}</table>"


_HEADS = ("", "model", "system", "logit of query i and key j", "parameters", "of the positions", "positions", "symbols")


def _facts(encoder: TupeLanguageModelEncoder) -> tuple[str, ...]:
    """Return a model's row below `_HEADS`."""
    args, symbols = encoder.args, encoder.sentence_encoder.embed_tokens.num_embeddings
    count = size(args, symbols)
    numbers = (f"{number:,}" for number in (count.total, count.position, args.max_positions, symbols))
    return encoder.shown_as, full_name(args), system(args), equation(args), *numbers
