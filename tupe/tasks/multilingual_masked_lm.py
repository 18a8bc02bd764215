"""Masked language modeling over many languages: each epoch samples every language by its smoothed frequency."""

import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Optional

import numpy as np
from fairseq import utils
from fairseq.data import ConcatDataset, FairseqDataset, ResamplingDataset, data_utils
from fairseq.tasks import register_task
from fairseq.tasks.language_modeling import SAMPLE_BREAK_MODE_CHOICES
from fairseq.tasks.masked_lm import MaskedLMConfig, MaskedLMTask
from omegaconf import II, MISSING

from tupe.data.languages import languages, probabilities
from tupe.systems import setting

logger = logging.getLogger(__name__)


@dataclass
class MultilingualMaskedLMConfig(MaskedLMConfig):
    data: str = setting(MISSING, "folder with dict.txt and a folder for each language; shards as a:b:c")
    langs: Optional[str] = setting(None, "languages to train on, such as de,en (default: all)")
    multilang_sampling_alpha: float = setting(
        0.7, "exponent of a language's number of blocks in its sampling probability (1: by size)"
    )
    sample_break_mode: SAMPLE_BREAK_MODE_CHOICES = setting(
        "complete", "how blocks are filled, as for masked_lm; never across languages"
    )
    tokens_per_sample: int = setting(512, "maximum number of tokens of a block, <s> included")
    train_subset: str = II("dataset.train_subset")


@register_task("tupe_multilingual_masked_lm", dataclass=MultilingualMaskedLMConfig)
class MultilingualMaskedLMTask(MaskedLMTask):
    """fairseq's `masked_lm` for several languages; fairseq's own `multilingual_masked_lm` has no dataclass for Hydra.

    The samples of an epoch depend only on (seed, epoch), so a resumed run draws the same. A language whose probability
    is above its fraction of the blocks is sampled with replacement, the others without. Unlike fairseq's task, this
    one masks a block differently each time it is drawn, and sorts the drawn blocks by their own lengths.
    """

    cfg: MultilingualMaskedLMConfig

    def languages(self, epoch: int = 1) -> list[str]:
        """Return the languages of an epoch's folder, or those of `langs`."""
        folders = utils.split_paths(self.cfg.data)
        return languages(Path(folders[(epoch - 1) % len(folders)]), self.cfg.langs)  # one folder per epoch, in turn

    def load_dataset(self, split: str, epoch: int = 1, combine: bool = False, **kwargs: object) -> None:
        """Load a split of all languages (for `valid` also each language's, such as `valid_de`), or of one language."""
        super().load_dataset(split, epoch)
        dataset = self.datasets[split]
        with data_utils.numpy_seed(self.cfg.seed, epoch):  # blocks of one length are in another order in each epoch
            dataset.sort_order[0] = np.random.permutation(len(dataset))

    def _load_dataset_split(self, split: str, epoch: int, combine: bool) -> FairseqDataset:
        """Return the blocks of a split, before masking."""
        names = self.languages(epoch)
        language = max((name for name in names if split.endswith(f"_{name}")), key=len, default=None)
        if language:
            return self._blocks(split[: -len(language) - 1], language, epoch)
        each = [self._blocks(split, language, epoch) for language in names]
        if split == self.cfg.train_subset:
            each = self._drawn(dict(zip(names, each)), epoch)
        else:
            for language in names:
                self.load_dataset(f"{split}_{language}", epoch)
        return ConcatDataset(each)

    def _blocks(self, split: str, language: str, epoch: int) -> FairseqDataset:
        return super()._load_dataset_split(f"{language}/{split}", epoch, combine=False)

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
