"""DIET's table 1 for these implementations: time of each system over BERT-A's, in training and at inference.

    python benchmarks/table1.py --output table1.md                   # base and small, on a GPU if there is one
    python benchmarks/table1.py --sizes tiny --batch 2 --length 64   # to try it on a CPU

All systems of a size are in memory at once and take turns, so that whatever else the machine does meets all of them.
Each figure is the median over the rounds of its time divided by BERT-A's in the same round, with the quartiles.
Training is a whole update: forward at 15% masked tokens with dropout, backward, AdamW; 16-bit types by autocast.
Inference is the forward pass to the features, in the type itself. Published: Chen et al. 2021, table 1, on a TPU v2.
"""

from __future__ import annotations

import argparse
import logging
import platform
import statistics
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Callable, Optional

import torch
import torch.nn.functional as F
from fairseq.data import Dictionary
from torch import Tensor

from tupe.models import TupeModel
from tupe.models.config import CONFIGS
from tupe.systems import DESCRIPTIONS, SIZES, SYSTEMS

BASELINE = "bert_a"

#: (system, size) -> per cent over BERT in training and at inference, as published.
PUBLISHED = {
    ("shaw", "base"): (13, 33),
    ("tupe_r", "base"): (1, 19),
    ("diet_abs", "base"): (0, 0),
    ("diet_rel", "base"): (0, 0),
    ("shaw", "small"): (24, 65),
    ("tupe_r", "small"): (4, 27),
    ("diet_abs", "small"): (0, 1),
    ("diet_rel", "small"): (0, 0),
}
MODES = ("training", "inference")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    on_gpu = torch.cuda.is_available()
    parser.add_argument("--device", default="cuda" if on_gpu else "cpu", help="default: cuda where there is one")
    parser.add_argument("--sizes", nargs="+", choices=SIZES, default=["base", "small"], help="default: base small")
    parser.add_argument(
        "--systems",
        nargs="+",
        choices=SYSTEMS,
        default=[name for name, size in PUBLISHED if size == "base"],
        help="beside BERT-A; default: those of the published table",
    )
    parser.add_argument("--batch", type=int, default=32, help="sequences (default: 32)")
    parser.add_argument("--length", type=int, default=128, help="tokens of each (default: 128, DIET's pre-training)")
    parser.add_argument("--pairs", action="store_true", help="sentence pairs, which use the second segment")
    parser.add_argument("--dtype", choices=["float32", "bfloat16", "float16"], help="default: bfloat16 on a GPU")
    parser.add_argument("--vocab-size", type=int, default=30_522, help="symbols (default: 30522)")
    parser.add_argument("--rounds", type=int, default=30, help="rounds that count (default: 30; 5 before them do not)")
    parser.add_argument("--steps", type=int, default=5, help="steps of a system in a round (default: 5)")
    parser.add_argument("--output", type=Path, help="also write the table to this file")
    args = parser.parse_args()
    args.dtype = getattr(torch, args.dtype or ("bfloat16" if args.device.startswith("cuda") else "float32"))
    return args


def dictionary_of(size: int) -> Dictionary:
    dictionary = Dictionary()
    for index in range(size - len(dictionary)):
        dictionary.add_symbol(f"word{index}")
    return dictionary


def batch_of(args: argparse.Namespace, dictionary: Dictionary) -> Tensor:
    """Sequences `<s> words </s>`, or pairs of equally long sentences."""
    tokens = torch.randint(dictionary.nspecial, len(dictionary), (args.batch, args.length))
    tokens[:, 0] = dictionary.bos()
    tokens[:, -1] = dictionary.eos()
    if args.pairs:
        tokens[:, args.length // 2 : args.length // 2 + 2] = dictionary.eos()
    return tokens.to(args.device)


def training_step(model: TupeModel, tokens: Tensor, args: argparse.Namespace) -> Callable[[], None]:
    """One update of the masked language model."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=args.device.startswith("cuda"))
    masked = torch.randperm(tokens.numel())[: max(1, tokens.numel() * 15 // 100)].sort().values.to(args.device)
    target = tokens.flatten()[masked]
    autocast = torch.autocast(torch.device(args.device).type, args.dtype, enabled=args.dtype != torch.float32)

    def step() -> None:
        with autocast:
            logits, _ = model(tokens, masked_tokens=masked, has_padding=False)
        F.cross_entropy(logits.float(), target).backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


def inference_step(model: TupeModel, tokens: Tensor) -> Callable[[], None]:
    """One forward pass to the features."""

    def step() -> None:
        with torch.no_grad():
            model(tokens, features_only=True, has_padding=False)

    return step


def take_turns(steps: dict[str, Callable[[], None]], args: argparse.Namespace) -> dict[str, list[float]]:
    """Milliseconds of a step of each, one figure a round."""

    def wait() -> None:
        if args.device.startswith("cuda"):
            torch.cuda.synchronize(args.device)

    times: dict[str, list[float]] = {name: [] for name in steps}
    for number in range(-min(5, args.rounds), args.rounds):
        for name, step in steps.items():
            wait()
            start = time.perf_counter()
            for _ in range(args.steps):
                step()
            wait()
            if number >= 0:
                times[name].append((time.perf_counter() - start) / args.steps * 1000)
    return times


def row(size: str, mode: str, system: str, times: dict[str, list[float]]) -> str:
    """A line of the table."""
    over = [100 * (mine / base - 1) for mine, base in zip(times[system], times[BASELINE])]
    first, median, third = statistics.quantiles(over, n=4) if len(over) > 1 else over * 3
    published: Optional[int] = PUBLISHED.get((system, size), (None, None))[MODES.index(mode)]
    return (
        f"| {size} | {mode} | {DESCRIPTIONS[system][0]} | {statistics.median(times[system]):.2f} | {median:+.1f}% | "
        f"{first:+.1f}% to {third:+.1f}% | {'' if published is None else f'+{published}%'} |"
    )


def main() -> None:
    args = arguments()
    torch.manual_seed(0)
    dictionary = dictionary_of(args.vocab_size)
    tokens = batch_of(args, dictionary)
    task = SimpleNamespace(source_dictionary=dictionary, max_positions=lambda: args.length)
    device = torch.cuda.get_device_name(args.device) if args.device.startswith("cuda") else platform.processor()
    table = [
        f"{device or args.device}, PyTorch {torch.__version__}, {str(args.dtype).removeprefix('torch.')}, {args.batch} "
        f"{'pairs' if args.pairs else 'sequences'} of {args.length} tokens, {args.rounds} rounds of {args.steps} steps",
        "",
        "| size | mode | system | ms | over BERT-A | quartiles | published |",
        "|---|---|---|---|---|---|---|",
    ]
    print(*table, sep="\n", flush=True)
    systems = list(dict.fromkeys([BASELINE, *args.systems]))
    for size in args.sizes:
        configs = {name: CONFIGS[f"{name}_{size}"](max_positions=args.length) for name in systems}
        models = {name: TupeModel.build_model(config, task).to(args.device) for name, config in configs.items()}
        for mode in MODES:
            if mode == "training":
                steps = {name: training_step(model.train(), tokens, args) for name, model in models.items()}
            else:
                steps = {name: inference_step(m.eval().to(args.dtype), tokens) for name, m in models.items()}
            times = take_turns(steps, args)
            rows = [row(size, mode, system, times) for system in systems]
            print(*rows, sep="\n", flush=True)
            table += rows
            if args.output:  # each time: what is interrupted loses nothing
                args.output.write_text("\n".join(table) + "\n")


if __name__ == "__main__":
    logging.disable(logging.INFO)  # fairseq's import is talkative
    main()
