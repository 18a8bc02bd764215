"""Updates on a pretended GPU: the host waits where docs/dev/performance.md says, and meets no tensor of the GPU.

python -m pytest tests/pretended_cuda                   # eight of the cases
python -m pytest tests/pretended_cuda --all-pairs       # each pair of criterion, system, precision and layout
"""

import itertools
import json
import re
import shutil
import subprocess
import sys
from collections import Counter
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch

from tests.commands import ROOT, environment
from tupe.systems import SYSTEMS

#: docs/dev/performance.md, "Waiting for the device": sums for the log, and what fairseq and AMP's scaler ask.
NAMED = (
    r"tupe/criterions/\w+\.py:(\w+\.reduce_metrics|log_throughput|totals)",
    r"tupe/fairseq_patches/optimizers\.py:AMPOptimizer\.step",
    r"fairseq/(trainer|optim/\w+|logging/\w+)\.py:.*",
)
#: Criterion to architectures; those of ELECTRA and of translation have names of their own.
ARCHITECTURES = {
    "tupe_masked_lm": [f"{system}_tiny" for system in SYSTEMS],
    "tupe_electra": [f"electra_{system}_tiny" for system in SYSTEMS],
    "tupe_sentence_prediction": [f"{system}_tiny" for system in SYSTEMS],
    "tupe_question_answering": [f"{system}_tiny" for system in SYSTEMS],
    "label_smoothed_cross_entropy": [
        f"seq2seq_{system}_tiny"
        for system in (
            "sinusoidal",
            "learned",
            "none",
            "shaw",
            "t5",
            "diet_rel",
            "diet_abs",
            "tupe_a",
            "tupe_r",
            "rope",
        )
    ],
}
WITH_LAYOUT = tuple(ARCHITECTURES)[:4]
PRECISIONS = ("fp16", "bf16", "amp", "memory_efficient_fp16", "memory_efficient_bf16")
LAYOUTS = ("never", "always")  # of --unpad
SOME = (
    "tupe_masked_lm:tupe_r_tiny:fp16:never",
    "tupe_masked_lm:tupe_a_rope_tiny:bf16:always",
    "tupe_masked_lm:diet_rel_tiny:memory_efficient_bf16:always",
    "tupe_electra:electra_diet_rel_tiny:amp:always",
    "tupe_sentence_prediction:shaw_tiny:bf16:always",
    "tupe_sentence_prediction:alibi_tiny:amp:never",
    "tupe_electra:electra_deberta_tiny:bf16:always",
    "tupe_question_answering:linformer_tiny:memory_efficient_fp16:never",
    "label_smoothed_cross_entropy:seq2seq_tupe_r_tiny:fp16:never",
)


def all_pairs():
    """Cases that have each pair of two choices: one after the other, the one with the most pairs that are new."""
    left = {}
    for criterion, architectures in ARCHITECTURES.items():
        layouts = LAYOUTS if criterion in WITH_LAYOUT else LAYOUTS[:1]
        for case in itertools.product([criterion], architectures, PRECISIONS, layouts):
            system = case[1].removeprefix("electra_").removeprefix("seq2seq_")
            left[":".join(case)] = set(itertools.combinations((criterion, system, *case[2:]), 2))
    cases, layouts = [], Counter()
    while True:
        case = max(left, key=lambda case: (len(left[case]), -layouts[case.rpartition(":")[2]]))
        if not (new := left[case]):
            return cases
        cases.append(case)
        layouts[case.rpartition(":")[2]] += 1
        left = {case: pairs - new for case, pairs in left.items()}


def pytest_generate_tests(metafunc):
    if "case" in metafunc.fixturenames:
        every = metafunc.config.getoption("--all-pairs")
        metafunc.parametrize("case", [*SOME, *([case for case in all_pairs() if case not in SOME] if every else [])])


@pytest.fixture(scope="module")
def guard(tmp_path_factory):
    """guard.cpp, compiled."""
    compiler = shutil.which("g++")
    if compiler is None or torch.version.cuda is not None:
        pytest.skip("needs g++ and a PyTorch without CUDA, to which a pretended one is given")
    folder, library = Path(find_spec("torch").submodule_search_locations[0]), tmp_path_factory.mktemp("guard")
    includes = [f"-I{folder / 'include'}", f"-I{folder / 'include/torch/csrc/api/include'}"]
    subprocess.run(
        [compiler, "-O1", "-std=c++20", "-shared", "-fPIC", *includes, Path(__file__).with_name("guard.cpp"),
         f"-L{folder / 'lib'}", "-lc10", "-ltorch_cpu", f"-Wl,-rpath,{folder / 'lib'}", "-o", library / "guard.so"],
        check=True,
    )  # fmt: skip
    return library / "guard.so"


@pytest.fixture(scope="module")
def found(guard, request):
    """Return what the watch found in each case, by one process for all that are run."""
    cases = [
        item.callspec.params["case"] for item in request.session.items if "case" in getattr(item, "fixturenames", ())
    ]
    command = [sys.executable, "-m", "tests.pretended_cuda.step", guard, "control", *dict.fromkeys(cases)]
    done = subprocess.run(command, cwd=ROOT, env=environment(OMP_NUM_THREADS="1"), capture_output=True, text=True)
    assert not done.returncode, done.stderr[-3000:]
    rows = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    return {row["case"]: row for row in rows}


def test_what_a_real_gpu_would_wait_for_is_seen(found):
    waits = ("nonzero", "index_put_", "_local_scalar_dense", "copy to the host", "copy to the GPU")
    expected = {*(f"wait: {name} in tests" for name in waits), "a tensor of the host: add in tests"}
    assert found["control"]["found"].keys() == expected


def test_an_update_waits_only_where_the_docs_say(found, case):
    assert not found[case]["error"], found[case]["error"]
    waits = {what: what.rpartition(" in ")[2] for what in found[case]["found"] if what.startswith("wait: ")}
    assert waits, "an update asks for the gradient norm at least"
    assert not [what for what, place in waits.items() if not any(re.fullmatch(named, place) for named in NAMED)]


def test_no_tensor_of_the_host_meets_one_of_the_gpu(found, case):
    assert not [what for what in found[case]["found"] if not what.startswith("wait: ")]
