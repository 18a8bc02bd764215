"""Every kind of term by the real commands; a killed run goes on bit for bit; two processes are one; precisions."""

import signal
import subprocess
import time

import pytest
import torch

from tests.commands import BIN, REAL, ROOT, finetune, hydra_command, hydra_train, run, train, train_log, tupe
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
    assert f"({system}_tiny, lr 3e-05, seed 1)" in last


def resumes_by_hydra(system, corpus, folder, loss):
    """`fairseq-hydra-train` goes on to 26 updates from where `fairseq-train` ended."""
    again = hydra_train(corpus, folder, f"model._name={system}_tiny", "optimization.max_update=26", *TINY_KEYS)
    resumed = train_log(again.stdout)
    assert [int(record["num_updates"]) for record in resumed["train_inner"]] == list(range(21, 27))
    assert float(resumed["valid"][-1]["valid_loss"]) < loss + 0.05


def test_segments_are_added_in_finetuning(corpus, glue, tmp_path):
    """As DIET does: pre-trained without, fine-tuned with; the new parameters are named and learnt."""
    train(corpus, tmp_path / "mlm", "--arch", "diet_abs_tiny", *TINY, "--segment", "none", "--max-update", 6)
    keys = ("optimization.max_epoch=1", "model.segment=per_head", f"checkpoint.save_dir={tmp_path / 'mnli'}")
    done = finetune("MNLI", tmp_path / "mlm/checkpoint_best.pt", glue, *keys)
    name = "encoder.sentence_encoder.segment_attention.weight"
    assert f"{name} [1, 2, 2, 2] is new" in done.stdout
    state = torch.load(tmp_path / "mnli/checkpoint_best.pt", weights_only=True)
    assert state["model"][name].abs().max() > 0


def tensors(value, name=""):
    """Every tensor in a checkpoint, by its path."""
    if isinstance(value, torch.Tensor):
        yield name, value
    elif isinstance(value, (dict, list, tuple)):
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            yield from tensors(item, f"{name}/{key}")


def test_killed_run_goes_on_bit_for_bit(corpus, tmp_path):
    """SIGKILL in the middle; the resumed run ends with the parameters and optimizer state of an uninterrupted one.

    Runs of `fairseq-train` that go on are those of tests/fairseq_patches/test_epochs.py.
    """

    def command(folder):
        keys = ("model._name=tupe_tiny", *TINY_KEYS, "optimization.max_update=40", "checkpoint.save_interval_updates=5")
        return hydra_command(corpus, folder, *keys)

    run(*command(tmp_path / "whole"))

    killed = tmp_path / "killed"
    process = subprocess.Popen(
        [BIN / "fairseq-hydra-train", *map(str, command(killed)[1:])],
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    deadline = time.monotonic() + 300
    while not list(killed.glob("checkpoint_*_10.pt")):
        assert process.poll() is None, "the run ended before it could be killed"
        assert time.monotonic() < deadline
        time.sleep(0.01)
    process.kill()
    assert process.wait() == -signal.SIGKILL
    assert not list(killed.glob("checkpoint_*_40.pt"))
    run(*command(killed))

    states = [torch.load(f / "checkpoint_last.pt", weights_only=True) for f in (tmp_path / "whole", killed)]
    assert states[1]["optimizer_history"][-1]["num_updates"] == 40
    parts = [{**dict(tensors(s["model"])), **dict(tensors(s["last_optimizer_state"], "optimizer"))} for s in states]
    assert parts[0].keys() == parts[1].keys()
    different = [name for name, tensor in parts[0].items() if not torch.equal(tensor, parts[1][name])]
    assert not different
    assert states[0]["extra_state"]["train_iterator"] == states[1]["extra_state"]["train_iterator"]


def test_two_processes_are_one_with_the_same_batch(corpus, tmp_path):
    """`scripts/pretrain.sh` keeps the effective batch: the losses of 2 x 4 x 1 and of 1 x 4 x 2 sequences agree."""
    losses = []
    data = tmp_path / "it's (data), é=[1]"
    data.symlink_to(corpus)
    keys = (*TINY_KEYS, "optimization.max_update=6", "lr_scheduler.warmup_updates=2", "model.dropout=0",
            "model.attention_dropout=0")  # fmt: skip
    more = ("task.tokens_per_sample=32", "optimization.lr=[0.003]", "common.log_format=json", "common.log_interval=1",
            "dataset.num_workers=0", f"checkpoint.save_dir={tmp_path / '2'}")  # fmt: skip
    two = run(
        "bash", "scripts/pretrain.sh", data, *keys, *more, GPUS="0", PROCESSES="2", BATCH="8", BATCH_PER_GPU="4",
        MODEL="tupe_tiny",
    )  # fmt: skip
    assert "2 x 4 sequences x 1 accumulated = 8 an update" in two.stdout
    one = ("model._name=tupe_tiny", "dataset.batch_size=4", "optimization.update_freq=[2]")
    for done in (hydra_train(corpus, tmp_path / "1", *one, *keys), two):
        log = train_log(done.stdout)
        losses.append([(float(r["loss"]), float(r["gnorm"])) for r in log["train_inner"]])
        assert float(log["valid"][-1]["valid_accuracy"]) >= 0
    assert len(losses[0]) == 6
    for one, two in zip(*losses):
        assert one == pytest.approx(two, abs=2e-3)


def test_single_fields_can_be_overridden(corpus, tmp_path, capsys):
    """A combination that no paper named is a command line away, and is what the checkpoint then holds."""
    flags = ("--relative", "clipped", "--relative-max-distance", 5, "--reset", "none", "--encoder-normalize-before")
    train(corpus, tmp_path, "--arch", "bert_a_tiny", *TINY, "--max-update", 6, *flags)
    state = torch.load(tmp_path / "checkpoint_last.pt", weights_only=True)
    table = state["model"]["encoder.sentence_encoder.position_bias.relative.weight"]
    assert table.shape == (11, 2)
    assert tupe("model-overrides", tmp_path / "checkpoint_last.pt") == 0
    overrides = capsys.readouterr().out.split()
    assert {"+model.relative='clipped'", "+model.relative_max_distance=5"} <= set(overrides)


def test_installed_commands_are_the_tree_under_test():
    assert run("tupe", "user-dir", PATH=REAL).stdout.strip() == str(ROOT / "tupe")
    assert (BIN / "fairseq-train").exists()
