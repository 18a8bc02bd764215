"""Prints the named systems with their fields and parameter counts.

The models are `<system>_<size>`: `--arch tupe_base`, `model._name=bert_ad_small`. Counts are for the paper's
vocabulary (32,768) and 512 positions unless told otherwise. Encoder-decoders are `seq2seq_<system>_<size>`.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tupe.models.summary import Size


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--vocab-size", type=int, default=32_768, help="symbols of the dictionary (default: 32768)")
    parser.add_argument("--flags", action="store_true", help="explain the flags that make a system, and no table")
    parser.add_argument("--translation", action="store_true", help="the encoder-decoders instead of the encoders")
    parser.add_argument("--max-positions", type=int, default=512, help="longest sequence (default: 512)")


def run(args: argparse.Namespace) -> None:
    """Prints one table of systems and one of sizes."""
    if args.flags:
        print_flags()
        return
    if args.translation:
        print_translators(args)
        return
    from tupe.models.summary import count_parameters
    from tupe.systems import ALIASES, DESCRIPTIONS, ELECTRA, ELECTRA_SIZES, SIZES, SYSTEMS

    widths = {"absolute": 14, "relative": 10, "reset": 7, "segment": 10, "sharing": 9}
    print(f"{'system':<16}{'paper':<16}" + "".join(f"{key:<{width}}" for key, width in widths.items()) + "logit")
    for name, fields in SYSTEMS.items():
        paper, logit = DESCRIPTIONS[name]
        print(f"{name:<16}{paper:<16}" + "".join(f"{fields[key]:<{width}}" for key, width in widths.items()) + logit)
    for alias, name in ALIASES.items():
        print(f"{alias:<16}another name of {name}")

    print_parameters(args, {name: name for name in SYSTEMS}, SIZES, count_parameters)
    print("\nwith a generator, for replaced-token detection (discriminator + what the generator has alone)")
    print(f"{'':<24}" + "".join(f"{size:>26}" for size in ELECTRA_SIZES))
    for name in SYSTEMS:
        names = (f"{ELECTRA}{name}_{size}" for size in ELECTRA_SIZES)
        counts = (count_parameters(each, args.vocab_size, args.max_positions) for each in names)
        cells = (f"{count.total - count.generator:,} + {count.generator:,}" for count in counts)
        print(f"{ELECTRA + name:<24}" + "".join(f"{cell:>26}" for cell in cells))
    rows = (
        f"{size} {f['encoder_layers']} x {f['encoder_embed_dim']}, {f['encoder_attention_heads']} heads, generator "
        f"{f['generator_size'] * f['encoder_embed_dim']:.0f}"
        for size, f in ELECTRA_SIZES.items()
    )
    print("sizes: " + "; ".join(rows))


def print_translators(args: argparse.Namespace) -> None:
    """The same two tables of the encoder-decoders."""
    from tupe.models.summary import count_translators_parameters
    from tupe.systems import SEQ2SEQ_SIZES, SEQ2SEQ_SYSTEMS

    widths = {"absolute": 14, "relative": 10, "sharing": 9}
    print(f"{'system':<16}" + "".join(f"{key:<{width}}" for key, width in widths.items()))
    for name, fields in SEQ2SEQ_SYSTEMS.items():
        print(f"{name:<16}" + "".join(f"{fields[key]:<{width}}" for key, width in widths.items()))
    names = {name: f"seq2seq_{name}" for name in SEQ2SEQ_SYSTEMS}
    print_parameters(args, names, SEQ2SEQ_SIZES, count_translators_parameters)


def print_parameters(
    args: argparse.Namespace,
    names: dict[str, str],
    sizes: dict[str, dict],
    count: Callable[[str, int, int], Size],
) -> None:
    """Parameters by system, whose models begin as `names` says, and by size."""
    print(f"\nparameters, {args.vocab_size:,} symbols, {args.max_positions} positions (position encoding / model)")
    print(f"{'':<16}" + "".join(f"{size:>26}" for size in sizes))
    for name, begin in names.items():
        cells = (count(f"{begin}_{size}", args.vocab_size, args.max_positions) for size in sizes)
        print(f"{name:<16}" + "".join(f"{f'{cell.position:,} / {cell.total:,}':>26}" for cell in cells))
    rows = (f"{size} {f['encoder_layers']} x {f['encoder_embed_dim']}" for size, f in sizes.items())
    heads = (f"{f['encoder_attention_heads']} heads" for f in sizes.values())
    print("sizes: " + "; ".join(f"{row}, {head}" for row, head in zip(rows, heads)))


def print_flags() -> None:
    """Prints each field of a system as the flag that it is, with its choices, default and meaning."""
    from fairseq.dataclass.constants import StrEnum

    from tupe.models.config import ElectraConfig
    from tupe.models.seq2seq.config import Seq2SeqConfig
    from tupe.position.own import own_options
    from tupe.systems import ELECTRA_FIELDS, SEQ2SEQ_FIELDS, SYSTEM_FIELDS

    fields = {**Seq2SeqConfig.__dataclass_fields__, **ElectraConfig.__dataclass_fields__}
    for name in (*SYSTEM_FIELDS, *own_options(), *ELECTRA_FIELDS, *SEQ2SEQ_FIELDS):
        field = fields[name]
        choices = (
            f" {{{','.join(c.value for c in field.type)}}}"
            if isinstance(field.type, type) and issubclass(field.type, StrEnum)
            else ""
        )
        print(f"--{name.replace('_', '-')}{choices} (default: {field.default})\n    {field.metadata['help']}")
