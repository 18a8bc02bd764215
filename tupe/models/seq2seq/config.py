"""The fields of an encoder-decoder's two stacks."""

from argparse import Namespace

from tupe.util import UserError

#: Fields of the other encoders alone.
_OTHERS = {"attention_window": 0, "global_every": 0, "local_rotary_base": 0.0, "pair_separators": 2}
_OTHERS |= dict.fromkeys(("gated", "no_biases", "no_first_norm"), False)


def encoder_args(args: Namespace) -> Namespace:
    """Return the fields of the encoder's stack."""
    return Namespace(**{**vars(args), **_OTHERS, "max_positions": args.max_source_positions})


def decoder_args(args: Namespace) -> Namespace:
    """Return the fields of the decoder's stack, by the names of the encoder's."""
    layers = args.decoder_layers or args.encoder_layers
    own = {"max_positions": args.max_target_positions, "encoder_layers": layers}
    return Namespace(**{**vars(args), **_OTHERS, **own})


def check_terms(args: Namespace) -> None:
    """Raise `UserError` for a term of an encoder, whose model would be built and compute something else here."""
    if args.reset != "none" or args.segment != "none":
        raise UserError("reset and segment must be none, because a translation has no [CLS] and one text on each side.")
    if args.linformer_k or args.relative == "deberta":
        raise UserError("linformer_k must be 0 and relative not deberta, because a decoder sees no later words.")
