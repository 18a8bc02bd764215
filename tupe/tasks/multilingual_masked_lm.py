"""Masked language modelling over many languages: each epoch draws from each by its smoothed frequency."""

import logging
from dataclasses import dataclass, field
from pathlib import Path
from typing import Optional

import numpy as np
from fairseq import utils
from fairseq.data import (
    ConcatDataset,
    FairseqDataset,
    IdDataset,
    MaskTokensDataset,
    NumelDataset,
    NumSamplesDataset,
    PrependTokenDataset,
    ResamplingDataset,
    RightPadDataset,
    SortDataset,
    TokenBlockDataset,
    data_utils,
)
from fairseq.dataclass import FairseqDataclass
from fairseq.tasks import register_task
from fairseq.tasks.language_modeling import SAMPLE_BREAK_MODE_CHOICES
from fairseq.tasks.masked_lm import MaskedLMTask
from omegaconf import II, MISSING

from tupe.data.batches import MaskedBatches
from tupe.data.binary import check_indexed
from tupe.data.languages import languages, probabilities
from tupe.errors import UserError
from tupe.fairseq_patches.task import TupeTask

logger = logging.getLogger(__name__)

_MADE_BY = "tupe prepare-corpus"


@dataclass
class MultilingualMaskedLMConfig(FairseqDataclass):
    data: str = field(
        default=MISSING, metadata={"help": "folder with dict.txt and a folder for each language; shards as a:b:c"}
    )
    langs: Optional[str] = field(default=None, metadata={"help": "train on these alone, as de,en (default: all)"})
    multilang_sampling_alpha: float = field(
        default=0.7,
        metadata={"help": "a language is drawn by its number of blocks to this power (1: by size)"},
    )
    sample_break_mode: SAMPLE_BREAK_MODE_CHOICES = field(
        default="complete", metadata={"help": "how blocks are filled, as for masked_lm; never across languages"}
    )
    tokens_per_sample: int = field(default=512, metadata={"help": "tokens of a block at most, <s> included"})
    mask_prob: float = field(default=0.15, metadata={"help": "probability that a token is predicted"})
    leave_unmasked_prob: float = field(default=0.1, metadata={"help": "of these, share that is left as it is"})
    random_token_prob: float = field(default=0.1, metadata={"help": "of these, share that becomes a random token"})
    train_subset: str = II("dataset.train_subset")
    seed: int = II("common.seed")


@register_task("tupe_multilingual_masked_lm", dataclass=MultilingualMaskedLMConfig)
class MultilingualMaskedLMTask(TupeTask, MaskedLMTask):
    """fairseq's `multilingual_masked_lm` rebuilt from the same parts, since fairseq's has no dataclass for Hydra.

    Each epoch draws by (seed, epoch) alone, so a resumed run draws the same. It draws with replacement from a language
    whose probability is above its share of the blocks, and without from the others. Unlike fairseq's task, it masks a
    block differently each time, and sorts blocks by the lengths of those that were drawn.
    """

    cfg: MultilingualMaskedLMConfig

    def languages(self, epoch: int = 1) -> list[str]:
        """Return the languages of an epoch's folder, or those of `langs`.

        Raises:
            UserError: if a language has no data.
        """
        return languages(self._folder(epoch), self.cfg.langs)

    def load_dataset(self, split: str, epoch: int = 1, combine: bool = False, **kwargs: object) -> None:
        """Load a split of all languages, such as `valid` and with it the splits `valid_de` of each; or one of these.

        Raises:
            UserError: if a language lacks the split, or if there is no such language.
        """
        names = self.languages(epoch)
        language = max((name for name in names if split.endswith(f"_{name}")), key=len, default=None)
        if language:
            blocks = self._blocks(split[: -len(language) - 1], language, epoch)
        else:
            each = [self._blocks(split, language, epoch) for language in names]
            if split == self.cfg.train_subset:
                each = self._drawn(dict(zip(names, each)), epoch)
            else:
                for language in names:
                    self.load_dataset(f"{split}_{language}", epoch)
            blocks = ConcatDataset(each)
        self.datasets[split] = self._masked(blocks, epoch)

    def _folder(self, epoch: int) -> Path:
        folders = utils.split_paths(self.cfg.data)
        return Path(folders[(epoch - 1) % len(folders)])  # one folder an epoch, in turn

    def _blocks(self, split: str, language: str, epoch: int) -> FairseqDataset:
        path = self._folder(epoch) / language / split
        check_indexed(path, _MADE_BY)
        if not path.with_suffix(".bin").stat().st_size:
            raise UserError(f"{path}.bin is empty: the language {language} has no text for '{split}'.")
        dictionary = self.source_dictionary
        part = data_utils.load_indexed_dataset(str(path), dictionary)
        blocks = TokenBlockDataset(
            part,
            part.sizes,
            self.cfg.tokens_per_sample - 1,  # one less for <s>
            pad=dictionary.pad(),
            eos=dictionary.eos(),
            break_mode=self.cfg.sample_break_mode,
        )
        return PrependTokenDataset(blocks, dictionary.bos())

    def _drawn(self, each: dict[str, FairseqDataset], epoch: int) -> list[FairseqDataset]:
        sizes = np.array([len(blocks) for blocks in each.values()])
        drawn = probabilities(sizes, self.cfg.multilang_sampling_alpha)
        ratios = drawn * sizes.sum() / sizes
        for (language, blocks), probability, ratio in zip(each.items(), drawn, ratios):
            logger.info(
                f"epoch {epoch}, {language}: {len(blocks):,} blocks, drawn with probability {probability:.4f}, "
                f"{ratio:.3g} times each"
            )
        return [
            blocks  # all of them, once
            if np.isclose(ratio, 1)
            else ResamplingDataset(blocks, size_ratio=ratio, seed=self.cfg.seed, epoch=epoch, replace=bool(ratio > 1))
            for blocks, ratio in zip(each.values(), ratios)
        ]

    def _masked(self, blocks: FairseqDataset, epoch: int) -> FairseqDataset:
        cfg, pad = self.cfg, self.source_dictionary.pad()
        source, target = MaskTokensDataset.apply_mask(
            blocks,
            self.source_dictionary,
            pad_idx=pad,
            mask_idx=self.mask_idx,
            seed=cfg.seed,
            mask_prob=cfg.mask_prob,
            leave_unmasked_prob=cfg.leave_unmasked_prob,
            random_token_prob=cfg.random_token_prob,
        )
        sample = {
            "id": IdDataset(),
            "net_input": {
                "src_tokens": RightPadDataset(source, pad_idx=pad),
                "src_lengths": NumelDataset(source, reduce=False),
            },
            "target": RightPadDataset(target, pad_idx=pad),
            "nsentences": NumSamplesDataset(),
            "ntokens": NumelDataset(source, reduce=True),
        }
        with data_utils.numpy_seed(cfg.seed, epoch):
            shuffle = np.random.permutation(len(source))
        batches = MaskedBatches(sample, [source.sizes], self.source_dictionary)
        return SortDataset(batches, sort_order=[shuffle, np.asarray(source.sizes)])

    def has_sharded_data(self, split: str) -> bool:
        """Return true for training, so that fairseq loads each epoch's own draw."""
        return split == self.cfg.train_subset or super().has_sharded_data(split)

    def can_reuse_epoch_itr(self, dataset: FairseqDataset) -> bool:
        """Return false, so that fairseq builds new batches for each epoch."""
        return False

    def before_training(self, cfg) -> None:
        """Add each language's splits to the validation of `valid`, whose loss chooses the best checkpoint."""
        subsets = cfg.dataset.valid_subset.split(",")
        wanted = [name for subset in subsets for name in (subset, *(f"{subset}_{one}" for one in self.languages()))]
        wanted = [name for name in dict.fromkeys(wanted) if name in subsets or name in self.datasets]
        cfg.dataset.valid_subset = ",".join(wanted)
