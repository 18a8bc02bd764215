"""Estimate the updates of a training, and its hours from the GPUs' peak or from a benchmark's measurement."""

import math

from omegaconf import DictConfig

from tupe.criterions.throughput import KNOWN_DEVICES, peak_flops
from tupe.errors import UserError
from tupe.models.describe import full_name
from tupe.models.tupe import as_namespace
from tupe.plan.check import Launch
from tupe.plan.precision import bits_of
from tupe.systems import ELECTRA, named_electras, named_models


def number_of_updates(cfg: DictConfig, epoch: int) -> int:
    """Return the number of updates of a run whose epochs have `epoch` updates.

    Raises:
        UserError: if the run has no end, or a warm-up that is not shorter.
    """
    most, epochs = cfg.optimization.max_update, cfg.optimization.max_epoch
    updates = min(most if most > 0 else math.inf, epoch * epochs if epochs > 0 else math.inf)
    if updates == math.inf:
        raise UserError("the run has no end: set optimization.max_update or optimization.max_epoch.")
    updates, warmup = int(updates), cfg.lr_scheduler.get("warmup_updates", 0)
    if warmup >= updates:
        raise UserError(
            f"the warm-up of {warmup:,} updates is not shorter than the run of {updates:,}: lower "
            "lr_scheduler.warmup_updates or train longer."
        )
    return updates


def hours_by_peak(launch: Launch, flops: int) -> str:
    """Estimate the time of `flops` operations on the GPUs of `launch`. Raise `UserError` for an unknown kind."""
    peak, gpus = peak_flops(launch.gpu.upper()), launch.nodes * launch.gpus
    if peak is None:
        raise UserError(f"the peak of a {launch.gpu} is not known: give --gpu one of {', '.join(KNOWN_DEVICES)}.")
    if gpus == 0:
        raise UserError("hours are those of GPUs: say how many by --gpus.")
    found = flops / (gpus * peak * launch.mfu) / 3600
    return (
        f"{found:,.3g} hours on {gpus} {launch.gpu.upper()} at {launch.mfu:.0%} of their {peak / 1e12:.0f} TFLOP/s "
        f"each in 16 bits, {gpus * found:,.3g} GPU-hours"
    )


def hours_by_measurement(cfg: DictConfig, launch: Launch, tokens: int) -> str:
    """Estimate the time of `tokens` by the measurement of `launch`. Raise `UserError` for one of something else."""
    conditions, records = launch.measured
    args, length, compiled = as_namespace(cfg.model), cfg.task.tokens_per_sample, "_compiled" * cfg.model.compile
    rows = named_electras() if args._name.startswith(ELECTRA) else named_models()
    same = [name.rpartition("_") for name, row in rows.items() if row.items() <= vars(args).items()]  # aliases too
    wanted = [("training", f"{system}{compiled}", size) for system, _, size in same]
    found = [record for record in records if (record["mode"], record["rival"], record["size"]) in wanted]
    bits = bits_of(cfg)
    if not found or f" of {length} tokens, " not in conditions or (", float32, " in conditions) != (bits == 32):
        raise UserError(
            f"--measured has no training of {full_name(args)}{compiled and ' --compile'} in {bits} bits and sequences "
            f"of {length}: benchmarks/model.py does what `tupe systems` lists, by --rivals, --sizes, --length, --dtype."
        )
    speed, devices = found[0]["tokens_per_second"], launch.nodes * (launch.gpus or launch.processes)
    return (
        f"{tokens / (devices * speed) / 3600:,.3g} hours on {devices} {'GPU(s)' if launch.gpus else 'process(es)'}, "
        f"if each does the {speed:,.0f} tokens a second that were measured: {conditions}"
    )


def short(number: float) -> str:
    """Write a number with at most three significant digits: 110M."""
    for unit, name in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= 0.9995 * unit:  # 999,900 is 1M, not 1e+03k
            return f"{number / unit:.3g}{name}"
    return f"{number:.3g}"
