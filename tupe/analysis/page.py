"""Models as one HTML page (`tupe report`): equations, numbers and figures, in a file that loads nothing.

What comes from files is text, never code: the page escapes it by `html.escape`, its JSON has no `<`, and its content
policy allows only its own script and style, which it knows by their checksums, and no request.

The numbers of heat maps are 16 bits each, a share of the largest of their map (so to 1 in 65,534 of it), in base64.
"""

import base64
import hashlib
import html
import json
import re
import zlib
from argparse import Namespace
from collections.abc import Callable, Sequence
from pathlib import Path
from string import Template
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from tupe.analysis.checkpoint import systems_with
from tupe.analysis.curves import TrainingLog, caption, last, losses
from tupe.analysis.figure import Matrices, colour_limit
from tupe.analysis.logits import first_layer_correlations, has_correlations, has_finite_logits, logit_ranks
from tupe.analysis.position import has_correlation, has_reset, position_correlation
from tupe.analysis.segments import has_segments, segment_values
from tupe.analysis.similarity import has_vectors, position_similarity
from tupe.models.describe import equation, full_name, size, system
from tupe.models.tupe import TupeLanguageModelEncoder
from tupe.util import atomic

TEMPLATE = Path(__file__).with_name("template")
_NOT_A_NUMBER = np.iinfo(np.int16).min


class MapsFigure(NamedTuple):
    id: str  # its anchor
    title: str
    text: str
    has: Callable[[Namespace], bool]  # whether a system has what the figure shows
    # returns a model's maps, for its encoder, the number of positions, and sequences of tokens
    maps: Callable[[TupeLanguageModelEncoder, int, Tensor | None], Matrices]
    label: str = "added to the logit"  # of the colours
    axes: tuple[str, str] = ("key", "query")
    needs_text: bool = False  # whether it needs the sequences
    one_scale: bool = True  # whether all models share a scale of colours


class Table(NamedTuple):
    title: str
    text: str
    rows: Sequence[Sequence[str]]  # the first is the heads, the first cell of a row its name
    notes: Sequence[str] = ()  # below it
    words: bool = False  # whether the cells are words, not numbers


def _positions(encoder: TupeLanguageModelEncoder, length: int, tokens: Tensor | None) -> Matrices:
    found = position_correlation(encoder, length)
    said = f"{found.summary}; {found.title.rpartition(', ')[2]}"
    return Matrices(found.values, found.names, said=found.said, summary=said, reset=found.reset)


def _resets(encoder: TupeLanguageModelEncoder, length: int, tokens: Tensor | None) -> Matrices:
    found = position_correlation(encoder, length)
    pairs = torch.stack([found.before, found.values], 1).flatten(0, 1)
    names = [name for name in found.names for _ in range(2)]
    return Matrices(pairs, names, said=["before the reset", "after it"] * len(found.names), reset=True)


def _correlations(encoder: TupeLanguageModelEncoder, length: int, tokens: Tensor | None) -> Matrices:
    found = first_layer_correlations(encoder, tokens)
    values = torch.stack([value.mean(0) for value in found.values()])
    said = f"the mean of {len(tokens)} sequences and all heads"
    return Matrices(values, list(found), summary=said, reset=has_reset(encoder.args))


FIGURES = (
    MapsFigure(
        "positions",
        "Position correlation",
        "What positions alone add to the logits before the softmax, whatever the words. A head is named by what it "
        "would attend to if all words were alike: global (everything), local (near), previous, next, or broad.",
        has_correlation,
        _positions,
    ),
    MapsFigure(
        "reset",
        "The reset of [CLS]",
        "The same before and after [CLS], the first row and column, is freed from its position: θ₁ in all of its row, "
        "θ₂ in all of its column.",
        lambda args: has_reset(args) and has_correlation(args),
        _resets,
    ),
    MapsFigure(
        "similarity",
        "Similarity of positions",
        "The cosine of the learnt vectors of two positions.",
        has_vectors,
        lambda encoder, *_: position_similarity(encoder),
        "cosine",
        ("position", "position"),
    ),
    MapsFigure(
        "segments",
        "Segments",
        "What a head adds to the logit from a word in one segment to a word in the same or the other.",
        has_segments,
        lambda encoder, *_: segment_values(encoder),
        axes=("segment of the key", "segment of the query"),
    ),
    MapsFigure(
        "correlations",
        "Words and positions in the first layer",
        "What a logit of the first layer is the sum of. Where positions are added to the words there are four parts, "
        "of which TUPE keeps word to word, and gives position to position parameters of its own. A model with an "
        "attention_window has none: its logits at longer distances are -inf.",
        has_correlations,
        _correlations,
        "part of the logit",
        needs_text=True,
        one_scale=False,
    ),
)


def write_page(
    output: str | Path,
    encoders: Sequence[TupeLanguageModelEncoder],
    *,
    length: int = 128,
    texts: Sequence[Tensor] = (),
    logs: dict[str, TrainingLog] | None = None,
    against: str | None = None,
    tables: Sequence[Table] = (),
) -> None:
    """Write the page, a file that ends with `.html`.

    Args:
        encoders: from `open_encoder`, with different names; with `texts` they become float64.
        length: number of positions that are shown; fewer where a model has fewer.
        texts: sequences of tokens for each encoder, for the figures that need them.
        against: name of a run; the page says when the others reach the validation loss that it ends with.
    """
    names = [encoder.shown_as for encoder in encoders]
    numbers = _Numbers()
    figures = [_curves(logs, against)] if logs else []
    figures += [_maps(figure, encoders, length, texts, numbers) for figure in FIGURES]
    if texts and (ranks := _ranks(encoders, texts))["lines"]:
        figures.append(ranks)
    files = {name: (TEMPLATE / f"page.{name}").read_text(encoding="utf-8") for name in ("html", "css", "js")}
    page = Template(files["html"]).substitute(
        title=html.escape(" and ".join(names) if len(names) < 3 else ", ".join(names)),
        style=files["css"],
        style_sum=_checksum(files["css"]),
        script=files["js"],
        script_sum=_checksum(files["js"]),
        models="\n".join(map(_card, encoders)),
        tables="\n".join(map(_table, tables)),
        data=_json({"figures": figures}),
        values=numbers.packed(),
    )
    with atomic(Path(output), overwrite=True) as part:
        part.write_text(page, encoding="utf-8")


class _Numbers:
    """The numbers of all maps, each map once."""

    def __init__(self) -> None:
        self.places: dict[bytes, int] = {}  # the steps of a map -> where they begin
        self.end = 0

    def add(self, values: np.ndarray) -> dict[str, Any]:
        """Store `(n, m)`, and return its place and what one step is worth."""
        finite = np.isfinite(values)
        scale = float(abs(values[finite]).max(initial=0)) / np.iinfo(np.int16).max or 1.0
        steps = np.where(finite, np.rint(np.where(finite, values, 0) / scale), _NOT_A_NUMBER).astype("<i2").tobytes()
        if steps not in self.places:
            self.places[steps] = self.end
            self.end += len(steps)
        return {"at": self.places[steps], "scale": scale, "rows": values.shape[0], "columns": values.shape[1]}

    def packed(self) -> str:
        return base64.b64encode(zlib.compress(b"".join(self.places), 9)).decode()


def _maps(
    figure: MapsFigure,
    encoders: Sequence[TupeLanguageModelEncoder],
    length: int,
    texts: Sequence[Tensor],
    numbers: _Numbers,
) -> dict[str, Any]:
    """Return the figure's JSON, with a note in place of the maps of a model that has none."""
    panels: list[dict[str, Any]] = [{"name": encoder.shown_as} for encoder in encoders]
    for number, (encoder, panel) in enumerate(zip(encoders, panels)):
        if not figure.has(encoder.args):
            panel["note"] = f"Not in this model; these systems have it: {systems_with(figure.has)}."
            continue
        if figure.needs_text and not texts:
            panel["note"] = "This needs a text: --data FOLDER, the corpus that the model was trained on."
            continue
        of = figure.maps(encoder, min(length, encoder.args.max_positions), texts[number] if texts else None)
        values = of.values[:, :length, :length].numpy()
        said = [of.summary] if of.summary else []
        if values.shape[1] < encoder.args.max_positions and figure.id != "segments":
            said.append(f"the first {values.shape[1]} positions")
        panel.update(said="; ".join(said), reset=of.reset, limit=colour_limit(values, of.reset))
        panel["maps"] = [
            {"title": title, "said": says, **numbers.add(map_)}
            for title, says, map_ in zip(of.names, of.said or [""] * len(values), values)
        ]
    return {
        **{name: getattr(figure, name) for name in ("id", "title", "text", "label", "axes")},
        "limit": max((panel.get("limit", 0.0) for panel in panels), default=0.0) if figure.one_scale else None,
        "pairs": figure.id == "reset",
        "cls": figure.id != "segments",
        "panels": panels,
    }


def _curves(logs: dict[str, TrainingLog], against: str | None) -> dict[str, Any]:
    curves = {name: losses(log) for name, log in logs.items()}
    lines = [
        {"name": name, "said": caption(logs, name, against), "x": [u for u, _ in curve], "y": [y for _, y in curve]}
        for name, curve in curves.items()
        if curve
    ]
    limits = [] if against is None else [last(logs[against])[1]]
    text = "Validation loss against updates, bits a prediction."
    if limits:
        text += f" The dotted line is the loss that {against} ends with."
    return {
        "id": "training", "title": "Pre-training", "text": text, "x": "updates", "y": "validation loss (bits)",
        "from_zero": True, "limits": limits, "lines": lines,
    }  # fmt: skip


def _ranks(encoders: Sequence[TupeLanguageModelEncoder], texts: Sequence[Tensor]) -> dict[str, Any]:
    lines = []
    for encoder, tokens in zip(encoders, texts):
        has_diverged = not all(torch.isfinite(parameter).all() for parameter in encoder.parameters())
        if has_diverged or not has_finite_logits(encoder.args):
            continue
        logits, term = logit_ranks(encoder, tokens)
        lines.append({
            "name": encoder.shown_as,
            "said": "no term of positions" if term is None else f"term of positions alone {term.double().mean():.0f}",
            "x": list(range(1, len(logits) + 1)), "y": logits.mean(1).tolist(),
            "low": logits.min(1).values.tolist(), "high": logits.max(1).values.tolist(),
        })  # fmt: skip
    longest = max(tokens.shape[1] for tokens in texts)
    text = f"Line: the mean of the heads; band: all of them. The dotted line is the highest rank, {longest} positions."
    if not all(has_finite_logits(encoder.args) for encoder in encoders):
        text += " A model with an attention_window has no line: its logits at longer distances are -inf."
    return {
        "id": "ranks", "title": "Rank of the logits", "text": text, "x": "layer", "y": "rank", "y_from_zero": True,
        "limits": [longest], "lines": lines,
    }  # fmt: skip


def _card(encoder: TupeLanguageModelEncoder) -> str:
    """Write a model's card: its name, system, equation and sizes."""
    args, symbols = encoder.args, encoder.sentence_encoder.embed_tokens.num_embeddings
    count = size(args, symbols)
    rows = {
        "model": full_name(args),
        "parameters": f"{count.total:,}",
        "of the positions": f"{count.position:,}",
        "of the generator": f"{count.generator:,}" if count.generator else "",
        "layers": f"{args.encoder_layers} of width {args.encoder_embed_dim}, {args.encoder_attention_heads} heads",
        "positions": f"{args.max_positions:,}",
        "vocabulary": f"{symbols:,}",
    }
    numbers = "".join(f"<dt>{name}</dt><dd>{html.escape(value)}</dd>" for name, value in rows.items() if value)
    name, of = encoder.shown_as, system(args)
    of = "" if of == name else f" <small>{html.escape(of)}</small>"
    return (
        f'<article class="card"><h2>{html.escape(name)}{of}</h2>'
        f'<p class="equation">{_formula(equation(args))}</p><dl>{numbers}</dl></article>'
    )


def _formula(text: str) -> str:
    """Write an equation of `tupe describe` with raised and lowered letters."""
    text = html.escape(text, quote=False)
    text = re.sub(r"\b([A-Za-z])_(\([^)]*\)|\w)", lambda m: f"<i>{m[1]}</i><sub>{m[2].strip('()')}</sub>", text)
    text = re.sub(r"\b([A-Z])\^(\w)", r"<i>\1</i><sup>\2</sup>", text).replace("^T", "<sup>T</sup>")
    return text.replace("sqrt(", "√(").replace(" . ", " · ").replace(" - ", " − ")


def _table(table: Table) -> str:
    heads, *rows = table.rows
    head = "".join(f'<th scope="col">{html.escape(cell)}</th>' for cell in heads)
    body = "".join(f"<tr>{''.join(f'<td>{html.escape(cell)}</td>' for cell in row)}</tr>" for row in rows)
    notes = "".join(f'<p class="failed">{html.escape(note)}</p>' for note in table.notes)
    title, text = html.escape(table.title), html.escape(table.text)
    return (
        f'<section><h2>{title}</h2><p class="quiet">{text}</p><div class="scroll" tabindex="0" role="region" '
        f'aria-label="{title}"><table{" class=words" if table.words else ""}><thead><tr>{head}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>{notes}</section>"
    )


def _json(value: Any) -> str:
    """Write JSON for a page: without characters that end an element or begin another."""
    text = json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def _checksum(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
