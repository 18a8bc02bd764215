r"""Training step and inference of a whole model: the systems of this package, fairseq's RoBERTa, the authors' code.

    python benchmarks/model.py                                           # base, on a GPU if there is one
    python benchmarks/model.py --authors ../TUPE --output results        # also writes results/model.{json,md}
    python benchmarks/model.py --rivals tupe electra_tupe --modes training   # a step of two networks against one
    python benchmarks/model.py --sizes tiny --length 64 --batch 2 --rounds 5   # to try it on a CPU
    python benchmarks/model.py --rivals bert_a shaw tupe_r diet_abs diet_rel --sizes base small --length 128 \
        --vocab-size 30522                                               # DIET's table 1

Every rival is a process of its own, so that its peak memory is its own, and they take turns, in alternating order, so
that whatever else the machine does meets all of them; a large matrix product takes its turn too. A figure is the
median over the rounds; a ratio is taken within each round, and given with its quartiles.

Training is a whole update: forward with dropout, the loss at 15% masked tokens, backward, and the optimizer:
`fused_adamw` for ours, their own `adam` for the code of others (`roberta_fused` is RoBERTa with ours). Inference is the
forward pass to the features. Parameters are in the type itself, as with `--memory-efficient-bf16`; there is no padding.

`--authors` is the path of a checkout of https://github.com/guolinke/TUPE, whose TUPE-R is then a rival. It is written
for an older numpy, whose names `numpy.float` and the like are given back to it.
"""

import argparse
import itertools
import json
import logging
import os
import resource
import statistics
import subprocess
import sys
import warnings
from argparse import Namespace
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from measured import clock_of, machine, parse, quartiles, spread, turns
from model_rivals import AT_INFERENCE, FLEX, NAMES, PRODUCTS, masked_tokens, model_step, product_step

from tupe.cli.main import status
from tupe.systems import ALIASES, SIZES

MODES = ("training", "inference")

#: Time over BERT-A's on a TPU v2: Chen et al. 2021 (DIET), table 1.
PUBLISHED = {
    ("base", "training"): {"shaw": 1.13, "tupe_r": 1.01, "diet_abs": 1.00, "diet_rel": 1.00},
    ("base", "inference"): {"shaw": 1.33, "tupe_r": 1.19, "diet_abs": 1.00, "diet_rel": 1.00},
    ("small", "training"): {"shaw": 1.24, "tupe_r": 1.04, "diet_abs": 1.00, "diet_rel": 1.00},
    ("small", "inference"): {"shaw": 1.65, "tupe_r": 1.27, "diet_abs": 1.01, "diet_rel": 1.00},
}


def arguments(argv: Sequence[str] | None = None) -> Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add, known = parser.add_argument, [name for name in NAMES if name != "authors"]
    add("--sizes", nargs="+", choices=SIZES, default=["base"])
    help_ = "any of %(choices)s; the others' times are divided by the first's (default: %(default)s)"
    usual = ["tupe", "bert_a", "roberta", "roberta_fused"]
    add("--rivals", nargs="+", choices=known, metavar="RIVAL", default=usual, help=help_)
    add("--authors", type=Path, help="checkout of the authors' code")
    add("--modes", nargs="+", choices=MODES, default=MODES)
    add("--batch", type=int, default=32, help="sequences (default: 32)")
    add("--length", type=int, default=512, help="tokens of each (default: 512)")
    add("--pairs", action="store_true", help="sentence pairs, for what segments cost")
    add("--vocab-size", type=int, default=32_768, help="symbols (default: 32768)")
    add("--backend", default="auto", help="of ours: --attention-backend (default: auto)")
    add("--attention-dropout", type=float, help="of ours (default: the model's, 0.1)")
    add("--profile", action="store_true", help="instead: where the first model's step spends its time")
    add("--output", type=Path, help="folder for model.json and model.md")
    add("--worker", help=argparse.SUPPRESS)  # what one process measures, as JSON
    args = parse(parser, argv, rounds=20, warm_up=3, steps=5)
    if FLEX in args.rivals and "training" in args.modes and args.attention_dropout != 0:
        parser.error(f"{FLEX} cannot drop attention weights: add --attention-dropout 0, for all rivals")
    return args


# ---------------------------------------------------------------------------------------------------- one process each


def synchronisations(step: Callable[[], None]) -> int:
    """Count how often the host waits for the GPU in a step."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        torch.cuda.set_sync_debug_mode("warn")
        step()
        torch.cuda.set_sync_debug_mode("default")
    return sum("called a synchronizing" in str(warning.message) for warning in caught)  # not that the mode is new


def work(args: Namespace) -> None:
    """Answer each line on standard input with the seconds of a step, and `end` with the memory."""
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # whatever else is printed
    logging.disable(logging.INFO)
    clock = clock_of(args)
    step = product_step(args) if args.rival == "product" else model_step(args)
    print("ready", file=answers)
    for line in sys.stdin:
        if line.strip() == "end":
            break
        start = clock()
        for _ in range(args.steps):
            step()
        print((clock() - start) / args.steps, file=answers)
    if args.on_gpu:
        peak, waits = torch.cuda.max_memory_allocated(args.device), synchronisations(step)
    else:
        peak, waits = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024, None
    print(json.dumps({"peak_bytes": peak, "synchronisations": waits}), file=answers)


# ------------------------------------------------------------------------------------------------------ the comparison


class Rival:
    """A process that measures, started with what it needs to know."""

    def __init__(self, **known: Any) -> None:
        self.name = known["rival"]
        command = [sys.executable, __file__, "--worker", json.dumps(known, default=str)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def answer(self) -> str:
        line = self.process.stdout.readline().strip()
        if not line:
            raise RuntimeError(f"{self.name} ended with exit status {self.process.wait()}; its messages are above")
        return line

    def measure(self) -> float:
        print("step", file=self.process.stdin, flush=True)
        return float(self.answer())

    def end(self) -> dict[str, int | None]:
        print("end", file=self.process.stdin, flush=True)
        return json.loads(self.answer())


def operations(args: Namespace, size: dict[str, int], mode: str) -> float:
    """Count the operations of BERT-A's matrix products: two a multiplication; backward has twice those of forward."""
    tokens, d, layers = args.batch * args.length, size["encoder_embed_dim"], size["encoder_layers"]
    layer = 4 * d * d + 2 * d * size["encoder_ffn_embed_dim"] + 2 * d * args.length
    if mode == "inference":
        return 2.0 * tokens * layers * layer
    return 6.0 * (tokens * layers * layer + masked_tokens(args) * (d * d + d * args.vocab_size))


def known_to_workers(args: Namespace, size: str, mode: str) -> dict[str, Any]:
    product = 8192 if args.on_gpu else 1024
    return {**vars(args), "size": size, "shape": SIZES[size], "mode": mode, "product": product}


def profile(args: Namespace, size: str, mode: str) -> str:
    """Profile three steps of the first model by PyTorch, and return a table of operators."""
    step = model_step(Namespace(rival=args.rivals[0], **known_to_workers(args, size, mode)))
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
    if FLEX in rivals and mode == "training" and args.device == "cpu":
        print(f"{FLEX} is left out: FlexAttention has no backward on the CPU", flush=True)
        rivals.remove(FLEX)
    known = known_to_workers(args, size, mode)
    processes = {name: Rival(rival=name, **known) for name in (*rivals, "product")}
    try:
        for process in processes.values():
            process.answer()
        seconds: dict[str, list[float]] = {name: [] for name in processes}
        for number, name in turns(processes, args):
            measured = processes[name].measure()
            if number >= 0:
                seconds[name].append(measured)
        ends = {name: process.end() for name, process in processes.items()}
    finally:
        for process in processes.values():
            process.process.kill()
    peak = PRODUCTS * 2.0 * known["product"] ** 3 / statistics.median(seconds["product"])
    needed = operations(args, known["shape"], mode)
    published = PUBLISHED.get((size, mode), {}) if rivals[0] == "bert_a" else {}
    records = []
    for name in rivals:
        times = spread(seconds[name])
        record = {"size": size, "mode": mode, "rival": name, "attention_dropout": args.attention_dropout}
        record["milliseconds"] = [1000 * value for value in times]
        record["tokens_per_second"] = args.batch * args.length / times[1]
        record["time_over_first"] = spread([own / first for own, first in zip(seconds[name], seconds[rivals[0]])])
        record["published_time_over_first"] = published.get(ALIASES.get(name, name))
        record["product_operations_per_second"] = peak
        record["share_of_product"] = needed / times[1] / peak
        records.append({**record, **ends[name]})
    return records


def cells(record: dict[str, Any]) -> dict[str, str]:
    """Map each column to its cell, which is empty where there is no figure."""
    published, waits = record["published_time_over_first"], record["synchronisations"]
    return {
        "size": record["size"],
        "mode": record["mode"],
        "model": NAMES[record["rival"]],
        "ms (quartiles)": quartiles(record["milliseconds"]),
        "tokens/s": f"{record['tokens_per_second']:,.0f}",
        "time / first's (quartiles)": quartiles(record["time_over_first"], 3),
        "published": "" if published is None else f"{published:.2f}",
        "of matrix product": f"{100 * record['share_of_product']:.1f}%",
        "peak memory": f"{record['peak_bytes'] / 2**20:,.0f} MiB",
        "host waits": "" if waits is None else str(waits),
    }


def table(records: list[dict[str, Any]]) -> str:
    """Write the records in Markdown, without the columns that are empty in every row."""
    rows = [cells(record) for record in records]
    columns = [column for column in rows[0] if any(row[column] for row in rows)]
    lines = [columns, ["---"] * len(columns), *([row[column] for column in columns] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def conditions(args: Namespace) -> str:
    """Say in one line on which machine what was run."""
    return (
        f"{machine(args.device)}, {args.dtype}, "
        f"{args.batch} {'pairs' if args.pairs else 'sequences'} of {args.length} tokens, "
        f"vocabulary {args.vocab_size}, backend {args.backend}, "
        f"{'' if args.attention_dropout is None else f'attention dropout {args.attention_dropout}, '}"
        f"{args.rounds} rounds of {args.steps} steps, {args.clock} time"
    )


def main() -> None:
    args = arguments()
    if args.worker:
        return work(Namespace(**json.loads(args.worker)))
    title = conditions(args)
    print(title, flush=True)
    records: list[dict[str, Any]] = []
    failed = []
    for size, mode in itertools.product(args.sizes, args.modes):
        if args.profile:
            print("", profile(args, size, mode), sep="\n", flush=True)
            continue
        try:
            measured = compare(args, size, mode)
        except (BrokenPipeError, RuntimeError) as error:  # the other sizes and modes go on
            failed.append(f"{size}, {mode}: {error}")
            continue
        print("", table(measured), sep="\n", flush=True)
        records += measured
        if args.output:  # each time: what is interrupted loses nothing
            args.output.mkdir(parents=True, exist_ok=True)
            (args.output / "model.json").write_text(json.dumps({"run": title, "records": records}, indent=1) + "\n")
            (args.output / "model.md").write_text(f"{title}\n\n{table(records)}\n")
    if failed:
        raise SystemExit("\n".join(failed))


if __name__ == "__main__":
    sys.exit(status(main))
