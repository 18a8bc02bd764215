"""Check the Triton kernels on this machine, and record which of them may be used.

`check.py` compares the kernels with float64 in a process of its own, `record.py` keeps the outcome in a cache folder,
`trusted.py` answers `biased_attention` from it, and `ensure.py` does all of it before a training begins.
"""
