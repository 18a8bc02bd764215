"""Prints a model's equation, parameters, cost and fields: those that were given and those of its name.

Examples: tupe describe checkpoints/tupe_base/checkpoint_last.pt
          tupe describe tupe_base relative=unbinned reset=none
"""

import argparse
import os


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("model", metavar="CHECKPOINT|MODEL", help="a checkpoint, or a name such as tupe_base")
    add(
        "fields",
        nargs="*",
        default=[],
        metavar="field=value",
        help="changes of a named model: see `tupe systems --flags`",
    )
    add("--vocab-size", type=int, help="symbols of a named model (default: 32768)")
    add("--max-positions", type=int, help="longest sequence of a named model (default: 512)")


def run(args: argparse.Namespace) -> None:
    from tupe.analysis.checkpoint import open_encoder
    from tupe.models.describe import describe, with_fields
    from tupe.util import UserError

    if os.path.exists(args.model):
        sizes = (f"--{name.replace('_', '-')}" for name in ("vocab_size", "max_positions") if getattr(args, name))
        if given := [*args.fields, *sizes]:
            raise UserError(f"the fields of {args.model} are its own: leave out {' '.join(given)}.")
        encoder = open_encoder(args.model)
        fields, symbols = encoder.args, encoder.sentence_encoder.embed_tokens.num_embeddings
    else:
        fields, symbols = with_fields(args.model, args.fields), args.vocab_size or 32_768
        fields.max_positions = fields.max_positions or args.max_positions or 512
    print("\n".join(describe(fields, symbols)))
