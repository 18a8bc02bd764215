"""Examine a machine: the installation, and on GPUs the kernels, a training step and the speed. See `docs/doctor.md`.

`examine.py` runs the examinations in order; each other file is one of them and yields `Finding`s.
"""
