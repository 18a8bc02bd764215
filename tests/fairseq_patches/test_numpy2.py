import numpy as np
import torch
from fairseq.data import Dictionary, LanguagePairDataset, data_utils


def test_break_mode_eos(train, tmp_path, caplog):
    caplog.set_level("INFO")
    train(tmp_path, "--sample-break-mode", "eos")
    assert "loaded 600 blocks from" in caplog.text  # a block a sentence


def test_batch_buckets():
    assert data_utils.get_buckets(np.array([1, 2, 3, 4, 5, 6, 7, 8]), 2).tolist() == [4, 8]


def test_batch_buckets_of_a_translation():
    lengths, words = np.array([2, 3, 7, 8]), Dictionary()
    lines = [torch.full((length,), words.eos()) for length in lengths]
    data = LanguagePairDataset(lines, lengths, words, lines, lengths, words, num_buckets=2)
    assert data.bucketed_num_tokens.tolist() == [3, 3, 8, 8]
