"""A checkpoint's model as it is, to be looked at: on the CPU, in float32, without a task or data."""

from __future__ import annotations

from pathlib import Path
from typing import Union

from fairseq.data import Dictionary
from torch import Tensor

from tupe.checkpoints.safe_load import safe_load
from tupe.errors import UserError
from tupe.models.saved import saved_config
from tupe.models.tupe import TupeLanguageModelEncoder, as_namespace

_ENCODER = "encoder."


def open_encoder(checkpoint: Union[str, Path]) -> TupeLanguageModelEncoder:
    """The encoder in a checkpoint of this plugin, pre-trained or fine-tuned, in evaluation mode.

    Its `args` are the configuration, `args._name` the model's name.

    Raises:
        UserError: if the file cannot be read, or holds no model of this plugin.
    """
    state = safe_load(checkpoint)
    args = as_namespace(saved_config(state, checkpoint))
    weights = {
        name[len(_ENCODER) :]: weight.float() for name, weight in state["model"].items() if name.startswith(_ENCODER)
    }
    encoder = TupeLanguageModelEncoder(args, _dictionary(weights["sentence_encoder.embed_tokens.weight"]))
    try:
        encoder.load_state_dict(weights)
    except RuntimeError as error:
        raise UserError(f"the parameters in {checkpoint} are not those of its model {args._name}: {error}") from error
    return encoder.eval()


def _dictionary(embeddings: Tensor) -> Dictionary:
    """As many symbols as there are embeddings: fairseq's own come first in every dictionary."""
    dictionary = Dictionary()
    for index in range(len(dictionary), len(embeddings)):
        dictionary.add_symbol(str(index))
    return dictionary
