"""The fairseq models: encoder and decoder, for fairseq's `translation` task with its criterions and generators."""

from argparse import Namespace
from pathlib import Path
from typing import Any

from fairseq.data import Dictionary
from fairseq.hub_utils import GeneratorHubInterface
from fairseq.models import FairseqEncoderDecoderModel
from fairseq.models.transformer import Embedding
from fairseq.tasks import FairseqTask
from omegaconf import DictConfig
from torch import nn

from tupe.data.tokenizers import MODEL
from tupe.encoder.layer import Attention
from tupe.models.config import Seq2SeqConfig, TupeConfig
from tupe.models.hub import data_folder
from tupe.models.seq2seq.decoder import Seq2SeqDecoder
from tupe.models.seq2seq.encoder import Seq2SeqEncoder
from tupe.models.tupe import as_namespace, register
from tupe.patches.install import before_building, install
from tupe.util import UserError


class Seq2SeqModel(FairseqEncoderDecoderModel):
    """A Transformer whose position encoding is replaced in every attention layer (DIET, section 4).

    Its architectures are named in `tupe.models.config.NAMED`: `--arch seq2seq_diet_rel_base`.
    """

    @classmethod
    def build_model(cls, cfg: DictConfig | Seq2SeqConfig | Namespace, task: FairseqTask) -> "Seq2SeqModel":
        """Build the model. Raise `UserError` for padding on the left."""
        before_building(cfg, task)
        args = Namespace(**{**vars(TupeConfig()), **vars(as_namespace(cfg))})  # `EncoderBase` reads its fields too
        assert not args.linformer_k, "a decoder does not see later tokens: set linformer_k=0"
        options = task.cfg or task.args  # a task without a dataclass has only `args`
        if getattr(options, "left_pad_source", False) or getattr(options, "left_pad_target", False):
            raise UserError(
                "Positions are counted from the left, so padding must be on the right. Pass --left-pad-source, which "
                "switches off fairseq's left padding (task.left_pad_source=false), and not --left-pad-target. "
                "Some tasks require --left-pad-source False."
            )
        source, target = task.max_positions()
        args.max_source_positions = args.max_source_positions or source
        args.max_target_positions = args.max_target_positions or target
        tables = _embeddings(args, task.source_dictionary, task.target_dictionary)
        encoder = Seq2SeqEncoder(args, task.source_dictionary, tables[0])
        decoder = Seq2SeqDecoder(args, task.target_dictionary, *tables[1:])
        model = cls(encoder, decoder)
        model.args = args
        for module in model.modules():
            if isinstance(module, Attention):  # as in fairseq; feed-forward parts as in PyTorch
                nn.init.xavier_uniform_(module.qkv_proj.weight)
                nn.init.xavier_uniform_(module.out_proj.weight)
                nn.init.zeros_(module.out_proj.bias)
        return model

    @classmethod
    def from_pretrained(
        cls, model_name_or_path: str, checkpoint_file: str = "model.pt", data_name_or_path: str = ".", **kwargs: Any
    ) -> GeneratorHubInterface:
        """Load a checkpoint of this plugin like fairseq, but read its file without running code.

        Text is encoded by the SentencePiece model in the folder of the data, if it exists and `bpe` is not passed.
        """
        folder = Path(model_name_or_path)
        data = data_folder(folder, data_name_or_path)
        if "bpe" not in kwargs and (data / MODEL).is_file():
            kwargs.update(bpe="sentencepiece", sentencepiece_model=str(data / MODEL))
        install()  # corrects how fairseq reads the file and pads texts
        return super().from_pretrained(str(folder), checkpoint_file, str(data_name_or_path), **kwargs)

    def max_positions(self) -> tuple[float, float]:
        """Return the longest source and target; the tables of the cross-attention limit the source too."""
        source, target = super().max_positions()
        return min(source, self.decoder.cross_position.num_keys or source), target


def _embeddings(args: Namespace, source: Dictionary, target: Dictionary) -> tuple[nn.Embedding, ...]:
    """Build the tables of source, target and output, some of them the same."""

    def table(dictionary: Dictionary) -> nn.Embedding:
        return Embedding(len(dictionary), args.encoder_embed_dim, dictionary.pad())

    first = table(source)
    if args.share_all_embeddings:
        assert source == target, "share_all_embeddings needs one dictionary of both languages"
        return first, first, first
    second = table(target)
    return first, second, second if args.share_decoder_input_output_embed else table(target)


register("seq2seq", Seq2SeqConfig, Seq2SeqModel)
