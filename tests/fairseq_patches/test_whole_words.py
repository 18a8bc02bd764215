import numpy as np
import pytest
import torch
from fairseq.data.indexed_dataset import MMapIndexedDatasetBuilder
from fairseq.tasks.masked_lm import MaskedLMConfig, MaskedLMTask
from omegaconf import OmegaConf

from tests.fairseq_patches.conftest import trainer  # noqa: F401  registers the plugin
from tests.samples import dictionary_of, write_dictionary
from tupe.errors import UserError
from tupe.fairseq_patches.task import put_in_scope, word_begins


def test_a_word_is_masked_as_a_whole(corpus):
    fields = {"data": str(corpus), "tokens_per_sample": 32, "mask_whole_words": True, "mask_prob": 0.3, "seed": 1}
    task = MaskedLMTask.setup_task(OmegaConf.structured(MaskedLMConfig(**fields)))
    put_in_scope(task)
    task.load_dataset("valid")
    dataset, pad = task.dataset("valid"), task.source_dictionary.pad()
    begins = word_begins(task.source_dictionary)
    whole, longest = 0, 0
    for index in range(len(dataset)):
        target, source = dataset[index]["target"], dataset[index]["net_input.src_tokens"]
        masked = target != pad
        tokens = target.where(masked, source)
        word = begins.gather(0, tokens).cumsum(0)
        for each in word.unique():
            inside = masked[word == each]
            assert inside.all() or not inside.any()
            whole += bool(inside.all())
            longest = max(longest, len(inside) * bool(inside.all()))
    assert whole > 0 and longest > 1


@pytest.mark.parametrize(
    ("symbols", "begins"),
    [(["\u2581the", "re", "\u2581", "<mask>"], [1, 0, 1, 1]), (["the", "##re", "madeupword0000"], [1, 0, 1])],
)
def test_where_words_begin(symbols, begins):
    found = word_begins(dictionary_of(*symbols))
    assert found.begins.tolist() == [1, 1, 1, 1, *begins]
    within = torch.tensor([0, 5, 5, 2, 5, 3, 5])  # <s> re re </s> re <unk> re
    assert found.gather(0, within).tolist() == [1, 1, 0, 1, 1, 1, 0]


def test_a_vocabulary_that_does_not_say():
    with pytest.raises(UserError, match="mask_whole_words needs a vocabulary that says where words begin"):
        word_begins(dictionary_of("464", "11"))


def test_words_of_a_byte_level_vocabulary():
    """A word begins with its space, or behind `<s>` and `</s>`; punctuation is part of the word, as in fairseq's."""
    begins = word_begins(dictionary_of("Hello", "\u0120wor", "ld", ".", "##", "\u0120the", "<mask>"))
    tokens = torch.tensor([0, 4, 5, 6, 7, 2, 4, 6, 9, 10, 2])
    assert begins.gather(0, tokens).tolist() == [1, 1, 1, 0, 0, 1, 1, 0, 1, 1, 1]


def test_a_text_of_a_byte_level_vocabulary_is_masked_by_words(tmp_path):
    write_dictionary(tmp_path / "dict.txt", ["the", "\u0120house", "s", "\u0120see", "##"])
    builder = MMapIndexedDatasetBuilder(str(tmp_path / "valid.bin"), dtype=np.uint16)
    for _ in range(40):
        builder.add_item(torch.tensor([4, 6, 5, 6, 7, 6, 6, 2]))
    builder.finalize(str(tmp_path / "valid.idx"))
    fields = {"data": str(tmp_path), "tokens_per_sample": 9, "mask_whole_words": True, "mask_prob": 0.4, "seed": 1}
    task = MaskedLMTask.setup_task(OmegaConf.structured(MaskedLMConfig(sample_break_mode="eos", **fields)))
    put_in_scope(task)
    task.load_dataset("valid")
    rows = [task.dataset("valid")[index]["target"].ne(1).tolist() for index in range(40)]
    words = [(1, 3), (3, 5), (5, 8)]  # thes, houses, seess; before and behind them <s> and </s>
    assert all(len(set(row[a:b])) == 1 for row in rows for a, b in words)
    assert all(any(row[a] for row in rows) and not all(row[a] for row in rows) for a, _ in words)
    assert any(row[1] and not row[0] for row in rows)
