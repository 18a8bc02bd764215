"""What a model is to become: the fields of the new model, and whether its outputs stay what they are."""

from argparse import Namespace

from tupe.checkpoints.warm_start.carry import ZERO
from tupe.errors import UserError
from tupe.models.config import OPTIONS, TupeConfig
from tupe.models.describe import with_fields
from tupe.models.tupe import TupeLanguageModelEncoder
from tupe.systems import ALIASES, IN_LAYER, SYSTEMS, system_fields

_ENCODING = system_fields(TupeConfig, kind="encoding")
#: Fields of terms: they stay where the term does.
_OF_ABSOLUTE = ("position_rank", "untied_projection_bias", "no_untied_layer_norm")
_OF_ROTARY = ("rotary_base",)
_OF_RELATIVE = ("relative_buckets", "relative_max_distance", "shaw_values", *OPTIONS)


def target_fields(old: TupeLanguageModelEncoder, system: str, fields: list[str]) -> Namespace:
    """Return the fields of the new model: those of `old`, the row of `system` over them, and `FIELD=VALUE` over that.

    Segments that `old` has stay, also where the system has none.

    Raises:
        UserError: for a model or a system that is not warm-started, and for a field or value that there is not.
    """
    source = old.args
    if old.discriminates:
        raise UserError(
            f"{old.shown_as} is an ELECTRA or its discriminator, which predicts no words: give a masked language model."
        )
    if source.linformer_k:
        raise UserError(f"{old.shown_as} is a Linformer, whose keys are no positions: give a model of full attention.")
    system = ALIASES.get(system, system)
    if system not in SYSTEMS:
        raise UserError(f"there is no system '{system}': give one of {', '.join(SYSTEMS)}, without a size.")
    name = f"{system}_{source._name.rpartition('_')[2]}"
    given = {field.partition("=")[0] for field in fields}
    wrong = sorted(given.difference(_ENCODING)) if all("=" in field for field in fields) else []
    if wrong:
        raise UserError(
            f"'{wrong[0]}' is no field of the position encoding, and the rest of the model stays as it is: leave it "
            "out."
        )
    asked = vars(with_fields(name, fields))
    stays = {} if source.segment == "none" else {"segment": source.segment}
    new = Namespace(
        **{**vars(source), **SYSTEMS[system], **stays, **{field: asked[field] for field in given}, "_name": name}
    )
    if new.linformer_k:
        raise UserError("Linformer's keys are no positions: choose a system with full attention.")
    if source.segment not in ("none", new.segment):
        raise UserError(
            f"{old.shown_as} has segments of its own (segment={source.segment}), which cannot become "
            f"segment={new.segment}: leave segment out."
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
    kept += ("attention_window",)
    other = next((name for name in kept if getattr(old, name) != getattr(new, name)), None)
    if other is not None:
        return f"{other}={getattr(old, other)} becomes {getattr(new, other)}"
    if old.absolute == "untied_cross" and old.content_terms != new.content_terms:
        return "the scale of all four products becomes another"
    return None


def _keeps_sets(old: Namespace, new: Namespace) -> bool:
    """Tell whether the parameters of a shared term are those of the new model, or copies."""
    return old.sharing == new.sharing or (old.sharing, new.sharing) == ("layer", "none")


def check_fit(old: TupeLanguageModelEncoder, new: Namespace) -> None:
    """Raise `UserError` where positions cannot be taken out of the input, or the new model would have none."""
    source = old.args
    fits = (source.absolute, source.relative, source.reset, source.rotary_dims) == ("input", "none", "none", 0)
    if new.absolute in ("input", "low_rank_input"):
        raise UserError(
            f"{old.shown_as} cannot be made into {new._name} with positions at its input, since "
            f"{why_not_exact(source, new)}: choose other fields, or absolute=none to take the positions out."
        )
    if not fits:
        raise UserError(
            f"{old.shown_as} cannot be made into {new._name}, since {why_not_exact(source, new)}: positions are taken "
            "out of the input of BERT-A alone (absolute=input, no relative term, no reset)."
        )
    if source.segment == "per_head" and not _keeps_sets(source, new):
        raise UserError(
            f"{old.shown_as} has values of segments that sharing={source.sharing} shares, which cannot become "
            f"sharing={new.sharing}: add sharing={source.sharing}."
        )
    if (new.absolute, new.relative, new.rotary_dims) == ("none", "none", 0):
        raise UserError("absolute=none and relative=none have no positions: choose one of the two.")
    if new.absolute == "untied_cross" and new.sharing != "none":
        raise UserError("the four products of BERT-A^d are those of each layer: add sharing=none.")
