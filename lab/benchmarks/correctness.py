"""Errors of every backend of the attention against float64: the output and each gradient.

    python lab/benchmarks/correctness.py                              # a GPU, bf16 and fp16, two odd lengths
    python lab/benchmarks/correctness.py --lengths 33 --width 16      # to try it on a CPU

Each row is the largest error as a multiple of what the self-check of the kernels allows. Ends with 1 if one is above 1.
"""

import argparse
import functools
import sys

import torch
from measured import reason

from tupe.attention import BACKENDS, biased_attention
from tupe.attention.kernels.check import errors

SKIPPED = {"reference"}  # the others are compared with it, in float64


def worst(backend: str, dtype: str, length: int, width: int, device: str) -> tuple[float, str]:
    """Return the largest error of a backend and the tensor that has it."""

    def attend(query, key, value, bias, padding, scale, dropout_p):
        options = {"key_padding_mask": padding, "scale": scale, "dropout_p": dropout_p, "training": True}
        return biased_attention(query, key, value, bias, backend=backend, **options)

    found = errors(attend, torch.device(device), getattr(torch, dtype), length, width)
    return max((error, name) for name, error in found.items())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add, device = parser.add_argument, "cuda" if torch.cuda.is_available() else "cpu"
    add("--lengths", type=int, nargs="+", default=[201, 511])
    add("--width", type=int, default=64, help="of a head (default: 64)")
    add("--dtypes", nargs="+", default=["bfloat16", "float16"])
    add("--backends", nargs="+", default=[name for name in BACKENDS if name not in SKIPPED])
    args = parser.parse_args()
    show = functools.partial(print, flush=True)
    show("| backend | type | length | largest error / allowed | of |", 5 * "|---" + "|", sep="\n")
    wrong = False
    for backend, dtype, length in ((b, t, n) for b in args.backends for t in args.dtypes for n in args.lengths):
        try:
            error, name = worst(backend, dtype, length, args.width, device)
        except Exception as missing:  # the other backends are still checked
            error, name = torch.inf, reason(missing)
        wrong |= not error <= 1
        show(f"| {backend} | {dtype} | {length} | {error:.3f} | {name} |")
    return int(wrong)


if __name__ == "__main__":
    sys.exit(main())
