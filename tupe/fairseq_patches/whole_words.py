"""`mask_whole_words`, for which fairseq asks its task for command-line arguments that a task no longer has."""

import torch
from fairseq.data import Dictionary
from fairseq.tasks import masked_lm

from tupe.errors import UserError
from tupe.fairseq_patches.patching import patches
from tupe.fairseq_patches.scope import in_scope

_SENTENCEPIECE, _WORDPIECE = "\u2581", "##"


@patches(masked_lm, "get_whole_word_mask", "args dictionary", only_for=lambda args, dictionary: in_scope(args))
def words_of_the_vocabulary(original):
    """fairseq asks the tokenizer of `--bpe`; vocabularies of ours say themselves where words begin."""
    return lambda args, dictionary: word_begins(dictionary)


def word_begins(dictionary: Dictionary) -> torch.Tensor:
    """Return whether each symbol begins a word, uint8 `(V,)`; special symbols are words of their own.

    Raises:
        UserError: if the symbols follow neither SentencePiece nor WordPiece.
    """
    symbols = dictionary.symbols
    if any(symbol.startswith(_SENTENCEPIECE) for symbol in symbols):
        begins = [symbol.startswith(_SENTENCEPIECE) for symbol in symbols]
    elif any(symbol.startswith(_WORDPIECE) for symbol in symbols):
        begins = [not symbol.startswith(_WORDPIECE) for symbol in symbols]
    else:
        raise UserError(
            f"mask_whole_words needs a vocabulary that says where words begin, by {_SENTENCEPIECE} (SentencePiece) or "
            f"{_WORDPIECE} (WordPiece), but no symbol of dict.txt begins so: leave mask_whole_words out."
        )
    special = [index < dictionary.nspecial or symbol == "<mask>" or symbol.startswith("madeupword")
               for index, symbol in enumerate(symbols)]  # fmt: skip
    return torch.tensor([a or b for a, b in zip(begins, special)], dtype=torch.uint8)
