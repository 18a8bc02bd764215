"""Examine a machine: versions, imports, the attention backends and a training step. See `docs/doctor.md`."""
