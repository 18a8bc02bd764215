"""Names that numpy removed and that `fairseq.data` still uses."""

from __future__ import annotations

import inspect
from types import SimpleNamespace

import numpy as np
from fairseq.data import data_utils, token_block_dataset

from tupe.fairseq_mends.mend import overlay


def _percentile(a, q, interpolation="linear"):
    return np.percentile(a, q, method=interpolation)


if not hasattr(getattr(np, "compat", None), "long"):  # `--sample-break-mode eos`
    token_block_dataset.np = overlay(
        token_block_dataset, "np", "TokenBlockDataset._build_slice_indices", compat=SimpleNamespace(long=np.int64)
    )
if "interpolation" not in inspect.signature(np.percentile).parameters:  # `--num-batch-buckets`
    data_utils.np = overlay(data_utils, "np", "get_buckets", percentile=_percentile)
