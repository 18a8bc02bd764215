"""Every kind of term by the real commands; a killed run goes on bit for bit; two processes are one; precisions."""

import pytest
import torch

from tests.commands import BIN, REAL, ROOT, finetune, hydra_train, run, train, train_log
from tests.models.small import KINDS

TINY = ("--encoder-layers", 2, "--encoder-embed-dim", 32, "--encoder-ffn-embed-dim", 64, "--encoder-attention-heads", 2)
#: Of what a resumed run reads only the parameters differ by kind, and fine-tuning reads those of each: so some resume.
RESUMED = KINDS[::5]
TINY_KEYS = [f"+model.{flag[2:].replace('-', '_')}={value}" for flag, value in zip(TINY[::2], TINY[1::2])]


@pytest.mark.parametrize("system", KINDS)
def test_system_trains_and_finetunes(system, corpus, glue, tmp_path):
    """20 updates by `fairseq-train`, then fine-tuned on a pair task, which reads all parameters but the head's."""
    model = ("--arch", f"{system}_tiny", *TINY)
    first = train_log(train(corpus, tmp_path / "mlm", *model, "--max-update", 20).stdout)
    losses = [float(record["loss"]) for record in first["train_inner"]]
    assert len(losses) == 20
    assert sum(losses[-5:]) < sum(losses[:5]) - 1
    if system in RESUMED:
        resumes_by_hydra(system, corpus, tmp_path / "mlm", float(first["valid"][-1]["valid_loss"]))

    save_dir = f"checkpoint.save_dir={tmp_path / 'mnli'}"
    done = finetune("MNLI", tmp_path / "mlm/checkpoint_best.pt", glue, "optimization.max_epoch=1", save_dir)
    last = done.stdout.splitlines()[-1]
    assert last.startswith("MNLI: accuracy ")
    state = torch.load(tmp_path / "mnli/checkpoint_best.pt", weights_only=True)
    assert state["cfg"]["model"]["_name"] == f"{system}_tiny"


def resumes_by_hydra(system, corpus, folder, loss):
    """`fairseq-hydra-train` goes on to 26 updates from where `fairseq-train` ended."""
    again = hydra_train(corpus, folder, f"model._name={system}_tiny", "optimization.max_update=26", *TINY_KEYS)
    resumed = train_log(again.stdout)
    assert [int(record["num_updates"]) for record in resumed["train_inner"]] == list(range(21, 27))
    assert float(resumed["valid"][-1]["valid_loss"]) < loss + 0.05


def test_segments_are_added_in_finetuning(corpus, glue, tmp_path):
    """As DIET does: pre-trained without, fine-tuned with; the new parameters are named and learnt."""
    train(corpus, tmp_path / "mlm", "--arch", "diet_abs_tiny", *TINY, "--segment", "none", "--max-update", 6)
    keys = ("optimization.max_epoch=1", "+model.segment=per_head", f"checkpoint.save_dir={tmp_path / 'mnli'}")
    done = finetune("MNLI", tmp_path / "mlm/checkpoint_best.pt", glue, *keys)
    name = "encoder.sentence_encoder.segment_attention.weight"
    assert f"{name} [1, 2, 2, 2] is new" in done.stdout
    state = torch.load(tmp_path / "mnli/checkpoint_best.pt", weights_only=True)
    assert state["model"][name].abs().max() > 0


def test_single_fields_can_be_overridden(corpus, tmp_path):
    """A combination that no paper named is a command line away, and is what the checkpoint then holds."""
    flags = ("--relative", "clipped", "--relative-max-distance", 5, "--reset", "none", "--encoder-normalize-before")
    train(corpus, tmp_path, "--arch", "bert_a_tiny", *TINY, "--max-update", 6, *flags)
    state = torch.load(tmp_path / "checkpoint_last.pt", weights_only=True)
    table = state["model"]["encoder.sentence_encoder.position_bias.relative.weight"]
    assert table.shape == (11, 2)
    assert state["cfg"]["model"]["relative"] == "clipped"


def test_installed_commands_are_the_tree_under_test():
    assert run("tupe", "user-dir", PATH=REAL).stdout.strip() == str(ROOT / "tupe")
    assert (BIN / "fairseq-train").exists()
