"""Tables of the named systems, their parameters and their flags."""

from collections.abc import Iterable
from enum import EnumMeta
from typing import Literal

from typer import Option

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

#: Kind of models -> the prefix of their names, their systems and sizes.
KINDS = {
    "encoder": ("", SYSTEMS, SIZES),
    "electra": (ELECTRA, SYSTEMS, ELECTRA_SIZES),
    "translation": ("seq2seq_", SEQ2SEQ_SYSTEMS, SEQ2SEQ_SIZES),
}
_FIELDS = ("absolute", "relative", "reset", "segment", "sharing")


def systems(
    kind: Literal["encoder", "electra", "translation"] = Option("encoder", help="Kind of models."),
    flags: bool = Option(False, "--flags", help="Explain the flags that make a system instead."),
    parameters: bool = Option(False, "--parameters", help="Count the parameters too."),
    vocab_size: int = Option(32_768, help="Symbols, for the count."),
    max_positions: int = Option(512, help="Positions, for the count."),
) -> None:
    """Print the named systems with their fields.

    The models are SYSTEM_SIZE, electra_SYSTEM_SIZE with a generator, and seq2seq_SYSTEM_SIZE for translation.

    tupe systems --parameters --vocab-size 50000
    """
    if flags:
        print_flags()
        return
    print_systems(kind)
    if parameters:
        print_parameters(kind, vocab_size, max_positions)


def print_systems(kind: str) -> None:
    """Print a row of fields for each system; encoders have a name in the papers and a logit too."""
    prefix, systems, sizes = KINDS[kind]
    rows = [("system", *_FIELDS), *((prefix + name, *(row[f] for f in _FIELDS)) for name, row in systems.items())]
    if kind == "encoder":
        described = [("paper", "logit"), *(DESCRIPTIONS[name] for name in systems)]
        rows = [(name, paper, *fields, logit) for (name, *fields), (paper, logit) in zip(rows, described)]
    _print_aligned(rows)
    for alias, name in ALIASES.items() if kind == "encoder" else ():
        print(f"{alias} is another name of {name}")
    print("sizes: " + "; ".join(f"{name} {_size(fields)}" for name, fields in sizes.items()))


def print_parameters(kind: str, symbols: int, positions: int) -> None:
    """Print the parameters by system and size."""
    from tupe.models.summary import count_parameters

    prefix, systems, sizes = KINDS[kind]
    print(f"\nparameters, {symbols:,} symbols, {positions} positions (position encoding / model)")
    rows = [("", *sizes)]
    for name in systems:
        counts = [count_parameters(f"{prefix}{name}_{size}", symbols, positions) for size in sizes]
        rows.append((prefix + name, *(f"{n.position:,} / {n.total:,}" for n in counts)))
    _print_aligned(rows)


def print_flags() -> None:
    """Print the flag of each field of a system, with its choices, default and meaning."""
    from tupe.models.config import ElectraConfig, Seq2SeqConfig
    from tupe.systems import system_fields

    fields = {**Seq2SeqConfig.__dataclass_fields__, **ElectraConfig.__dataclass_fields__}
    for name in system_fields(ElectraConfig, Seq2SeqConfig):
        field = fields[name]
        choices = f" {{{','.join(map(str, field.type))}}}" if isinstance(field.type, EnumMeta) else ""
        print(f"--{name.replace('_', '-')}{choices} (default: {field.default})\n    {field.metadata['help']}")


def _print_aligned(rows: list[Iterable[object]]) -> None:
    cells = [[str(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) + 2 for column in zip(*cells)]
    for row in cells:
        print("".join(f"{cell:<{width}}" for cell, width in zip(row, widths)).rstrip())


def _size(fields: Fields) -> str:
    return f"{fields['encoder_layers']} x {fields['encoder_embed_dim']}, {fields['encoder_attention_heads']} heads"
