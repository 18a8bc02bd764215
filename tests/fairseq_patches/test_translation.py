"""fairseq's commands of translation: padding is where the task says, and a checkpoint fits the languages."""

from argparse import Namespace

import pytest
import torch
from fairseq import checkpoint_utils
from fairseq.data import Dictionary
from fairseq.tasks.translation import TranslationConfig, TranslationTask

from tests.samples import FIELDS, dictionary_of
from tupe.fairseq_patches.checkpoints import compare, record_dictionaries
from tupe.fairseq_patches.patching import patched
from tupe.fairseq_patches.task import put_in_scope
from tupe.models.config import named
from tupe.models.seq2seq.model import Seq2SeqModel
from tupe.util import UserError


@pytest.fixture
def task():
    return TranslationTask(TranslationConfig(left_pad_source=False), Dictionary(), Dictionary())


def test_sentences_that_are_typed_in_are_padded_where_the_task_pads(task):
    sentences = [torch.tensor([5, 6, 2]), torch.tensor([5, 2])]

    def padded():
        data = task.build_dataset_for_inference(sentences, [3, 2])
        return data.collater([data[0], data[1]])["net_input"]["src_tokens"].tolist()

    assert padded() == [[5, 6, 2], [1, 5, 2]]  # a run of fairseq's own stays what it was
    put_in_scope(task)
    assert padded() == [[5, 6, 2], [5, 2, 1]]


def test_diverse_beams_of_any_sentences(task):
    """fairseq takes the number of a sentence in the data, here 7, for its place in the batch."""
    put_in_scope(task)
    for symbol in "abcdefgh":
        task.source_dictionary.add_symbol(symbol), task.target_dictionary.add_symbol(symbol)
    model = Seq2SeqModel.build_model(named("seq2seq_tupe_r_tiny", **FIELDS), task).eval()
    search = task.build_generator([model], Namespace(beam=4, diverse_beam_groups=2, max_len_b=3))
    words = {"src_tokens": torch.tensor([[5, 6, 2]]), "src_lengths": torch.tensor([3])}
    found = task.inference_step(search, [model], {"id": torch.tensor([7]), "net_input": words})
    assert len(found[0]) == 4


def test_a_checkpoint_of_the_other_direction(tmp_path):
    """A dictionary of both languages fits either, so fairseq alone translates German as if it were English."""
    path, config = tmp_path / "x.pt", named("seq2seq_tupe_r_tiny", **FIELDS)
    tasks = {
        pair: TranslationTask(
            TranslationConfig(left_pad_source=False, source_lang=pair[0], target_lang=pair[1]),
            Dictionary(), Dictionary(),
        )
        for pair in (("en", "de"), ("de", "en"))
    }  # fmt: skip
    model = Seq2SeqModel.build_model(config, tasks["en", "de"])
    cfg = {"model": vars(config), "task": {"_name": "translation", "source_lang": "en", "target_lang": "de"}}
    state = {"cfg": cfg, "extra_state": {}, "optimizer_history": [{"best_loss": 0}], "model": model.state_dict()}
    torch.save(state, path)
    with patched():
        checkpoint_utils.load_model_ensemble([str(path)], task=tasks["en", "de"])
        with pytest.raises(UserError, match=r"x\.pt translates from en to de\. Pass -s en -t de\."):
            checkpoint_utils.load_model_ensemble([str(path)], task=tasks["de", "en"])


def test_another_target_dictionary_of_the_same_size():
    """The source's is the same: its checksum says nothing of the target's."""
    words, others = dictionary_of("word"), dictionary_of("other")
    config = named("seq2seq_tupe_r_tiny", **FIELDS)
    task = TranslationTask(TranslationConfig(left_pad_source=False), words, words)
    record_dictionaries(Namespace(model=config, task={}), task)
    assert Seq2SeqModel.build_model(config, task)
    task.tgt_dict = others
    with pytest.raises(UserError, match=r"trained with another target dictionary"):
        Seq2SeqModel.build_model(config, task)
    with pytest.raises(UserError, match=r"checkpoint last\.pt was trained with another target dictionary"):
        compare("last.pt", {"cfg": {"model": vars(config)}, "model": {}}, config, task)
