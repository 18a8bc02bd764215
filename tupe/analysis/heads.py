"""Name the pattern of each head's position correlation (TUPE, figure 6: global, local, broad, previous, next).

The paper names five patterns by eye. Here they are measured on `p_i = softmax_j(v_ij)` of the positions of tokens: the
attention if the content were constant. `[CLS]`, where it is reset, is left out.

    entropy   mean over i of H(p_i) / ln n                          1 for uniform attention
    side      mean over i of sum_j>i p_i(j) - sum_j<i p_i(j)        -1 all before, 1 all after; 0 for uniform attention
    near      mean over i of sum of p_i(j), |j - i| <= n / 16       the neighborhood; at least one each way

The name is the first that holds: `global`, entropy at least 0.97; `previous`, side at most -0.5; `next`, side at least
0.5; `local`, near at least 0.5; else `broad`. The thresholds are this project's.
"""

import math

import torch
from torch import Tensor

PATTERNS = ("global", "local", "broad", "previous", "next")


def head_patterns(values: Tensor, reset: bool = False) -> list[str]:
    """Name the pattern of each head's position correlation, `(H, n, n)` with `n` at least 3.

    With `reset`, row and column 0 are those of an untied `[CLS]`.
    """
    values = values.double()[:, reset:, reset:]
    n = values.shape[-1]
    distance = torch.arange(n)[None, :] - torch.arange(n)[:, None]  # j - i
    attention = values.softmax(-1)
    entropy = -torch.special.xlogy(attention, attention).sum(-1).mean(-1) / math.log(n)
    side = (attention * distance.sign()).sum(-1).mean(-1)
    near = (attention * (distance.abs() <= max(1, n // 16))).sum(-1).mean(-1)
    return [_name(*measures) for measures in zip(entropy.tolist(), side.tolist(), near.tolist())]


def _name(entropy: float, side: float, near: float) -> str:
    if math.isnan(entropy):
        return "not a number"
    if entropy >= 0.97:
        return "global"
    if abs(side) >= 0.5:
        return "next" if side > 0 else "previous"
    return "local" if near >= 0.5 else "broad"
