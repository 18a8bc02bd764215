"""Examine one training step of `tupe_tiny` through fairseq's trainer, in every precision and without padding.

`python -m tupe.doctor.training JSON` is the process that trains; it prints a line of JSON for each step.
"""

import json
import os
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any

import torch

from tupe.doctor.finding import Findings, failed, ok, warning

#: Name of a step -> its options of fairseq-train, which has neither fp16 nor amp on the CPU.
ON_GPU = {
    "fp16": ["--fp16"],
    "bf16": ["--bf16"],
    "amp": ["--amp"],
    "unpadded": ["--bf16", "--unpad", "always"],
}
ON_CPU = {"float32": ["--cpu"], "unpadded": ["--cpu", "--unpad", "always"]}
_WORDS = 40
_SECONDS = 600


def examine(devices: list[torch.device]) -> Findings:
    """Yield a finding for each kind of step on one device, and for one on two GPUs, or in two processes on the CPU."""
    steps = ON_GPU if devices[0].type == "cuda" else ON_CPU
    yield from run("training step", steps, processes=1)
    if len(devices) > 1 or devices[0].type == "cpu":
        first = next(iter(steps))
        yield from run("training step in two processes", {first: steps[first]}, processes=2)


def run(name: str, steps: dict[str, list[str]], processes: int) -> Findings:
    """Train in other processes and yield what they print."""
    with tempfile.TemporaryDirectory() as folder:
        words = "".join(f"word{i} 1\n" for i in range(_WORDS))
        (Path(folder) / "dict.txt").write_text(words, encoding="utf-8")
        command = [sys.executable, "-m", "tupe.doctor.training"]
        if processes > 1:
            start = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(processes)]
            command = [sys.executable, *start, "-m", "tupe.doctor.training"]
        package = str(Path(__file__).resolve().parents[2])
        path = os.pathsep.join(filter(None, (package, os.environ.get("PYTHONPATH"))))
        environment = {"OMP_NUM_THREADS": "1", **os.environ, "PYTHONPATH": path, "PYTHONSAFEPATH": "1"}
        asked = json.dumps({"data": folder, "steps": steps})
        try:
            done = subprocess.run([*command, asked], env=environment, capture_output=True, text=True, timeout=_SECONDS)
        except subprocess.TimeoutExpired:
            yield failed(name, f"it did not end within {_SECONDS} s: run it with NCCL_DEBUG=INFO, or on one GPU")
            return
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith('{"step"')]
    for line in lines:
        yield judge(name, line)
    missing = steps.keys() - {line["step"] for line in lines}
    if missing:
        said = done.stderr.strip().splitlines() or ["no message"]
        last = next((line for line in reversed(said) if "rror" in line), said[-1])  # torchrun ends with a frame
        yield failed(name, f"{', '.join(sorted(missing))} ended with status {done.returncode}: {last}")


def judge(name: str, line: dict[str, Any]):
    """Turn the line that a process printed for a step into a finding."""
    name = f"{name}, {line['step']}"
    if line["error"]:
        return failed(name, line["error"])
    text = f"loss {line['loss']:.2f}, gradient {line['gradient']:.2f}, attention by {line['attention']}"
    if line["waits"]:
        places = ", ".join(sorted(set(line["waits"])))
        said = f"{text}; the host waits for the GPU {len(line['waits'])} times in a step: {places}"
        return warning(name, said, **line) if len(line["waits"]) > 8 else ok(name, said, **line)
    return ok(name, text, **line)


# ------------------------------------------------------------------------------------------------- in the process


def arguments(data: str, more: list[str]) -> list[str]:
    fixed = (
        "--task masked_lm --criterion tupe_masked_lm --arch tupe_tiny --optimizer adam --lr 0.001 --lr-scheduler fixed "
        "--batch-size 4 --tokens-per-sample 64 --max-positions 64 --distributed-world-size 1"
    )
    return [data, "--user-dir", str(Path(__file__).resolve().parents[1]), *fixed.split(), *more]


def sample(task: Any) -> dict[str, Any]:
    """Return a batch of four sequences with padding, and words to guess."""
    dictionary = task.source_dictionary
    generator = torch.Generator().manual_seed(0)
    tokens = torch.randint(dictionary.nspecial, dictionary.nspecial + _WORDS, (4, 64), generator=generator)
    tokens[:, 0], tokens[:, -1] = dictionary.bos(), dictionary.eos()
    for row, length in enumerate((64, 50, 33, 7)):
        tokens[row, length - 1] = dictionary.eos()
        tokens[row, length:] = dictionary.pad()
    chosen = torch.rand(tokens.shape, generator=generator) < 0.3
    chosen &= tokens >= dictionary.nspecial
    target = tokens.masked_fill(~chosen, dictionary.pad())
    source = tokens.masked_fill(chosen, dictionary.index("<mask>"))
    lengths = tokens.ne(dictionary.pad()).sum(1)
    return {
        "id": torch.arange(4),
        "nsentences": 4,
        "ntokens": int(lengths.sum()),
        "net_input": {"src_tokens": source, "src_lengths": lengths},
        "target": target,
    }


def step(cfg: Any, found: dict[str, Any]) -> None:
    """Do four updates, the last with PyTorch's warnings about synchronisation, and write the results to `found`."""
    from fairseq import tasks
    from fairseq.logging import metrics
    from fairseq.trainer import Trainer

    from tupe.attention import biased

    biased.logged.clear()
    task = tasks.setup_task(cfg.task)
    model, criterion = task.build_model(cfg.model), task.build_criterion(cfg.criterion)
    trainer = Trainer(cfg, task, model, criterion)
    trainer.lr_step_begin_epoch(1)
    batch = sample(task)
    for _ in range(3):  # a loss scaler may skip the first ones
        trainer.train_step([batch])
    on_gpu = torch.cuda.is_available() and not cfg.common.cpu
    with metrics.aggregate(new_root=True) as meters, warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        if on_gpu:
            torch.cuda.set_sync_debug_mode("warn")
        try:
            trainer.train_step([batch])
        finally:
            if on_gpu:
                torch.cuda.set_sync_debug_mode("default")
    waits = [each for each in caught if "synchroniz" in str(each.message)]
    found["waits"] = ["/".join(Path(each.filename).parts[-2:]) + f":{each.lineno}" for each in waits]
    values = meters.get_smoothed_values()  # rounded
    found["loss"], found["gradient"] = (float(values.get(name, float("nan"))) for name in ("loss", "gnorm"))
    found["attention"] = next((said.removeprefix("attention by ") for said in biased.logged), "PyTorch")
    if not all(map(torch.isfinite, torch.tensor([found["loss"], found["gradient"]]))):
        found["error"] = "the loss or its gradient is not finite"


def main(asked: dict[str, Any]) -> None:
    import fairseq_cli.train  # noqa: F401  before the plugin, as in fairseq's commands
    from fairseq import distributed_utils, options
    from fairseq.dataclass.utils import convert_namespace_to_omegaconf

    import tupe.plugin  # noqa: F401  fairseq does not import a --user-dir that this process has imported in part

    for name, more in asked["steps"].items():
        found = {"step": name, "error": None, "loss": None, "gradient": None, "waits": [], "attention": None}
        try:
            sys.argv[1:] = arguments(asked["data"], more)  # where fairseq looks for --user-dir
            cfg = convert_namespace_to_omegaconf(options.parse_args_and_arch(options.get_training_parser()))
            distributed_utils.call_main(cfg, lambda cfg, found=found: step(cfg, found))
        except Exception as error:  # each step is tried by itself
            found["error"] = " ".join(f"{type(error).__name__}: {error}".split())[:300]
        if os.environ.get("RANK", "0") == "0":
            print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
