"""The sizes of tiles, for each kernel and device."""

import functools

import torch

from tupe.attention.kernels.tile import INTERPRETED

# (BLOCK_M, BLOCK_N, num_warps, num_stages) for rows of up to 64 and of up to 128 numbers, chosen by the registers,
# spills and shared memory that they compile to and by PyTorch's choice for FlexAttention. No time was measured.
Tile = tuple[int, int, int, int]
TILES: dict[tuple[str, bool], dict[str, tuple[Tile, Tile]]] = {
    # (shared memory, whether the bias comes in parts), for types of 16 bits
    ("large", False): {
        "forward": ((128, 64, 4, 3), (128, 64, 8, 2)),
        "query_gradient": ((128, 64, 8, 2), (128, 64, 8, 2)),
        "key_gradient": ((64, 128, 8, 2), (32, 128, 8, 2)),
        "bias_gradient": ((128, 64, 8, 2), (64, 64, 4, 2)),
    },
    ("large", True): {
        "forward": ((128, 64, 8, 2), (128, 64, 8, 2)),
        "query_gradient": ((64, 64, 8, 2), (32, 32, 4, 2)),
        "key_gradient": ((64, 128, 8, 2), (32, 64, 8, 1)),
    },
    ("small", False): {
        "forward": ((64, 64, 4, 2), (64, 64, 4, 1)),
        "query_gradient": ((64, 64, 4, 2), (64, 32, 4, 1)),
        "key_gradient": ((64, 64, 4, 1), (32, 64, 4, 1)),
        "bias_gradient": ((64, 64, 4, 2), (64, 32, 4, 1)),
    },
    ("small", True): {
        "forward": ((64, 64, 4, 1), (64, 32, 4, 1)),
        "query_gradient": ((32, 32, 4, 2), (32, 32, 4, 1)),
        "key_gradient": ((32, 64, 4, 1), (32, 32, 4, 1)),
    },
}
FLOAT32 = {
    "forward": ((32, 32, 4, 1), (16, 32, 4, 1)),
    "query_gradient": ((32, 32, 4, 1), (16, 16, 4, 1)),
    "key_gradient": ((32, 32, 4, 1), (16, 16, 4, 1)),
    "bias_gradient": ((32, 32, 4, 1), (16, 32, 4, 1)),
}
HOPPER_SHARED_MEMORY = 227 * 1024  # bytes that a block may have


@functools.lru_cache
def choose_tile(kernel: str, width: int, element_size: int, structured: bool, device: torch.device) -> dict[str, int]:
    """Return `BLOCK_M`, `BLOCK_N`, `num_warps` and `num_stages`; `width` is the heads' or, if wider, the factors'."""
    table = TILES[tile_class(device), structured] if element_size == 2 else FLOAT32
    m, n, warps, stages = table[kernel][width > 64]
    if INTERPRETED:  # small, so that short sequences have several tiles
        m, n = (32, 32) if structured else (16, 32)
    return {"BLOCK_M": m, "BLOCK_N": n, "num_warps": warps, "num_stages": stages}


def tile_class(device: torch.device) -> str:
    """Return `large` for Hopper's shared memory, else `small`, which fits 99 KiB. On an A100 large tiles spill."""
    if device.type != "cuda":
        return "small"
    properties = torch.cuda.get_device_properties(device)
    return "large" if properties.shared_memory_per_block_optin >= HOPPER_SHARED_MEMORY else "small"
