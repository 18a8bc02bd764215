"""The discriminator of an ELECTRA as a checkpoint of the masked language model whose encoder it is."""

from __future__ import annotations

from pathlib import Path
from typing import Union

from tupe.checkpoints.fairseq_checkpoint import write_weights
from tupe.checkpoints.safe_load import safe_load
from tupe.errors import UserError
from tupe.models.config import TupeConfig
from tupe.models.saved import saved_config, saved_updates
from tupe.models.tupe import as_namespace
from tupe.systems import ELECTRA, ELECTRA_NAMES, plain_name


def export_discriminator(source: Union[str, Path], target: Union[str, Path]) -> str:
    """Writes the discriminator's encoder in `source`, a checkpoint of `electra_<system>_<size>`, to `target`.

    The result is of `<system>_<size>`, with the same fields, and has no language-model head: a `TupeModel` that loads
    it keeps its own, untrained, and leaves the discriminator's head aside. Heads for classification stay.

    Returns:
        the name of the model that was written.

    Raises:
        UserError: if the file cannot be read, or holds another model.
    """
    state = safe_load(source)
    config = saved_config(state, source)
    if config._name not in ELECTRA_NAMES:
        raise UserError(
            f"{source} holds the model {config._name!r}, which has no discriminator: give a checkpoint of one of "
            f"{ELECTRA}..."
        )
    name = plain_name(config._name)
    fields = {field: value for field, value in vars(as_namespace(config)).items() if hasattr(TupeConfig, field)}
    weights = {key: tensor for key, tensor in state["model"].items() if not key.startswith("generator.")}
    updates = saved_updates(state, source)
    write_weights(Path(target), {**fields, "_name": name}, weights, config.max_positions, updates=updates)
    return name
