"""fairseq's hub interface, with the separators of the model's training, and masks filled with words alone."""

import math

import torch
from fairseq.models.roberta import RobertaHubInterface
from torch import Tensor, nn

from tupe.patches.checkpoints import special_symbols


class HubInterface(RobertaHubInterface):
    """fairseq's interface for raw text, without special symbols among the words of `fill_mask`."""

    def encode(self, sentence: str, *others: str, no_separator: bool | None = None) -> Tensor:
        """Encode a text, or a pair with the separators between its texts that the model was trained with."""
        if no_separator is None:
            no_separator = self.model.args.pair_separators == 1
        return super().encode(sentence, *others, no_separator=no_separator)

    def fill_mask(self, masked_input: str, topk: int = 5) -> list[tuple[str, float, str]]:
        """Return the `topk` likeliest words in place of `<mask>`: the text with each, its probability, and the word.

        A word is a piece of the vocabulary, never a special symbol. Its probability is a share of all symbols.
        """
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
