"""Describe a model: its attention logit as an equation, its parameters, cost and fields."""

from argparse import Namespace
from typing import Any

from omegaconf import OmegaConf

from tupe.encoder.build import num_products
from tupe.models.config import NAMED, named
from tupe.models.summary import meta_model, size_of, training_flops
from tupe.models.tupe import as_namespace
from tupe.systems import CHOICES, IN_LAYER, PAPER_NAMES, TRANSLATORS, system_fields, system_of


def with_fields(name: str, fields: list[str]) -> Namespace:
    """Return the configuration of a named model with some fields changed, such as `["relative=unbinned"]`."""
    return as_namespace(OmegaConf.merge(OmegaConf.structured(named(name)), OmegaConf.from_dotlist(fields)))


def equation(args: Namespace) -> str:
    """Return the attention logit of query `i` and key `j` as an equation; `d` is the width of a head."""
    products = args.content_terms or num_products(args)
    scale = f"sqrt({products if products > 1 else ''}d)"
    query, key = "x_i W^Q", "(E x)_j W^K" if args.linformer_k else "x_j W^K"
    if args.absolute == "untied_cross":
        query, key = f"{query} + p_i U^Q", f"{key} + p_j U^K"
    rotate_query, rotate_key = ("R_i ", "R_j ") if args.rotary_dims else ("", "")
    shaw = f" + {_equation('relative', args)}" if args.relative == "shaw" else ""
    logit = f"({rotate_query}{query})({rotate_key}{key}{shaw})^T"
    if args.relative == "deberta":
        logit = f"({logit} + ({query})(P[i - j] W^K)^T + (P[i - j] W^Q)({key})^T)"
    if args.relative == "pope":
        logit = "sum_c softplus(x_i W^Q)_c softplus(x_j W^K)_c cos((j - i) theta_c + delta_c)"
    logit += f"/{scale}"
    relative = "" if args.relative in IN_LAYER else _equation("relative", args)
    terms = " + ".join(filter(None, (_equation("absolute", args), relative)))
    if terms:
        terms = f" + {terms}" if args.reset == "none" else f" + reset({terms})"
        logit += terms.replace("+ -", "- ")
    if args.segment == "per_head":
        logit += " + E_S[s_i, s_j]"
    added = ["positions"] if args.absolute in ("input", "low_rank_input", "sinusoidal") else []
    added += ["segments"] if args.segment == "input" else []
    return f"{logit}, {' and '.join(added)} added to the embeddings" if added else logit


def _equation(kind: str, args: Namespace) -> str:
    name = getattr(args, kind)
    if name == "sinusoidal":  # added to the embeddings
        return ""
    if name in CHOICES[kind]:
        return CHOICES[kind][name].equation.replace("sqrt(2d)", f"sqrt({num_products(args)}d)")
    return f"{name}(i, j)" if kind == "absolute" else f"{name}(j - i)"  # registered outside this package


def full_name(args: Namespace) -> str:
    """Return the model's name and the system fields that differ from it, such as `tupe_tiny reset=none`."""
    return " ".join([args._name, *(f"{field}={value}" for field, value in _given(args).items())])


def _given(args: Namespace) -> dict[str, Any]:
    usual = named(args._name)
    fields = system_fields(type(usual))
    return {field: getattr(args, field) for field in fields if getattr(args, field) != getattr(usual, field)}


def describe(args: Namespace, symbols: int) -> list[str]:
    """Return lines about the model, its equation, parameters and operations, and each field of its position encoding.

    `args` has its fields, `max_positions`, and its name as for `--arch`; `symbols` is the size of its dictionary.
    """
    name, given, length, cost = args._name, _given(args), args.max_positions, []
    model = meta_model(name, symbols, length, **given)
    count = size_of(model)
    if name not in TRANSLATORS:
        operations = training_flops(model, length, length, round(0.15 * length)) // length
        cost = [
            f"cost: {operations:,} operations per token of training, in sequences of {length} with 15% predicted "
            "(cost of position terms: docs/measurements/encodings.md)"
        ]
    return [
        f"model: {full_name(args)}",
        f"system: {PAPER_NAMES.get(system_of(vars(args)), 'no encoder that `tupe systems` lists')}",
        f"logit: {equation(args)}",
        f"parameters: {count.total:,}, {count.position:,} of them in the position encoding"
        f"{f', {count.generator:,} only in the generator' if count.generator else ''} "
        f"({symbols:,} symbols, {length} positions)",
        *cost,
        *(
            f"  {field}={getattr(args, field)}"
            for field in system_fields(NAMED[name][0], kind="encoding")
            if field in given or field in NAMED[name][1]
        ),
    ]
