"""fairseq's commands of translation: padding is where the task says, and what cannot be is one sentence."""

import math
from argparse import Namespace

import pytest
import torch
from fairseq import models
from fairseq.data import Dictionary
from fairseq.tasks.translation import TranslationConfig, TranslationTask
from omegaconf import OmegaConf

from tupe.errors import UserError
from tupe.fairseq_patches.task import put_in_scope
from tupe.models.config import CONFIGS


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


def test_an_encoder_is_refused(task):
    with pytest.raises(UserError, match="the model is an encoder, which does not translate"):
        models.build_model(OmegaConf.structured(CONFIGS["tupe_tiny"](_name="tupe_tiny")), task)


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"beam": 0}, "generation.beam is 0: give a number above 0"),
        ({"lenpen": math.nan}, "generation.lenpen is nan: give a number from -20 to 20"),
        ({"max_len_b": -1}, "generation.max_len_b is -1: give a number, 0 or more"),
        ({"min_len": 30, "max_len_a": 0, "max_len_b": 20}, "--min-len 30 is above the longest translation, 20 tokens"),
    ],
)
def test_numbers_of_a_search(asked, said, task):
    asked = Namespace(score_reference=True, **asked)
    task.build_generator([], asked)  # fairseq's own
    put_in_scope(task)
    with pytest.raises(UserError, match=said):
        task.build_generator([], asked)


def test_a_split_that_is_not_there(tmp_path):
    config = TranslationConfig(data=str(tmp_path), source_lang="en", target_lang="de")
    task = TranslationTask(config, Dictionary(), Dictionary())
    put_in_scope(task)
    with pytest.raises(UserError, match=rf"there is no split 'nosuch' in {tmp_path} \(Dataset not found"):
        task.load_dataset("nosuch")


def test_alignments_are_refused(task):
    aligned = Namespace(print_alignment="hard", score_reference=True)
    assert task.build_generator([], aligned).compute_alignment  # fairseq's own
    put_in_scope(task)
    with pytest.raises(UserError, match="leave out --print-alignment"):
        task.build_generator([], aligned)
    assert not task.build_generator([], Namespace(score_reference=True)).compute_alignment
