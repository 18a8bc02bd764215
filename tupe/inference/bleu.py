"""Score translations by SacreBLEU and chrF, and test whether one system's are better than another's."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tupe.data.translation.parallel_text import lines
from tupe.errors import UserError, needing, one_line

_SAMPLES = 1000  # of the paired bootstrap (Koehn 2004)
_GENERATED = re.compile(r"([A-Z])-(\d+)\t")


def read_hypotheses(path: Path) -> list[str]:
    """Read translations, one a line, or the output of `fairseq-generate`: its `D-` lines, sorted by number.

    Raises:
        UserError: if that output has no `D-` lines, or a number is missing or repeated.
    """
    found = list(lines(path, keep_spaces=True))
    tagged = [(match[1], int(match[2]), line) for line in found if (match := _GENERATED.match(line))]
    if not any(kind in "SDH" for kind, _, _ in tagged):
        return found
    numbered: dict[int, str] = {}
    for kind, number, line in tagged:
        if kind == "D":
            if number in numbered:
                raise UserError(f"{path} has sentence {number} twice: give the output of one run with --nbest 1.")
            if line.count("\t") < 2:
                raise UserError(f"{path} has no translation in {line!r:.60}: it is cut, so generate it again.")
            numbered[number] = line.split("\t", 2)[2]
    if not numbered:
        raise UserError(f"{path} has no D- lines: generate with --bpe sentencepiece, which undoes the pieces.")
    missing = sorted(set(range(max(numbered) + 1)) - set(numbered))
    if missing:
        raise UserError(f"{path} has no sentence {missing[0]} ({len(missing)} are missing): generate all of the set.")
    return [numbered[number] for number in sorted(numbered)]


def score(
    hypotheses: Path, reference: Path, baseline: Path | None = None, lower_case: bool = False, tokenize: str = "13a"
) -> Iterator[str]:
    """Yield the lines of the report: each metric with its signature, and beside a baseline the bootstrap's p-value.

    Raises:
        UserError: if sacrebleu is not installed, for an unknown tokeniser, for an empty reference, and for unequal
            numbers of lines.
    """
    with needing("BLEU", "translation", " (or sacrebleu)."):
        from sacrebleu.metrics import BLEU, CHRF
        from sacrebleu.significance import PairedTest
    if tokenize not in BLEU.TOKENIZERS:
        raise UserError(f"there is no tokeniser {tokenize}: choose one of {', '.join(BLEU.TOKENIZERS)}.")
    references = list(lines(reference, keep_spaces=True))
    systems = {str(path): read_hypotheses(path) for path in (baseline, hypotheses) if path is not None}
    if not any(map(str.strip, references)):
        raise UserError(f"{reference} has no words: it needs at least one line of them.")
    for name, translations in systems.items():
        if len(translations) != len(references):
            raise UserError(
                f"{name} has {len(translations):,} translations and {reference} {len(references):,} lines: line n of "
                "the one must be the translation whose reference is line n of the other."
            )
    try:
        metrics: dict[str, Any] = {
            "BLEU": BLEU(lowercase=lower_case, tokenize=tokenize),
            "chrF2": CHRF(lowercase=lower_case),
        }
    except (ImportError, OSError, RuntimeError) as error:  # a package or a model is not there
        raise UserError(f"the tokeniser {tokenize} cannot be used ({one_line(error)}): choose another.") from error
    for name, translations in systems.items():
        for metric in metrics.values():
            result = metric.corpus_score(translations, [references])
            yield f"{name}: {result.format(signature=str(metric.get_signature()))}"
    if baseline is not None:
        if len(systems) == 1:
            raise UserError(f"{baseline} is both the baseline and the system: give another.")
        results = PairedTest(list(systems.items()), metrics, [references], "bs", _SAMPLES)()[1]
        for name, (_, ours) in zip(metrics, list(results.items())[1:]):
            yield f"{name}: p = {ours[1].p_value:.4f} if they do not differ (paired bootstrap, {_SAMPLES} samples)"
