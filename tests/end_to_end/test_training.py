"""Every kind of term by the real commands, trained and fine-tuned."""

import pytest
import torch

from tests.commands import BIN, REAL, ROOT, finetune, run, train, train_log
from tests.models.small import KINDS

TINY = ("--encoder-layers", 2, "--encoder-embed-dim", 32, "--encoder-ffn-embed-dim", 64, "--encoder-attention-heads", 2)


@pytest.mark.parametrize("system", KINDS)
def test_system_trains_and_finetunes(system, corpus, glue, tmp_path):
    """20 updates by `fairseq-train`, then fine-tuned on a pair task, which reads all parameters but the head's."""
    model = ("--arch", f"{system}_tiny", *TINY)
    first = train_log(train(corpus, tmp_path / "mlm", *model, "--max-update", 20).stdout)
    losses = [float(record["loss"]) for record in first["train_inner"]]
    assert len(losses) == 20
    assert sum(losses[-5:]) < sum(losses[:5]) - 1

    save_dir = f"checkpoint.save_dir={tmp_path / 'mnli'}"
    done = finetune("MNLI", tmp_path / "mlm/checkpoint_best.pt", glue, "optimization.max_epoch=1", save_dir)
    last = done.stdout.splitlines()[-1]
    assert last.startswith("MNLI: accuracy ")
    state = torch.load(tmp_path / "mnli/checkpoint_best.pt", weights_only=True)
    assert state["cfg"]["model"]["_name"] == f"{system}_tiny"


def test_installed_commands_are_the_tree_under_test():
    assert run("tupe", "user-dir", PATH=REAL).stdout.strip() == str(ROOT / "tupe")
    assert (BIN / "fairseq-train").exists()
