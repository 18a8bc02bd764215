r"""An imported model beside Transformers' own run of it: fine-tuning and inference on a task's texts.

    OMP_NUM_THREADS=1 python benchmarks/imported.py data/glue/SST-2 data/glue/MNLI --clock process
    OMP_NUM_THREADS=1 python benchmarks/imported.py data/glue/SST-2 --size small --batch 32    # a smaller one

A folder is one of `tupe prepare-glue`, with the splits `train` and `valid`. The model is Transformers' RoBERTa with
random weights, a classification head and 50,265 symbols, as the original has; ours is what `tupe import` makes of
its folder. Both get the same batches and take turns in one process, in alternating order. A figure is tokens without
padding a second, the median over the rounds; the ratio to Transformers is taken within each round, and given with its
quartiles.

A step of fine-tuning is forward with dropout, loss, backward and the optimizer: PyTorch's fused AdamW, which is the
Trainer's default, and our `fused_adamw`. Inference is forward with the head. Batches at random are padded to their
longest text; in order of length (training: within windows of 50 batches) is `task.length_window=50` and the Trainer's
`group_by_length`; those of one length have no padding. Tokens alone is `--unpad auto`.

Memory is by how much the process grows at most during a step, beyond models, gradients and optimizers.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import logging
import re
import sys
import tempfile
from argparse import Namespace
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from finetuning import HEAD, Batches, Trained, load, orders, scores_of
from measured import clock_of, machine, parse, quartiles, spread, turns
from torch import Tensor, nn

import tupe.transformers  # hides a torchaudio that does not load; before `transformers`  # noqa: F401
from tupe.checkpoints.foreign import transformers as foreign
from tupe.checkpoints.foreign.importing import build
from tupe.cli.main import status
from tupe.models.checkpoint_config import saved_config
from tupe.models.summary import dictionary_of_size
from tupe.models.tupe import TupeModel
from tupe.optim.fused_adamw import DecoupledAdam
from tupe.systems import SIZES

THEIRS, PADDED, ALONE = "Transformers", "imported, padded", "imported, tokens alone"
_PADDING = 1
_STATUS = Path("/proc/self/status")


def arguments() -> Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("tasks", nargs="+", type=Path, metavar="TASK", help="prepared for classification: data/glue/MNLI")
    add("--size", choices=SIZES, default="base")
    add("--symbols", type=int, default=50_265, help="rows of the table of words (default: %(default)s)")
    add("--batch", type=int, default=8, help="examples (default: %(default)s)")
    add("--window", type=int, default=50, help="batches of a window (default: %(default)s)")
    add("--modes", nargs="+", choices=["training", "inference"], default=["training", "inference"])
    return parse(parser, rounds=6, warm_up=1, steps=2)


def both(classes: int, args: Namespace) -> tuple[nn.Module, TupeModel]:
    """Return Transformers' model, and ours with the same weights."""
    import transformers

    size = SIZES[args.size]
    torch.manual_seed(1)
    config = transformers.RobertaConfig(
        vocab_size=args.symbols,
        num_hidden_layers=size["encoder_layers"],
        hidden_size=size["encoder_embed_dim"],
        intermediate_size=size["encoder_ffn_embed_dim"],
        num_attention_heads=size["encoder_attention_heads"],
        max_position_embeddings=514,
        type_vocab_size=1,
        num_labels=classes,
    )
    theirs = transformers.RobertaForSequenceClassification(config)
    with tempfile.TemporaryDirectory() as folder:
        theirs.save_pretrained(folder)
        read, _ = foreign.read(Path(folder))
    read.split_head(HEAD, pooler=False)
    read.check()
    fields = {**read.fields, "_name": read.name}
    checked = saved_config({"cfg": {"model": fields}, "model": read.weights}, read.path)
    ours = build(checked, dictionary_of_size(args.symbols), read, HEAD)
    return theirs.to(args.device, args.torch_dtype), ours.to(args.device, args.torch_dtype)


class Ways:
    """The two models with their optimizers."""

    def __init__(self, classes: int, args: Namespace) -> None:
        theirs, ours = both(classes, args)
        options = {"lr": 1e-5, "betas": (0.9, 0.999), "eps": 1e-8, "weight_decay": 0.01}

        def scores_of_theirs(sample: dict) -> Tensor:
            tokens = sample["net_input"]["src_tokens"]
            return theirs(input_ids=tokens, attention_mask=tokens.ne(_PADDING).long()).logits

        optimizer = torch.optim.AdamW(theirs.parameters(), fused=True, **options)
        self.theirs = Trained(theirs, optimizer, scores_of_theirs, keep=True)
        optimizer = DecoupledAdam(ours.parameters(), **options)
        self.ours = Trained(ours, optimizer, partial(scores_of, ours), keep=True)

    def run(self, way: str, sample: dict, training: bool) -> None:
        """Do a step, or a forward pass."""
        if way == THEIRS:
            return self.theirs.run(sample, training)
        self.ours.model.encoder.sentence_encoder.unpad = "auto" if way == ALONE else "never"
        self.ours.run(sample, training)

    def difference(self, sample: dict) -> float:
        """Return how far the scores of both are apart, before any training."""
        self.theirs.model.eval(), self.ours.model.eval()
        with torch.no_grad():
            return float((self.theirs.scores(sample) - self.ours.scores(sample)).abs().max())


def growth(step: Callable[[], None], on_gpu: bool) -> float | None:
    """Return the MiB by which the process grows at most during a step; None where Linux does not say."""
    if on_gpu:
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        step()
        return (torch.cuda.max_memory_allocated() - before) / 2**20
    try:
        gc.collect()
        ctypes.CDLL(None).malloc_trim(0)
        Path("/proc/self/clear_refs").write_text("5")  # the highest from now on
        before = _resident("VmRSS")
        step()
        return (_resident("VmHWM") - before) / 1024
    except (OSError, AttributeError, TypeError):
        step()
        return None


def _resident(name: str) -> int:
    return int(re.search(rf"{name}:\s+(\d+)", _STATUS.read_text())[1])


def compare(task: Any, mode: str, models: Ways, args: Namespace) -> None:
    """Print the rows of the table."""
    now, training = clock_of(args), mode == "training"
    for name, batches in orders(task, args, training).items():
        ways = [THEIRS, PADDED] if name == "of one length" else [THEIRS, PADDED, ALONE]
        rates: dict[str, list[float]] = {way: [] for way in ways}
        slots = tokens = 0
        for number, way in turns(ways, args):
            samples = list(batches.of_round(max(number, 0)))
            begin = now()
            for sample in samples:
                models.run(way, sample, training)
            seconds, count = now() - begin, sum(sample["ntokens"] for sample in samples)
            if number >= 0:
                rates[way].append(count / seconds)
                tokens += count
                slots += sum(sample["net_input"]["src_tokens"].numel() for sample in samples)
        memory = {way: growth(partial(models.run, way, samples[0], training), args.on_gpu) for way in ways}
        padding = 100 * (1 - tokens / slots)
        for way, found in rates.items():
            ratio = "1" if way == THEIRS else quartiles(spread([own / x for own, x in zip(found, rates[THEIRS])]))
            grows = "" if memory[way] is None else f"{memory[way]:,.0f}"
            cells = (mode, name, f"{padding:.0f}%", way, grows, f"{spread(found)[1]:,.0f}", ratio)
            print(f"| {' | '.join(cells)} |", flush=True)


def main() -> None:
    import transformers

    args = arguments()
    logging.disable(logging.INFO)
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    print(
        f"{machine(args.device)}, Transformers {transformers.__version__}, {args.torch_dtype}, RoBERTa {args.size}, "
        f"{args.symbols:,} symbols, batches of {args.batch}, windows of {args.window}, {args.rounds} rounds of "
        f"{args.steps}, {args.clock} time"
    )
    for folder in args.tasks:
        task = load(folder)
        models = Ways(task.cfg.num_classes, args)
        apart = models.difference(next(Batches(task, "valid", args).of_round(0)))
        print(f"\n{folder.name}: the scores of both differ by {apart:.1e} before training\n")
        print("| | batches | padding | | memory, MiB | tokens/s | over Transformers (quartiles) |")
        print("|---|---|---|---|---|---|---|", flush=True)
        for mode in args.modes:
            compare(task, mode, models, args)


if __name__ == "__main__":
    sys.exit(status(main))
