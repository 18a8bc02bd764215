"""Compose the command of a training: its configuration, its batch, and the processes that it runs in."""

import os
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple

from omegaconf import OmegaConf
from typer import Argument, Option

from tupe.finetune.runs import quoted
from tupe.util import UserError, config_dir, for_cpu, sha256, user_dir, visible_gpus


class Training(NamedTuple):
    """A configuration with changes, run by `processes` on each of `nodes` machines."""

    config: Path
    settings: list[str]  # `key=value`
    nodes: int
    processes: int
    gpu: str | None = None  # a key of `tupe.cli.plan.TERAFLOPS`, for the plan
    mfu: float = 0.4  # fraction of the GPUs' peak that is used

    def run(self) -> None:
        """Print the command of the training, and become it."""
        if "common.cpu=true" in self.settings:
            for_cpu(self.processes)
        train = ["fairseq-hydra-train", "--config-dir", str(self.config.parent), "--config-name", self.config.stem]
        train += self.settings
        if self.nodes * self.processes > 1:
            # torchrun hands signals on, and gives the processes ten minutes to save
            os.environ["PET_SIGNALS_TO_HANDLE"] = "SIGTERM,SIGINT,SIGHUP,SIGQUIT,SIGUSR1"
            os.environ.setdefault("TORCH_ELASTIC_SHUTDOWN_TIMEOUT", "600")
            # a process dies with torchrun, because the next start would write at the same time
            kill = ["setpriv", "--pdeathsig", "KILL"] if shutil.which("setpriv") else []
            train = ["torchrun", *_meeting(self.nodes), "--nproc-per-node", str(self.processes), "--no-python"] + (
                kill + train
            )
        print(shlex.join(train), flush=True)
        os.execvp(train[0], train)


def training_of(
    data: str = Argument(help="Prepared data; folders as a:b:c."),
    overrides: list[str] = Argument([], metavar="key=value", help="Changes of the configuration."),
    config: str = Option("base", help="Name in configs/pretraining, such as base; translation/NAME; or a .yaml file."),
    model: str | None = Option(None, help="Model, which `tupe systems` lists; the configuration's by default."),
    init_from: Path | None = Option(None, help="Checkpoint whose model and weights the training starts from."),
    batch: int | None = Option(None, help="Sequences (translation: tokens) per update; the configuration's if unset."),
    batch_per_gpu: int | None = Option(None, help="Sequences (translation: tokens) per GPU and step."),
    gpus: int | None = Option(None, help="GPUs of each machine; all by default, 0 for the CPU."),
    processes: int = Option(1, help="Processes on the CPU."),
    nodes: int | None = Option(None, help="Machines; SLURM's number by default."),
    gpu: str | None = Option(None, help="Kind of GPU, to estimate hours: v100, a100, h100, h200 or b200."),
    mfu: float = Option(0.4, help="Fraction of the GPUs' 16-bit peak that is used."),
) -> Training:
    """Accumulate gradients such that the batch of an update is `batch`, by default the configuration's.

    Raises:
        UserError: the processes do not divide the batch.
    """
    path = Path(config)
    if path.suffix != ".yaml":  # a name, in another folder than pretraining as translation/wmt18
        path = config_dir(str(path.parent) if path.parent.name else "pretraining") / f"{path.name}.yaml"
    usual = OmegaConf.load(path)
    unit = "batch_size" if "batch_size" in usual.dataset else "max_tokens"
    batch = batch or usual.dataset[unit] * usual.optimization.update_freq[0]
    each = batch_per_gpu or usual.dataset[unit]
    gpus = len(visible_gpus()) if gpus is None else gpus
    nodes, processes = nodes or int(os.environ.get("SLURM_NNODES", 1)), gpus or processes
    world = nodes * processes
    if batch % (world * each):
        raise UserError(
            f"{world} processes x {each} do not divide the batch of {batch}. Set --batch-per-gpu or --batch."
        )
    settings = [
        *(() if gpus else ("common.cpu=true", "common.bf16=false")),
        f"distributed_training.distributed_world_size={world}",
        f"common.user_dir={quoted(user_dir())}",
        f"task.data={quoted(data)}",
        f"dataset.{unit}={each}",
        f"optimization.update_freq=[{batch // (world * each)}]",
        *([f"model._name={model}"] if model else []),
        *(_started(init_from) if init_from else []),
        *overrides,
    ]
    return Training(path, settings, nodes, processes, gpu, mfu)


def _started(checkpoint: Path) -> list[str]:
    from tupe.checkpoints.load import open_checkpoint

    length = open_checkpoint(checkpoint).config.max_positions
    # the checksum, because another checkpoint may get the name of this one
    folder = f"checkpoints/continue/{checkpoint.absolute().parent.name}-{checkpoint.stem}-{sha256(checkpoint)[:8]}"
    return [
        f"+model.pretrained={quoted(checkpoint)}",
        f"task.tokens_per_sample={length}",
        f"checkpoint.save_dir={quoted(folder)}",
    ]


def _meeting(nodes: int) -> list[str]:
    """Return the options by which torchrun's processes find each other."""
    env = os.environ
    if nodes == 1 and "MASTER_PORT" not in env:
        return ["--standalone", "--local-addr", "127.0.0.1"]  # any free port
    rank, port = env.get("NODE_RANK", "0"), "29500"
    hosts = [env.get("MASTER_ADDR", "")]
    if int(env.get("SLURM_NNODES", 1)) > 1:  # on each node, by srun
        rank, port = env["SLURM_NODEID"], str(20_000 + int(env["SLURM_JOB_ID"]) % 20_000)  # two jobs may share a node
        if not hosts[0]:
            listed = ["scontrol", "show", "hostnames", env["SLURM_JOB_NODELIST"]]
            hosts = subprocess.run(listed, check=True, capture_output=True, text=True).stdout.split()
    address = ["--master-addr", hosts[0] or "127.0.0.1", "--master-port", env.get("MASTER_PORT", port)]
    return ["--nnodes", str(nodes), "--node-rank", rank, *address]
