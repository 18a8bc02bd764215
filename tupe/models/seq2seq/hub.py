"""fairseq's hub interface for translation, with checks of its arguments."""

from collections.abc import Iterable
from typing import Any

from fairseq.hub_utils import GeneratorHubInterface
from torch import Tensor

from tupe.errors import UserError
from tupe.position.arguments import check_whole, shown

_OF_GENERATE = ("verbose", "skip_invalid_size_inputs", "inference_step_args", "prefix_allowed_tokens_fn")


class TranslationHub(GeneratorHubInterface):
    """fairseq's interface for raw text: `translate`, `sample`, `score`, `encode`, `generate`, `decode`.

    Each raises `UserError` for what is no text or no such tokens, and for options that fairseq's search does not have.
    """

    def sample(self, sentences: str | list[str], *args: Any, **kwargs: Any) -> str | list[str]:
        """Return a translation of each sentence, or of one that is a `str`."""
        return super().sample(_listed("sentences", sentences), *args, **kwargs)

    def encode(self, sentence: str) -> Tensor:
        """Return the numbers of a text's symbols, `(n,)`."""
        if not isinstance(sentence, str):
            raise UserError(f"a sentence is {shown(sentence)}, but must be a str")
        return super().encode(sentence)

    def generate(
        self, tokenized_sentences: list[Tensor] | Tensor, beam: int = 5, *args: Any, **kwargs: Any
    ) -> list[list[dict[str, Any]]] | list[dict[str, Any]]:
        """Return the `beam` best translations of each sentence, as `encode` gives it, or of one that is a tensor."""
        check_whole("beam", beam, 1)
        sentences = _listed("tokenized_sentences", tokenized_sentences)
        one = isinstance(sentences, Tensor) and sentences.ndim == 1
        for tokens in [sentences] if one else sentences:
            if not isinstance(tokens, Tensor) or tokens.ndim != 1:
                raise UserError(f"tokens are {shown(tokens)}, but must be a tensor (n,): give what encode(text) gives")
        return super().generate(sentences, beam, *args, **kwargs)


def _listed(name: str, sentences: object) -> Any:
    """Return `sentences`, a generator of them as a list. Raise `UserError` for anything else."""
    if isinstance(sentences, (str, Tensor)):
        return sentences
    if not isinstance(sentences, Iterable) or isinstance(sentences, (bytes, dict)):
        raise UserError(f"{name} are {shown(sentences)}, but must be a list, or one sentence")
    return list(sentences)
