"""Text processing before SentencePiece, the same for a corpus and for the tasks that use its vocabulary.

`PROFILES` chooses from `STAGES`.
"""

import html
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache, lru_cache
from html.entities import html5
from itertools import chain
from operator import ne

#: Symbols that replace URLs, e-mail addresses and file names in `special-tokens`.
SPECIAL_TOKENS = ("<url>", "<email>", "<file>")

_REFERENCE = re.compile(r"&(?:#\d+|#[xX][\da-fA-F]+|[a-zA-Z]\w*);")
_SURROGATE = re.compile("[\ud800-\udfff]")
_BREAK = re.compile("[\r\n]+")
_JOINERS = "\u200c\u200d"  # part of words in Persian and the Indic scripts
_EXTENSIONS = (
    "7z|avi|bat|bmp|bz2|cfg|cpp|csv|dat|dll|doc|docx|exe|flac|gif|gz|htm|html|ico|ini|iso|jar|jpeg|jpg|json|log|mkv|mov"
    "|mp3|mp4|mpeg|mpg|odt|ogg|pdf|php|png|ppt|pptx|py|rar|rtf|svg|tar|tex|tgz|tiff|ttf|txt|wav|wma|wmv|xls|xlsx|xml"
    "|xz|yaml|yml|zip"
)
_MAY_BE_SPECIAL = re.compile(r"[.@]\w|://")  # cheap: most lines have none of these inside a word
# The repetitions are bounded, because a long line of dots would take quadratic time otherwise.
_PATTERNS = (
    (re.compile(r"(?i)\b(?:https?|ftps?|file)://[^\s<>\"]*[^\s<>\".,;:!?')\]}]|\bwww\.[^\s<>\"]*[\w/]"), "<url>"),
    (re.compile(r"\b[\w.+-]{1,64}@[\w-]{1,64}(?:\.[\w-]{1,64}){0,4}\.[A-Za-z]{2,}\b"), "<email>"),
    (re.compile(rf"(?i)(?<![\w<])(?:[a-z]:\\|[\\/]|\b)[\w~.+\\/-]{{0,255}}\w\.(?:{_EXTENSIONS})\b(?![\w/])"), "<file>"),
)
_OPENING = re.compile(r"(?<=[\W_])\s((?:[^\w\s]|_)+|[«“„(\[{] )\n")  # spaCy leaves it with the sentence before
_SPECIAL = re.compile(f"({'|'.join(SPECIAL_TOKENS)})")
_LONG_WORD = re.compile(r"\S{257}")
_STRINGS_KEPT = 200_000  # spaCy caches every word


def unescape(line: str) -> str:
    """Replace `&amp;`, `&lt;`, `&apos;`, `&#91;`, ..., as WikiExtractor and Moses write them, by characters."""
    return _REFERENCE.sub(_character, line) if "&" in line else line


def _character(found: re.Match[str]) -> str:
    """Return the character of a reference; the text itself if it is not a reference."""
    reference = found[0]
    return html.unescape(reference) if reference[1] == "#" or reference[1:] in html5 else reference


def repair(line: str) -> str:
    """Remove control, private, unassigned and formatting characters; white space becomes single spaces.

    A byte that was not UTF-8 (a surrogate escape) becomes its Windows-1252 character, which repairs text of mixed
    encodings. A byte without such a character is removed, and so is U+FFFD, which earlier repairs leave behind.
    """
    line = " ".join(line.split())
    if line.isprintable() and "\ufffd" not in line:
        return line
    return " ".join("".join(map(repaired, line)).split())


def repaired(character: str) -> str:
    """Return the replacement by `repair` of a character other than white space; empty if it is removed."""
    if "\udc80" <= character <= "\udcff":
        character = bytes([ord(character) - 0xDC00]).decode("cp1252", errors="ignore")
    is_text = character in _JOINERS or not (character in "\ufffd" or unicodedata.category(character).startswith("C"))
    return character if is_text else ""


def mark(line: str) -> str:
    """Replace bytes that were not UTF-8 by U+FFFD, so that the line can be written; white space as in `repair`."""
    return _SURROGATE.sub("\ufffd", " ".join(line.split()))


def keep_white_space(line: str) -> str:
    """Replace bytes that were not UTF-8 by U+FFFD and line breaks by spaces; keep other inner white space."""
    return _SURROGATE.sub("\ufffd", _BREAK.sub(" ", line)).strip()


def special_tokens(line: str) -> str:
    """Replace URLs, e-mail addresses and file names by `<url>`, `<email>` and `<file>`."""
    if _MAY_BE_SPECIAL.search(line):
        for pattern, token in _PATTERNS:
            line = pattern.sub(token, line)
    return line


def punctuation(language: str) -> Callable[[str], str]:
    """Make Moses' normalizer of punctuation for a language: quotes, dashes and ellipses become plain ASCII."""
    from sacremoses import MosesPunctNormalizer

    return MosesPunctNormalizer(lang=language).normalize


def tokenizer(language: str) -> Callable[[str], str]:
    """Make Moses' tokenizer for a language, which puts a space between tokens; special tokens stay whole."""
    from sacremoses import MosesTokenizer

    moses = MosesTokenizer(lang=language)
    for name in ("islower", "isanyalpha"):  # each call makes a set of all letters: a third of the time
        setattr(moses, name, lru_cache(maxsize=1 << 16)(getattr(moses, name)))

    def tokenize(line: str) -> str:
        parts = _SPECIAL.split(line) if "<" in line else [line]
        tokens = ([part] if part in SPECIAL_TOKENS else moses.tokenize(part, escape=False) for part in parts)
        return " ".join(chain.from_iterable(tokens))

    return tokenize


class Sentences:
    """spaCy's rule-based sentence splitter for a language, or for any (`xx`); it needs no model."""

    def __init__(self, language: str) -> None:
        self._language = language
        self._load()

    def _load(self) -> None:
        import spacy
        from spacy.attrs import IS_PUNCT

        self._rules = spacy.blank(self._language)
        self._rules.add_pipe("sentencizer")
        self._rules.max_length = 1 << 24  # characters; the usual limit protects models, of which there are none
        # for speed: cache the tokens of more words, and compute only the attribute that the sentencizer reads
        self._rules.tokenizer.max_cache_size = _STRINGS_KEPT
        self._rules.vocab.lex_attr_getters = {IS_PUNCT: self._rules.vocab.lex_attr_getters[IS_PUNCT]}

    def __call__(self, lines: list[str]) -> list[str]:
        """Split lines. A line with a word above 256 characters stays whole: spaCy would take quadratic time."""
        if len(self._rules.vocab.strings) > _STRINGS_KEPT:
            self._load()
        lines = [" ".join(line.split()) for line in lines]
        documents = self._rules.pipe("" if _LONG_WORD.search(line) else line for line in lines)
        split = ("\n".join(one.text_with_ws for one in document.sents) for document in documents)
        found = (_OPENING.sub(r"\n\1", text) or line for text, line in zip(split, lines))
        return [sentence for text in found for one in text.split("\n") if (sentence := one.strip())]


REPAIR = "repair-characters"
#: Used instead of `repair-characters` by tokenizers whose pieces contain white space, such as byte-level ones.
KEEP_WHITE_SPACE = "keep-white-space"
_MARK = "white-space"  # the name in the counts of `mark`, which runs where both stages are off
SPLIT = "split-sentences"
#: The stages that map a line to a line, made for a language. A line that becomes empty is removed.
LINE_STAGES = {
    REPAIR: lambda _: repair,
    "special-tokens": lambda _: special_tokens,
    "normalise-punctuation": punctuation,
    "tokenise": tokenizer,
    "lower-case": lambda _: str.lower,
}
PROFILES = {
    "paper": (
        *("deduplicate-documents", "deduplicate-lines", REPAIR, "special-tokens", "normalise-punctuation"),
        *(SPLIT, "tokenise", "lower-case", "drop-rare-words", "join-short-sentences"),
    ),
    "sentencepiece": ("deduplicate-documents", "deduplicate-lines", REPAIR, SPLIT, "join-short-sentences"),
}
#: All stages; `tupe.data.corpus` has those that need the whole corpus.
STAGES = (*PROFILES["paper"], KEEP_WHITE_SPACE)
_ORDER = (_MARK, KEEP_WHITE_SPACE, *PROFILES["paper"])
LANGUAGES = {"paper": "en", "sentencepiece": "xx"}  # default language of each profile's rules


class TextProcessing:
    """The stages that need only a document, with the rules of a language; other `STAGES` are skipped."""

    def __init__(self, stages: Sequence[str], language: str) -> None:
        first = {KEEP_WHITE_SPACE: keep_white_space} if KEEP_WHITE_SPACE in stages else {_MARK: mark}
        line_stages = {name: make(language) for name, make in LINE_STAGES.items() if name in stages}
        self._line = ({} if REPAIR in stages else first) | line_stages
        self._sentences = Sentences(language) if SPLIT in stages else None

    def line(self, text: str) -> str:
        """Apply the stages that map a line to a line; the result may be empty."""
        for function in self._line.values():
            text = function(text)
        return text

    def around(self, text: str) -> str:
        """Apply `line` to the text around each `<mask>`; the cards of exported models recommend it."""
        return " <mask> ".join(map(self.line, text.split("<mask>"))).strip()

    def document(self, lines: list[str], counts: Counter) -> list[str]:
        """Apply all stages to the lines of a document.

        `counts` gets, for each stage, the lines it `changed`, `removed` (nothing was left of them) and `added`.
        """
        for name in _ORDER:
            if name in self._line:
                new = list(map(self._line[name], lines))
                counts[f"{name}: changed"] += sum(map(ne, new, lines))
                new = list(filter(None, new))
                counts[f"{name}: removed"] += len(lines) - len(new)
                lines = new
            elif name == SPLIT and self._sentences:
                new = self._sentences(lines)
                counts[f"{name}: added"] += len(new) - len(lines)
                lines = new
        return lines


#: Makes a `TextProcessing` once in each process that prepares data.
kept_processing = cache(TextProcessing)
