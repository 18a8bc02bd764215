"""fairseq's commands of translation: padding is where the task says, and what cannot be is one sentence."""

from argparse import Namespace

import pytest
import torch
from fairseq import models
from fairseq.data import Dictionary
from fairseq.tasks.translation import TranslationConfig, TranslationTask

from tupe.errors import UserError
from tupe.fairseq_mends.ours import serve
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
    serve(task)
    assert padded() == [[5, 6, 2], [5, 2, 1]]


def test_an_encoder_is_refused(task):
    with pytest.raises(UserError, match="the model is an encoder, which does not translate"):
        models.build_model(CONFIGS["tupe_tiny"](_name="tupe_tiny"), task)


def test_alignments_are_refused(task):
    aligned = Namespace(print_alignment="hard", score_reference=True)
    assert task.build_generator([], aligned).compute_alignment  # fairseq's own
    serve(task)
    with pytest.raises(UserError, match="leave out --print-alignment"):
        task.build_generator([], aligned)
    assert not task.build_generator([], Namespace(score_reference=True)).compute_alignment
