"""Settings of a corpus: everything that its contents depend on, beside the input files."""

from dataclasses import dataclass, replace
from typing import Any

from tupe.errors import UserError
from tupe.files import checked

#: The profile of a folder that `tupe import` made: no stage ran.
IMPORTED = "import"


@dataclass(frozen=True)
class Settings:
    """Settings of `tupe prepare-corpus`.

    Raises:
        UserError: for documents to hold out that are no number and no share.
    """

    profile: str  # the profile that `stages` and `language` were taken from
    stages: tuple[str, ...] = checked(pattern="[a-z][a-z-]*")  # names of `tupe.data.text.stages.STAGES`
    language: str  # language of the rules that split sentences and tokens
    vocab_size: int = checked(minimum=1)  # symbols of the dictionary, fairseq's own and `<mask>` included
    model_type: str  # SentencePiece's `bpe` or `unigram`, or the kind of an imported model's tokenizer
    valid_documents: int | float  # documents held out for validation, or, as a float, their share
    # folders of training data, or None: as many as keep each below a gigabyte of text
    shards: int | None = checked(minimum=1)
    # a longer line is cut, since fairseq never splits one: `--tokens-per-sample` less 2, or fewer
    max_tokens: int = checked(minimum=1)
    # exponent that smooths the languages' shares of the text for the vocabulary
    vocab_alpha: float = checked(minimum=0, maximum=1, default=0.5)
    vocabulary: str | None = None  # checksum of a SentencePiece model taken from another corpus; None trains one

    def __post_init__(self) -> None:
        if self.valid_documents < 0 or (isinstance(self.valid_documents, float) and not self.valid_documents < 1):
            raise UserError(
                f"--valid-documents is {self.valid_documents}: give a number of documents, or a share like 0.01."
            )

    def with_vocabulary_of(self, other: "Settings", checksum: str) -> "Settings":
        """Return these settings with the vocabulary of the corpus of `other`, whose model has this checksum.

        Raises:
            UserError: if that text was processed in another way. For an imported model the processing is not known.
        """
        for name in () if other.profile == IMPORTED else ("stages", "language"):
            ours, theirs = getattr(self, name), getattr(other, name)
            if ours != theirs:
                found = f"{_shown(theirs)}, not {_shown(ours)}"
                raise UserError(f"the corpus of --vocabulary has {name} = {found}: give the same options.")
        taken = {name: getattr(other, name) for name in ("vocab_size", "model_type", "vocab_alpha")}
        return replace(self, **taken, vocabulary=checksum)


def _shown(value: Any) -> str:
    return value if isinstance(value, str) else ", ".join(value)
