"""The metric of the best checkpoint, which fairseq looks up after the first validation: hours later a `KeyError`."""

import itertools

from fairseq import checkpoint_utils
from fairseq.logging import metrics
from fairseq.trainer import Trainer

from tupe.errors import UserError
from tupe.fairseq_patches.names import nearest
from tupe.fairseq_patches.patching import patches
from tupe.fairseq_patches.resume import trainer_in_scope

_EXAMPLES = 2


@patches(checkpoint_utils, "load_checkpoint", "cfg trainer", only_for=trainer_in_scope)
def metric_is_logged(original):
    """Asks for the metric before the first update."""

    def load_checkpoint(cfg, trainer, **kwargs):
        loaded = original(cfg, trainer, **kwargs)
        refuse_unknown_metric(trainer)
        return loaded

    return load_checkpoint


def refuse_unknown_metric(trainer: Trainer) -> None:
    """Raise a `UserError` if validation does not log `best_checkpoint_metric`, by validating on two examples.

    Every criterion logs the loss, so nothing is computed for that, the default.
    """
    cfg, task = trainer.cfg, trainer.task
    metric = cfg.checkpoint.best_checkpoint_metric
    if metric == "loss" or cfg.dataset.disable_validation:
        return
    dataset = task.dataset(cfg.dataset.valid_subset.split(",")[0])
    examples = [dataset[index] for index in range(min(_EXAMPLES, len(dataset)))]
    with metrics.aggregate(new_root=True) as logged:
        trainer.valid_step(dataset.collater(examples))
    names = list(itertools.chain(logged.keys(), ["num_updates"]))
    # BLEU is logged once a translation has a word: until then there are _bleu_sys_len and others
    if metric not in names and not any(name.startswith(f"_{metric}_") for name in names):
        shown = sorted(name for name in names if not name.startswith("_"))
        raise UserError(
            f"checkpoint.best_checkpoint_metric is {metric}{nearest(metric, shown)}, but validation logs "
            f"{', '.join(shown)}: choose one of these."
        )
