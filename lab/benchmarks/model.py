r"""Training step and inference of a whole model: the systems of this package, fairseq's RoBERTa, the authors' code.

    python lab/benchmarks/model.py                                           # base, on a GPU if there is one
    python lab/benchmarks/model.py --authors ../TUPE --output results        # also writes results/model.{json,md}
    python lab/benchmarks/model.py --sizes tiny --length 64 --batch 2 --rounds 5   # to try it on a CPU

Every rival is a process of its own, so that its peak memory is its own, and they take turns, in alternating order, so
that whatever else the machine does meets all of them. A figure is the median over the rounds; a ratio is taken within
each round, and given with its quartiles.

Training is a whole update: forward with dropout, the loss at 15% masked tokens, backward, and the optimizer:
`fused_adamw` for ours, their own `adam` for the code of others (`roberta_fused` is RoBERTa with ours). Inference is the
forward pass to the features. Parameters are in the type itself, as with `--memory-efficient-bf16`. No padding.

`--authors` is the path of a checkout of https://github.com/guolinke/TUPE, whose TUPE-R is then a rival. It is written
for an older numpy, whose names `numpy.float` and the like are given back to it.
"""

import argparse
import itertools
import json
import logging
import os
import resource
import subprocess
import sys
import warnings
from argparse import Namespace
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
import torch.nn.functional as F
from measured import machine, parse, quartiles, seconds, spread, turns
from torch import Tensor, nn

from tupe.systems import ALIASES, PAPER_NAMES, SIZES, SYSTEMS

MODES = ("training", "inference")
OURS = (*SYSTEMS, *ALIASES, "tupe_compiled")
AT_INFERENCE = {"tupe_compiled": "tupe", "roberta_fused": "roberta"}  # they differ in training alone


def arguments(argv: Sequence[str] | None = None) -> Namespace:
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
    add("--pairs", action="store_true", help="sentence pairs, for what segments cost")
    add("--vocab-size", type=int, default=32_768, help="symbols (default: 32768)")
    add("--backend", default="auto", help="--attention-backend of this package's models (default: auto)")
    add("--profile", action="store_true", help="instead: where the first model's step spends its time")
    add("--output", type=Path, help="folder for model.json and model.md")
    add("--worker", help=argparse.SUPPRESS)  # what one process measures, as JSON
    return parse(parser, argv, rounds=20, warm_up=3, steps=5)


# ----------------------------------------------------------------------------------------------------------- the step


def build(args: Namespace) -> tuple[nn.Module, Any]:
    """Return the rival's model, and a dictionary."""
    if args.rival == "authors":
        import numpy

        vars(numpy).update({"float": float, "int": int, "bool": bool})
        sys.path.insert(0, args.authors)  # its `fairseq` hides the installed one
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


def build_optimizer(args: Namespace, model: nn.Module) -> Any:
    if args.rival == "authors":
        from fairseq.optim.adam import Adam

        return Adam(model.parameters(), lr=1e-4, betas=(0.9, 0.98), eps=1e-6, weight_decay=0.01)
    from fairseq import optim
    from omegaconf import OmegaConf

    import tupe.plugin  # noqa: F401

    name = "fused_adamw" if args.rival in (*OURS, "roberta_fused") else "adam"
    fields = {"_name": name, "adam_betas": "(0.9,0.98)", "adam_eps": 1e-6, "weight_decay": 0.01}
    cfg = {"common": {"tpu": False}, "optimization": {"lr": [1e-4]}, "optimizer": fields}
    return optim.build_optimizer(OmegaConf.create(cfg).optimizer, list(model.parameters()))


def model_step(args: Namespace) -> Callable[[], None]:
    """Return the rival's step in `args.mode`."""
    torch.manual_seed(0)
    model, dictionary = build(args)
    model.to(args.device, getattr(torch, args.dtype))
    tokens = torch.randint(dictionary.nspecial, len(dictionary), (args.batch, args.length))
    tokens[:, 0], tokens[:, -1] = dictionary.bos(), dictionary.eos()
    if args.pairs:
        tokens[:, args.length // 2 : args.length // 2 + 2] = dictionary.eos()
    masked = torch.zeros(tokens.numel(), dtype=torch.bool)
    masked[torch.randperm(tokens.numel())[: masked_tokens(args)]] = True
    masked = masked.view_as(tokens)
    ours = args.rival in OURS
    where = masked.flatten().nonzero().flatten().to(args.device)  # the data loader computes it
    tokens, masked = tokens.to(args.device), masked.to(args.device)
    hint = {"num_tokens": tokens.numel(), "pairs": args.pairs} if ours else {}

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


def masked_tokens(args: Namespace) -> int:
    return max(1, args.batch * args.length * 15 // 100)


# ---------------------------------------------------------------------------------------------------- one process each


def work(args: Namespace) -> None:
    """Answer each line on standard input with the seconds of a step, and `end` with the memory."""
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # whatever else is printed
    logging.disable(logging.INFO)
    step = model_step(args)
    print("ready", file=answers)
    for line in sys.stdin:
        if line.strip() == "end":
            break
        print(seconds(step, args), file=answers)
    peak, waits = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024, None
    if args.on_gpu:
        peak = torch.cuda.max_memory_allocated(args.device)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            torch.cuda.set_sync_debug_mode("warn")
            step()
        waits = sum("called a synchronizing" in str(warning.message) for warning in caught)
    print(json.dumps({"peak_bytes": peak, "synchronisations": waits}), file=answers)


class Rival:
    """A process that measures, started with what it needs to know."""

    def __init__(self, **known: Any) -> None:
        command = [sys.executable, __file__, "--worker", json.dumps(known, default=str)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def answer(self, question: str = "") -> Any:
        if question:
            print(question, file=self.process.stdin, flush=True)
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"a rival ended with exit status {self.process.wait()}; its messages are above")
        return line


def profile(args: Namespace, size: str, mode: str) -> str:
    """Profile three steps of the first model by PyTorch, and return a table of operators."""
    step = model_step(Namespace(**vars(args), rival=args.rivals[0], size=size, shape=SIZES[size], mode=mode))
    step()
    with torch.profiler.profile() as profiled:
        for _ in range(3):
            step()
    by = "self_cuda_time_total" if args.on_gpu else "self_cpu_time_total"
    return profiled.key_averages().table(sort_by=by, row_limit=25, max_name_column_width=40)


def compare(args: Namespace, size: str, mode: str) -> list[dict[str, Any]]:
    """Return one record a rival."""
    rivals = [*args.rivals, *(["authors"] if args.authors else [])]
    if mode == "inference":
        rivals = [AT_INFERENCE.get(name, name) for name in rivals]
    rivals = list(dict.fromkeys(rivals))
    known = {**vars(args), "size": size, "shape": SIZES[size], "mode": mode}
    processes = {name: Rival(rival=name, **known) for name in rivals}
    try:
        for process in processes.values():
            process.answer()
        times: dict[str, list[float]] = {name: [] for name in processes}
        for number, name in turns(processes, args):
            measured = float(processes[name].answer("step"))
            if number >= 0:
                times[name].append(measured)
        ends = {name: json.loads(process.answer("end")) for name, process in processes.items()}
    finally:
        for process in processes.values():
            process.process.kill()
    records = []
    for name in rivals:
        found = spread(times[name])
        record = {"size": size, "mode": mode, "rival": name}
        record["milliseconds"] = [1000 * value for value in found]
        record["tokens_per_second"] = args.batch * args.length / found[1]
        record["time_over_first"] = spread([own / first for own, first in zip(times[name], times[rivals[0]])])
        records.append({**record, **ends[name]})
    return records


# ---------------------------------------------------------------------------------------------------------- the table


def shown(rival: str) -> str:
    """Name a rival in the table."""
    names = {"tupe_compiled": "TUPE-R, ours, --compile", "authors": "TUPE-R, the authors'"}
    names |= {"roberta": "RoBERTa, fairseq's", "roberta_fused": "RoBERTa, fairseq's, fused_adamw"}
    if rival in names:
        return names[rival]
    return f"{PAPER_NAMES[ALIASES.get(rival, rival)]}, ours"


def table(records: list[dict[str, Any]]) -> str:
    """Write the records in Markdown."""
    heads = ["size", "mode", "model", "ms (quartiles)", "tokens/s", "time / first's (quartiles)"]
    lines = [[*heads, "peak memory", "host waits"], ["---"] * (len(heads) + 2)]
    for record in records:
        lines.append([
            record["size"],
            record["mode"],
            shown(record["rival"]),
            quartiles(record["milliseconds"]),
            f"{record['tokens_per_second']:,.0f}",
            quartiles(record["time_over_first"], 3),
            f"{record['peak_bytes'] / 2**20:,.0f} MiB",
            "" if record["synchronisations"] is None else str(record["synchronisations"]),
        ])  # fmt: skip
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def conditions(args: Namespace) -> str:
    """Say in one line on which machine what was run."""
    return (
        f"{machine(args.device)}, {args.dtype}, {args.batch} {'pairs' if args.pairs else 'sequences'} of {args.length} "
        f"tokens, vocabulary {args.vocab_size}, backend {args.backend}, {args.rounds} rounds of {args.steps} "
        f"steps, {args.clock} time"
    )


def main() -> None:
    args = arguments()
    if args.worker:
        return work(Namespace(**json.loads(args.worker)))
    title = conditions(args)
    print(title, flush=True)
    records: list[dict[str, Any]] = []
    for size, mode in itertools.product(args.sizes, args.modes):
        if args.profile:
            print("", profile(args, size, mode), sep="\n", flush=True)
            continue
        measured = compare(args, size, mode)
        print("", table(measured), sep="\n", flush=True)
        records += measured
        if args.output:  # each time: what is interrupted loses nothing
            args.output.mkdir(parents=True, exist_ok=True)
            (args.output / "model.json").write_text(json.dumps({"run": title, "records": records}, indent=1) + "\n")
            (args.output / "model.md").write_text(f"{title}\n\n{table(records)}\n")


if __name__ == "__main__":
    main()
