"""Tables of the named systems, their parameters and their flags."""

from collections.abc import Iterable
from enum import EnumMeta
from typing import Literal

from tupe.systems import ALIASES, ELECTRA, ELECTRA_SIZES, PAPER_NAMES, SEQ2SEQ_SIZES, SEQ2SEQ_SYSTEMS, SIZES, SYSTEMS

#: Kind of models -> the prefix of their names, their systems and sizes.
KINDS = {
    "encoder": ("", SYSTEMS, SIZES),
    "electra": (ELECTRA, SYSTEMS, ELECTRA_SIZES),
    "translation": ("seq2seq_", SEQ2SEQ_SYSTEMS, SEQ2SEQ_SIZES),
}
_FIELDS = ("absolute", "relative", "reset", "segment", "sharing", "rotary_dims")


def systems(
    *, kind: Literal["encoder", "electra", "translation"] = "encoder", flags: bool = False, parameters: bool = False
) -> None:
    """Print the named systems with their fields.

    The models are SYSTEM_SIZE, electra_SYSTEM_SIZE with a generator, and seq2seq_SYSTEM_SIZE for translation;
    `tupe describe` prints the logit of a model.

    tupe systems --parameters

    Args:
        kind: Kind of models.
        flags: Instead, explain the flags that define a system.
        parameters: Also count the parameters, with 32,768 symbols (translation: one shared table) and 512 positions.
    """
    if flags:
        from tupe.models.config import ElectraConfig, Seq2SeqConfig
        from tupe.systems import system_fields

        fields = {**Seq2SeqConfig.__dataclass_fields__, **ElectraConfig.__dataclass_fields__}
        for name in system_fields(ElectraConfig, Seq2SeqConfig):
            field = fields[name]
            choices = f" {{{','.join(map(str, field.type))}}}" if isinstance(field.type, EnumMeta) else ""
            print(f"--{name.replace('_', '-')}{choices} (default: {field.default})\n    {field.metadata['help']}")
        return
    prefix, named, sizes = KINDS[kind]
    rows = [(prefix + name, PAPER_NAMES.get(name, ""), *map(row.get, _FIELDS)) for name, row in named.items()]
    _print_aligned([("system", "paper", *_FIELDS), *rows])
    for alias, name in ALIASES.items() if kind == "encoder" else ():
        print(f"{alias} is an alias of {name}")
    shown = "{encoder_layers} x {encoder_embed_dim}, {encoder_attention_heads} heads"
    print("sizes (layers x width): " + "; ".join(f"{name} {shown.format(**fields)}" for name, fields in sizes.items()))
    if parameters:
        from tupe.models.summary import meta_model, size_of

        print("\nparameters, 32,768 symbols, 512 positions (position encoding / model)")
        rows, fields = [("", *sizes)], {"share_all_embeddings": True} if kind == "translation" else {}
        for name in named:
            counts = [size_of(meta_model(f"{prefix}{name}_{size}", 32_768, 512, **fields)) for size in sizes]
            rows.append((prefix + name, *(f"{n.position:,} / {n.total:,}" for n in counts)))
        _print_aligned(rows)


def _print_aligned(rows: list[Iterable[object]]) -> None:
    cells = [[str(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) + 2 for column in zip(*cells)]
    for row in cells:
        print("".join(f"{cell:<{width}}" for cell, width in zip(row, widths)).rstrip())
