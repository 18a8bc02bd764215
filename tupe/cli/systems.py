"""Prints the named systems with their fields and parameter counts.

The models are `<system>_<size>`: `--arch tupe_base`, `model._name=bert_ad_small`. Counts are for the paper's
vocabulary (32,768) and 512 positions unless told otherwise.
"""

from __future__ import annotations

import argparse


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--vocab-size", type=int, default=32_768, help="symbols of the dictionary (default: 32768)")
    parser.add_argument("--flags", action="store_true", help="explain the flags that make a system, and no table")
    parser.add_argument("--max-positions", type=int, default=512, help="longest sequence (default: 512)")


def run(args: argparse.Namespace) -> None:
    """Prints one table of systems and one of sizes."""
    if args.flags:
        print_flags()
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

    print(f"\nparameters, {args.vocab_size:,} symbols, {args.max_positions} positions (position encoding / model)")
    print(f"{'':<16}" + "".join(f"{size:>26}" for size in SIZES))
    for name in SYSTEMS:
        cells = (count_parameters(f"{name}_{size}", args.vocab_size, args.max_positions) for size in SIZES)
        print(f"{name:<16}" + "".join(f"{f'{cell.position:,} / {cell.total:,}':>26}" for cell in cells))
    rows = (f"{size} {f['encoder_layers']} x {f['encoder_embed_dim']}" for size, f in SIZES.items())
    heads = (f"{f['encoder_attention_heads']} heads" for f in SIZES.values())
    print("sizes: " + "; ".join(f"{row}, {head}" for row, head in zip(rows, heads)))

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


def print_flags() -> None:
    """Prints each field of a system as the flag that it is, with its choices, default and meaning."""
    from fairseq.dataclass.constants import StrEnum

    from tupe.models.config import ElectraConfig
    from tupe.systems import ELECTRA_FIELDS, SYSTEM_FIELDS

    for name in (*SYSTEM_FIELDS, *ELECTRA_FIELDS):
        field = ElectraConfig.__dataclass_fields__[name]
        choices = f" {{{','.join(c.value for c in field.type)}}}" if issubclass(field.type, StrEnum) else ""
        print(f"--{name.replace('_', '-')}{choices} (default: {field.default})\n    {field.metadata['help']}")
