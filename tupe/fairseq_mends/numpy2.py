"""Names that numpy removed and that `fairseq.data` still uses."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
from fairseq.data import data_utils, token_block_dataset

from tupe.fairseq_mends.mend import Overlay


def _percentile(a, q, interpolation="linear"):
    return np.percentile(a, q, method=interpolation)


# `--sample-break-mode eos`
token_block_dataset.np = Overlay(np, compat=SimpleNamespace(long=np.int64))
# `--num-batch-buckets`
data_utils.np = Overlay(np, percentile=_percentile)
