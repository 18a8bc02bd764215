import numpy as np
import pytest
from fairseq.data import FairseqDataset, data_utils
from hypothesis import given
from hypothesis import strategies as st

import tupe.fairseq_mends  # noqa: F401
from tupe.errors import UserError
from tupe.fairseq_mends.ours import serve

PREPROCESS = r".*fairseq-preprocess .*--destdir "


def folder_with(corpus, folder, *names):
    folder.mkdir()
    for name in names:
        (folder / name).symlink_to(corpus / name)
    return folder


VALID = ("dict.txt", "valid.bin", "valid.idx")


def test_missing_folder_of_several(corpus, train, tmp_path):
    with pytest.raises(UserError, match=rf"there is no data folder {tmp_path}/none: {PREPROCESS}{tmp_path}/none"):
        train(tmp_path, data=f"{corpus}:{tmp_path / 'none'}")


def test_missing_dictionary(corpus, train, tmp_path):
    data = folder_with(corpus, tmp_path / "data", "train.bin", "train.idx")
    with pytest.raises(UserError, match=rf"there is no dictionary {data}/dict\.txt: {PREPROCESS}{data}"):
        train(tmp_path, data=data)


@pytest.mark.parametrize(("names", "split"), [(("dict.txt",), "valid"), (VALID, "train")])
def test_missing_split(names, split, corpus, train, tmp_path):
    data = folder_with(corpus, tmp_path / "data", *names)
    with pytest.raises(UserError, match=rf"there is no split '{split}' \({data}/{split}\.bin\): {PREPROCESS}{data}"):
        train(tmp_path, data=data)


def test_empty_split(corpus, train, tmp_path):
    data = folder_with(corpus, tmp_path / "data", *VALID, "train.idx")
    (data / "train.bin").touch()
    with pytest.raises(UserError, match=rf"the split 'train' has no tokens \({data}/train\.bin is empty\)"):
        train(tmp_path, data=data)


def test_folders_take_turns(corpus, train, tmp_path):
    """The second folder is read in the second epoch, and needs no dictionary of its own."""
    second = folder_with(corpus, tmp_path / "data", "train.bin", "train.idx")
    train(tmp_path, "--max-update", 0, "--max-epoch", 2, "--batch-size", 200, data=f"{corpus}:{second}")
    (second / "train.idx").unlink()
    (second / "train.bin").unlink()
    with pytest.raises(UserError, match=rf"there is no split 'train' \({second}/train\.bin\)"):
        train(tmp_path / "again", "--max-update", 0, "--max-epoch", 2, "--batch-size", 200, data=f"{corpus}:{second}")


def test_most_sequences_too_long(train, tmp_path):
    """`--max-positions` below `--tokens-per-sample`: only the last block, a short one, would be left to train on."""
    with pytest.raises(UserError, match=r"sequences are longer than max_positions=16 \(up to 32 tokens\): raise"):
        train(tmp_path, "--max-positions", 16)


def test_some_sequences_too_long(corpus, train, tmp_path):
    data = data_utils.load_indexed_dataset(str(corpus / "valid"))
    longest = 1 + max(data.sizes)  # with <s>
    few = ("--sample-break-mode", "eos", "--max-positions", longest - 1)
    said = rf"sequences are longer than max_positions={longest - 1} .*--skip-invalid-size-inputs-valid-test"
    with pytest.raises(UserError, match=said):
        train(tmp_path, *few)
    train(tmp_path, *few, "--skip-invalid-size-inputs-valid-test")
    assert (tmp_path / "checkpoint_last.pt").exists()


class Lengths(FairseqDataset):
    def __init__(self, sizes):
        self.sizes = np.array(sizes)

    def num_tokens_vec(self, indices):
        return self.sizes[indices]


@given(st.lists(st.integers(1, 20), min_size=1, max_size=60), st.sampled_from([1, 4, 8]), st.integers(1, 16))
def test_every_sequence_is_in_one_batch(sizes, multiple, max_sentences):
    indices, limits = np.argsort(sizes), (64, max_sentences, multiple)
    dataset = Lengths(sizes)
    theirs = dataset.batch_by_size(indices, *limits)
    assert sum(map(len, theirs)) <= len(indices)  # fairseq's own drops the last
    serve(dataset)
    batches = dataset.batch_by_size(indices, *limits)
    assert np.concatenate(batches).tolist() == indices.tolist()
    assert max(map(len, batches)) <= max(max_sentences, multiple)
    assert [batch.tolist() for batch in batches[: len(theirs)]] == [batch.tolist() for batch in theirs]
