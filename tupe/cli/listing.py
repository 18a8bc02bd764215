"""Tables of the named systems, their parameters and their flags."""

from collections.abc import Iterable
from enum import EnumMeta

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
