"""Segment attention, shared by the layers or not."""

import pytest
import torch

from tupe.analysis.segments import plot_segments, segment_values


@pytest.mark.parametrize(
    ("name", "first", "number"), [("diet_rel_tiny", "layer 1, head 1", 6), ("diet_abs_tiny", "head 1", 3)]
)
def test_values_and_names(name, first, number, save, tmp_path):
    checkpoint, encoder = save(name)
    segments = segment_values(checkpoint)
    assert (segments.names[0], len(segments.names)) == (first, number)
    torch.testing.assert_close(segments.values, encoder.segment_attention.weight.detach().flatten(0, 1))
    plot_segments(segments, tmp_path / "a.svg")
    assert first in (tmp_path / "a.svg").read_text()
