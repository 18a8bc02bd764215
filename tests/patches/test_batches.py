"""Every sequence is in one batch and is read as it was written; the exit status is that of the run."""

import subprocess
import sys

import numpy as np
import pytest
import torch
from fairseq.data import Dictionary, FairseqDataset, data_utils
from fairseq.tasks.translation import TranslationConfig, TranslationTask
from hypothesis import given
from hypothesis import strategies as st

from tests.commands import ROOT, environment
from tupe.patches import batches as ours
from tupe.util import UserError


def folder_with(corpus, folder, *names):
    folder.mkdir()
    for name in names:
        (folder / name).symlink_to(corpus / name)
    return folder


def test_folders_take_turns(corpus, train, tmp_path):
    """The second folder is read in the second epoch, and needs no dictionary of its own."""
    second = folder_with(corpus, tmp_path / "data", "train.bin", "train.idx")
    train(tmp_path, "--max-update", 0, "--max-epoch", 2, "--batch-size", 200, data=f"{corpus}:{second}")
    (second / "train.idx").unlink()
    with pytest.raises(FileNotFoundError, match=rf"{second}/train"):
        train(tmp_path / "again", "--max-update", 0, "--max-epoch", 2, "--batch-size", 200, data=f"{corpus}:{second}")


def test_folders_of_two_dictionaries(corpus, train, tmp_path):
    second = folder_with(corpus, tmp_path / "data", "train.bin", "train.idx")
    (second / "dict.txt").write_text("a 1\n")
    with pytest.raises(UserError, match=rf"^{second}/dict\.txt has other symbols than {corpus}/dict\.txt"):
        train(tmp_path, data=f"{corpus}:{second}")


def test_another_file_than_was_prepared(corpus, train, tmp_path):
    copy = folder_with(corpus, tmp_path / "data", *(path.name for path in corpus.iterdir()))
    (copy / "manifest.json").unlink(missing_ok=True)
    (copy / "manifest.json").write_text('{"checksums": {"valid.bin": "0"}}')
    with pytest.raises(UserError, match=rf"^{copy}/valid\.bin is not the file that was prepared"):
        train(tmp_path, data=copy)


def test_training_says_how_many_tokens_it_skips(corpus, train, tmp_path, caplog):
    """Lines that do not fit into a block, as fairseq fills it: each would be a block of its own, which is too long."""
    data = data_utils.load_indexed_dataset(str(corpus / "train"))  # kept: `sizes` is memory that it unmaps
    sizes = np.array(data.sizes)
    length = int(np.percentile(sizes, 80))
    skipped = sizes[sizes >= length]
    options = ("--tokens-per-sample", length, "--sample-break-mode", "complete", "--disable-validation")
    train(tmp_path, *options)
    (said,) = (record.getMessage() for record in caplog.records if "never used" in record.getMessage())
    assert f"{len(skipped)} of " in said and f"exceed max_positions={length}." in said
    share = float(said.partition("%")[0]) / 100
    assert share == pytest.approx(skipped.sum() / sizes.sum(), rel=0.05)  # blocks also have <s>
    caplog.clear()
    train(tmp_path / "cut", *options, "--sample-break-mode", "none")
    train(tmp_path / "truncated", *options, "--shorten-method", "truncate", "--shorten-data-split-list", "train")
    assert "never used" not in caplog.text


class Lengths(FairseqDataset):
    def __init__(self, sizes):
        self.sizes = np.array(sizes)

    def __len__(self):
        return len(self.sizes)

    def num_tokens_vec(self, indices):
        return self.sizes[indices]


@given(st.lists(st.integers(1, 20), min_size=1, max_size=60), st.sampled_from([1, 4, 8]), st.integers(1, 16))
def test_every_sequence_is_in_one_batch(sizes, multiple, max_sentences):
    indices, limits = np.argsort(sizes), (64, max_sentences, multiple)
    dataset = Lengths(sizes)
    theirs = ours._batch_by_size(dataset, indices, *limits)
    assert sum(map(len, theirs)) <= len(indices)  # fairseq's own drops the last
    batches = dataset.batch_by_size(indices, *limits)
    assert np.concatenate(batches).tolist() == indices.tolist()
    assert max(map(len, batches)) <= max(max_sentences, multiple)
    assert [batch.tolist() for batch in batches[: len(theirs)]] == [batch.tolist() for batch in theirs]


def test_break_mode_eos(train, tmp_path, caplog):
    caplog.set_level("INFO")
    train(tmp_path, "--sample-break-mode", "eos")
    assert "loaded 600 blocks from" in caplog.text  # a block a sentence


def test_sentences_that_are_typed_in_are_padded_where_the_task_pads():
    """fairseq pads them on the left."""
    task = TranslationTask(TranslationConfig(left_pad_source=False), Dictionary(), Dictionary())
    data = task.build_dataset_for_inference([torch.tensor([5, 6, 2]), torch.tensor([5, 2])], [3, 2])
    assert data.collater([data[0], data[1]])["net_input"]["src_tokens"].tolist() == [[5, 6, 2], [5, 2, 1]]


PROGRAM = """
import sys, time, torch
import fairseq_cli, tupe.plugin
from fairseq.data.iterators import BufferedIterator

class Batches(list):
    def __iter__(self):
        while True:
            yield torch.rand(1_000_000).sort()[0]

both = [BufferedIterator(size, Batches(range(1000))) for size in (1, 100)]
for batches in both:
    next(batches)
time.sleep(0.5)
sys.exit(3)
"""


def test_the_exit_status_is_that_of_the_run():
    """One thread waits for room, the other is at work."""
    command = [sys.executable, "-c", PROGRAM]
    done = subprocess.run(command, cwd=ROOT, env=environment(), capture_output=True, text=True, check=False)
    assert done.returncode == 3, done.stderr
    assert "terminate called" not in done.stderr
