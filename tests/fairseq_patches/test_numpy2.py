import numpy as np
from fairseq.data import data_utils


def test_break_mode_eos(train, tmp_path, caplog):
    caplog.set_level("INFO")
    train(tmp_path, "--sample-break-mode", "eos")
    assert "loaded 600 blocks from" in caplog.text  # a block a sentence


def test_batch_buckets():
    assert data_utils.get_buckets(np.array([1, 2, 3, 4, 5, 6, 7, 8]), 2).tolist() == [4, 8]
