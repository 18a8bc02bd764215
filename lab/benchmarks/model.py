r"""Training step and inference of a whole model: the systems of this package, fairseq's RoBERTa, the authors' code.

    python lab/benchmarks/model.py                                           # base, on a GPU if there is one
    python lab/benchmarks/model.py --authors ../TUPE --output results        # also writes results/model.{json,md}
    python lab/benchmarks/model.py --sizes tiny --length 64 --batch 2 --rounds 5   # to try it on a CPU

Every rival is a process of its own, so that its peak memory is its own. The rivals take turns, in alternating order, so
that other load on the machine affects all of them. A figure is the median over the rounds; a ratio is taken within
each round, and given with its quartiles.

Training is a whole update: forward with dropout, the loss at 15% masked tokens, backward, and the optimizer:
`fused_adamw` for ours, their own `adam` for the code of others (`roberta_fused` is RoBERTa with ours). Inference is the
forward pass to the features. Parameters are in the type itself, as with `--memory-efficient-bf16`. No padding.

`--authors` is the path of a checkout of https://github.com/guolinke/TUPE, whose TUPE-R is then a rival. It was written
for an older numpy, so names such as `numpy.float` are restored for it.
"""

import argparse
import functools
import itertools
import logging
import resource
import sys
from argparse import Namespace
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
import torch.nn.functional as F
from measured import compare, machine, parse, report, seconds
from torch import Tensor, nn

from tupe.systems import ALIASES, SIZES, SYSTEMS

MODES = ("training", "inference")
OURS = (*SYSTEMS, *ALIASES, "tupe_compiled")
AT_INFERENCE = {"tupe_compiled": "tupe", "roberta_fused": "roberta"}  # they differ only in training


def arguments() -> Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--sizes", nargs="+", choices=SIZES, default=["base"])
    help_ = "any of %(choices)s; the others' times are divided by the first's (default: %(default)s)"
    rivals, usual = (*OURS, "roberta", "roberta_fused"), ["tupe", "bert_a", "roberta", "roberta_fused"]
    add("--rivals", nargs="+", choices=rivals, metavar="RIVAL", default=usual, help=help_)
    add("--authors", type=Path, help="checkout of the authors' code")
    add("--modes", nargs="+", choices=MODES, default=MODES)
    add("--batch", type=int, default=32, help="sequences (default: 32)")
    add("--length", type=int, default=512, help="tokens of each (default: 512)")
    add("--vocab-size", type=int, default=32_768, help="symbols (default: 32768)")
    add("--backend", default="auto", help="--attention-backend of this package's models (default: auto)")
    return parse(parser, rounds=20, warm_up=3, steps=5)


def build(args: Namespace) -> tuple[nn.Module, Any]:
    """Return the rival's model, and a dictionary."""
    if args.rival == "authors":
        import numpy

        vars(numpy).update({"float": float, "int": int, "bool": bool})
        sys.path.insert(0, str(args.authors))  # its `fairseq` hides the installed one
    from fairseq.data import Dictionary

    dictionary = Dictionary()
    for index in range(args.vocab_size - len(dictionary) - 1):
        dictionary.add_symbol(f"word{index}")
    dictionary.add_symbol("<mask>")
    task = SimpleNamespace(source_dictionary=dictionary)
    fields: dict[str, Any] = {"max_positions": args.length}
    if args.rival == "authors":
        from fairseq.models.bert.model import BertModel

        return BertModel.build_model(
            Namespace(**args.shape, **fields, rel_pos=True, embedding_normalize=True), task
        ), dictionary
    if args.rival not in OURS:
        from fairseq.models.roberta.model import RobertaModel, base_architecture

        theirs = Namespace(**args.shape, **fields, tokens_per_sample=args.length)
        base_architecture(theirs)
        return RobertaModel.build_model(theirs, task), dictionary
    from tupe.models import TupeModel
    from tupe.models.config import named

    system = args.rival.removesuffix("_compiled")
    fields |= {"attention_backend": args.backend, "compile": args.rival.endswith("_compiled")}
    return TupeModel.build_model(named(f"{system}_{args.size}", **fields), task), dictionary


def build_optimizer(args: Namespace, model: nn.Module) -> torch.optim.Optimizer:
    """Return `fused_adamw` for ours and `roberta_fused`, else fairseq's own `adam`."""
    from fairseq.optim.adam import Adam as Optimizer

    if args.rival in (*OURS, "roberta_fused"):
        from tupe.optim.fused_adamw import DecoupledAdam as Optimizer
    return Optimizer(model.parameters(), lr=1e-4, betas=(0.9, 0.98), eps=1e-6, weight_decay=0.01)


def model_step(args: Namespace) -> Callable[[], None]:
    """Return the rival's step in `args.mode`."""
    torch.manual_seed(0)
    model, dictionary = build(args)
    model.to(args.device, getattr(torch, args.dtype))
    tokens = torch.randint(dictionary.nspecial, len(dictionary), (args.batch, args.length))
    tokens[:, 0], tokens[:, -1] = dictionary.bos(), dictionary.eos()
    masked = torch.zeros(tokens.numel(), dtype=torch.bool)
    masked[torch.randperm(tokens.numel())[: max(1, tokens.numel() * 15 // 100)]] = True
    masked = masked.view_as(tokens)
    ours = args.rival in OURS
    where = masked.flatten().nonzero().flatten().to(args.device)  # the data loader computes it
    tokens, masked = tokens.to(args.device), masked.to(args.device)
    hint = {"num_tokens": tokens.numel(), "pairs": False} if ours else {}

    def inference() -> None:
        with torch.no_grad():
            model(tokens, features_only=True, **hint)

    if args.mode == "inference":
        model.eval()
        return inference

    def loss() -> Tensor:
        target = tokens.flatten()[where if ours else masked.flatten()]  # as the criterion of each does
        logits = model(tokens, masked_tokens=where if ours else masked, **hint)[0]
        return F.cross_entropy(logits.float(), target)

    model.train()
    optimizer = build_optimizer(args, model)

    def training() -> None:
        loss().backward()
        optimizer.step()
        optimizer.zero_grad()

    return training


#: The step of this process's rival.
STEP: list[Callable[[], None]] = []


def begin(args: Namespace) -> None:
    logging.disable(logging.INFO)
    STEP.append(model_step(args))


def measure(args: Namespace) -> float:
    return seconds(STEP[0], args)


def peak(args: Namespace) -> int:
    """Return the peak memory of this process in bytes; on a GPU, that of PyTorch."""
    if args.on_gpu:
        return torch.cuda.max_memory_allocated(args.device)
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def rivals_of(args: Namespace, size: str, mode: str) -> dict[str, Callable[[], ProcessPoolExecutor]]:
    """Return the functions that start the processes of the rivals."""
    rivals = [*args.rivals, *(["authors"] if args.authors else [])]
    if mode == "inference":
        rivals = [AT_INFERENCE.get(name, name) for name in rivals]
    known = {**vars(args), "size": size, "shape": SIZES[size], "mode": mode}
    process = functools.partial(ProcessPoolExecutor, 1, get_context("spawn"), begin)
    return {name: functools.partial(process, (Namespace(rival=name, **known),)) for name in rivals}


def main() -> None:
    args = arguments()
    title = (
        f"{machine(args.device)}, {args.dtype}, {args.batch} sequences of {args.length} tokens, vocabulary "
        f"{args.vocab_size}, backend {args.backend}, {args.rounds} rounds of {args.steps} steps, {args.clock} time"
    )

    def there(measured: Callable) -> Callable:
        """Measure in the process of a rival."""
        return lambda process, args: process.submit(measured, args).result()

    cases = (
        compare(case, args.batch * args.length, rivals_of(args, **case), args, there(measure), there(peak))
        for case in ({"size": size, "mode": mode} for size, mode in itertools.product(args.sizes, args.modes))
    )
    report("model", title, cases, args)


if __name__ == "__main__":
    main()
