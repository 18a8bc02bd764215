r"""The logits `T` of positions into the terms of another system, each by least squares.

A row's constant changes no softmax, so a relative term `r` is fitted to `T` up to one for each row. With `P`, which
takes the mean from each row, that is `min |P T - P r|^2`: a quadratic form in the values by distance, whose matrix is

    N = sum_i (diag(c_i) - c_i c_i^T / n)               c_i[k] how often row i has row k of the table

With a reset only the cells after `[CLS]` count, and theta_2 is the mean of the others' logits to `[CLS]`.
"""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from tupe.checkpoints.warm_start.logits import Positions, centred, in_heads
from tupe.models.tupe import TupeLanguageModelEncoder
from tupe.position import FreeAbsolute, LowRankAbsolute, Reset, ShawRelative, UntiedAbsolute
from tupe.position.bias import PositionBias

_RIDGE = 1e-6  # of the mean square of what a matrix is inverted for
_SHAW_RIDGE = 1e-3
_RESIDUAL = 0.01  # of what is wanted of positions, the part that a table may leave
_STEPS, _RATE = 600, 0.05  # of Adam, where there is no formula


def fit(bias: PositionBias, logits: Tensor, table: Tensor, relative: bool) -> None:
    """Fit the terms of the attention, in place, to `logits`: `T` of each set of parameters, `(S, n, n)`.

    With `relative` the relative term is fitted first, and the absolute one to what is left; else it stays as it is. The
    `table` of positions at the input, `(n, e)`, becomes that of untied positions.
    """
    first = 0 if bias.reset is None else 1
    inner = centred(logits[:, first:, first:])
    if relative and bias.relative is not None:
        fit_relative(bias.relative, inner)
        with torch.no_grad():
            inner = centred(inner - PositionBias(None, bias.relative).compute(inner.shape[-1]).bias)
    if isinstance(bias.absolute, UntiedAbsolute):
        # T / scale = Q K^T of rank d_h: X U^Q = Q and X U^K = K, with X the table after its norm
        width = len(bias.absolute.query.weight) // bias.absolute.num_heads
        query, key = factors(inner / bias.absolute.scale, width)
        solve_projections(bias.absolute, table, query, key, first)
    elif isinstance(bias.absolute, LowRankAbsolute):
        fit_low_rank(bias.absolute, inner, first)
    elif isinstance(bias.absolute, FreeAbsolute):
        with torch.no_grad():
            bias.absolute.weight[:, first:, first:] = inner
    if bias.reset is not None:
        with torch.no_grad():
            theta = centred(logits, 1)[:, 1:, 0].mean(1)
            values = bias.compute(logits.shape[-1]).bias
            if values is not None:  # the reset of a rotation has no other terms
                theta = theta + values[:, 1:, 1:].mean((1, 2))
        fit_reset(bias.reset, bias.absolute, theta)


@torch.no_grad()
def factors(logits: Tensor, rank: int) -> tuple[Tensor, Tensor]:
    """Return `Q, K` `(S, n, rank)`, `Q K^T` the closest of that rank to `logits` `(S, n, n)`; zeros beyond rank `n`."""
    query, key = logits.new_zeros(2, *logits.shape[:2], rank, dtype=torch.float64)
    for one, (u, s, v) in enumerate(torch.linalg.svd(matrix.double()) for matrix in logits):
        kept = min(rank, len(s))
        root = s[:kept].sqrt()
        query[one, :, :kept], key[one, :, :kept] = u[:, :kept] * root, v[:kept].t() * root
    return query, key


@torch.no_grad()
def fit_low_rank(term: LowRankAbsolute, logits: Tensor, first: int) -> None:
    """Set `P_Q, P_K` of the positions from `first` on; ranks beyond `n` keep a drawn `P_Q`, with which they learn."""
    rank = term.query.shape[-1]
    query, key = factors(logits, rank)
    used = slice(min(rank, logits.shape[-1]))
    term.query[:, first:, used] = query[..., used].to(term.query.dtype)
    term.key.zero_()
    term.key[:, first:] = key.to(term.key.dtype)


@torch.no_grad()
def solve_projections(term: UntiedAbsolute, table: Tensor, query: Tensor, key: Tensor, first: int = 0) -> None:
    """Set the table, its norm to do nothing more, and the projections `U = X^T (X X^T + ridge)^-1 Q`.

    A table whose rows are too much alike for that has random vectors of a tenth of their length added. Where there are
    more positions than the table is wide, not all can have what is wanted: `query` and `key`, `(S, m, d_h)`, of the
    positions from `first` on, which is 1 where `[CLS]` does not count. The table of the positions is `(n, e)`.
    """
    for part in (term.layer_norm, term.query, term.key):
        if getattr(part, "bias", None) is not None:
            part.bias.zero_()
    if isinstance(term.layer_norm, nn.LayerNorm):
        term.layer_norm.weight.fill_(1)
    wanted = torch.stack([query, key]).double()
    noise = torch.randn(table.shape, generator=torch.Generator().manual_seed(1)) * table.square().mean().sqrt()
    for share in (0.0, 0.1) if query.shape[1] < table.shape[1] else (0.0,):
        term.table.weight.copy_(table + share * noise)
        x = term.layer_norm(term.table.weight)[first:].double()
        gram = x @ x.t()
        ridge = _RIDGE * gram.diagonal().mean() * torch.eye(len(gram), dtype=gram.dtype)
        columns = x.t() @ torch.linalg.inv(gram + ridge) @ wanted  # 2 S e d_h
        if (x @ columns - wanted).norm() <= _RESIDUAL * wanted.norm():
            break
    for projection, found in zip((term.query, term.key), columns):
        projection.weight.copy_(found.transpose(1, 2).flatten(0, 1))


def fit_reset(reset: Reset, absolute: UntiedAbsolute | None, theta: Tensor) -> None:
    """Set theta_2 to `theta` `(S,)`: scalars at once, a vector by Adam; theta_1 changes nothing."""
    with torch.no_grad():
        if reset.relative is not None:
            reset.relative.zero_()
        if reset.scalars is not None:
            reset.scalars.copy_(torch.stack([torch.zeros_like(theta), theta]))
            return
        reset.vectors.copy_(absolute.table.weight[:1].expand(2, -1))
    vector = reset.vectors.detach()[1:].clone().requires_grad_()

    def loss() -> Tensor:
        query, key = absolute(1, vectors=vector)
        return ((query * key).sum((1, 2)) - theta).square().sum()

    _descend(loss, [vector])
    with torch.no_grad():
        reset.vectors[1:] = vector


def fit_relative(term: nn.Module, logits: Tensor) -> None:
    """Fit a relative term to `logits` `(S, n, n)`, whose rows are centred; one without parameters stays."""
    length = logits.shape[-1]
    distance = torch.arange(length) - torch.arange(length).unsqueeze(1)
    if hasattr(term, "row"):
        values, _ = _by_row(logits, term.row(distance), len(term.weight))
        with torch.no_grad():
            term.weight.copy_(values)
        return
    values, form = (part.float() for part in _by_row(logits, distance + length - 1, 2 * length - 1))
    scale = ((form @ values) * values).sum().clamp(min=1e-12)

    def loss() -> Tensor:
        error = term(torch.arange(1 - length, length)) - values.t()  # S (2n - 1)
        return ((error @ form) * error).sum() / scale

    _descend(loss, [parameter for parameter in term.parameters() if parameter.requires_grad])


@torch.no_grad()
def _by_row(logits: Tensor, rows: Tensor, number: int) -> tuple[Tensor, Tensor]:
    """Return the values of the rows of a table that fit `logits` best, `(number, S)`, and the form `N`, float64."""
    counts = torch.zeros(len(rows), number, dtype=torch.float64)
    counts.scatter_add_(1, rows, torch.ones_like(rows, dtype=torch.float64))
    form = counts.sum(0).diag() - counts.t() @ counts / rows.shape[1]
    sums = [torch.zeros(number, dtype=torch.float64).index_add(0, rows.flatten(), t.double().flatten()) for t in logits]
    return torch.linalg.pinv(form, hermitian=True) @ torch.stack(sums, 1), form


def _descend(loss: Callable[[], Tensor], parameters: list[Tensor]) -> None:
    """Minimise a function by Adam, whose rate falls to zero."""
    if not parameters:
        return
    optimizer = torch.optim.Adam(parameters, lr=_RATE)
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.01, _STEPS)
    with torch.enable_grad():
        for _ in range(_STEPS):
            optimizer.zero_grad()
            loss().backward(inputs=parameters)
            optimizer.step()
            schedule.step()
    for parameter in parameters:
        parameter.grad = None


@torch.no_grad()
def fit_shaw(term: ShawRelative, queries: Tensor, logits: Tensor, scale: float) -> None:
    r"""Regress `T_ij` on the queries, with a ridge: `s sum q q^T a_c = sum q T_ij` over `i, j` with `clip(j - i) = c`.

    The queries `(B, H, n, d_h)` are those of some sequences in one layer, `logits` is `T` `(H, n, n)`, and `scale` is
    `s`. The vectors for the values become zero.
    """
    length = queries.shape[2]
    distance = torch.arange(length) - torch.arange(length).unsqueeze(1)
    rows = distance.clamp(-term.max_distance, term.max_distance) + term.max_distance
    by_row = logits.new_zeros(len(logits), length, len(term.key), dtype=torch.float64)
    counts = torch.zeros_like(by_row[0]).scatter_add_(1, rows, torch.ones_like(rows, dtype=torch.float64))
    by_row.scatter_add_(2, rows.expand_as(logits), logits.double())  # H n c
    squares = torch.einsum("bhid,bhie->ide", queries.double(), queries.double())
    left = torch.einsum("ic,ide->cde", counts, squares)
    right = torch.einsum("hic,hid->cd", by_row, queries.double().sum(0))
    ridge = _SHAW_RIDGE * squares.diagonal(dim1=1, dim2=2).mean() * torch.eye(left.shape[-1], dtype=left.dtype)
    term.key.copy_(torch.linalg.solve(left + ridge, right) / scale)
    if term.value is not None:
        term.value.zero_()


@torch.no_grad()
def fit_cross(
    term: UntiedAbsolute, old: TupeLanguageModelEncoder, positions: Positions, table: Tensor, ratio: float
) -> None:
    """Set `U^Q, U^K` of BERT-A^d, in each layer its own, so that `p^ U^Q = ratio p^ W^Q` and `p^ U^K = p^ W^K`."""
    query, key = [], []
    for layer, block in enumerate(old.sentence_encoder.layers):
        weight, width = block.self_attn.qkv_proj.weight, positions.hidden.shape[-1]
        heads = block.self_attn.num_heads
        hidden = positions.hidden[layer]
        query.append(in_heads(ratio * hidden @ weight[:width].t(), heads))
        key.append(in_heads(hidden @ weight[width : 2 * width].t(), heads))
    solve_projections(term, table, torch.cat(query), torch.cat(key))


@torch.no_grad()
def held(bias: PositionBias, logits: Tensor, sharing: str = "layer") -> list[float]:
    """Return the share of each layer's `T` `(L, H, n, n)` that the terms, shared by `sharing`, hold, rows centred."""
    values = bias.compute(logits.shape[-1]).bias
    if values is None:
        return [0.0] * len(logits)
    axis = {"layer": 0, "head": 1}.get(sharing)
    values = centred(values).unflatten(0, (len(logits), -1)) if axis is None else centred(values).unsqueeze(axis)
    return shares(logits, values.expand_as(logits))


def shares(logits: Tensor, values: Tensor) -> list[float]:
    """Return `1 - |T - v|^2 / |T|^2` of each layer."""
    error, whole = (x.double().square().flatten(1).sum(1) for x in (logits - values, logits))
    return (1 - error / whole.clamp(min=1e-30)).tolist()
