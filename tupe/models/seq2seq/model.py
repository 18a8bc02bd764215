"""The fairseq models: encoder and decoder, for fairseq's `translation` task with its criterions and generators."""

import os
from argparse import Namespace
from pathlib import Path
from typing import Any

from fairseq import hub_utils
from fairseq.data import Dictionary
from fairseq.models import FairseqEncoderDecoderModel
from fairseq.models.transformer import Embedding
from fairseq.tasks import FairseqTask
from omegaconf import DictConfig
from torch import Tensor, nn

from tupe.data.corpus.tokenizers import MODEL
from tupe.errors import UserError
from tupe.fairseq_patches.checkpoints import refuse_other_dictionary, saved_size
from tupe.fairseq_patches.patching import patched
from tupe.fairseq_patches.task import before_building
from tupe.models.checkpoint_config import fitting
from tupe.models.config import CONFIGS as ENCODERS
from tupe.models.layer import Attention
from tupe.models.pretrained import data_folder, refuse_other_pieces
from tupe.models.seq2seq.config import CONFIGS, Seq2SeqConfig, check_terms
from tupe.models.seq2seq.decoder import Seq2SeqDecoder
from tupe.models.seq2seq.encoder import Seq2SeqEncoder
from tupe.models.seq2seq.hub import TranslationHub
from tupe.models.tupe import as_namespace, register
from tupe.safe_load import safe_load


class Seq2SeqModel(FairseqEncoderDecoderModel):
    """A Transformer whose position encoding is replaced in every attention layer (DIET, section 4).

    Registered once for each name in `tupe.models.seq2seq.config.CONFIGS`: `--arch seq2seq_diet_rel_base`.
    """

    @classmethod
    def build_model(cls, cfg: DictConfig | Seq2SeqConfig | Namespace, task: FairseqTask) -> "Seq2SeqModel":
        """Build the model. Raise `UserError` for fields that do not fit together or the task."""
        before_building(cls, cfg, task)
        args = as_namespace(cfg)
        check_terms(args)
        if getattr(task.cfg, "left_pad_source", False) or getattr(task.cfg, "left_pad_target", False):
            raise UserError(
                "positions are counted from the left, so padding must be on the right: give --left-pad-source, which "
                "turns fairseq's left padding off (task.left_pad_source=false), and not --left-pad-target"
            )
        if not isinstance(task.max_positions(), tuple):
            raise UserError(
                "the model translates, which the task does not: give --task translation, or a model of `tupe systems`"
            )
        source, target = task.max_positions()
        args.max_source_positions = args.max_source_positions or source
        args.max_target_positions = args.max_target_positions or target
        tables = _embeddings(args, task.source_dictionary, task.target_dictionary)
        encoder = Seq2SeqEncoder(args, task.source_dictionary, tables[0])
        decoder = Seq2SeqDecoder(args, task.target_dictionary, *tables[1:])
        model = cls(encoder, decoder)
        model.args = args
        for layer in (*encoder.stack.layers, *decoder.stack.layers):  # as fairseq's; feed-forward parts are PyTorch's
            for attention in (module for module in layer.modules() if isinstance(module, Attention)):
                nn.init.xavier_uniform_(attention.qkv_proj.weight)
                nn.init.xavier_uniform_(attention.out_proj.weight)
                nn.init.zeros_(attention.out_proj.bias)
        return model

    @classmethod
    def from_pretrained(
        cls, model_name_or_path: str, checkpoint_file: str = "model.pt", data_name_or_path: str = ".", **kwargs: Any
    ) -> TranslationHub:
        """Load a checkpoint of ours like fairseq, but read its file without running code.

        Text is encoded by the SentencePiece model beside the data, unless there is none or `bpe` is given.

        Raises:
            UserError: if there is no such checkpoint, or its model is an encoder alone, or there are no data.
        """
        for checkpoint in (Path(model_name_or_path, file) for file in str(checkpoint_file).split(os.pathsep)):
            if not checkpoint.is_file():
                raise UserError(f"there is no checkpoint {checkpoint.resolve()}: give its folder and name")
            model = (safe_load(checkpoint).get("cfg") or {}).get("model") or {}
            name = model.get("_name") if isinstance(model, dict) else None
            if name in ENCODERS:
                raise UserError(
                    f"{checkpoint} is no translation model but an encoder ({name}): load it by "
                    "TupeModel.from_pretrained"
                )
        data = data_folder(Path(model_name_or_path), str(data_name_or_path))
        if "bpe" not in kwargs and (data / MODEL).is_file():
            kwargs.update(bpe="sentencepiece", sentencepiece_model=str(data / MODEL))
        with patched(), fitting(checkpoint_file, kwargs):
            loaded = hub_utils.from_pretrained(
                str(model_name_or_path), str(checkpoint_file), str(data_name_or_path), **kwargs
            )
            hub = TranslationHub(loaded["args"], loaded["task"], loaded["models"])
        refuse_other_pieces(hub.bpe, hub.src_dict)
        return hub

    def upgrade_state_dict_named(self, state_dict: dict[str, Tensor], name: str) -> None:
        """Raise `UserError` if the checkpoint has more or fewer words than the source's dictionary."""
        size = saved_size({"model": state_dict})
        refuse_other_dictionary(None, self.encoder.dictionary, "tupe prepare-translation", size)
        super().upgrade_state_dict_named(state_dict, name)

    def max_positions(self) -> tuple[float, float]:
        """Return the longest source and target; the tables of the attention to the source have an end too."""
        source, target = super().max_positions()
        return min(source, self.decoder.cross_position.num_keys or source), target


def _embeddings(args: Namespace, source: Dictionary, target: Dictionary) -> tuple[nn.Embedding, ...]:
    """Build the tables of source, target and output, some of them the same."""

    def table(dictionary: Dictionary) -> nn.Embedding:
        return Embedding(len(dictionary), args.encoder_embed_dim, dictionary.pad())

    first = table(source)
    if args.share_all_embeddings:
        if source != target:
            raise UserError(
                f"share_all_embeddings needs one dictionary, but source and target have {len(source)} and "
                f"{len(target)} symbols of their own: prepare the data with tupe prepare-translation"
            )
        return first, first, first
    second = table(target)
    return first, second, second if args.share_decoder_input_output_embed else table(target)


register(CONFIGS, Seq2SeqModel)
