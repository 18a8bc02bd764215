import pytest
from fairseq.data import Dictionary
from fairseq.tasks.masked_lm import MaskedLMConfig, MaskedLMTask
from omegaconf import OmegaConf

from tests.fairseq_patches.conftest import trainer  # noqa: F401  registers the plugin
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
        word = begins[tokens].cumsum(0)
        for each in word.unique():
            inside = masked[word == each]
            assert inside.all() or not inside.any()
            whole += bool(inside.all())
            longest = max(longest, len(inside) * bool(inside.all()))
    assert whole > 0 and longest > 1


def dictionary(*symbols):
    made = Dictionary()
    for symbol in symbols:
        made.add_symbol(symbol)
    return made


@pytest.mark.parametrize(
    ("symbols", "begins"),
    [
        (["\u2581the", "re", "\u2581", "<mask>"], [1, 0, 1, 1]),
        (["the", "##re", "madeupword0000"], [1, 0, 1]),
    ],
)
def test_where_words_begin(symbols, begins):
    assert word_begins(dictionary(*symbols)).tolist() == [1, 1, 1, 1, *begins]


def test_a_vocabulary_that_does_not_say():
    with pytest.raises(UserError, match="mask_whole_words needs a vocabulary that says where words begin"):
        word_begins(dictionary("464", "11"))
