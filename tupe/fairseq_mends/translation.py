"""fairseq's commands of translation on models of ours: where padding is, and what they are asked in vain."""

from __future__ import annotations

from fairseq import models
from fairseq.models import FairseqEncoderDecoderModel
from fairseq.tasks import FairseqTask
from fairseq.tasks.translation import TranslationTask

from tupe.errors import UserError
from tupe.fairseq_mends.mend import mends
from tupe.fairseq_mends.ours import builds_ours, chosen, of_ours


@mends(TranslationTask, "build_dataset_for_inference", "self src_tokens src_lengths", only_for=of_ours)
def padding_is_where_it_was(original):
    """`fairseq-interactive` pads sources on the left, whatever `--left-pad-source` says: it does not ask its task."""

    def build_dataset_for_inference(self, *args, **kwargs):
        dataset = original(self, *args, **kwargs)
        dataset.left_pad_source = self.cfg.left_pad_source
        return dataset

    return build_dataset_for_inference


@mends(models, "build_model", "cfg task", only_for=builds_ours)
def encoders_do_not_translate(original):
    """An encoder is built for two languages, and its weights then do not fit."""

    def build_model(cfg, task, *args, **kwargs):
        if isinstance(task, TranslationTask) and not issubclass(chosen("model", cfg), FairseqEncoderDecoderModel):
            raise UserError(
                "the model is an encoder, which does not translate: give one of `tupe systems --translation`, or a "
                "checkpoint of scripts/translate_train.sh"
            )
        return original(cfg, task, *args, **kwargs)

    return build_model


@mends(FairseqTask, "build_generator", "self models args", only_for=of_ours)
def weights_stay_inside(original):
    """`--print-alignment` reads weights of attention, which fused attention does not have."""

    def build_generator(self, models, args, *others, **kwargs):
        if getattr(args, "print_alignment", False):
            raise UserError("these models do not hand out weights of attention: leave out --print-alignment")
        return original(self, models, args, *others, **kwargs)

    return build_generator
