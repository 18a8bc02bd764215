"""A checkpoint's model as it is, to be looked at: on the CPU, in float32, without a task or data."""

from argparse import Namespace
from collections.abc import Callable
from pathlib import Path

from tupe.checkpoints.load import open_checkpoint
from tupe.errors import UserError
from tupe.models.describe import full_name
from tupe.models.summary import dictionary_of_size
from tupe.models.tupe import ELECTRA_PARTS, TupeLanguageModelEncoder, as_namespace
from tupe.systems import DESCRIPTIONS, SYSTEMS

_ENCODER = "encoder."


#: A checkpoint's file, or what `open_encoder` made of it.
Checkpoint = str | Path | TupeLanguageModelEncoder


def open_encoder(checkpoint: Checkpoint, name: str = "") -> TupeLanguageModelEncoder:
    """The encoder in a checkpoint of this plugin, pre-trained or fine-tuned, in evaluation mode; an encoder as it is.

    Of a generator and a discriminator it is the discriminator's, without a head.

    Its `args` are the configuration, `args._name` the model's name; `shown_as` is what figures call it: `name`, or by
    default the model's name with the fields that were given, as in `tupe_tiny reset=none`; `discriminates` whether it
    is a discriminator's.

    Raises:
        UserError: if the file cannot be read, or holds no model of this plugin.
    """
    if isinstance(checkpoint, TupeLanguageModelEncoder):
        return checkpoint
    opened = open_checkpoint(checkpoint)
    args = as_namespace(opened.config)
    weights = {
        name[len(_ENCODER) :]: weight.float() for name, weight in opened.weights.items() if name.startswith(_ENCODER)
    }
    symbols = len(weights["sentence_encoder.embed_tokens.weight"])
    encoder = TupeLanguageModelEncoder(args, dictionary_of_size(symbols))
    encoder.discriminates = any(name.startswith(ELECTRA_PARTS) for name in opened.weights)  # exported or not
    if encoder.discriminates:  # a discriminator's head tells tokens apart and names none
        weights = {**{f"lm_head.{name}": value for name, value in encoder.lm_head.state_dict().items()}, **weights}
    try:
        encoder.load_state_dict(weights)
    except RuntimeError as error:
        raise UserError(f"the parameters in {checkpoint} are not those of its model {args._name}: {error}") from error
    encoder.shown_as = name or full_name(args)
    return encoder.eval()


def systems_with(has: Callable[[Namespace], bool]) -> str:
    """The papers' systems whose fields are such, as in `TUPE-A, TUPE-R`: where to find a term that a model lacks."""
    return ", ".join(DESCRIPTIONS[name][0] for name, fields in SYSTEMS.items() if has(Namespace(**fields)))
