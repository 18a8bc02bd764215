"""Learning rates that fall from the heads to the embeddings, layer by layer, as in ELECTRA's fine-tuning."""

import re
from collections.abc import Container, Iterable, Mapping

import torch
from fairseq.optim import FairseqOptimizer
from torch import Tensor, nn

_LAYER = re.compile(r"\bsentence_encoder\.layers\.(\d+)\.")
_BELOW = re.compile(r"\bsentence_encoder\.(?!layers\.|layer_norm\.)")


def head_axes(model: nn.Module) -> dict[str, int]:
    """Return for each parameter that holds all layers' values the axis along which the layers' heads follow each other.

    Only encoders whose layers do not share their position terms have such parameters, in `position_bias` and
    `segment_attention`. The terms' `head_axes` name the axes.
    """
    axes = {}
    for encoder_path, encoder in model.named_modules():
        if getattr(encoder, "layers_share", True):
            continue
        for path, module in encoder.named_modules(prefix=encoder_path):
            there = dict(module.named_parameters())
            axes |= {f"{path}.{name}": axis for name, axis in getattr(module, "head_axes", {}).items() if name in there}
    return axes


def shares(names: Iterable[str], decay: float, axes: Container[str] = ()) -> dict[str, float]:
    """Return each parameter's share of the learning rate: `decay^(L - l)` in layer `l` of `L`, from 0; heads have 1.

    Embeddings, and position terms that all layers share, have `decay^(L + 1)`. The layer norm after the last layer has
    the last layer's share. So has a tensor of all layers' terms, in which `scale_layers` slows the other layers.

    Args:
        names: names of the model's parameters.
        decay: rate of a layer over that of the next.
        axes: output of `head_axes`.
    """
    names = list(names)
    depth = _depth(names)

    def power(name: str) -> int:
        if layer := _LAYER.search(name):
            return depth - int(layer[1])
        if _BELOW.search(name) and name not in axes:
            return depth + 1
        return 1 if "sentence_encoder." in name else 0

    return {name: decay ** power(name) for name in names}


def _depth(names: Iterable[str]) -> int:
    return 1 + max((int(found[1]) for name in names if (found := _LAYER.search(name))), default=-1)


def scale_layers(
    optimizer: FairseqOptimizer, parameters: Mapping[str, Tensor], decay: float, axes: Mapping[str, int]
) -> None:
    """Scale the optimizer's steps of layer `l` in the tensors in `axes` by `decay^(L - 1 - l)`.

    Args:
        optimizer: the optimizer of `parameters`.
        parameters: parameters by their names in the model; in half precision their copies in 32 bits.
        decay: rate of a layer over that of the next.
        axes: output of `head_axes`.
    """
    powers = decay ** torch.arange(_depth(parameters) - 1, -1, -1.0)
    scaled = []
    for name, p in parameters.items():
        if name in axes:
            shape = [1] * p.dim()
            shape[axes[name]] = -1
            each = powers.repeat_interleave(p.shape[axes[name]] // len(powers))  # (L H,), layer after layer
            scaled.append((p, each.view(shape).to(p.device)))
    if not scaled:
        return
    before: list[Tensor] = []

    def keep(*args: object) -> None:
        before[:] = [p.detach().clone() for p, _ in scaled]

    @torch.no_grad()
    def scale(*args: object) -> None:
        for (p, share), was in zip(scaled, before):
            p.copy_(was.float().lerp(p.float(), share))

    optimizer.optimizer.register_step_pre_hook(keep)
    optimizer.optimizer.register_step_post_hook(scale)


def split_groups(optimizer: FairseqOptimizer, share_of: dict[str, float]) -> list[float]:
    """Make a group of the optimizer's parameters for each share, the largest first; return the shares.

    Args:
        optimizer: an optimizer with one group, the model's parameters or their copies in 32 bits.
        share_of: share of the learning rate by the parameters' names, in the order of the group.
    """
    (group,) = groups = optimizer.param_groups
    options = {name: value for name, value in group.items() if name != "params"}
    of_share: dict[float, list] = {}
    for p, share in zip(group["params"], share_of.values(), strict=True):  # not flattened
        of_share.setdefault(share, []).append(p)
    ordered = sorted(of_share, reverse=True)
    groups[:] = [{"params": of_share[share], **options} for share in ordered]
    return ordered
