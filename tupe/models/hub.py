"""fairseq's hub interface, with checks of its arguments."""

import math
from collections.abc import Collection

import torch
from fairseq.models.roberta import RobertaHubInterface
from torch import Tensor, nn

from tupe.data.corpus.vocabulary import MASK
from tupe.errors import UserError
from tupe.fairseq_patches.checkpoints import special_symbols
from tupe.models.encoder import check_tokens
from tupe.position.arguments import check_flags, check_whole
from tupe.position.length import check_length
from tupe.tracing import is_traced


class HubInterface(RobertaHubInterface):
    """fairseq's interface for raw text, without special symbols among the words of `fill_mask`."""

    def encode(self, sentence: str, *others: str, no_separator: bool | None = None) -> Tensor:
        """Encode a text, or a pair with the separators between its texts that the model was trained with.

        Raises:
            UserError: for what is no text, and without a tokenizer.
        """
        self._tokenizes(sentence, *others)
        if no_separator is None:
            no_separator = self.model.args.pair_separators == 1
        check_flags(no_separator=no_separator)
        return super().encode(sentence, *others, no_separator=no_separator)

    def decode(self, tokens: Tensor) -> str | list[str]:
        """Return the text of one sequence of tokens, or the texts of a pair."""
        self._tokenizes()
        check_tokens(tokens, self.model.encoder.sentence_encoder.embed_tokens, axes=(1,))
        return super().decode(tokens)

    def extract_features(self, tokens: Tensor, return_all_hiddens: bool = False) -> Tensor:
        """Return the features `(B, T, d)` of tokens `(T,)` or `(B, T)`, or those of every layer.

        Raises:
            UserError: for tokens that are no such tensor, or too many; on the CPU also for numbers of no symbol.
        """
        check_flags(return_all_hiddens=return_all_hiddens)
        check_tokens(tokens, self.model.encoder.sentence_encoder.embed_tokens, axes=(1, 2))
        check_length(tokens.shape[-1], self.model.max_positions())
        if tokens.device.type == "cpu" and not is_traced():  # a GPU would have to be waited for
            padding = tokens.eq(self.task.source_dictionary.pad())
            if (padding[..., 0] & ~padding.all(-1)).any():
                raise UserError("tokens begin with padding, but positions count from the first: pad on the right")
        return super().extract_features(tokens, return_all_hiddens)

    def predict(self, head: str, tokens: Tensor, return_logits: bool = False) -> Tensor:
        """Return the log-probabilities of the classes, or the scores, of the classification head `head`.

        Raises:
            UserError: for a head that the model does not have, and as `extract_features`.
        """
        check_flags(return_logits=return_logits)
        check_head(self.model.classification_heads, head)
        check_tokens(tokens, self.model.encoder.sentence_encoder.embed_tokens, axes=(1, 2))
        return super().predict(head, tokens, return_logits)

    def _tokenizes(self, *texts: object) -> None:
        """Raise `UserError` without a tokenizer, and for what is no text."""
        if self.bpe is None:
            raise UserError(
                "this model was loaded without a tokenizer (bpe=None): load it with bpe=, or give numbers of symbols "
                "to extract_features"
            )
        for text in texts:
            if not isinstance(text, str):
                raise UserError(f"a text is {text!r:.60}, but must be a str: give the texts of a pair one by one")

    def fill_mask(self, masked_input: str, topk: int = 5) -> list[tuple[str, float, str]]:
        """Return the `topk` likeliest words in place of `<mask>`: the text with each, its probability, and the word.

        A word is a piece of the vocabulary, never a special symbol; its probability is a share of all symbols.

        Raises:
            UserError: if the text has no mask, or several, for a `topk` below 1, and for a fine-tuned model.
        """
        check_whole("topk", topk, 1)
        if not hasattr(self.task, "mask_idx"):
            raise UserError("fill_mask needs a model of words, but this one was fine-tuned: load the pre-trained one")
        masks = str(masked_input).count(MASK)
        if masks != 1:
            raise UserError(f"fill_mask fills one {MASK}, but this text has {masks or 'none'}: {masked_input!r:.60}")
        self._tokenizes(masked_input)
        dictionary, share = self.task.source_dictionary, 1.0
        special = torch.tensor(special_symbols(dictionary))

        def without_special(model: nn.Module, inputs: tuple, output: tuple[Tensor, dict]) -> tuple[Tensor, dict]:
            nonlocal share
            scores, hidden = output[0], special.to(output[0].device)
            share = scores[inputs[0] == self.task.mask_idx].float().softmax(-1)[:, ~hidden].sum().item()
            return scores.masked_fill(hidden, -math.inf), output[1]

        with self.model.register_forward_hook(without_special):
            found = super().fill_mask(masked_input, min(topk, int((~special).sum())))
        return [(text, probability * share, word) for text, probability, word in found]


def check_head(heads: Collection[str], name: object) -> None:
    """Raise `UserError` unless one of the classification heads has the name."""
    if not isinstance(name, str) or name not in heads:
        raise UserError(
            f"the model has no classification head {name!r:.60} (it has {', '.join(heads) or 'none'}): give one of "
            "these, or add it by register_classification_head(name, num_classes)"
        )
