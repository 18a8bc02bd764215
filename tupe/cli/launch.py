"""Compose the command of a training: its configuration, its batch, and the processes that it runs in."""

import os
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple

from omegaconf import OmegaConf
from typer import Argument, Option

from tupe.data.manifest import with_shards
from tupe.finetune.runs import quoted
from tupe.util import UserError, config_dir, set_cpu_env, sha256, user_dir, visible_gpus


class Training(NamedTuple):
    """A configuration and overrides of it, run by `processes` processes on each of `nodes` machines."""

    config: Path
    settings: list[str]  # `key=value`
    nodes: int
    processes: int
    gpu: str | None = None  # a key of `tupe.cli.plan.TERAFLOPS`, for the plan
    mfu: float = 0.4  # fraction of the GPUs' peak that is used

    def run(self) -> None:
        """Print the command of the training, and replace this process by it."""
        if "common.cpu=true" in self.settings:
            set_cpu_env(self.processes)
        train = ["fairseq-hydra-train", "--config-dir", str(self.config.parent), "--config-name", self.config.stem]
        train += self.settings
        if self.nodes * self.processes > 1:
            # torchrun forwards these signals, and its processes have ten minutes to save
            os.environ["PET_SIGNALS_TO_HANDLE"] = "SIGTERM,SIGINT,SIGHUP,SIGQUIT,SIGUSR1"
            os.environ.setdefault("TORCH_ELASTIC_SHUTDOWN_TIMEOUT", "600")
            # if torchrun dies, its processes must too: they would write at the same time as a restarted training
            kill = ["setpriv", "--pdeathsig", "KILL"] if shutil.which("setpriv") else []
            train = ["torchrun", *_rendezvous(self.nodes), "--nproc-per-node", str(self.processes), "--no-python"] + (
                kill + train
            )
        print(shlex.join(train), flush=True)
        os.execvp(train[0], train)


def training_of(
    data: str = Argument(help="Prepared data, with all its shards; several folders as a:b:c."),
    overrides: list[str] = Argument([], metavar="key=value", help="Overrides of the configuration."),
    config: str = Option("base", help="Name in configs/pretraining, such as base; translation/NAME; or a .yaml file."),
    model: str | None = Option(None, help="Model that `tupe systems` lists; the configuration's by default."),
    init_from: Path | None = Option(None, help="Checkpoint whose model and weights the training starts from."),
    batch: int | None = Option(None, help="Sequences (translation: tokens) per update; the configuration's if unset."),
    batch_per_gpu: int | None = Option(None, help="Sequences (translation: tokens) per GPU and step."),
    gpus: int | None = Option(None, help="GPUs per machine; all by default, 0 for the CPU."),
    processes: int = Option(1, help="Processes on the CPU."),
    nodes: int | None = Option(None, help="Number of machines; by default SLURM's, or 1."),
    gpu: str | None = Option(None, help="Kind of GPU, to estimate hours: v100, a100, h100, h200 or b200."),
    mfu: float = Option(0.4, help="Fraction of the GPUs' 16-bit peak that is reached (MFU)."),
) -> Training:
    """Return the training, which accumulates gradients to reach `batch` per update, by default the configuration's.

    Raises:
        UserError: the processes do not divide the batch.
    """
    path = Path(config)
    if path.suffix != ".yaml":  # a name in configs/pretraining, or one with its folder, such as translation/wmt18
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
            f"The batch of {batch} is not a multiple of {world} processes x {each}. Set --batch-per-gpu or --batch."
        )
    settings = [
        *(() if gpus else ("common.cpu=true", "common.bf16=false")),
        f"distributed_training.distributed_world_size={world}",
        f"common.user_dir={quoted(user_dir())}",
        f"task.data={quoted(with_shards(data))}",
        f"dataset.{unit}={each}",
        f"optimization.update_freq=[{batch // (world * each)}]",
        *([f"model._name={model}"] if model else []),
        *(_init_settings(init_from) if init_from else []),
        *overrides,
    ]
    return Training(path, settings, nodes, processes, gpu, mfu)


def _init_settings(checkpoint: Path) -> list[str]:
    from tupe.checkpoints.load import open_checkpoint

    length = open_checkpoint(checkpoint).config.max_positions
    # with the checksum, because another checkpoint may get the same name later
    folder = f"checkpoints/continue/{checkpoint.absolute().parent.name}-{checkpoint.stem}-{sha256(checkpoint)[:8]}"
    return [
        f"+model.pretrained={quoted(checkpoint)}",
        f"task.tokens_per_sample={length}",
        f"checkpoint.save_dir={quoted(folder)}",
    ]


def _rendezvous(nodes: int) -> list[str]:
    """Return torchrun's rendezvous options, by which its processes find each other."""
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
