r"""Fine-tuning and validation on a task's real lengths: what padding costs, and what is left of it.

    python benchmarks/finetuning.py data/glue/MNLI data/glue/SST-2         # base, on a GPU if there is one
    OMP_NUM_THREADS=1 python benchmarks/finetuning.py data/glue/MNLI --size small --rounds 4 --steps 4 \
        --clock process                                                    # a CPU that others use too

A folder is one of `tupe prepare-glue`, with the splits `train` and `valid`. The ways take turns in one process, in
alternating order; ours are one model and one optimizer. A figure is tokens without padding a second, the median over
the rounds; a ratio is taken within each round, and given with its quartiles.

An update is forward with dropout, the loss of the head, backward and the optimizer, `fused_adamw` for all; validation
is the forward pass with the head. At random are batches as fairseq makes them; those in order of length, or by length
within windows, are taken evenly from the split, or from a window. Tokens alone is `--unpad always`, on the CPU `auto`.
"""

from __future__ import annotations

import argparse
import logging
import sys
from argparse import Namespace
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from fairseq.models.roberta import RobertaModel
from fairseq.models.roberta.model import base_architecture
from fairseq.utils import move_to_cuda
from measured import clock_of, machine, parse, quartiles, spread, turns
from torch import Tensor, nn

from tupe.cli.main import status
from tupe.models import TupeModel
from tupe.models.config import CONFIGS
from tupe.optim.fused_adamw import DecoupledAdam
from tupe.systems import SIZES
from tupe.tasks.sentence_prediction import TupeSentencePredictionConfig, TupeSentencePredictionTask

HEAD = "sentence_classification_head"
NO_PADDING = "without padding"


def arguments() -> Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("tasks", nargs="+", type=Path, metavar="TASK", help="prepared for classification: data/glue/MNLI")
    add("--size", choices=SIZES, default="base")
    add("--system", default="tupe", help="of ours (default: tupe)")
    add("--no-roberta", action="store_true", help="ours alone")
    add("--batch", type=int, default=32, help="examples (default: 32)")
    add("--window", type=int, default=50, help="batches of a window: task.length_window (default: 50)")
    add("--backend", default="auto", help="of ours: --attention-backend (default: auto)")
    add("--modes", nargs="+", choices=["training", "validation"], default=["training", "validation"])
    return parse(parser, rounds=10, warm_up=1, steps=8)


def load(folder: Path, **fields: object) -> TupeSentencePredictionTask:
    """Set up the task of a folder, with as many classes as it has."""
    classes = sum(not line.startswith("madeupword") for line in (folder / "label/dict.txt").open(encoding="utf-8"))
    given = {"regression_target": False, "classification_head_name": HEAD, "seed": 1, **fields}
    cfg = TupeSentencePredictionConfig(data=str(folder), num_classes=classes, **given)
    return TupeSentencePredictionTask.setup_task(cfg)


class Batches:
    """Batches of a split, `args.steps` a round.

    Args:
        task: says the order.
        split: its name.
        at_random: shuffled examples; else in the order that the task gives.
        window: batches of which those of a round are taken evenly, 0 for one after the other, -1 for all.
    """

    def __init__(self, task: Any, split: str, args: Namespace, at_random: bool = False, window: int = 0) -> None:
        self.data, self.args = task.load_dataset(split), args
        order = self.data.ordered_indices()
        if at_random:
            order = np.random.default_rng(1).permutation(order)
        batches = self.data.batch_by_size(order, max_sentences=args.batch)
        self.batches = [batch for batch in batches if len(batch) == args.batch] or batches
        self.window = len(self.batches) if window < 0 else min(window, len(self.batches))

    def of_one_length(self) -> Batches:
        """Keep only the batches that have no padding."""
        self.batches = [batch for batch in self.batches if len(set(map(self.data.size, batch))) == 1]
        self.window = len(self.batches)
        return self

    def of_round(self, number: int) -> Iterator[dict]:
        steps = self.args.steps
        first, places = number * steps, range(steps)
        if self.window:
            windows = max(1, len(self.batches) // self.window)
            first = number % windows * self.window
            offset = 0.618 * number % 1  # another one each round, even in the long run
            places = [int((place + offset) * self.window / steps) for place in range(steps)]
        for place in places:
            sample = self.data.collater([self.data[i] for i in self.batches[(first + place) % len(self.batches)]])
            yield move_to_cuda(sample) if self.args.on_gpu else sample


class Trained:
    """A model with its optimizer, and how it scores the classes of a batch."""

    def __init__(
        self, model: nn.Module, optimizer: torch.optim.Optimizer, scores: Callable[[dict], Tensor], keep: bool = False
    ) -> None:
        self.model, self.optimizer, self.scores = model, optimizer, scores
        self.keep = keep  # whether gradients stay allocated, so that memory is counted without them

    def run(self, sample: dict, training: bool) -> None:
        """Do an update, or a forward pass."""
        self.model.train(training)
        with nullcontext() if training else torch.no_grad():
            loss = F.cross_entropy(self.scores(sample).float(), sample["target"].flatten())
        if training:
            loss.backward()
            self.optimizer.step()
            self.optimizer.zero_grad(set_to_none=not self.keep)


def scores_of(model: nn.Module, sample: dict) -> Tensor:
    """Return the scores of a model of ours, or of fairseq's."""
    hint = {"num_tokens": sample["ntokens"]} if isinstance(model, TupeModel) else {}
    return model(**sample["net_input"], features_only=True, classification_head_name=HEAD, **hint)[0]


def trained(model: nn.Module, task: Any, args: Namespace) -> Trained:
    """Give a model a head for the task, and an optimizer."""
    torch.manual_seed(1)
    model.register_classification_head(HEAD, num_classes=task.cfg.num_classes)
    model.to(args.device, args.torch_dtype)
    optimizer = DecoupledAdam(model.parameters(), lr=1e-5, betas=(0.9, 0.999), eps=1e-6, weight_decay=0.01)
    return Trained(model, optimizer, partial(scores_of, model))


def build_ours(task: Any, args: Namespace) -> TupeModel:
    return TupeModel.build_model(CONFIGS[f"{args.system}_{args.size}"](attention_backend=args.backend), task)


def build_roberta(task: Any, args: Namespace) -> RobertaModel:
    fields = Namespace(**SIZES[args.size], max_positions=512, tokens_per_sample=512)
    base_architecture(fields)
    return RobertaModel.build_model(fields, SimpleNamespace(source_dictionary=task.source_dictionary))


def orders(task: Any, args: Namespace, training: bool) -> dict[str, Batches]:
    """Map each order to a task's batches in it. Batches of one length have no padding."""
    by_length = load(Path(task.cfg.data), length_window=args.window)
    alike = Batches(by_length, "train", args).of_one_length()
    if training:
        windows = Batches(by_length, "train", args, window=args.window)
        return {"at random": Batches(task, "train", args), "by length within windows": windows, "of one length": alike}
    at_random, in_order = Batches(task, "valid", args, at_random=True), Batches(task, "valid", args, window=-1)
    return {"at random": at_random, "in order of length": in_order, "of one length": alike}


def ways(task: Any, args: Namespace, mode: str) -> dict[str, tuple[bool, str, Batches]]:
    """Map the name of what is measured to whether it is ours, `--unpad`, and the batches."""
    unpad = "auto" if args.device == "cpu" else "always"
    (_, at_random), (name, by_length), (_, alike) = orders(task, args, mode == "training").items()
    found = {
        "padded": (True, "never", at_random),
        "tokens alone": (True, unpad, at_random),
        name: (True, "never", by_length),
        f"{name}, tokens alone": (True, unpad, by_length),
        "RoBERTa, fairseq's": (False, "", at_random),
    }
    if mode == "training":
        found |= {NO_PADDING: (True, "never", alike), f"{NO_PADDING}, tokens alone": (True, unpad, alike)}
    return {name: way for name, way in found.items() if way[0] or not args.no_roberta}


def compare(task: Any, args: Namespace, models: dict[bool, Trained], mode: str) -> list[str]:
    """Return the table's rows: padding, tokens a second, and that over `padded`, or over batches of one length."""
    now, measured = clock_of(args), ways(task, args, mode)
    rates: dict[str, list[float]] = {name: [] for name in measured}
    slots, tokens = dict.fromkeys(measured, 0), dict.fromkeys(measured, 0)
    for number, name in turns(measured, args):
        ours, unpad, batches = measured[name]
        samples = list(batches.of_round(max(number, 0)))
        if ours:
            models[ours].model.encoder.sentence_encoder.unpad = unpad
        begin = now()
        for sample in samples:
            models[ours].run(sample, mode == "training")
        seconds, count = now() - begin, sum(sample["ntokens"] for sample in samples)
        if number >= 0:
            rates[name].append(count / seconds)
            tokens[name] += count
            slots[name] += sum(sample["net_input"]["src_tokens"].numel() for sample in samples)
    rows = []
    for name, found in rates.items():
        base = NO_PADDING if name.startswith(NO_PADDING) else next(iter(measured))
        ratio = "1" if name == base else quartiles(spread([own / first for own, first in zip(found, rates[base])]))
        padding = 100 * (1 - tokens[name] / slots[name])
        rows.append(f"| {mode} | {name} | {padding:.0f}% | {spread(found)[1]:,.0f} | {ratio} |")
    return rows


def main() -> None:
    args = arguments()
    logging.disable(logging.INFO)
    print(
        f"{machine(args.device)}, "
        f"{args.torch_dtype}, {args.system}_{args.size}, batches of {args.batch}, windows of {args.window}, "
        f"{args.rounds} rounds of {args.steps}, {args.clock} time"
    )
    for folder in args.tasks:
        task = load(folder)
        models = {True: trained(build_ours(task, args), task, args)}
        if not args.no_roberta:
            models[False] = trained(build_roberta(task, args), task, args)
        print(f"\n{folder.name}, vocabulary {len(task.source_dictionary)}\n", flush=True)
        print("| | batches | padding | tokens/s | over padded (quartiles) |\n|---|---|---|---|---|", flush=True)
        for mode in args.modes:
            print("\n".join(compare(task, args, models, mode)), flush=True)


if __name__ == "__main__":
    sys.exit(status(main))
