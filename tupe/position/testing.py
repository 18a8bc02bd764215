"""Check that a module is a `Term`: it does what `PositionBias`, its cache, kernels and exports rely on."""

import copy
import math
import pickle
from typing import NoReturn

import torch
from torch import Tensor, nn
from torch.func import functional_call

from tupe.errors import UserError
from tupe.position.arguments import check_flags, check_whole, shown
from tupe.position.bias import PositionBias
from tupe.position.length import Span
from tupe.position.relative import RelativeTerm
from tupe.position.reset import Reset
from tupe.position.structured import StructuredBias

_LENGTH = 12


def check_term(term: nn.Module, relative: bool | None = None, graphs: bool = True) -> None:
    """Check that a module is a `Term`; raise `UserError` with the first thing that it does wrong.

    It checks, at up to 12 positions:

    - shape and type; that a block of positions equals that block of the whole; `UserError` beyond the last position
    - that the term is a function of its parameters alone, with a gradient to each
    - that a structured bias, where there is one, has the values and gradients of the dense one, alone and reset
    - that the cache of evaluation follows the parameters; copies, pickles and state dicts
    - `torch.compile` and `torch.export` for all lengths

    The module itself is not changed.

    Args:
        term: the module, new or trained.
        relative: whether it is the relative term; by default, whether it is a `RelativeTerm`.
        graphs: also compile and export, which takes some seconds.
    """
    if not isinstance(term, nn.Module) or isinstance(term, PositionBias):
        raise UserError(f"{shown(term)} is no position term: give a module, such as BucketedRelative(num_heads)")
    relative = isinstance(term, RelativeTerm) if relative is None else relative
    check_flags(relative=relative, graphs=graphs)
    checked = _Checked(copy.deepcopy(term).train(), relative)
    checked.values()
    checked.parameters()
    checked.parts()
    checked.kept()
    checked.state()
    if graphs:
        checked.graphs()


class _Bias(nn.Module):
    """Module to compile and export: returns the bias for as many positions as its input has rows."""

    def __init__(self, position: PositionBias) -> None:
        super().__init__()
        self.position = position

    def forward(self, x: Tensor) -> Tensor:
        return self.position(x.shape[0]).bias


class _Checked:
    def __init__(self, term: nn.Module, relative: bool) -> None:
        self.term = term
        self.relative = relative
        most = getattr(term, "max_positions", math.inf)
        if most != math.inf:
            check_whole(f"max_positions of {type(term).__name__}", most, 1)
        self.length = int(min(_LENGTH, most))
        self.whole = self._computed(self.length)

    def bias(self, reset: bool = False) -> PositionBias:
        terms = (None, self.term) if self.relative else (self.term, None)
        return PositionBias(*terms, Reset(len(self.whole)) if reset else None)

    def _fail(self, what: str) -> NoReturn:
        raise UserError(f"{type(self.term).__name__} is no position term: {what}")

    def _same(self, ours: Tensor | None, theirs: Tensor | None, what: str) -> None:
        if ours is None or theirs is None or ours.shape != theirs.shape:
            self._fail(what)
        if not torch.allclose(ours.double(), theirs.double(), rtol=1e-4, atol=1e-5):
            self._fail(what)

    def _computed(self, length: int, num_keys: int | None = None, query_offset: int = 0) -> Tensor:
        span = Span.of(length, num_keys, query_offset)
        call = f"term(length={length}, num_keys={num_keys}, query_offset={query_offset})"
        try:
            out = self.term(length, num_keys, query_offset)
        except UserError:
            raise
        except Exception as error:
            self._fail(f"{call} raises {error!r:.200}")
        if not isinstance(out, Tensor) or out.dim() != 3 or out.shape[1:] != (length, span.num_keys):
            found = tuple(out.shape) if isinstance(out, Tensor) else type(out).__name__
            self._fail(f"{call} is {found}, not (H, {length}, {span.num_keys})")
        if not out.is_floating_point() or out.dtype in (torch.float16, torch.bfloat16):
            self._fail(f"its values are {out.dtype}, but must be float32 or better: at_least_float32(parameter)")
        if not out.isfinite().all():
            self._fail("its values are not finite")
        return out

    def values(self) -> None:
        """Check blocks of positions, the last position, and the precision."""
        n = self.length
        for given in ((n, None, 0), (1, None, n - 1), (n - n // 2, n, n // 2), (n, 1, 0)):
            span, what = Span.of(*given), f"asked for {given} as (length, num_keys, query_offset)"
            self._same(self._computed(*given), self.whole[:, span.queries, span.keys], f"{what} it is not that part")
        end = getattr(self.term, "max_positions", math.inf)
        if end != math.inf:
            try:
                self.term(end + 1)
            except UserError:
                pass
            except Exception as error:
                self._fail(f"beyond its {end} positions it raises {error!r:.120}, not check_length's UserError")
            else:
                self._fail(f"it answers beyond its {end} positions: call tupe.position.length.check_length")
        if self.relative:
            same = torch.stack([self.whole.diagonal(d, 1, 2).std(-1, unbiased=False).amax() for d in range(1 - n, n)])
            if same.amax() > 1e-4 * self.whole.abs().amax().clamp(min=1):
                self._fail("its values are not a function of the distance j - i alone")
        before, self.term = self.term, copy.deepcopy(self.term).bfloat16()
        self._computed(n)
        self.term = before

    def parameters(self) -> None:
        """Check that the term is a pure function of its parameters, with a gradient to each."""
        n, random = self.length, torch.get_rng_state()
        if not torch.equal(self.whole, self._computed(n)) or not torch.equal(random, torch.get_rng_state()):
            self._fail("called twice, it is not the same: it draws random numbers or keeps a state")
        others = {name: p.detach() + 0.1 * torch.rand_like(p) for name, p in self.term.named_parameters()}
        theirs = functional_call(self.term, others, (n,))
        moved = copy.deepcopy(self.term)
        moved.load_state_dict({**moved.state_dict(), **others})
        self._same(moved(n), theirs, "with other parameters, by torch.func.functional_call, it is not what they make")
        self._same(self.term(n), self.whole, "it remembers what it was with other parameters")
        for name, gradient in self._gradients(moved, moved(n)).items():
            if gradient is None or not gradient.isfinite().all() or not gradient.any():
                self._fail(f"no gradient reaches its parameter {name}, or none that is finite")

    def _gradients(self, term: nn.Module, out: Tensor) -> dict[str, Tensor | None]:
        parameters = {name: p for name, p in term.named_parameters() if p.requires_grad}
        if not parameters:
            return {}
        weights = torch.linspace(-1, 1, out.numel(), dtype=out.dtype).sin().view_as(out)
        return dict(
            zip(parameters, torch.autograd.grad((out * weights).sum(), [*parameters.values()], allow_unused=True))
        )

    def parts(self) -> None:
        """Check that a structured bias, alone and reset, has the values and gradients of the dense one."""
        n = self.length
        for reset in (False, True):
            position = self.bias(reset)
            dense, parts = (position.compute(n, structured).bias for structured in (False, True))
            if not isinstance(dense, Tensor) or not isinstance(parts, StructuredBias):
                return
            self._same(parts.dense(n), dense, "structured it is not what it is dense")
            ours, theirs = (self._gradients(self.term, bias) for bias in (parts.dense(n), dense))
            for name, gradient in ours.items():
                self._same(gradient, theirs[name], f"structured, the gradient of {name} is another")

    @torch.no_grad()
    def kept(self) -> None:
        """Check that the cache of evaluation follows the parameters."""
        position = self.bias(reset=True).eval()
        for _ in range(2):
            for length, offset in ((self.length, 0), (1, self.length - 1), (max(self.length // 2, 1), 0)):
                anew = copy.deepcopy(position).train()
                ours, theirs = (of(length, query_offset=offset).bias for of in (position, anew))
                self._same(ours, theirs, "what is kept in evaluation is not what its parameters make")
            for parameter in self.term.parameters():
                parameter.mul_(1.01).add_(0.01)
        self.whole = self.term(self.length).detach()

    def state(self) -> None:
        """Check that copies, pickles and state dicts give the same function."""
        try:
            pickled = pickle.loads(pickle.dumps(self.term))
        except Exception as error:
            self._fail(f"it cannot be pickled: {error!r:.200}")
        for what, other in (("copied", copy.deepcopy(self.term)), ("pickled", pickled)):
            self._same(other(self.length), self.whole, f"{what}, it is another function")
        other = copy.deepcopy(self.term)
        for parameter in other.parameters():
            nn.init.uniform_(parameter)
        other.load_state_dict(self.term.state_dict())
        self._same(other(self.length), self.whole, "its state dict does not bring back what it was")

    @torch.no_grad()
    def graphs(self) -> None:
        """Check that the term compiles in one graph and exports, for all lengths."""
        module = _Bias(self.bias()).eval()
        lengths = [n for n in (5, 7, self.length) if n <= self.length]
        expected = {n: module(torch.zeros(n)) for n in lengths}
        torch._dynamo.reset()
        ways = {
            "compiled": lambda: torch.compile(module, dynamic=True, fullgraph=True, backend="eager"),
            "exported": lambda: torch.export.export(
                module,
                (torch.zeros(lengths[-1]),),
                dynamic_shapes=({0: torch.export.Dim("n", min=2, max=max(self.length, 3))},),
            ).module(),
        }
        for way, make in ways.items():
            try:
                made = make()
                found = {n: made(torch.zeros(n)) for n in lengths}
            except Exception as error:
                self._fail(f"it cannot be {way} for all lengths: {str(error).strip().splitlines()[0]:.200}")
            for n in lengths:
                self._same(found[n], expected[n], f"{way}, it is another function of {n} positions")
