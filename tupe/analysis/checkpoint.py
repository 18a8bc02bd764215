"""Open a checkpoint's encoder for analysis: on the CPU, in float32, without a task or data."""

import dataclasses
from pathlib import Path

from tupe.checkpoints.load import Checkpoint, open_checkpoint
from tupe.models.describe import full_name
from tupe.models.heads import has_lm_head
from tupe.models.summary import dictionary_of_size
from tupe.models.tupe import TupeLanguageModelEncoder as Encoder
from tupe.models.tupe import as_namespace


def open_encoder(checkpoint: str | Path | Checkpoint, name: str = "", **fields: object) -> Encoder:
    """Return the encoder in a checkpoint of this plugin, in evaluation mode.

    For an ELECTRA, this is the discriminator's encoder. It has a language-model head if the checkpoint has one. These
    attributes are added:

    - `shown_as`: its name in figures: `name`, or else the model's name and the fields that differ from it, such as
      `tupe_tiny reset=none`
    - `trained_length`: number of positions of the sequences that it was trained on

    Args:
        checkpoint: a checkpoint of this plugin: its file, or the result of `open_checkpoint`.
        name: for `shown_as`.
        fields: fields of the configuration that replace those of training; they must not change any parameter.
    """
    opened = open_checkpoint(checkpoint)
    config = dataclasses.replace(opened.config, **fields)
    args = as_namespace(config)
    parameters = {key: weight.float() for key, weight in opened.weights.items() if key.startswith("encoder.")}
    weights = {key.removeprefix("encoder."): weight for key, weight in parameters.items()}
    symbols = len(weights["sentence_encoder.embed_tokens.weight"])
    encoder = Encoder(args, dictionary_of_size(symbols), has_lm_head(parameters))
    encoder.load_state_dict(weights)
    encoder.shown_as = name or full_name(args)
    encoder.trained_length = min(opened.task.get("tokens_per_sample") or config.max_positions, config.max_positions)
    return encoder.eval()
