"""The kernels compile for GPUs that are not here, fit their shared memory and keep Hopper's matrix units busy."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
pytest.importorskip("triton.backends.nvidia")


def environment(tmp_path):
    path = os.pathsep.join(map(str, (ROOT, ROOT / "benchmarks")))
    return {**os.environ, "PYTHONPATH": path, "TRITON_CACHE_DIR": str(tmp_path), "TRITON_INTERPRET": "0"}


def test_for_hopper(tmp_path):
    """Forward and backward of BERT's case, with padding and dropout.

    The bias is dense, of sequences side by side, in parts, and float32 beside bfloat16 queries. The command fails for
    atomics, serialized products and registers that are written early.
    """
    command = [sys.executable, str(ROOT / "benchmarks" / "compile_kernels.py"), "--quick"]
    done = subprocess.run(command, env=environment(tmp_path), capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    kernels = [line for line in done.stdout.splitlines() if "_kernel" in line and "ptxas" in line]
    by_name = {line.split()[0]: line for line in kernels}
    assert by_name.keys() == {
        f"{part}_kernel" for part in ("forward", "query_gradient", "key_gradient", "bias_gradient")
    }
    count = re.compile(r"(?<!small )(copies|in registers|early writes|atomics) +(\d+)")
    counts = {name: dict(count.findall(line)) for name, line in by_name.items()}
    assert all(int(found["copies"]) > 0 for found in counts.values())  # queries, keys, values and bias, 16 bytes each
    assert int(counts["forward_kernel"]["in registers"]) > 0  # what the check of early writes is about


GRIDS = """
import json, torch, compile_kernels as c
grids = {}
for bias, length in (("dense", 1 << 15), ("TUPE-R", 1 << 20), ("packed", 1 << 15)):
    for kernel, grid, tile, arguments in c.kernels(torch.bfloat16, 64, bias, length):
        grids[f"{bias} {kernel.__name__} {length}"] = grid
print(json.dumps(grids))
"""
CODE = """
import re
from tupe.attention.kernels import launch, tiles
c.driver.set_active(c.Target(80))
tiles.memory, launch.multiprocessors = (lambda device: "small"), (lambda device: 108)
found = {}
for name, case in {"float32": (torch.float32, "dense"), "parts": (torch.bfloat16, "TUPE-R")}.items():
    for kernel, grid, tile, arguments in c.kernels(case[0], 64, case[1]):
        if kernel.__name__ != {"float32": "forward_kernel", "parts": "query_gradient_kernel"}[name]:
            continue
        asm = kernel.warmup(grid=grid, **arguments, **tile).asm
        found[name] = {
            "precisions": sorted(set(re.findall(r"tt.dot .*?(?:inputPrecision = (\\w+))? :", asm["ttir"]))),
            "tf32": len(re.findall(r"mma[^\\n]*tf32", asm["ptx"])),
            "mma": len(re.findall(r"mma[^\\n]*sync", asm["ptx"])),
            "barriers": len(re.findall(r"bar(?:rier)?\\.sync", asm["ptx"])),
            "copies": len(re.findall(r"cp\\.async\\.cg", asm["ptx"])),
        }
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def printed(tmp_path_factory):
    """The grids, and what is in two kernels for another GPU, from one process."""
    command = [sys.executable, "-c", GRIDS + CODE.replace("\\\\", "\\")]
    folder = tmp_path_factory.mktemp("triton")
    done = subprocess.run(command, env=environment(folder), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_products_of_float32_are_split_and_sums_over_distances_wait(printed):
    """No product of float32 is a single one of tf32; the vector of distances is guarded by barriers."""
    _, found = printed
    assert found["float32"]["precisions"] == ["tf32x3"]
    assert found["float32"]["tf32"] == found["float32"]["mma"] > 0
    assert found["float32"]["tf32"] % 3 == 0
    assert found["parts"]["tf32"] == 0 < found["parts"]["mma"]
    assert found["parts"]["barriers"] > 1


def test_grids_are_within_the_limits_of_cuda(printed):
    grids, _ = printed
    for name, (x, *others) in grids.items():
        assert x < 1 << 31, name
        assert all(count <= 65535 for count in others), name


SASS = """
.L_x_0:
        /*0000*/  HGMMA.64x64x16.F32.BF16 R24, R4, gdesc[UR4], R24, gsb0 ;  /* 0x0000000004187df0 */
                                                                            /* 0x000fe20008001818 */
        /*0010*/  {between} ;  /* 0x0000000000007941 */
                                                                            /* 0x000fea0003800000 */
        /*0020*/  {after} ;  /* 0x0000000000007941 */
                                                                            /* 0x000fea0003800000 */
        /*0030*/  @P0 BRA `(.L_x_0) ;  /* 0x0000000000007941 */
                                                                            /* 0x000fea0003800000 */
"""
WAIT, WRITE = "WARPGROUP.DEPBAR.LE gsb0, 0x0", "FADD R6, R8, R9"


@pytest.mark.parametrize(
    ("between", "after", "waits", "count"),
    [
        (WAIT, WRITE, True, 0),
        (WRITE, WAIT, True, 1),  # wrong on purpose
        (WAIT, WRITE, False, 1),
        (WAIT, "FADD R30, R8, R9", True, 0),
        ("FADD R3, R8, R9", "LDS.128 R5, [R20]", True, 1),  # R5 to R8
        ("STS [R4], R9", "FADD R8, R4, R9", True, 0),
        ("WARPGROUP.DEPBAR.LE gsb0, 0x1", WRITE, True, 1),  # waits for the group before
    ],
)
def test_registers_that_are_written_early(monkeypatch, between, after, waits, count):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    import sass

    code, loops = sass.parse(SASS.format(between=between, after=after))
    assert [instruction.operation.split(".")[0] for instruction in code][0::3] == ["HGMMA", "BRA"]
    assert loops == [(0, 3)]
    assert len(sass.early_writes(code, loops, waits)) == count
    assert sass.inner_loop(code, loops)["HGMMA"] == 1
