"""The rows of distances in DeBERTa's table; what attention makes of them, is in `tests/contract`."""

import pytest
import torch

from tupe.position import RelativeEmbeddings


@pytest.mark.parametrize(("buckets", "most"), [(4, 4), (6, 9), (8, 512), (32, 128), (256, 512)])
def test_buckets_are_those_of_the_code(buckets, most):
    """`make_log_bucket_position`, whose float32 moves no boundary here, up to twice the maximum distance."""
    module = pytest.importorskip("transformers.models.deberta_v2.modeling_deberta_v2")
    away = torch.arange(-2 * most, 2 * most + 1)
    wanted = module.make_log_bucket_position(away, buckets, most).long() + buckets
    rows = RelativeEmbeddings(2, most, buckets).row(-away)
    assert torch.equal(rows, wanted.clamp(0, 2 * buckets - 1))
