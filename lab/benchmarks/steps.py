"""A training step of whole models in Transformers: this package's systems, and Transformers' BERT and ModernBERT.

    python lab/benchmarks/steps.py --output results                         # base, bf16, 32 x 512 tokens, on a GPU
    python lab/benchmarks/steps.py --ragged --output results                # lengths of MNLI's pairs
    python lab/benchmarks/steps.py --layers 2 --width 32 --batch 2 --length 16 --vocab-size 64 --rounds 1   # a CPU

fairseq is not needed. A step is forward with dropout, the loss at all tokens, backward, and PyTorch's fused AdamW, with
parameters in float32 under autocast. Each model takes turns with the first one, and its memory is PyTorch's peak in a
step beyond what parameters and their states hold. `--ragged` draws lengths like those of MNLI's pairs. `tokens/s`
does not count padding, which `tupe_a, unpadded` leaves out.
"""

import argparse
import functools
from argparse import Namespace
from collections.abc import Callable

import torch
import transformers
from measured import compare, machine, parse, report

import tupe.hf
from tupe.systems import SYSTEMS

#: Row -> the system and other fields of its configuration.
OURS = {name: (name, {}) for name in ("tupe_a", "tupe_r", "bert_a", "rope")}
OURS |= {
    f"tupe_a, {backend}": ("tupe_a", {"attention_backend": backend})
    for backend in ("sdpa", "factors", "flex", "triton")
}
OURS |= {"tupe_a, unpadded": ("tupe_a", {"attention_backend": "triton", "unpad": "always"})}
THEIRS = {"Transformers' BERT": "Bert", "Transformers' ModernBERT": "ModernBert"}


def arguments() -> Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--layers", type=int, default=12)
    add("--width", type=int, default=768)
    add("--batch", type=int, default=32)
    add("--length", type=int, default=512)
    add("--vocab-size", type=int, default=32_768)
    add("--attention-dropout", type=float, default=0.1)
    add("--ragged", action="store_true", help="lengths of MNLI's pairs")
    add("--rivals", nargs="+", help="default: all of them")
    return parse(parser, rounds=5, warm_up=1, steps=3)


def build(rival: str, args: Namespace) -> torch.nn.Module:
    sizes = {
        "num_hidden_layers": args.layers, "hidden_size": args.width, "num_attention_heads": max(1, args.width // 64),
        "intermediate_size": 4 * args.width, "vocab_size": args.vocab_size, "pad_token_id": 1,
    }  # fmt: skip
    if rival in THEIRS:
        if rival.endswith("ModernBERT"):  # three matrices instead of two: as many parameters
            sizes["intermediate_size"] = 8 * args.width // 3
        config = getattr(transformers, f"{THEIRS[rival]}Config")(
            **sizes, bos_token_id=0, eos_token_id=2, cls_token_id=0, sep_token_id=2
        )
        dropouts = ("attention_probs_dropout_prob", "attention_dropout")
        for name in filter(config.to_dict().__contains__, dropouts):
            setattr(config, name, args.attention_dropout)
        return getattr(transformers, f"{THEIRS[rival]}ForMaskedLM")(config)
    system, others = OURS[rival]
    dropout = 0.0 if "flex" in rival else args.attention_dropout  # FlexAttention has none
    config = tupe.hf.TupeConfig(
        **sizes, **SYSTEMS[system], **others, max_position_embeddings=args.length, attention_probs_dropout_prob=dropout
    )
    return tupe.hf.TupeForMaskedLM(config)


def batch_of(args: Namespace) -> tuple[torch.Tensor, torch.Tensor]:
    """Return tokens and the mask of them, `(B, T)` each. MNLI's pairs have 39 pieces, give or take half of that."""
    generator = torch.Generator().manual_seed(0)
    tokens = torch.randint(4, args.vocab_size, (args.batch, args.length), generator=generator)
    mean, deviation = torch.tensor(39.0).log() - 0.125, 0.5
    lengths = (mean + deviation * torch.randn(args.batch, generator=generator)).exp().long().clamp(4, args.length)
    mask = torch.arange(args.length) < (lengths if args.ragged else torch.full_like(lengths, args.length))[:, None]
    tokens = tokens.masked_fill(~mask, 1)[:, : int(mask.sum(1).max())]
    tokens[:, 0] = 0
    return tokens.to(args.device), mask[:, : tokens.shape[1]].to(args.device)


def make_step(rival: str, args: Namespace) -> Callable[[], None]:
    torch.manual_seed(0)
    model = build(rival, args).to(args.device).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=args.on_gpu)
    tokens, mask = batch_of(args)
    labels = tokens.masked_fill(~mask, -100)
    autocast = torch.autocast(torch.device(args.device).type, getattr(torch, args.dtype), args.dtype != "float32")

    def step() -> None:
        with autocast:
            loss = model(input_ids=tokens, attention_mask=mask.long(), labels=labels).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


def main() -> None:
    args = arguments()
    rivals, tokens = args.rivals or [*OURS, *THEIRS], int(batch_of(args)[1].sum())
    about = f"{args.batch} x {args.length} tokens ({tokens} without padding), {args.layers} layers of {args.width}"
    title = f"{machine(args.device)}, {args.dtype}, {about}, attention dropout {args.attention_dropout}"
    first = make_step(rivals[0], args)
    pairs = ({"first": lambda: first, rival: functools.partial(make_step, rival, args)} for rival in rivals)
    report("steps", title, (compare({}, tokens, pair, args)[1:] for pair in pairs), args)


if __name__ == "__main__":
    main()
