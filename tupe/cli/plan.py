"""Prints the plan of a training, or why it cannot work; scripts/pretrain.sh and translate_train.sh begin with it.

Example: tupe plan --nodes 2 --gpus 8 --gpu h100 configs/pretraining base task.data=DATA optimization.update_freq=[1]
         tupe plan --gpus 8 --from PROBE configs/pretraining base task.data=DATA optimization.update_freq=[2]
         tupe plan --gpus 8 configs/translation multi30k_en_de task.data=DATA optimization.update_freq=[1]
"""

import argparse
from pathlib import Path

from tupe.cli._types import real, whole
from tupe.errors import UserError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--gpu", metavar="KIND", help="such as h100 or a100: the plan of a pre-training then says hours")
    add("--mfu", type=real(0.001, 1),
        help="share of the GPUs' 16-bit peak that is used (default: that of --from, or 0.4)")  # fmt: skip
    add("--measured", type=Path, metavar="FILE", help="model.json of benchmarks/model.py: hours by its tokens a second")
    add("--from", type=Path, metavar="RUN", dest="probe",
        help="folder of a short run by scripts/pretrain.sh: hours by its sequences a second")  # fmt: skip
    add("--max-unused", type=real(0, 1), default=0.01, metavar="SHARE",
        help="share of the tokens that may be in lines too long to be used (default: %(default)s)")  # fmt: skip
    add("--nodes", type=whole(1, 100_000), default=1, metavar="N", help="machines (default: %(default)s)")
    add("--gpus", type=whole(0, 1_000), metavar="N",
        help="on each machine; 0 for the CPU (default: those of --from, or 0)")  # fmt: skip
    add("--processes", type=whole(1, 1_000), metavar="N", help="on each machine (default: the GPUs, or 1)")
    add("--here", action="store_true", help="the run starts on this machine, whose GPUs and disk are checked")
    add("folder", metavar="FOLDER", type=Path, help="folder of the configurations")
    add("config", metavar="CONFIG", help="name of a configuration")
    add("overrides", nargs="*", metavar="key=value", help="changes of the configuration")
    add("--node-rank", type=whole(0, 100_000), default=0, metavar="N", help="number of this machine, from 0")
    add("--start", nargs=argparse.REMAINDER, metavar="COMMAND", help="then run this command, alone in its folder")


def run(args: argparse.Namespace) -> None:
    from omegaconf import OmegaConf

    from tupe.analysis.cost import read_costs
    from tupe.analysis.probe import read_probe
    from tupe.plan import Launch, pretraining, read_config, translation, with_pluses
    from tupe.plan.precision import choose
    from tupe.plan.start import start

    if args.node_rank >= args.nodes:
        raise UserError(f"--node-rank {args.node_rank} is none of the {args.nodes} machines, numbered from 0.")
    if args.mfu is not None and args.gpu is None:
        raise UserError("--mfu is the share of the peak of --gpu: give both or neither.")
    cfg = read_config(args.folder, args.config, args.overrides)
    probe = None if args.probe is None else read_probe(args.probe)
    devices = probe.devices // args.nodes if probe else 0  # on each machine, unless that is given
    gpus = args.gpus if args.gpus is not None else devices if probe and probe.gpu else 0
    precision = None
    if args.start and gpus:
        precision = choose(Path(cfg.checkpoint.save_dir), args.overrides, cfg.common.fp16)
        OmegaConf.update(cfg, "common", precision.values)
    kind = translation if cfg.task._name == "translation" else pretraining
    processes = args.processes or gpus or max(devices, 1)
    measured = None if args.measured is None else read_costs(args.measured)
    mfu = args.mfu or (probe and probe.mfu) or 0.4
    if args.gpu and mfu > 1:
        raise UserError(f"the log of {args.probe} has {mfu:.0%} of its GPUs' peak, which cannot be: give --mfu.")
    hours = {"gpu": args.gpu, "mfu": mfu, "measured": measured, "probe": probe}
    launch = Launch(args.nodes, processes, gpus, args.here, max_unused=args.max_unused, **hours)
    for line in kind.plan(cfg, launch):
        print(f"plan: {line}", flush=True)
    if args.start:
        command = with_pluses(args.start, args.folder, args.config)
        if precision is not None:
            if precision.name is not None:
                print(f"plan: precision {precision.name}, {precision.why}", flush=True)
            command += precision.overrides
        start(command, cfg, launch, kind.MADE_BY, kind.made_of(cfg), args.node_rank, precision)
