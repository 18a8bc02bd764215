"""What a model is to become: the fields of the new model, and whether its outputs stay what they are."""

from argparse import Namespace

from tupe.checkpoints.warm_start.carry import ZERO
from tupe.models.config import OPTIONS
from tupe.models.describe import with_fields
from tupe.models.tupe import TupeLanguageModelEncoder
from tupe.systems import ALIASES, IN_LAYER, SIZES, SYSTEMS

#: Fields of terms: they stay where the term does.
_OF_ABSOLUTE = ("position_rank", "untied_projection_bias", "no_untied_layer_norm")
_OF_ROTARY = ("rotary_base",)
_OF_RELATIVE = ("relative_buckets", "relative_max_distance", "shaw_values", *OPTIONS)


def target_fields(old: TupeLanguageModelEncoder, system: str, fields: list[str]) -> Namespace:
    """Return the fields of the new model: those of `old`, the row of `system` over them, and `FIELD=VALUE` over that.

    Segments that `old` has stay, also where the system has none.
    """
    source = old.args
    system = ALIASES.get(system, system)
    size = next(size for size in reversed(SIZES) if source._name.endswith(f"_{size}"))  # `modern_base` before `base`
    name = f"{system}_{size}"
    asked, given = vars(with_fields(name, fields)), {field.partition("=")[0] for field in fields}
    stays = {} if source.segment == "none" else {"segment": source.segment}
    new = Namespace(
        **{**vars(source), **SYSTEMS[system], **stays, **{field: asked[field] for field in given}, "_name": name}
    )
    return new


def why_not_exact(old: Namespace, new: Namespace) -> str | None:
    """Return what keeps the outputs of the new model from being those of the old one; None where they are."""
    if old.absolute != new.absolute and (old.absolute, new.absolute) != ("input", "low_rank_input"):
        return f"absolute={old.absolute} becomes {new.absolute}"
    if old.relative not in ("none", new.relative):
        return f"relative={old.relative} becomes {new.relative}"
    if old.relative != new.relative and new.relative not in ZERO:
        return f"relative={new.relative} cannot start at zero, as {', '.join(ZERO)} can"
    if old.rotary_dims != new.rotary_dims:
        return f"rotary_dims={old.rotary_dims} becomes {new.rotary_dims}"
    if old.reset != new.reset:
        return f"reset={old.reset} becomes {new.reset}"
    shared = (
        old.absolute not in ("none", "input")
        or old.relative not in {"none", *IN_LAYER}
        or old.reset != "none"
        or old.segment == "per_head"
    )
    if shared and not _keeps_sets(old, new):
        return f"sharing={old.sharing} becomes {new.sharing}"
    kept = _OF_ABSOLUTE if old.absolute == new.absolute not in ("none", "input") else ()
    kept += _OF_RELATIVE if old.relative != "none" else ()
    kept += _OF_ROTARY if old.rotary_dims else ()
    kept += ("attention_window", "global_every", "local_rotary_base")
    other = next((name for name in kept if getattr(old, name) != getattr(new, name)), None)
    if other is not None:
        return f"{other}={getattr(old, other)} becomes {getattr(new, other)}"
    if old.absolute == "untied_cross" and old.content_terms != new.content_terms:
        return "the scale of all four products becomes another"
    return None


def _keeps_sets(old: Namespace, new: Namespace) -> bool:
    """Tell whether the parameters of a shared term are those of the new model, or copies."""
    return old.sharing == new.sharing or (old.sharing, new.sharing) == ("layer", "none")
