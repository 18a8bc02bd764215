"""Join short sentences: each line of the data ends in `</s>`, and headings would be mostly that."""

import re

SHORT = 16  # words
# Thai, Lao, Burmese, Khmer, kana and Chinese characters: no spaces between words, which have two of them or so.
_UNSPACED = re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff]")


def join(lines: list[str]) -> list[str]:
    """Join a line of fewer than `SHORT` words and the next of its document, until the line is long enough."""
    joined: list[str] = []
    words = SHORT
    for line in lines:
        if words < SHORT:
            joined[-1] += " " + line
            words += _words(line)
        else:
            joined.append(line)
            words = _words(line)
    return joined


def _words(line: str) -> int:
    words = len(line.split())
    return words if line.isascii() else words + len(_UNSPACED.findall(line)) // 2
