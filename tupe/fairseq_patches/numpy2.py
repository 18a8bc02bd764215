"""Names that numpy removed and that `fairseq.data` still uses."""

import inspect
from types import SimpleNamespace

import numpy as np
from fairseq.data import data_utils, token_block_dataset

from tupe.fairseq_patches.patching import overlay, patch, put


def _percentile(a, q, interpolation="linear"):
    return np.percentile(a, q, method=interpolation)


@patch
def removed_names() -> None:
    if not hasattr(getattr(np, "compat", None), "long"):  # `--sample-break-mode eos`
        made, replaced = "TokenBlockDataset._build_slice_indices", SimpleNamespace(long=np.int64)
        put(token_block_dataset, "np", overlay(token_block_dataset, "np", made, compat=replaced))
    if "interpolation" not in inspect.signature(np.percentile).parameters:  # `--num-batch-buckets`
        put(data_utils, "np", overlay(data_utils, "np", "get_buckets", percentile=_percentile))
