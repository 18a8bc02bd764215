"""Estimate the hours of a training from a short run of it."""

from typing import Any, NamedTuple

from tupe.errors import UserError
from tupe.files import difference


class Probe(NamedTuple):
    """What a short run measured, as `tupe.analysis.probe` reads it."""

    name: str  # its folder
    made_of: dict[str, Any]  # what its speed depends on: `tupe.plan.pretraining.speed_of`
    precision: str  # such as bf16
    devices: int  # processes, each with a GPU or on the CPU
    gpu: str | None  # the GPUs' name; None for the CPU
    batch_size: int  # sequences a device and step
    sequences: float  # a second and device
    tokens: float  # a second and device, padding not counted
    mfu: float | None  # share of the GPUs' peak that it used; None where the peak is not known

    def hours(self, made_of: dict[str, Any], sequences: int, devices: int, gpus: int) -> str:
        """Say how long `sequences` take, if each of `devices` is as fast as the run's.

        Raises:
            UserError: if the run's model, length or bits differ from `made_of`, or one runs on GPUs and one does not.
        """
        differs = difference(self.made_of, made_of)
        if differs:
            raise UserError(f"--from {self.name} is of a run with {differs}: give one of this model, length and bits.")
        if (self.gpu is None) != (gpus == 0):
            where = ("the CPU", "GPUs") if self.gpu is None else ("GPUs", "the CPU")
            raise UserError(f"--from {self.name} is of a run on {where[0]}, and this one is on {where[1]}: set --gpus.")
        found = sequences / (devices * self.sequences) / 3600
        used = "" if self.mfu is None else f", {self.mfu:.0%} of their peak"
        if self.mfu is not None and self.mfu > 1:
            used += " (more than all of it, so that its log, or the peak that fairseq-train took, is wrong)"
        return (
            f"{found:,.3g} hours on {devices} {'GPU(s)' if gpus else 'process(es)'}, if each does the "
            f"{self.sequences:,.3g} sequences ({self.tokens:,.0f} tokens) a second of {self.name}: "
            f"{self.devices} x {self.gpu or 'CPU'}, {self.precision}, {self.batch_size} sequences a step{used}"
        )
