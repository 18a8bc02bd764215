"""`fairseq-interactive` pads sources on the left, whatever `--left-pad-source` says: it does not ask its task."""

from __future__ import annotations

from fairseq.tasks.translation import TranslationTask

from tupe.fairseq_mends.mend import mends
from tupe.fairseq_mends.ours import of_ours


@mends(TranslationTask, "build_dataset_for_inference", "self src_tokens src_lengths", only_for=of_ours)
def padding_is_where_it_was(original):
    """Sentences that are typed in."""

    def build_dataset_for_inference(self, *args, **kwargs):
        dataset = original(self, *args, **kwargs)
        dataset.left_pad_source = self.cfg.left_pad_source
        return dataset

    return build_dataset_for_inference
