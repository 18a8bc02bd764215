"""Run one small kernel on the device that is named; ends with 0 if its numbers are right. Imports nothing of ours."""

import sys

import torch
import triton
import triton.language as tl


@triton.jit
def product_kernel(A, B, OUT, SIZE: tl.constexpr):
    """Write `(A @ B) @ B`, square: the first product is a left operand in registers, as in attention."""
    cell = tl.arange(0, SIZE)[:, None] * SIZE + tl.arange(0, SIZE)[None, :]
    b = tl.load(B + cell)
    product = tl.dot(tl.load(A + cell), b).to(tl.bfloat16)
    tl.store(OUT + cell, tl.dot(product, b))


def main(device: str) -> int:
    torch.manual_seed(0)
    a, b = (torch.randint(-1, 2, (64, 64), device=device).bfloat16() for _ in range(2))
    out = torch.empty(64, 64, device=device)
    with torch.cuda.device(torch.device(device)):
        product_kernel[(1,)](a, b, out, 64, num_warps=4)  # pyright: ignore[reportCallIssue]
    return 0 if torch.equal(out.double(), a.double() @ b.double() @ b.double()) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
