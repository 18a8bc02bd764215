import copy

import pytest
from fairseq import criterions
from fairseq.data import Dictionary
from fairseq.tasks import FairseqTask
from fairseq.tasks.masked_lm import MaskedLMConfig, MaskedLMTask
from fairseq.tasks.translation import TranslationConfig, TranslationTask
from omegaconf import OmegaConf

import tupe.tasks.sentence_prediction as sentence_prediction
from tupe.fairseq_patches.scope import in_scope
from tupe.fairseq_patches.task import TupeMaskedLMTask, TupeTask, put_in_scope


class Users(MaskedLMTask):
    def load_dataset(self, split, epoch=1, **kwargs):
        self.datasets[split] = "theirs"


@pytest.mark.parametrize(
    ("task", "base"),
    [
        (MaskedLMTask(MaskedLMConfig(), Dictionary()), TupeMaskedLMTask),
        (TranslationTask(TranslationConfig(), Dictionary(), Dictionary()), TupeTask),
        (Users(MaskedLMConfig(), Dictionary()), TupeTask),
    ],
)
def test_a_task_that_serves_has_our_overrides_and_its_own_name(task, base):
    theirs = type(task)
    put_in_scope(task)
    scoped = type(task)
    assert scoped.__mro__[1] is base
    assert isinstance(task, theirs) and scoped is not theirs and scoped.__name__ == theirs.__name__
    put_in_scope(task)
    assert type(task) is scoped
    assert type(copy.copy(task)) is scoped
    assert not issubclass(theirs, TupeTask)


def test_somebodys_own_splits_are_loaded_by_their_own_method():
    task = Users(MaskedLMConfig(), Dictionary())
    put_in_scope(task)
    task.load_dataset("nowhere")
    assert task.datasets["nowhere"] == "theirs"


def test_tasks_of_ours_have_them_anyway():
    task = sentence_prediction.TupeSentencePredictionTask
    assert issubclass(task, TupeTask) and task.__mro__.index(TupeTask) < task.__mro__.index(FairseqTask)


def test_a_criterion_of_ours_puts_its_task_in_scope():
    task = MaskedLMTask(MaskedLMConfig(), Dictionary())
    for name, ours in (("masked_lm", False), ("tupe_masked_lm", True)):
        criterions.build_criterion(OmegaConf.create({"_name": name, "tpu": False}), task)
        assert in_scope(task) is ours
