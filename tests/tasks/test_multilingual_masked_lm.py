"""Pre-training over many languages: what an epoch draws, again and again the same, and what is validated."""

import numpy as np
import pytest
import torch
from omegaconf import OmegaConf

from tests.samples import write_dictionary
from tupe.data.binary import writer
from tupe.tasks.multilingual_masked_lm import MultilingualMaskedLMConfig, MultilingualMaskedLMTask

SIZES = {"de": 40, "en": 400, "sw": 4}  # sequences for training, each a block
TOKENS = {name: range(4 + 100 * place, 104 + 100 * place) for place, name in enumerate(SIZES)}


def write_language(folder, language, sizes, length=7):
    """Sequences of `length` of its own tokens; the first two number the sequence."""
    (folder / language).mkdir(parents=True, exist_ok=True)
    for split, size in sizes.items():
        with writer(folder / language / split, 304) as add:
            for row in range(size):
                add([*(TOKENS[language][i % 100] for i in (row // 100, row, *range(row, row + length - 2))), 2])


def write_languages(folder):
    """What pre-training over languages reads."""
    write_dictionary(folder / "dict.txt", [f"word{number}" for number in range(300)])
    for language, size in SIZES.items():
        write_language(folder, language, {"train": size, "valid": 3})
    return folder


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return write_languages(tmp_path_factory.mktemp("languages"))


def make_task(folder, **fields):
    settings = {"tokens_per_sample": 9, "seed": 1, "train_subset": "train", "data": str(folder), **fields}
    return MultilingualMaskedLMTask.setup_task(OmegaConf.structured(MultilingualMaskedLMConfig(**settings)))


def drawn(task, epoch, split="train"):
    """Of an epoch by language the numbers of the blocks, in the order of the batches; every block is checked."""
    task.load_dataset(split, epoch)
    dataset, found, order = task.dataset(split), {name: [] for name in SIZES}, []
    dataset.set_epoch(epoch)
    for index in dataset.ordered_indices():
        sample = dataset[index]
        source, target = sample["net_input.src_tokens"], sample["target"]
        block = torch.where(target == task.source_dictionary.pad(), source, target)
        assert block[0] == task.source_dictionary.bos() and len(block) == 9
        (language,) = {name for name, tokens in TOKENS.items() for token in block[1:-1].tolist() if token in tokens}
        first, second = (int(token) - TOKENS[language][0] for token in block[1:3])
        found[language].append(100 * first + second)
        order.append((language, found[language][-1], source.tolist()))
    return found, order


def test_an_epoch_draws_by_smoothed_frequency(data):
    """By hand: 444 blocks, `p ~ n^0.7`; more than its share with replacement, less without."""
    probabilities = np.array(list(SIZES.values())) ** 0.7
    expected = np.ceil(444 * probabilities / probabilities.sum())
    found, _ = drawn(make_task(data), 1)
    assert [len(blocks) for blocks in found.values()] == expected.tolist()
    assert len(set(found["en"])) == len(found["en"]) < 400
    assert len(set(found["de"])) < len(found["de"]) and len(found["de"]) > 40
    by_size, _ = drawn(make_task(data, multilang_sampling_alpha=1.0), 1)
    assert {name: sorted(blocks) for name, blocks in by_size.items()} == {n: list(range(s)) for n, s in SIZES.items()}
    two, _ = drawn(make_task(data, langs="sw,de"), 1)
    assert len(two["sw"]) + len(two["de"]) in (44, 45) and not two["en"]


def test_an_epoch_depends_on_the_seed_and_its_number_alone(data):
    task = make_task(data)
    first, second = drawn(task, 1)[1], drawn(task, 2)[1]
    assert first != second
    assert drawn(make_task(data), 2)[1] == second != drawn(make_task(data, seed=2), 2)[1]
    assert sorted(drawn(task, 1)[0]["en"]) != sorted(drawn(make_task(data, seed=2), 1)[0]["en"])
    all_of_them = make_task(data, multilang_sampling_alpha=1.0)
    assert drawn(all_of_them, 1)[0] != drawn(all_of_them, 2)[0]  # in another order


def test_a_block_that_is_drawn_twice_is_masked_otherwise(data):
    _, order = drawn(make_task(data), 1)
    masked = [(number, tuple(source)) for language, number, source in order if language == "sw"]
    assert len(masked) > 3 * SIZES["sw"] and len(set(masked)) > 2 * SIZES["sw"]


def test_validation_is_of_all_and_of_each(data):
    task = make_task(data)
    found, _ = drawn(task, 1, "valid")
    assert all(sorted(found[name]) == [0, 1, 2] for name in SIZES)
    for name in SIZES:
        assert len(task.dataset(f"valid_{name}")) == 3
    cfg = OmegaConf.create({"dataset": {"valid_subset": "valid"}})
    task.before_training(cfg)
    assert cfg.dataset.valid_subset == "valid,valid_de,valid_en,valid_sw"
    alone = make_task(data)
    assert sorted(drawn(alone, 1, "valid_sw")[0]["sw"]) == [0, 1, 2] and list(alone.datasets) == ["valid_sw"]
