"""The sizes of tiles, for each kernel and device."""

import functools

import torch

from tupe.attention.kernels.tile import INTERPRETED

# (BLOCK_M, BLOCK_N, num_warps, num_stages) for rows of up to 64 and of up to 128 numbers. Chosen by the registers,
# spills and shared memory that they compile to (benchmarks/compile_kernels.py shows them) and by what PyTorch's authors
# chose for FlexAttention on H100 (torch/_inductor/template_heuristics/triton.py). No time was measured for this table.
Tile = tuple[int, int, int, int]
TILES: dict[tuple[str, int, bool], dict[str, tuple[Tile, Tile]]] = {
    # (shared memory, bytes of a number, whether the bias comes in parts)
    ("large", 2, False): {
        "forward": ((128, 64, 4, 3), (128, 64, 8, 2)),
        "query_gradient": ((128, 64, 8, 2), (128, 64, 8, 2)),
        "key_gradient": ((64, 128, 8, 2), (32, 128, 8, 2)),
        "bias_gradient": ((128, 64, 8, 2), (64, 64, 4, 2)),
    },
    ("large", 2, True): {
        "forward": ((128, 64, 8, 2), (128, 64, 8, 2)),
        "query_gradient": ((64, 64, 8, 2), (32, 32, 4, 2)),
        "key_gradient": ((64, 128, 8, 2), (32, 64, 8, 1)),
    },
    ("large", 4, False): {
        "forward": ((64, 32, 4, 2), (64, 32, 4, 2)),
        "query_gradient": ((64, 32, 4, 2), (32, 32, 8, 1)),
        "key_gradient": ((32, 32, 4, 2), (32, 32, 8, 1)),
        "bias_gradient": ((64, 32, 4, 2), (16, 32, 4, 1)),
    },
    ("large", 4, True): {
        "forward": ((64, 32, 4, 1), (32, 32, 8, 1)),
        "query_gradient": ((32, 32, 4, 1), (16, 16, 4, 1)),
        "key_gradient": ((32, 32, 4, 1), (32, 32, 8, 1)),
    },
    ("small", 2, False): {
        "forward": ((64, 64, 4, 2), (64, 64, 4, 1)),
        "query_gradient": ((64, 64, 4, 2), (64, 32, 4, 1)),
        "key_gradient": ((64, 64, 4, 1), (32, 64, 4, 1)),
        "bias_gradient": ((64, 64, 4, 2), (64, 32, 4, 1)),
    },
    ("small", 2, True): {
        "forward": ((64, 64, 4, 1), (64, 32, 4, 1)),
        "query_gradient": ((32, 32, 4, 2), (32, 32, 4, 1)),
        "key_gradient": ((32, 64, 4, 1), (32, 32, 4, 1)),
    },
    ("small", 4, False): {
        "forward": ((32, 32, 4, 1), (32, 32, 4, 1)),
        "query_gradient": ((32, 32, 4, 1), (16, 32, 4, 1)),
        "key_gradient": ((32, 32, 4, 1), (16, 32, 4, 1)),
        "bias_gradient": ((32, 32, 4, 1), (16, 32, 4, 1)),
    },
    ("small", 4, True): {
        "forward": ((32, 32, 4, 1), (16, 32, 4, 1)),
        "query_gradient": ((32, 32, 4, 1), (16, 16, 4, 1)),
        "key_gradient": ((32, 32, 4, 1), (16, 16, 4, 1)),
    },
}
#: Other ways to compute a tile, compiled and counted (docs/dev/kernels.md) but never timed, and so not taken.
#: MASK_LAST: looks for hidden keys only in tiles that have some, by a branch, not in every tile.
VARIANTS = {"MASK_LAST": False}
HOPPER_SHARED_MEMORY = 227 * 1024  # bytes that a block may have


@functools.lru_cache
def choose_tile(kernel: str, width: int, element_size: int, structured: bool, device: torch.device) -> dict[str, int]:
    """`BLOCK_M`, `BLOCK_N`, `num_warps`, `num_stages`, and `VARIANTS`.

    Args:
        kernel: `forward`, `query_gradient`, `key_gradient` or `bias_gradient`.
        width: of the rows of a tile: of the head or of the bias's factors, whichever is more.
        element_size: bytes of a number of the queries.
        structured: whether the bias comes in parts.
        device: of the tensors.
    """
    m, n, warps, stages = TILES[memory(device), element_size, structured][kernel][width > 64]
    if INTERPRETED:  # small, so that short sequences have several
        m, n = (32, 32) if structured else (16, 32)
    return {"BLOCK_M": m, "BLOCK_N": n, "num_warps": warps, "num_stages": stages, **VARIANTS}


def memory(device: torch.device) -> str:
    """`large` if a block may have as much shared memory as on Hopper, else `small`, which fits 99 KiB.

    An A100 (163 KiB) is `small`: the large tiles fit, but compiled for it without Hopper's matrix instructions they
    spill up to 7,760 bytes a thread (bf16, heads of 128; `benchmarks/compile_kernels.py`).
    """
    if device.type != "cuda":
        return "small"
    properties = torch.cuda.get_device_properties(device)
    return "large" if properties.shared_memory_per_block_optin >= HOPPER_SHARED_MEMORY else "small"
