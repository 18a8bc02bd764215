"""The old name of `tupe.fairseq_patches`, for configurations and programs that have it; version 0.3.0 ends it."""

import sys

import tupe.fairseq_patches.early

print("warning: tupe.fairseq_mends is now tupe.fairseq_patches; version 0.3.0 ends the old name", file=sys.stderr)
sys.modules[__name__] = tupe.fairseq_patches
sys.modules[f"{__name__}.early"] = tupe.fairseq_patches.early
