"""Train `tupe_tiny` for a few updates by fairseq's trainer."""

import math
import tempfile
from pathlib import Path
from typing import Any

import torch

OPTIONS = (
    "--task masked_lm --criterion tupe_masked_lm --arch tupe_tiny --optimizer adam --lr 0.001 --lr-scheduler fixed "
    "--batch-size 4 --tokens-per-sample 64 --max-positions 64 --distributed-world-size 1"
)


def step(precision: str) -> str:
    """Do four updates with an option of fairseq-train, such as `--bf16`. Return the loss and the gradient's norm.

    Raises:
        ArithmeticError: the loss or its gradient is not finite.
    """
    import fairseq_cli.train  # before the plugin, as in fairseq's commands
    from fairseq import options, tasks
    from fairseq.dataclass.utils import convert_namespace_to_omegaconf
    from fairseq.logging import metrics

    import tupe.plugin  # noqa: F401

    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "dict.txt").write_text("".join(f"word{i} 1\n" for i in range(40)), encoding="utf-8")
        arguments = [folder, *OPTIONS.split(), precision]
        cfg = convert_namespace_to_omegaconf(options.parse_args_and_arch(options.get_training_parser(), arguments))
        task = tasks.setup_task(cfg.task)
        trainer = fairseq_cli.train.Trainer(cfg, task, task.build_model(cfg.model), task.build_criterion(cfg.criterion))
        trainer.lr_step_begin_epoch(1)
        for _ in range(4):  # a loss scaler may skip the first ones
            with metrics.aggregate(new_root=True) as meters:
                trainer.train_step([sample(task.source_dictionary)])
    loss, gradient = (float(meters.get_smoothed_values().get(name, math.nan)) for name in ("loss", "gnorm"))
    if not math.isfinite(loss + gradient):
        raise ArithmeticError(f"loss {loss}, gradient {gradient}")
    return f"loss {loss:.2f}, gradient {gradient:.2f}"


def sample(dictionary: Any) -> dict[str, Any]:
    """Return a batch of four sequences with padding and masked tokens."""
    generator = torch.Generator().manual_seed(0)
    tokens = torch.randint(dictionary.nspecial, dictionary.nspecial + 40, (4, 64), generator=generator)
    tokens[:, 0] = dictionary.bos()
    for row, length in enumerate((64, 50, 33, 7)):
        tokens[row, length - 1] = dictionary.eos()
        tokens[row, length:] = dictionary.pad()
    chosen = (torch.rand(tokens.shape, generator=generator) < 0.3) & (tokens >= dictionary.nspecial)
    lengths = tokens.ne(dictionary.pad()).sum(1)
    source = tokens.masked_fill(chosen, dictionary.index("<mask>"))
    return {
        "id": torch.arange(4),
        "nsentences": 4,
        "ntokens": int(lengths.sum()),
        "net_input": {"src_tokens": source, "src_lengths": lengths},
        "target": tokens.masked_fill(~chosen, dictionary.pad()),
    }
