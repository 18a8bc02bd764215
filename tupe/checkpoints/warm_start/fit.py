r"""The effect of added positions on the attention of each layer, and its linear fits into the terms of a system.

    p^_i   = E[x_i] - mean of E[x_i], weighted by 1/i                x_i the input of W^Q in the layer, E over text
    T_ij   = ((p^_i W^Q + q~) . (p^_j W^K)) / sqrt(d_h)             per head, q~ = mean of x W^Q + b^Q

`[CLS]` is always at position 0 and keeps its position in its content, so `p^_0` is 0, and so is `T_i0`. Therefore a
reset loses nothing if theta_2 is 0: its other effect, that of theta_1, is a constant in the row of `[CLS]`.

Row `k` of a relative term's table is the least-squares fit to `T`, up to a constant for each row of `T`:

    N r = sum_i (b_i - c_i mean_j T_ij)     N = sum_i (diag(c_i) - c_i c_i^T / n)
    c_i[k] how often row i of T uses row k of the table, b_i[k] the sum of T_ij there
"""

import torch
from scipy.optimize import linear_sum_assignment
from torch import Tensor, nn

from tupe.checkpoints.warm_start.carry import position_weights
from tupe.models.tupe import TupeLanguageModelEncoder
from tupe.position import LowRankAbsolute, Reset, UntiedAbsolute
from tupe.position.bias import PositionBias

TOKENS = 8192  # tokens per batch
_ROUNDS = 5  # how often the heads of each layer are reordered
_RIDGE = 1e-6  # fraction of the mean of the Gram matrix's diagonal
_RESIDUAL = 0.01  # fraction of the target that a table may leave


@torch.no_grad()
def logits_of(old: TupeLanguageModelEncoder, sequences: Tensor) -> Tensor:
    """Compute `T` of every layer and head, `(L, H, n, n)`, from text `(B, n)` without padding."""
    inner, sums = old.sentence_encoder, 0
    for batch in sequences.split(max(1, TOKENS // sequences.shape[1])):
        states = zip(inner.layers, inner(batch, num_tokens=batch.numel(), return_all_hiddens=True)[1])
        # the inputs of the projections
        seen = [layer.self_attn_layer_norm(x) if layer.normalize_before else x for layer, x in states]
        sums = sums + torch.stack([x.double().sum(0) for x in seen])
    means = (sums / len(sequences)).float()  # L n d
    mean = (position_weights(means.shape[1]) @ means).unsqueeze(1)  # L 1 d
    hidden = means - mean
    hidden[:, 0] = 0
    logits = []
    for layer, positions, words in zip(inner.layers, hidden, mean):
        query, key, _ = layer.self_attn.qkv_proj(positions + words).chunk(3, -1)
        query, key = (x.unflatten(-1, (layer.self_attn.num_heads, -1)).transpose(0, 1) for x in (query, key))
        logits.append(layer.self_attn.scale * query @ (key - key[:, :1]).transpose(1, 2))  # that of p^_0 = 0
    return torch.stack(logits)


def centered(logits: Tensor) -> Tensor:
    """Subtract from `logits` the mean of each row."""
    return logits - logits.mean(-1, keepdim=True)


def agreeing_heads(logits: Tensor) -> Tensor:
    """Return an order of each layer's heads, `(L, H)`, in which heads at the same place have similar logits.

    The order of heads is unrelated in different layers. So the heads of each layer in turn are assigned to the mean of
    the other layers' heads, by the squared distance of their `T`. `logits` is the `T` of all heads, `(L, H, n, n)`.
    """
    layers, heads = logits.shape[:2]
    flat = logits.flatten(2)
    orders = torch.arange(heads).repeat(layers, 1)
    for turn in range(_ROUNDS):
        for layer in range(layers):
            others = [n for n in range(layers) if n != layer and (turn or n < layer)]
            if others:
                mean = torch.stack([flat[n][orders[n]] for n in others]).mean(0)
                cost = torch.cdist(mean.double(), flat[layer].double()).square()
                orders[layer] = torch.from_numpy(linear_sum_assignment(cost.numpy())[1])
    return orders


def has_fit(bias: PositionBias) -> bool:
    """Return whether `fit` changes a term of the attention."""
    linear = isinstance(bias.absolute, UntiedAbsolute | LowRankAbsolute) or hasattr(bias.relative, "row")
    return linear and not bias.cross  # the four products of cross terms have no linear fit


@torch.no_grad()
def fit(bias: PositionBias, logits: Tensor, table: Tensor) -> None:
    """Fit the terms of the attention, in place, to `logits`: `T` of each set of parameters, `(S, n, n)`.

    An absolute term is fitted to all of `T`, and a relative term next to it keeps its values. A relative term alone
    adds the fit to its values. The `table` of positions at the input, `(n, e)`, becomes that of untied positions.
    """
    first = 0 if bias.reset is None else 1
    inner = logits[:, first:, first:]
    if isinstance(bias.absolute, UntiedAbsolute):
        # T / scale = Q K^T of rank d_h: X U^Q = Q and X U^K = K, with X the table after its norm
        width = len(bias.absolute.query.weight) // bias.absolute.num_heads
        query, key = factors(inner / bias.absolute.scale, width)
        _solve_projections(bias.absolute, table, query, key, first)
    elif isinstance(bias.absolute, LowRankAbsolute):
        _fit_low_rank(bias.absolute, inner, first)
    else:
        _fit_relative(bias.relative, centered(inner))
    if bias.reset is not None:
        _fit_reset(bias.reset, bias.absolute)


def factors(logits: Tensor, rank: int) -> tuple[Tensor, Tensor]:
    """Return `Q, K` `(S, n, rank)`, `Q K^T` the closest of that rank to `logits` `(S, n, n)`; zeros beyond rank `n`."""
    query, key = logits.new_zeros(2, *logits.shape[:2], rank, dtype=torch.float64)
    for one, (u, s, v) in enumerate(torch.linalg.svd(matrix.double()) for matrix in logits):
        kept = min(rank, len(s))
        root = s[:kept].sqrt()
        query[one, :, :kept], key[one, :, :kept] = u[:, :kept] * root, v[:kept].t() * root
    return query, key


def _fit_low_rank(term: LowRankAbsolute, logits: Tensor, first: int) -> None:
    """Set `P_Q, P_K` of the positions from `first` on; ranks beyond `n` keep a random `P_Q`, so that they can learn."""
    rank = term.query.shape[-1]
    query, key = factors(logits, rank)
    used = slice(min(rank, logits.shape[-1]))
    term.query[:, first:, used] = query[..., used].to(term.query.dtype)
    term.key.zero_()
    term.key[:, first:] = key.to(term.key.dtype)


def _solve_projections(term: UntiedAbsolute, table: Tensor, query: Tensor, key: Tensor, first: int) -> None:
    """Set the table, a plain norm without gain or bias, and the projections `U = X^T (X X^T + ridge)^-1 Q`.

    `query` and `key`, `(S, m, d_h)`, belong to the positions from `first` on; `first` is 1 if `[CLS]` is left out. With
    more positions than the width of `table`, `(n, e)`, not all can be matched. If its rows are too similar for a
    match, random vectors of a tenth of their length are added to them.
    """
    for part in (term.layer_norm, term.query, term.key):
        if getattr(part, "bias", None) is not None:
            part.bias.zero_()
    if isinstance(term.layer_norm, nn.LayerNorm):
        term.layer_norm.weight.fill_(1)
    wanted = torch.stack([query, key])
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


@torch.enable_grad()
def _fit_reset(reset: Reset, absolute: UntiedAbsolute | None) -> None:
    """Make theta zero: scalars directly, a vector such that its product, but not its factors, is zero in each head."""
    for part in (reset.relative, reset.scalars):
        if part is not None:
            part.data.zero_()
    if reset.vectors is None:
        return
    vector = absolute.table.weight[:1].detach().clone().requires_grad_()
    optimizer = torch.optim.LBFGS([vector], max_iter=200, line_search_fn="strong_wolfe")

    def loss() -> Tensor:
        query, key = absolute(1, vectors=vector)
        error = (query * key).sum((1, 2)).square().sum()
        vector.grad = torch.autograd.grad(error, vector)[0]
        return error

    optimizer.step(loss)
    reset.vectors.data.copy_(vector.detach().expand(2, -1))


def _fit_relative(term: nn.Module, logits: Tensor) -> None:
    """Add the fit to `logits` `(S, n, n)`, whose rows are centered, to the table of a relative term."""
    length = logits.shape[-1]
    rows = term.row(torch.arange(length) - torch.arange(length).unsqueeze(1))
    counts = torch.zeros(length, len(term.weight), dtype=torch.float64)
    counts.scatter_add_(1, rows, torch.ones_like(rows, dtype=torch.float64))
    form = counts.sum(0).diag() - counts.t() @ counts / length
    sums = torch.zeros(len(term.weight), len(logits), dtype=torch.float64)
    sums.index_add_(0, rows.flatten(), logits.double().flatten(1).t())  # centered rows add no constant
    term.weight += torch.linalg.pinv(form, hermitian=True) @ sums
