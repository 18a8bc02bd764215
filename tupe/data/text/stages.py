"""The stages of text processing: one table, in the order in which they run, and the profiles that choose from it."""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from operator import ne

from tupe.data.text import characters, punctuation, sentences, special_tokens, tokens


@dataclass(frozen=True)
class Stage:
    """A step of the cleaning that can be switched on and off.

    A stage with neither function needs the whole corpus and is done by `tupe.data.corpus`.
    """

    help: str  # what it does, for the command line
    # makes, for a language, a function from a line to a line; an empty line goes
    line: Callable[[str], Callable[[str], str]] | None = None
    # makes, for a language, a function from the lines of a document to other lines
    document: Callable[[str], Callable[[list[str]], list[str]]] | None = None
    paper: bool = True  # whether the `paper` profile has it
    sentencepiece: bool = True  # whether the `sentencepiece` profile has it


STAGES = {
    "deduplicate-documents": Stage("drop documents that came before"),
    "deduplicate-lines": Stage("drop lines that came before, in any document"),
    "repair-characters": Stage("repair broken UTF-8, drop control characters", line=lambda _: characters.repair),
    "keep-white-space": Stage(
        "without repair-characters, leave white space as it is", paper=False, sentencepiece=False
    ),
    "special-tokens": Stage(
        "URLs, e-mail addresses and file names become special tokens",
        line=lambda _: special_tokens.replace,
        sentencepiece=False,
    ),
    "normalise-punctuation": Stage(
        "quotes, dashes and spaces as Moses", line=punctuation.normaliser, sentencepiece=False
    ),
    "split-sentences": Stage("one sentence a line, by spaCy's rules", document=sentences.splitter),
    "tokenise": Stage("split off punctuation as Moses", line=tokens.tokeniser, sentencepiece=False),
    "lower-case": Stage("lower-case", line=lambda _: str.lower, sentencepiece=False),
    "drop-rare-words": Stage("drop lines with too many rare words", sentencepiece=False),
    "join-short-sentences": Stage("join a short sentence and the next"),
}
#: The stage for tokenizers whose pieces have white space in them, such as byte-level ones.
KEEP_WHITE_SPACE = "keep-white-space"
PROFILES = {
    profile: [name for name, stage in STAGES.items() if getattr(stage, profile)]
    for profile in ("paper", "sentencepiece")
}
LANGUAGES = {"paper": "en", "sentencepiece": "xx"}


class TextProcessing:
    """The stages that need no more than a document, ready to run; other `STAGES` are passed over.

    The rules that split sentences and tokens are those of `language`.
    """

    def __init__(self, stages: Iterable[str], language: str) -> None:
        chosen = set(stages)
        # by default, what takes the place of `repair-characters` where that is off
        self._line = {"repair-characters": characters.keep if KEEP_WHITE_SPACE in chosen else characters.mark}
        self._document: dict[str, Callable[[list[str]], list[str]]] = {}
        for name in (name for name in STAGES if name in chosen):
            if STAGES[name].line:
                self._line[name] = STAGES[name].line(language)
            if STAGES[name].document:
                self._document[name] = STAGES[name].document(language)
        self._names = [name for name in STAGES if name in self._line or name in self._document]

    def line(self, text: str) -> str:
        """Apply the stages that go from a line to a line to a text; the result may be empty."""
        for function in self._line.values():
            text = function(text)
        return text

    def around(self, text: str) -> str:
        """Apply `line` to what stands around each `<mask>` of a text, for users of exported models (its card)."""
        return " <mask> ".join(map(self.line, text.split("<mask>"))).strip()

    def document(self, lines: list[str], counts: Counter) -> list[str]:
        """Apply all stages to the lines of a document.

        `counts` gets, for each stage, the lines it `changed`, `removed` (nothing was left of them) and `added`.
        """
        for name in self._names:
            if name in self._line:
                new = list(map(self._line[name], lines))
                counts[f"{name}: changed"] += sum(map(ne, new, lines))
                new = list(filter(None, new))
                counts[f"{name}: removed"] += len(lines) - len(new)
            else:
                new = self._document[name](lines)
                counts[f"{name}: added"] += len(new) - len(lines)
            lines = new
        return lines
