"""Prints the named systems with their fields; with --parameters how large they are.

The models are `<system>_<size>`: `--arch tupe_base`, `model._name=bert_ad_small`. Encoder-decoders are
`seq2seq_<system>_<size>`, models with a generator `electra_<system>_<size>`.
Examples: tupe systems
          tupe systems --parameters --vocab-size 50000
"""

import argparse

from tupe.systems import (
    ALIASES,
    DESCRIPTIONS,
    ELECTRA,
    ELECTRA_SIZES,
    SEQ2SEQ_SIZES,
    SEQ2SEQ_SYSTEMS,
    SIZES,
    SYSTEMS,
    Fields,
)

_WIDTHS = {"absolute": 14, "relative": 10, "reset": 7, "segment": 10, "sharing": 9}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    kinds = parser.add_mutually_exclusive_group().add_argument
    kinds("--electra", action="store_true", help="the models with a generator, for replaced-token detection")
    kinds("--translation", action="store_true", help="the encoder-decoders instead of the encoders")
    add("--parameters", action="store_true", help="count the parameters")
    add("--vocab-size", type=int, help="count for so many symbols (default: 32,768; the paper prints 32,678)")
    add("--max-positions", type=int, help="count for so many positions (default: 512)")
    kinds("--flags", action="store_true", help="explain the flags that make a system, and no table")


def run(args: argparse.Namespace) -> None:
    if args.flags:
        print_flags()
        return
    if args.translation:
        sizes, names = SEQ2SEQ_SIZES, {name: f"seq2seq_{name}" for name in SEQ2SEQ_SYSTEMS}
        print_systems(SEQ2SEQ_SYSTEMS, ("absolute", "relative", "sharing"))
    elif args.electra:
        sizes, names = ELECTRA_SIZES, {f"{ELECTRA}{name}": f"{ELECTRA}{name}" for name in SYSTEMS}
        print_systems({f"{ELECTRA}{name}": fields for name, fields in SYSTEMS.items()}, tuple(_WIDTHS))
    else:
        sizes, names = SIZES, {name: name for name in SYSTEMS}
        print_systems(SYSTEMS, tuple(_WIDTHS), DESCRIPTIONS)
        for alias, name in ALIASES.items():
            print(f"{alias:<16}another name of {name}")
    print("sizes: " + "; ".join(f"{name} {_size(fields)}" for name, fields in sizes.items()))
    if args.parameters or args.vocab_size or args.max_positions:
        print_parameters(names, sizes, args.vocab_size or 32_768, args.max_positions or 512)


def print_systems(
    systems: dict[str, Fields], fields: tuple[str, ...], described: dict[str, tuple[str, str]] | None = None
) -> None:
    """Print a row of fields for each system; `described` adds its name in the papers and its logit."""
    widths = [max(map(len, systems)) + 2, *(_WIDTHS[field] for field in fields)]
    rows = [["system", *fields], *([name, *(str(row[field]) for field in fields)] for name, row in systems.items())]
    if described:
        widths.insert(1, 2 + max(len(described[name][0]) for name in systems))
        for row, (paper, logit) in zip(rows, [("paper", "logit"), *(described[name] for name in systems)]):
            row[1:] = [paper, *row[1:], logit]
    for row in rows:
        print("".join(f"{cell:<{width}}" for cell, width in zip(row, [*widths, 0])).rstrip())


def _size(fields: Fields) -> str:
    text = f"{fields['encoder_layers']} x {fields['encoder_embed_dim']}, {fields['encoder_attention_heads']} heads"
    if "generator_size" in fields:
        text += f", generator {fields['generator_size'] * fields['encoder_embed_dim']:.0f}"
    return text


def print_parameters(names: dict[str, str], sizes: dict[str, Fields], symbols: int, positions: int) -> None:
    """Print the parameters by system and size; `names` has the beginning of each system's models."""
    from tupe.models.summary import count_parameters

    shown = "discriminator + what the generator has alone" if sizes is ELECTRA_SIZES else "position encoding / model"
    print(f"\nparameters, {symbols:,} symbols, {positions} positions ({shown})")
    width = max(map(len, names)) + 2
    print(f"{'':<{width}}" + "".join(f"{size:>26}" for size in sizes))
    for name, begin in names.items():
        counts = [count_parameters(f"{begin}_{size}", symbols, positions) for size in sizes]
        cells = (
            f"{n.total - n.generator:,} + {n.generator:,}" if n.generator else f"{n.position:,} / {n.total:,}"
            for n in counts
        )
        print(f"{name:<{width}}" + "".join(f"{cell:>26}" for cell in cells))


def print_flags() -> None:
    """Print the flag of each field of a system, with its choices, default and meaning."""
    from fairseq.dataclass.constants import StrEnum

    from tupe.models.config import ElectraConfig, Seq2SeqConfig
    from tupe.systems import system_fields

    fields = {**Seq2SeqConfig.__dataclass_fields__, **ElectraConfig.__dataclass_fields__}
    for name in system_fields(ElectraConfig, Seq2SeqConfig):
        field = fields[name]
        choices = (
            f" {{{','.join(c.value for c in field.type)}}}"
            if isinstance(field.type, type) and issubclass(field.type, StrEnum)
            else ""
        )
        print(f"--{name.replace('_', '-')}{choices} (default: {field.default})\n    {field.metadata['help']}")
