"""The discriminator of an ELECTRA as a checkpoint of the masked language model whose encoder it is."""

from pathlib import Path

from tupe.checkpoints.fairseq_checkpoint import model_config, write_weights
from tupe.checkpoints.load import open_checkpoint
from tupe.models.tupe import as_namespace
from tupe.systems import plain_name


def export_discriminator(source: str | Path, target: str | Path) -> str:
    """Write the discriminator's encoder in `source`, a checkpoint of `electra_<system>_<size>`, to `target`.

    The result is of `<system>_<size>`, with the same fields, and has no language-model head: a `TupeModel` that loads
    it keeps its own, untrained, and leaves the discriminator's head aside. Heads for classification stay.

    Returns:
        the name of the model that was written.
    """
    checkpoint = open_checkpoint(source)
    config = checkpoint.config
    name = plain_name(config._name)
    weights = {key: tensor for key, tensor in checkpoint.weights.items() if not key.startswith("generator.")}
    fields = model_config(as_namespace(config), name)
    write_weights(Path(target), fields, weights, config.max_positions, updates=checkpoint.updates)
    return name
