"""Replace URLs, e-mail addresses and file names by one special token each."""

import re

SPECIAL_TOKENS = ("<url>", "<email>", "<file>")

_EXTENSIONS = (
    "7z|avi|bat|bmp|bz2|cfg|cpp|csv|dat|dll|doc|docx|exe|flac|gif|gz|htm|html|ico|ini|iso|jar|jpeg|jpg|json|log|mkv|mov"
    "|mp3|mp4|mpeg|mpg|odt|ogg|pdf|php|png|ppt|pptx|py|rar|rtf|svg|tar|tex|tgz|tiff|ttf|txt|wav|wma|wmv|xls|xlsx|xml"
    "|xz|yaml|yml|zip"
)
_LOOKED_FOR = re.compile(r"[.@]\w|://")  # cheap: most lines have none of these inside a word
# The repetitions are bounded: without, a long line of dots would take quadratic time.
_PATTERNS = (
    (re.compile(r"(?i)\b(?:https?|ftps?|file)://[^\s<>\"]*[^\s<>\".,;:!?')\]}]|\bwww\.[^\s<>\"]*[\w/]"), "<url>"),
    (re.compile(r"\b[\w.+-]{1,64}@[\w-]{1,64}(?:\.[\w-]{1,64}){0,4}\.[A-Za-z]{2,}\b"), "<email>"),
    (re.compile(rf"(?i)(?<![\w<])(?:[a-z]:\\|[\\/]|\b)[\w~.+\\/-]{{0,255}}\w\.(?:{_EXTENSIONS})\b(?![\w/])"), "<file>"),
)


def replace(line: str) -> str:
    """Put `<url>`, `<email>` and `<file>` in place of what they stand for."""
    if _LOOKED_FOR.search(line) is None:
        return line
    for pattern, token in _PATTERNS:
        line = pattern.sub(token, line)
    return line
