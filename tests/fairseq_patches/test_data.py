from types import SimpleNamespace

import numpy as np
import pytest
from fairseq import tasks
from fairseq.data import Dictionary, FairseqDataset, data_utils
from fairseq.tasks.masked_lm import MaskedLMConfig, MaskedLMTask
from hypothesis import given
from hypothesis import strategies as st
from omegaconf import OmegaConf

import tupe.fairseq_patches  # noqa: F401
from tupe.errors import UserError
from tupe.fairseq_patches.task import check_lengths, keep_last_batch, put_in_scope

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
    with pytest.raises(UserError, match=rf"^the data are '{corpus}:', with a colon beside no folder: leave it out$"):
        train(tmp_path, data=f"{corpus}:")


def test_missing_dictionary(corpus, train, tmp_path):
    data = folder_with(corpus, tmp_path / "data", "train.bin", "train.idx")
    with pytest.raises(UserError, match=rf"there is no dictionary {data}/dict\.txt: {PREPROCESS}{data}"):
        train(tmp_path, data=data)


@pytest.mark.parametrize("content", ["a 1\n".encode("utf-16"), b"hello\n", b"a 1\na 1\n"])
def test_damaged_dictionary(content, corpus, train, tmp_path):
    data = folder_with(corpus, tmp_path / "data", *VALID[1:])
    (data / "dict.txt").write_bytes(content)
    with pytest.raises(UserError, match=rf"^{data}/dict\.txt is no dictionary \([A-Z].*\): copy it again, or prepare"):
        train(tmp_path, data=data)


@pytest.mark.parametrize(
    ("names", "split", "mending"),
    [(("dict.txt",), "valid", PREPROCESS), (VALID, "train", r"name one of the splits there \(valid\), or prepare the")],
)
def test_missing_split(names, split, mending, corpus, train, tmp_path):
    data = folder_with(corpus, tmp_path / "data", *names)
    with pytest.raises(UserError, match=rf"there is no split '{split}' \({data}/{split}\.bin\): {mending}"):
        train(tmp_path, data=data)


def test_a_folder_of_a_task_is_no_corpus(train, tmp_path):
    (tmp_path / "data/input0").mkdir(parents=True)
    with pytest.raises(UserError, match=r"data/dict\.txt: this is a task's folder: give a corpus$"):
        train(tmp_path, data=tmp_path / "data")


def test_a_folder_in_the_place_of_tokens(corpus, train, tmp_path):
    data = folder_with(corpus, tmp_path / "data", *VALID[:1], VALID[2], "train.bin", "train.idx")
    (data / "valid.bin").mkdir()
    with pytest.raises(
        UserError, match=rf"^{data}/valid\.idx is no index that fairseq knows, or has no \.bin beside it"
    ):
        train(tmp_path, data=data)


def test_the_split_of_a_translation_is_none(corpus, train, tmp_path):
    """An encoder reads nothing of `valid.en-de.de.bin`."""
    data = folder_with(corpus, tmp_path / "data", "dict.txt")
    for end in ("bin", "idx"):
        (data / f"valid.en-de.de.{end}").symlink_to(corpus / f"valid.{end}")
    with pytest.raises(UserError, match=rf"there is no split 'valid' \({data}/valid\.bin\): name one of the splits"):
        train(tmp_path, data=data)


@pytest.mark.parametrize("content", [b"", b"an index of nothing that fairseq knows"])
def test_an_index_that_fairseq_does_not_know(content, corpus, train, tmp_path):
    data = folder_with(corpus, tmp_path / "data", *VALID, "train.bin")
    (data / "train.idx").write_bytes(content)
    with pytest.raises(UserError, match=rf"{data}/train\.idx"):
        train(tmp_path, data=data)


def test_empty_split(corpus, train, tmp_path):
    data = folder_with(corpus, tmp_path / "data", *VALID, "train.idx")
    (data / "train.bin").touch()
    with pytest.raises(UserError, match=rf"the split 'train' has no tokens \({data}/train\.bin is empty\)"):
        train(tmp_path, data=data)


@pytest.mark.parametrize("split", ["train", "valid"])
def test_a_token_that_the_dictionary_lacks(split, corpus, train, tmp_path):
    data = folder_with(corpus, tmp_path / "data", *VALID, "train.bin", "train.idx")
    damaged = bytearray((data / f"{split}.bin").read_bytes())
    damaged[20:22] = b"\xff\xff"
    (data / f"{split}.bin").unlink()
    (data / f"{split}.bin").write_bytes(damaged)
    with pytest.raises(UserError, match=rf"{data}/{split}\.bin is damaged .*: its token 10 is number 65,535 of \d+"):
        train(tmp_path, data=data)


def test_folders_take_turns(corpus, train, tmp_path):
    """The second folder is read in the second epoch, and needs no dictionary of its own."""
    second = folder_with(corpus, tmp_path / "data", "train.bin", "train.idx")
    train(tmp_path, "--max-update", 0, "--max-epoch", 2, "--batch-size", 200, data=f"{corpus}:{second}")
    (second / "train.idx").unlink()
    (second / "train.bin").unlink()
    with pytest.raises(UserError, match=rf"there is no split 'train' \({second}/train\.bin\)"):
        train(tmp_path / "again", "--max-update", 0, "--max-epoch", 2, "--batch-size", 200, data=f"{corpus}:{second}")


def test_folders_of_two_dictionaries(corpus, train, tmp_path):
    second = folder_with(corpus, tmp_path / "data", "train.bin", "train.idx")
    (second / "dict.txt").write_text("a 1\n")
    with pytest.raises(
        UserError, match=rf"^{second}/dict\.txt has other symbols than {corpus}/dict\.txt, by which all"
    ):
        train(tmp_path, data=f"{corpus}:{second}")


@pytest.mark.parametrize("option", ["--max-positions", "--max-tokens"])
def test_most_sequences_too_long(train, tmp_path, option):
    """The option is below `--tokens-per-sample`: only the last block, a short one, would be left to train on."""
    with pytest.raises(
        UserError, match=rf"longer than max_positions=16 \(up to 32 tokens\): raise .*{option}\b.*, lower"
    ):
        train(tmp_path, option, 16)


def test_pairs_too_long():
    """The options of both sides are named, and none of blocks of text."""
    pairs = SimpleNamespace(filter_indices_by_size=lambda all_, most: (all_[:1], all_[1:]), size=lambda _: (9, 8))
    said = r"^1 of 2 sequences .*\(up to 9 tokens\): raise --max-source-positions or --max-target-positions, or leave"
    with pytest.raises(UserError, match=said) as refused:
        check_lengths(np.arange(2), pairs, (8, 8), training=False)
    assert "tokens-per-sample" not in str(refused.value)


def test_some_sequences_too_long(corpus, train, tmp_path):
    data = data_utils.load_indexed_dataset(str(corpus / "valid"))
    longest = 1 + max(data.sizes)  # with <s>
    few = ("--sample-break-mode", "eos", "--max-positions", longest - 1)
    said = rf"sequences are longer than max_positions={longest - 1} .*--skip-invalid-size-inputs-valid-test"
    with pytest.raises(UserError, match=said):
        train(tmp_path, *few)
    train(tmp_path, *few, "--skip-invalid-size-inputs-valid-test")
    assert (tmp_path / "checkpoint_last.pt").exists()


def test_training_says_how_many_tokens_it_skips(corpus, train, tmp_path, caplog):
    """Lines that do not fit into a block, as fairseq fills it: each would be a block of its own, which is too long."""
    data = data_utils.load_indexed_dataset(str(corpus / "train"))  # kept: `sizes` is memory that it unmaps
    sizes = np.array(data.sizes)
    length = int(np.percentile(sizes, 80))
    skipped = sizes[sizes >= length]
    options = ("--tokens-per-sample", length, "--sample-break-mode", "complete", "--disable-validation")
    train(tmp_path, *options)
    (said,) = (record.getMessage() for record in caplog.records if "never used" in record.getMessage())
    assert f"{len(skipped)} of " in said and f"longer than max_positions={length};" in said
    share = float(said.partition("%")[0]) / 100
    assert share == pytest.approx(skipped.sum() / sizes.sum(), rel=0.05)  # blocks also have <s>
    caplog.clear()
    train(tmp_path / "cut", *options, "--sample-break-mode", "none")
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
    theirs = dataset.batch_by_size(indices, *limits)
    assert sum(map(len, theirs)) <= len(indices)  # fairseq's own drops the last
    keep_last_batch(dataset)
    batches = dataset.batch_by_size(indices, *limits)
    assert np.concatenate(batches).tolist() == indices.tolist()
    assert max(map(len, batches)) <= max(max_sentences, multiple)
    assert [batch.tolist() for batch in batches[: len(theirs)]] == [batch.tolist() for batch in theirs]


@pytest.mark.parametrize(("ours", "batched"), [(False, 8), (True, 11)])
def test_the_task_of_a_run_batches_every_sequence(ours, batched):
    task = MaskedLMTask(MaskedLMConfig(), Dictionary())
    if ours:
        put_in_scope(task)
    batches = task.get_batch_iterator(Lengths([1] * 11), max_sentences=4, required_batch_size_multiple=4)
    assert sum(map(len, batches.frozen_batches)) == batched


def test_a_corpus_is_no_data_of_a_translation(tmp_path):
    cfg = OmegaConf.create({"_name": "translation", "data": str(tmp_path), "source_lang": "en", "target_lang": "de"})
    with pytest.raises(UserError, match=r"there is no .*dict.en.txt: give the folder of a translation's data"):
        tasks.setup_task(cfg)


def test_data_that_are_no_path():
    with pytest.raises(UserError, match=r"^the data of the task are 3, which is no path: give the folder"):
        tasks.setup_task(OmegaConf.create({"_name": "masked_lm", "data": 3}))
