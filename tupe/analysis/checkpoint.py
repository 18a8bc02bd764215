"""Open a checkpoint's encoder for analysis: on the CPU, in float32, without a task or data."""

import dataclasses
from argparse import Namespace
from collections.abc import Callable, Mapping
from pathlib import Path

import yaml

from tupe.checkpoints.load import Checkpoint as Opened
from tupe.checkpoints.load import open_checkpoint
from tupe.models.config import TupeConfig
from tupe.models.describe import full_name
from tupe.models.heads import shapes
from tupe.models.summary import dictionary_of_size
from tupe.models.tupe import ELECTRA_PARTS, TupeLanguageModelEncoder, as_namespace
from tupe.systems import DESCRIPTIONS, SYSTEMS
from tupe.util import UserError

_ENCODER = "encoder."
_FIRE_LENGTH = "sentence_encoder.position_bias.relative.length"


#: A checkpoint's file, what `open_checkpoint` returned for it, or what `open_encoder` did.
Checkpoint = str | Path | Opened | TupeLanguageModelEncoder


def open_encoder(
    checkpoint: Checkpoint, name: str = "", overrides: Mapping[str, object] | None = None
) -> TupeLanguageModelEncoder:
    """Return the encoder in a checkpoint of this plugin, in evaluation mode; an encoder is returned as it is.

    From a generator and discriminator, it is the discriminator's encoder, without a head. These attributes are added:

    - `shown_as`: its name in figures, `name` or by default the model with the fields that were given, as in
      `tupe_tiny reset=none`
    - `discriminates`: whether it is a discriminator's
    - `trained_length`: positions of the sequences that it was trained on

    Args:
        checkpoint: of a model of this plugin.
        name: for `shown_as`.
        overrides: fields of its position encoding, in place of those of training; the parameters stay.

    Raises:
        UserError: for `overrides` that change the parameters, and for `overrides` of an open encoder.
    """
    if isinstance(checkpoint, TupeLanguageModelEncoder):
        if overrides:
            raise UserError("The encoder is open, so its fields cannot change. Pass the checkpoint's path.")
        return checkpoint
    opened = open_checkpoint(checkpoint)
    length = opened.task.get("tokens_per_sample")
    positions = opened.config.max_positions
    trained_length = min(length, positions) if isinstance(length, int) else positions
    config = overridden(opened.config, overrides) if overrides else opened.config
    args = as_namespace(config)
    weights = {
        name[len(_ENCODER) :]: weight.float() for name, weight in opened.weights.items() if name.startswith(_ENCODER)
    }
    symbols = len(weights["sentence_encoder.embed_tokens.weight"])
    encoder = TupeLanguageModelEncoder(args, dictionary_of_size(symbols))
    encoder.discriminates = any(name.startswith(ELECTRA_PARTS) for name in opened.weights)  # exported or not
    if encoder.discriminates:  # its head tells replaced tokens from original ones, and predicts none
        weights = {**{f"lm_head.{name}": value for name, value in encoder.lm_head.state_dict().items()}, **weights}
    if "fire_length" in (overrides or {}):
        # `fire_length` initialises a parameter, so the trained value is dropped
        weights[_FIRE_LENGTH] = encoder.state_dict()[_FIRE_LENGTH]
    # a table of another term, if it is the longer one, would be sliced as if it had more positions
    if overrides and shapes(encoder.state_dict()) != shapes(weights):
        given = ", ".join(f"{field}={value}" for field, value in overrides.items())
        raise UserError(f"{checkpoint} has other parameters than a model with {given}.")
    encoder.load_state_dict(weights)
    encoder.shown_as = name or full_name(args)
    encoder.trained_length = trained_length
    return encoder.eval()


def overridden(config: TupeConfig, fields: Mapping[str, object]) -> TupeConfig:
    """Replace fields of the position encoding, as values or as texts that are read by YAML's rules."""
    given = {name: yaml.safe_load(value) if isinstance(value, str) else value for name, value in fields.items()}
    return dataclasses.replace(config, **given)


def systems_with(has: Callable[[Namespace], bool]) -> str:
    """List the papers' systems that have a term, as in `TUPE-A, TUPE-R`, for messages about a model that lacks it."""
    return ", ".join(DESCRIPTIONS[name][0] for name, fields in SYSTEMS.items() if has(Namespace(**fields)))
