"""Draw the figure that explains TUPE: the terms of BERT, the terms of TUPE, and the reset of [CLS].

Example: python scripts/draw_tupe.py docs/images/tupe.png
"""

import argparse

import numpy as np

from tupe.analysis.figure import new_figure, save_figure

CONTENT, POSITIONS, MIXED, INK, QUIET = "#0b62a8", "#c4570a", "#8a8a8a", "#1c1d21", "#5f6068"
FOUR = "four terms: content-content, two mixed\nones (gray), and position-position"
SUM = "their sum, over $\\sqrt{2d}$, is the attention logit;\nTUPE-R adds a bias for each distance $j - i$"
THETA_1, THETA_2 = "#6a4fb3", "#2a9d8f"
N = 10  # positions of a made sentence, [CLS] the first
PAIRS = ((1, 4), (2, 8), (3, 5), (6, 9), (4, 7), (0, 6))  # of tokens that go together


def content_content() -> np.ndarray:
    values = 0.28 * np.random.default_rng(7).random((N, N)) ** 2
    for i, j in PAIRS:
        values[i, j], values[j, i] = 1.0, 0.8
    return values + 0.45 * np.eye(N)


def position_position() -> np.ndarray:
    distance = np.arange(N)[None, :] - np.arange(N)[:, None]
    return np.exp(-((distance - 0.5) ** 2) / 5)


def mixed(seed: int) -> np.ndarray:
    return 0.34 + 0.12 * np.random.default_rng(seed).random((N, N))


class Sheet:
    """A figure whose coordinates are hundredths of its width and height."""

    def __init__(self, width: float, height: float) -> None:
        self.figure, self.ratio = new_figure(width, height), width / height
        self.figure.set_layout_engine("none")

    def text(self, x: float, y: float, text: str, size: float = 10, color: str = INK, **style) -> None:
        style = {"ha": "center", "va": "center", **style}
        self.figure.text(x / 100, y / 100, text, fontsize=size, color=color, **style)

    def formula(self, x: float, y: float, parts: list[tuple[str, str]]) -> None:
        """Write parts of a formula, each `(text, color)`, side by side."""
        from matplotlib.offsetbox import AnnotationBbox, HPacker, TextArea

        pieces = [TextArea(f"${text}$", textprops={"color": color, "fontsize": 13}) for text, color in parts]
        line = HPacker(children=pieces, pad=0, sep=1, align="baseline")
        self.figure.add_artist(AnnotationBbox(line, (x / 100, y / 100), xycoords="figure fraction", frameon=False))

    def matrix(self, x: float, y: float, width: float, values: np.ndarray, color: str):
        """Draw a square with its upper left corner at `(x, y)`, from white to `color`."""
        from matplotlib.colors import LinearSegmentedColormap, to_rgba

        height = width * self.ratio
        axes = self.figure.add_axes((x / 100, (y - height) / 100, width / 100, height / 100))
        colors = LinearSegmentedColormap.from_list("", [to_rgba(color, 0.0), color])
        axes.imshow(values, cmap=colors, vmin=0, vmax=1, interpolation="nearest")
        axes.set(xticks=[], yticks=[])
        for spine in axes.spines.values():
            spine.set(color=color, linewidth=1.4)
        return axes

    def arrow(self, x0: float, y0: float, x1: float, y1: float) -> None:
        from matplotlib.patches import FancyArrowPatch

        ends = (x0 / 100, y0 / 100), (x1 / 100, y1 / 100)
        style = {"arrowstyle": "-|>", "mutation_scale": 13, "color": QUIET, "linewidth": 1.3}
        self.figure.add_artist(FancyArrowPatch(*ends, transform=self.figure.transFigure, **style))

    def rule(self, x: float) -> None:
        from matplotlib.lines import Line2D

        self.figure.add_artist(Line2D([x / 100] * 2, [0.05, 0.95], color="0.85", linewidth=1))


def draw_bert(sheet: Sheet) -> None:
    sheet.text(17, 94, "BERT ties", 14, weight="bold")
    sheet.text(17, 87, "positions are added to token embeddings,\none pair of projections for both", 10, QUIET)
    parts = [("(", INK), ("w_i", CONTENT), ("+", INK), ("p_i", POSITIONS), (")\\,W^Q\\,((", INK)]
    sheet.formula(17, 77, [*parts, ("w_j", CONTENT), ("+", INK), ("p_j", POSITIONS), (")\\,W^K)^{\\top}", INK)])
    left, top, width, step = 10.2, 64.5, 7.6, 9.4
    tall = step * sheet.ratio
    sheet.text(left + width / 2, 68, "content $j$", 9.5, CONTENT)
    sheet.text(left + step + width / 2, 68, "position $j$", 9.5, POSITIONS)
    middle = width * sheet.ratio / 2
    sheet.text(left - 1.2, top - middle, "content $i$", 9.5, CONTENT, rotation=90)
    sheet.text(left - 1.2, top - tall - middle, "position $i$", 9.5, POSITIONS, rotation=90)
    sheet.matrix(left, top, width, content_content(), CONTENT)
    sheet.matrix(left + step, top, width, mixed(1), MIXED)
    sheet.matrix(left, top - tall, width, mixed(2), MIXED)
    sheet.matrix(left + step, top - tall, width, position_position(), POSITIONS)
    sheet.text(17, 10, FOUR, 10, QUIET)


def draw_tupe(sheet: Sheet) -> None:
    sheet.text(50, 94, "TUPE unties", 14, weight="bold")
    sheet.text(50, 87, "each has its own projections,\nand the mixed terms are gone", 10, QUIET)
    width, top = 12.4, 64
    query_key = r"$x_i W^Q\,(x_j W^K)^{\!\top}$", r"$p_i U^Q\,(p_j U^K)^{\!\top}$"
    for x, values, color, head, below in (
        (35.9, content_content(), CONTENT, query_key[0], "content-content\nin every layer"),
        (52.2, position_position(), POSITIONS, query_key[1], "position-position\nonce, for all layers"),
    ):
        sheet.text(x + width / 2, 71.5, head, 12.5, color)
        sheet.matrix(x, top, width, values, color)
        sheet.text(x + width / 2, top - width * sheet.ratio - 7, below, 10, color)
    sheet.text(50.25, top - width * sheet.ratio / 2, "+", 20)
    sheet.text(50, 10, SUM, 10, QUIET)


def draw_reset(sheet: Sheet) -> None:
    sheet.text(83.5, 94, "and unties [CLS]", 14, weight="bold")
    sheet.text(83.5, 87, "it represents the sequence,\nnot its first position", 10, QUIET)
    width, top = 11, 64
    after = position_position()
    after[0, :] = after[:, 0] = np.nan
    sheet.text(71 + width / 2, 69, "before", 10, POSITIONS)
    sheet.matrix(71, top, width, position_position(), POSITIONS)
    sheet.text(70.6, top - width * sheet.ratio / N / 2, "[CLS]", 8.5, POSITIONS, ha="right")
    sheet.arrow(82.3, top - width * sheet.ratio / 2, 85.1, top - width * sheet.ratio / 2)
    sheet.text(85.6 + width / 2, 69, "after the reset", 10, POSITIONS)
    axes = sheet.matrix(85.6, top, width, after, POSITIONS)
    row, column = np.full((N, N), np.nan), np.full((N, N), np.nan)
    row[0], column[1:, 0] = 0, 0
    from matplotlib.colors import ListedColormap

    axes.imshow(row, cmap=ListedColormap([THETA_1]), interpolation="nearest")
    axes.imshow(column, cmap=ListedColormap([THETA_2]), interpolation="nearest")
    cell, tall = width / N, width * sheet.ratio / N
    sheet.text(85.6 + width + 1.3, top - tall / 2, r"$\theta_1$", 13, THETA_1)
    sheet.text(85.6 + cell / 2, top - width * sheet.ratio - 4, r"$\theta_2$", 13, THETA_2)
    sheet.text(83.5, 23.5, r"$\theta_1$: from [CLS] to all", 10, THETA_1)
    sheet.text(83.5, 18, r"$\theta_2$: from all to [CLS]", 10, THETA_2)
    sheet.text(83.5, 8.6, "both learned, per head", 10, QUIET)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("output", metavar="FILE", help="file of the picture: .png, .pdf, .svg, ...")
    args = parser.parse_args()
    draw(args.output)


def draw(output: str) -> None:
    sheet = Sheet(11, 4.6)
    draw_bert(sheet)
    sheet.rule(34)
    draw_tupe(sheet)
    sheet.rule(67)
    draw_reset(sheet)
    save_figure(sheet.figure, output)


if __name__ == "__main__":
    main()
