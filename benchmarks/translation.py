r"""Training and decoding of translation models: the systems of this package beside fairseq's own `transformer`.

    python benchmarks/translation.py                                       # base, on a GPU if there is one
    OMP_NUM_THREADS=1 python benchmarks/translation.py --size tiny --vocab-size 10000 --sentences 64 --decoded 16 \
        --clock process                                                    # a CPU that others use too

The models take turns in one process, in alternating order, on the same sentences: random words, of lengths around
`--length` as Multi30k's are around its own. A figure is the median over the rounds, a ratio is taken within each round,
and given with its quartiles. Training is a whole update, forward with dropout, label-smoothed loss, backward and the
optimizer: `fused_adamw` for ours, `adam` for fairseq's (`transformer_fused` is fairseq's model with ours). Decoding is
fairseq's `SequenceGenerator` for all, to the length of the source, since models that learnt nothing do not end.
"""

import argparse
import sys
from argparse import Namespace
from collections.abc import Callable
from types import SimpleNamespace

import torch
from fairseq.criterions.label_smoothed_cross_entropy import label_smoothed_nll_loss
from fairseq.data import Dictionary, data_utils
from fairseq.models.transformer import TransformerModel, base_architecture
from fairseq.optim.adam import Adam
from fairseq.sequence_generator import SequenceGenerator
from measured import clock_of, machine, parse, quartiles, spread, turns
from torch import nn

import tupe.models  # noqa: F401
from tupe.cli.main import status
from tupe.models.seq2seq.config import CONFIGS
from tupe.models.seq2seq.model import Seq2SeqModel
from tupe.optim.fused_adamw import DecoupledAdam
from tupe.systems import SEQ2SEQ_SIZES, SEQ2SEQ_SYSTEMS

THEIRS = ("transformer", "transformer_fused")


def arguments() -> Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--size", choices=SEQ2SEQ_SIZES, default="base")
    add("--rivals", nargs="+", choices=[*THEIRS, *SEQ2SEQ_SYSTEMS], metavar="RIVAL",
        default=[*THEIRS, "sinusoidal", "shaw", "t5", "diet_rel", "diet_abs", "tupe_r"],
        help="any of %(choices)s; ratios are to the first")  # fmt: skip
    add("--sentences", type=int, default=256, help="in an update (default: 256)")
    add("--decoded", type=int, default=64, help="sentences that are decoded at a time (default: 64)")
    add("--length", type=int, default=14, help="mean length in pieces (default: 14, Multi30k's)")
    add("--beam", type=int, default=5, help="hypotheses (default: 5)")
    add("--vocab-size", type=int, default=32_000, help="symbols (default: 32000)")
    return parse(parser, rounds=10, warm_up=2, steps=3)


def build(name: str, args: Namespace, dictionary: Dictionary) -> nn.Module:
    task = SimpleNamespace(
        cfg=SimpleNamespace(),
        source_dictionary=dictionary,
        target_dictionary=dictionary,
        max_positions=lambda: (256, 256),
    )
    if name not in THEIRS:
        return Seq2SeqModel.build_model(CONFIGS[f"seq2seq_{name}_{args.size}"](share_all_embeddings=True), task)
    size = SEQ2SEQ_SIZES[args.size]
    fields = Namespace(
        **size,
        **{key.replace("encoder", "decoder"): value for key, value in size.items()},
        share_all_embeddings=True,
        max_source_positions=256,
        max_target_positions=256,
    )
    base_architecture(fields)
    return TransformerModel.build_model(fields, task)


def sentences(number: int, args: Namespace, dictionary: Dictionary) -> torch.Tensor:
    """Draw random words, `(number, T)`, padded on the right; lengths are Poisson's, and at least two."""
    generator = torch.Generator().manual_seed(1)
    lengths = torch.poisson(torch.full((number,), float(args.length - 2)), generator).int() + 1
    rows = [torch.randint(dictionary.nspecial, len(dictionary), (int(n),), generator=generator) for n in lengths]
    ended = [torch.cat([row, row.new_tensor([dictionary.eos()])]) for row in rows]
    return data_utils.collate_tokens(ended, dictionary.pad()).to(args.device)


def training(name: str, model: nn.Module, args: Namespace, dictionary: Dictionary) -> tuple[Callable[[], None], int]:
    """Return a step of one update, and how many target tokens it has."""
    source = sentences(args.sentences, args, dictionary)
    target, pad = source.flip(0), dictionary.pad()  # of other lengths
    previous = torch.cat([torch.full_like(target[:, :1], dictionary.eos()), target[:, :-1]], 1)
    lengths = source.ne(pad).sum(1)
    optimizer = (Adam if name == "transformer" else DecoupledAdam)(model.parameters(), lr=1e-4)
    model.train()

    def step() -> None:
        optimizer.zero_grad()
        logits, _ = model(source, lengths, previous)
        scores = logits.float().log_softmax(-1).view(-1, logits.shape[-1])
        label_smoothed_nll_loss(scores, target.view(-1, 1), 0.1, ignore_index=pad)[0].backward()
        optimizer.step()

    return step, int(target.ne(pad).sum())


def decoding(name: str, model: nn.Module, args: Namespace, dictionary: Dictionary) -> tuple[Callable[[], None], int]:
    """Return a step that translates one batch, and how many sentences it has."""
    source = sentences(args.decoded, args, dictionary)
    sample = {"net_input": {"src_tokens": source, "src_lengths": source.ne(dictionary.pad()).sum(1)}}
    generator = SequenceGenerator([model], dictionary, beam_size=args.beam, max_len_a=1, max_len_b=0)
    return lambda: (model.eval(), generator.generate([model], sample)), args.decoded


def compare(mode: Callable, args: Namespace, dictionary: Dictionary) -> list[str]:
    """Return the table's rows: units a second, and the ratio to the first rival's."""
    now, steps = clock_of(args), {}
    for name in args.rivals:
        torch.manual_seed(1)
        steps[name], unit = mode(
            name, build(name, args, dictionary).to(args.device, args.torch_dtype), args, dictionary
        )
    seconds: dict[str, list[float]] = {name: [] for name in steps}
    for number, name in turns(args.rivals, args):
        begin = now()
        for _ in range(args.steps):
            steps[name]()
        if number >= 0:
            seconds[name].append((now() - begin) / args.steps)
    rows = []
    for name, found in seconds.items():
        ratios = spread([first / own for first, own in zip(seconds[args.rivals[0]], found)])
        rows.append(f"| {name} | {unit / spread(found)[1]:,.0f} | {quartiles(ratios)} |")
    return rows


def main() -> None:
    args = arguments()
    dictionary = Dictionary()
    for number in range(args.vocab_size - len(dictionary)):
        dictionary.add_symbol(str(number))
    print(
        f"{machine(args.device)}, {args.torch_dtype}, size {args.size}, vocabulary {args.vocab_size}, "
        f"{args.rounds} rounds, {args.clock} time"
    )
    for mode, unit in ((training, "target tokens/s"), (decoding, f"sentences/s, beam {args.beam}")):
        print(f"\n| {mode.__name__} | {unit} | times {args.rivals[0]}'s (quartiles) |\n|---|---|---|", flush=True)
        print("\n".join(compare(mode, args, dictionary)), flush=True)


if __name__ == "__main__":
    sys.exit(status(main))
