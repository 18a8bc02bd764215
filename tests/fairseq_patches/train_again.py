"""Train as `fairseq-train` does, in one process, each command twice; save what was logged, batched and learnt of each.

python -m tests.fairseq_patches.train_again WHEN COMMANDS OUT   # WHEN the plugin is imported: never, first or last
"""

import json
import sys


def main(when, commands, out):
    if when == "first":
        import tupe.fairseq_patches
        import tupe.models

        tupe.fairseq_patches.install()
    import fairseq_cli.train as train

    if when == "last":
        import tupe.models
    import torch
    from fairseq import checkpoint_utils
    from fairseq.trainer import Trainer

    seen, step = [], Trainer.train_step

    def record(self, samples, *args, **kwargs):
        log = step(self, samples, *args, **kwargs)
        ids = [sample["id"].tolist() for sample in samples]
        unused = self.cfg.distributed_training.find_unused_parameters
        seen.append([ids, str(log), unused, str(torch.get_rng_state().sum())])
        return log

    record.__wrapped__ = step
    Trainer.train_step = record
    results = []
    for command in json.loads(commands):
        sys.argv = ["fairseq-train", *command]
        for _ in range(2):
            seen.clear()
            vars(checkpoint_utils.save_checkpoint).pop("best", None)
            train.cli_main()
            folder = command[command.index("--save-dir") + 1]
            state = torch.load(folder + "/checkpoint_last.pt", weights_only=False)
            names = [sorted(state), sorted(state["extra_state"])]
            results.append([[list(seen), *names], [state["model"], state["last_optimizer_state"]]])
    torch.save(results, out)


if __name__ == "__main__":
    main(*sys.argv[1:])
