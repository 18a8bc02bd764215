"""Real text as sequences of a model: of a file, or what a prepared corpus holds out."""

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

_MADE_BY = "tupe prepare-corpus"


def read_tokens(
    encoder: TupeLanguageModelEncoder, data: Path, length: int, number: int = 8, text: Path | None = None
) -> Tensor:
    """Sequences `<s> ...` of equal length, without padding.

    Args:
        encoder: the model that is to read them.
        data: folder of the prepared corpus, for its vocabulary and held-out text.
        length: of a sequence, at least 3; of a shorter text there is one sequence, as long as that.
        number: of sequences, at most.
        text: a file of text in place of the held-out one.

    Returns:
        `(B, n)`, B at most `number` and n at most `length`.

    Raises:
        UserError: if the corpus has another dictionary than the model, or the text has fewer than 2 tokens.
    """
    if length < 3:
        raise UserError(f"a sequence of {length} token(s) has nothing to show: give a length of 3 or more.")
    stream = read_stream(encoder, data, text)
    words = min(length - 1, len(stream))
    return windows(stream[: number * words], words, words, Dictionary().bos())


def windows(stream: Tensor, words: int, stride: int, first: int) -> Tensor:
    """Every window of so many `words` of a stream `(N,)` that begins at a multiple of `stride`, behind `first`."""
    return F.pad(stream.unfold(0, words, stride), (1, 0), value=first)


def read_stream(encoder: TupeLanguageModelEncoder, data: Path, text: Path | None = None) -> Tensor:
    """All tokens `(N,)` of what a corpus holds out, or of a text, one after another. Arguments as of `read_tokens`.

    Raises:
        UserError: if the corpus has another dictionary than the model, or the text has fewer than 2 tokens.
    """
    corpus = Manifest.load(data)
    dictionary = read_dictionary(corpus.dictionary, _MADE_BY)
    symbols = encoder.sentence_encoder.embed_tokens.num_embeddings
    where = f" of {encoder.shown_as}"
    refuse_other_dictionary(encoder.args.dictionary_sha256, dictionary, _MADE_BY, symbols, where, str(data))
    if text is None:
        if not (corpus.folder / "valid.idx").is_file():
            what = "holds out text by language" if corpus.content.languages else "has no held-out text"
            raise UserError(f"{data} {what}: give a file of text.")
        check_indexed(corpus.folder / "valid", _MADE_BY, symbols=len(dictionary))
        valid = MMapIndexedDataset(str(corpus.folder / "valid"))
        tokens = np.concatenate([valid[i].numpy() for i in range(len(valid))]) if len(valid) else np.empty(0, np.int64)
    else:
        process, numbers = corpus.text_processing().line, corpus.tokenizer()
        lines = (numbers(process(line)) for line in read_text(text, "a text editor").splitlines())
        tokens = np.array([token for line in lines if line for token in (*line, dictionary.eos())], np.int64)
    if len(tokens) < 2:
        raise UserError(f"{text or data} has no text of 2 tokens or more: give a longer one.")
    return torch.from_numpy(tokens.astype(np.int64))
