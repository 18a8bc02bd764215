"""Read the text of a prepared corpus as token sequences for a model."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import torch
import torch.nn.functional as F
from fairseq.data import Dictionary
from fairseq.data.indexed_dataset import MMapIndexedDataset
from torch import Tensor

from tupe.data.manifest import Manifest
from tupe.models.tupe import TupeLanguageModelEncoder as Encoder
from tupe.patches.checkpoints import read_dictionary, refuse_mixed


def read_tokens(encoder: Encoder, data: str | Path, length: int, number: int = 8) -> Tensor:
    """Read at most `number` sequences `<s> ...` of a corpus's held-out text, `(B, n)`, without padding.

    A text that is shorter than `length` gives one sequence.
    """
    stream = read_stream(encoder, Path(data))
    words = min(length - 1, encoder.args.max_positions - 1, len(stream))
    return windows(stream[: number * words], words, words, Dictionary().bos())


def windows(stream: Tensor, words: int, stride: int, first: int) -> Tensor:
    """Cut a stream `(N,)` into windows of `words` tokens, one at each multiple of `stride`; put `first` before each."""
    return F.pad(stream.unfold(0, words, stride), (1, 0), value=first)


def read_stream(encoder: Encoder, data: Path, split: str = "valid", most: int = 1 << 62) -> Tensor:
    """Return the tokens `(N,)` of a split of the prepared corpus `data`.

    Reading stops after the line that reaches `most` tokens.

    Raises:
        UserError: the corpus has another dictionary than the model.
    """
    corpus = Manifest.load(data)
    symbols = encoder.sentence_encoder.embed_tokens.num_embeddings
    trained = {"dictionary_sha256": encoder.args.dictionary_sha256, "symbols": symbols}
    refuse_mixed(trained, SimpleNamespace(source_dictionary=read_dictionary(corpus.dictionary)), encoder.shown_as)
    sequences = MMapIndexedDataset(str(corpus.folder / split))
    stop = np.searchsorted(sequences.sizes.cumsum(), most) + 1
    tokens = np.concatenate([sequences[i].numpy() for i in range(len(sequences))[:stop]])
    return torch.from_numpy(tokens.astype(np.int64))
