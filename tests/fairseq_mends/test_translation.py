"""`fairseq-interactive` pads where the task says."""

import torch
from fairseq.data import Dictionary
from fairseq.tasks.translation import TranslationConfig, TranslationTask

from tupe.fairseq_mends.ours import serve


def test_sentences_that_are_typed_in_are_padded_where_the_task_pads():
    task = TranslationTask(TranslationConfig(left_pad_source=False), Dictionary(), Dictionary())
    sentences = [torch.tensor([5, 6, 2]), torch.tensor([5, 2])]

    def padded():
        data = task.build_dataset_for_inference(sentences, [3, 2])
        return data.collater([data[0], data[1]])["net_input"]["src_tokens"].tolist()

    assert padded() == [[5, 6, 2], [1, 5, 2]]  # a run of fairseq's own stays what it was
    serve(task)
    assert padded() == [[5, 6, 2], [5, 2, 1]]
