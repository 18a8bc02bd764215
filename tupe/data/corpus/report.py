"""Lines to print about a prepared corpus."""

from collections.abc import Iterator
from pathlib import Path

from tupe.data.corpus.manifest import Content
from tupe.data.corpus.text import SPLITS
from tupe.data.text.stages import KEEP_WHITE_SPACE, STAGES

_TOKENS_A_SYMBOL = 50  # fewer, and most of the vocabulary is hardly ever seen
_READ = ("bytes", "lines", "documents")
# Counted like stages: lines without a piece, and lines of more pieces than fairseq can take.
_ALWAYS = ("no-pieces", "cut-long-lines")


def vocabulary_warning(symbols: int, tokens: int) -> Iterator[str]:
    """Return a line, with a size that fits, if a vocabulary is too large for so many tokens of text."""
    if tokens >= _TOKENS_A_SYMBOL * symbols:
        return
    # with fewer symbols the same text has more tokens, so each symbol is seen a little more often than this
    fits = max(tokens // _TOKENS_A_SYMBOL // 1000 * 1000, 1000)
    smaller = f"--vocab-size {fits}, or with " if fits < symbols else ""
    yield (
        f"warning: {symbols:,} symbols are many for {tokens:,} tokens: most are seen less than {_TOKENS_A_SYMBOL} "
        f"times an epoch; prepare the corpus with {smaller}more text"
    )


def lines(out: Path, content: Content) -> Iterator[str]:
    """Return the counts of a manifest: what was read, what each stage changed, removed and added, what is left.

    Lines read, less those removed, with those added, are the lines that are left.
    """
    counts = content.counts
    read = counts.read
    yield f"read: {read['bytes']:,} bytes, {read['lines']:,} lines, {read['documents']:,} documents"
    yield f"{'lines':<24}{'changed':>12}{'removed':>12}{'added':>12}"
    for reason in read:
        if reason not in _READ:
            yield f"{reason:<24}{read[reason]:>24,}"
    counted = {*content.settings.stages} - {KEEP_WHITE_SPACE}
    for stage in (*(name for name in STAGES if name in counted), *_ALWAYS):
        did = [counts.stages.get(f"{stage}: {what}", 0) for what in ("changed", "removed", "added")]
        yield f"{stage:<24}" + "".join(f"{number:>12,}" for number in did)
    for split in SPLITS:
        left = [f"{counts.left.get(f'{split} {what}', 0):,} {what}" for what in ("documents", "lines", "tokens")]
        yield f"{split}: {', '.join(left)}"
    for language, its_counts in content.languages.items():
        yield f"{language}: {_language(its_counts.left)}"
    if counts.left.get("valid documents") == 1:
        yield (
            "warning: one document is held out, and validation losses are of its subject alone: give more by "
            "--valid-documents, and separate documents by an empty line."
        )
    yield from vocabulary_warning(content.settings.vocab_size, counts.left.get("train tokens", 0))
    yield f"data: {':'.join(str(out / folder) for folder in content.data)}"


def _language(left: dict[str, int]) -> str:
    """Say what is left of a language, and how many tokens a word and a character take (some scripts have no spaces)."""
    tokens, valid = left.get("train tokens", 0), left.get("valid tokens", 0)
    word, character = (tokens / max(left.get(f"train {what}", 0), 1) for what in ("words", "characters"))
    unknown = 100 * left.get("train unknown tokens", 0) / max(tokens, 1)
    return (
        f"{left.get('train documents', 0):,} documents, {tokens:,} tokens, held out {valid:,}; "
        f"{word:.2f} a word, {character:.2f} a character, {unknown:.2f}% unknown"
    )
