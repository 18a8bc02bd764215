"""Read a text as token sequences for a model: a file, or the held-out text of a prepared corpus."""

from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from fairseq.data import Dictionary
from fairseq.data.indexed_dataset import MMapIndexedDataset
from torch import Tensor

from tupe.data.binary import check_indexed
from tupe.data.corpus.manifest import Manifest
from tupe.errors import UserError
from tupe.fairseq_patches.checkpoints import read_dictionary, refuse_other_dictionary
from tupe.files import read_text
from tupe.models.tupe import TupeLanguageModelEncoder
from tupe.position.arguments import check_whole

_MADE_BY = "tupe prepare-corpus"


def read_tokens(
    encoder: TupeLanguageModelEncoder, data: str | Path, length: int, number: int = 8, text: Path | None = None
) -> Tensor:
    """Read sequences `<s> ...` of equal length for a model, `(B, n)`, without padding.

    There are at most `number`, of the held-out text of the prepared corpus `data`, or of the file `text` in its
    vocabulary. A text that is shorter than `length` gives one sequence.

    Raises:
        UserError: if the corpus has another dictionary than the model, or the text has fewer than 2 tokens.
    """
    check_whole("length", length, 3)
    check_whole("number", number, 1)
    most = encoder.args.max_positions
    if length > most:
        raise UserError(f"{encoder.shown_as} has {most} positions, fewer than {length}: give a --length up to that.")
    stream = read_stream(encoder, Path(data), text)
    words = min(length - 1, len(stream))
    return windows(stream[: number * words], words, words, Dictionary().bos())


def windows(stream: Tensor, words: int, stride: int, first: int) -> Tensor:
    """Cut a stream `(N,)` into windows of `words` tokens, one at each multiple of `stride`; put `first` before each."""
    return F.pad(stream.unfold(0, words, stride), (1, 0), value=first)


def read_stream(
    encoder: TupeLanguageModelEncoder,
    data: Path,
    text: Path | None = None,
    split: str = "valid",
    most: int | None = None,
) -> Tensor:
    """Return the tokens `(N,)` of a corpus's held-out text, of its training text (`split`), or of the file `text`.

    Reading of a split stops after the line that reaches `most` tokens.

    Raises:
        UserError: if the corpus has another dictionary than the model, or the text has fewer than 2 tokens.
    """
    corpus = Manifest.load(data)
    dictionary = read_dictionary(corpus.dictionary, _MADE_BY)
    symbols = encoder.sentence_encoder.embed_tokens.num_embeddings
    where = f" of {encoder.shown_as}"
    refuse_other_dictionary(encoder.args.dictionary_sha256, dictionary, _MADE_BY, symbols, where, str(data))
    if text is None:
        prefix = corpus.folder / split
        if not prefix.with_name(f"{split}.idx").is_file():
            file = "a file by --text, or where there is no --text another corpus"
            kind, other = ("held-out", file) if split == "valid" else ("training", "a corpus of one language")
            what = f"has its {kind} text by language" if corpus.content.languages else f"has no {kind} text"
            raise UserError(f"{data} {what}: give {other}.")
        check_indexed(prefix, _MADE_BY, symbols=len(dictionary))
        sequences = MMapIndexedDataset(str(prefix))
        stop = None if most is None else np.searchsorted(sequences.sizes.cumsum(), most) + 1
        read = (sequences[i].numpy() for i in range(len(sequences))[:stop])
        tokens = np.concatenate([np.empty(0, np.int64), *read])
    else:
        process, numbers = corpus.text_processing().line, corpus.tokenizer()
        lines = (numbers(process(line)) for line in read_text(text, "a text editor").splitlines())
        tokens = np.array([token for line in lines if line for token in (*line, dictionary.eos())], np.int64)
    if len(tokens) < 2:
        raise UserError(f"{text or data} has no text of 2 tokens or more: give a longer one.")
    return torch.from_numpy(tokens.astype(np.int64))
