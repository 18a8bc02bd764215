"""Settings of a corpus: everything that its contents depend on, beside the input files."""

from dataclasses import dataclass, replace

#: The profile of a folder that `tupe import` made: no stage ran.
IMPORTED = "import"


@dataclass(frozen=True)
class Settings:
    """Settings of `tupe prepare-corpus`."""

    profile: str  # the profile that `stages` and `language` were taken from
    stages: tuple[str, ...]  # names of `tupe.data.text.stages.STAGES`
    language: str  # language of the rules that split sentences and tokens
    vocab_size: int  # symbols of the dictionary, fairseq's own and `<mask>` included
    model_type: str  # SentencePiece's `bpe` or `unigram`, or the kind of an imported model's tokenizer
    valid_documents: int | float  # documents held out for validation, or, as a float, their share
    shards: int | None  # folders of training data, or None: as many as keep each below a gigabyte of text
    # a longer line is cut, since fairseq never splits one: `--tokens-per-sample` less 2, or fewer
    max_tokens: int
    vocab_alpha: float = 0.5  # exponent that smooths the languages' shares of the text for the vocabulary
    vocabulary: str | None = None  # checksum of a SentencePiece model taken from another corpus; None trains one

    def __post_init__(self) -> None:
        object.__setattr__(self, "stages", tuple(self.stages))  # a list in JSON

    def with_vocabulary_of(self, other: "Settings", checksum: str) -> "Settings":
        """Return these settings with the vocabulary of the corpus of `other`, whose model has this checksum."""
        taken = {name: getattr(other, name) for name in ("vocab_size", "model_type", "vocab_alpha")}
        return replace(self, **taken, vocabulary=checksum)
