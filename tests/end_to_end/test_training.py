"""Every system by the real commands; a killed run goes on bit for bit; two processes are one; precisions."""

import os
import signal
import subprocess
import time

import pytest
import torch

from tests.commands import BIN, ROOT, hydra_train, run, train, train_log
from tupe.systems import SYSTEMS

TINY = ("--encoder-layers", 2, "--encoder-embed-dim", 32, "--encoder-ffn-embed-dim", 64, "--encoder-attention-heads", 2)
TINY_KEYS = [f"+model.{flag[2:].replace('-', '_')}={value}" for flag, value in zip(TINY[::2], TINY[1::2])]


@pytest.mark.parametrize("system", SYSTEMS)
def test_system_trains_resumes_and_finetunes(system, corpus, glue, tmp_path):
    """20 updates by `fairseq-train`, resumed by `fairseq-hydra-train` to 26, then a pair task by the GLUE script."""
    model = ("--arch", f"{system}_tiny", *TINY)
    first = train_log(train(corpus, tmp_path / "mlm", *model, "--max-update", 20).stdout)
    losses = [float(record["loss"]) for record in first["train_inner"]]
    assert len(losses) == 20
    assert sum(losses[-5:]) < sum(losses[:5]) - 1

    again = hydra_train(
        corpus, tmp_path / "mlm", f"model._name={system}_tiny", "optimization.max_update=26", *TINY_KEYS
    )
    resumed = train_log(again.stdout)
    assert [int(record["num_updates"]) for record in resumed["train_inner"]] == list(range(21, 27))
    assert float(resumed["valid"][-1]["valid_loss"]) < float(first["valid"][-1]["valid_loss"]) + 0.05

    done = run(
        "bash", "scripts/finetune_glue.sh", "MNLI", tmp_path / "mlm/checkpoint_best.pt", glue,
        "optimization.max_epoch=1", "dataset.num_workers=0", f"checkpoint.save_dir={tmp_path / 'mnli'}",
    )  # fmt: skip
    last = done.stdout.splitlines()[-1]
    assert last.startswith("MNLI: accuracy ")
    assert f"({system}_tiny, lr 3e-05, seed 1)" in last


def test_segments_are_added_in_finetuning(corpus, glue, tmp_path):
    """As DIET does: pre-trained without, fine-tuned with; the new parameters are named and learnt."""
    train(corpus, tmp_path / "mlm", "--arch", "diet_abs_tiny", *TINY, "--segment", "none", "--max-update", 6)
    done = run(
        "bash", "scripts/finetune_glue.sh", "MNLI", tmp_path / "mlm/checkpoint_best.pt", glue,
        "optimization.max_epoch=1", "dataset.num_workers=0", "model.segment=per_head",
        f"checkpoint.save_dir={tmp_path / 'mnli'}",
    )  # fmt: skip
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


@pytest.mark.parametrize("entry", ["fairseq-train", "fairseq-hydra-train"])
def test_killed_run_goes_on_bit_for_bit(entry, corpus, tmp_path):
    """SIGKILL in the middle; the resumed run ends with the parameters and optimizer state of an uninterrupted one."""

    def command(folder):
        if entry == "fairseq-train":
            return train, (
                corpus,
                folder,
                "--arch",
                "tupe_tiny",
                *TINY,
                "--max-update",
                40,
                "--save-interval-updates",
                5,
            )
        keys = ("model._name=tupe_tiny", *TINY_KEYS, "optimization.max_update=40", "checkpoint.save_interval_updates=5")
        return hydra_train, (corpus, folder, *keys)

    whole, arguments = command(tmp_path / "whole")
    whole(*arguments)

    killed = tmp_path / "killed"
    _, arguments = command(killed)
    with pytest.MonkeyPatch.context() as patch:
        started = []

        def start(command, **options):
            for unwanted in ("capture_output", "timeout", "check"):
                options.pop(unwanted)
            process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **options)
            started.append(process)
            deadline = time.monotonic() + 300
            while not list(killed.glob("checkpoint_*_10.pt")):
                assert process.poll() is None, "the run ended before it could be killed"
                assert time.monotonic() < deadline
                time.sleep(0.01)
            process.send_signal(signal.SIGKILL)
            process.wait()
            return subprocess.CompletedProcess(command, 0, "", "")

        patch.setattr(subprocess, "run", start)
        whole(*arguments)
    assert started[0].returncode == -signal.SIGKILL
    assert not list(killed.glob("checkpoint_*_40.pt"))
    whole(*arguments)

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
    for processes in (1, 2):
        keys = (*TINY_KEYS, "task.tokens_per_sample=32", "optimization.max_update=6", "optimization.lr=[0.003]",
                "lr_scheduler.warmup_updates=2", "common.log_format=json", "common.log_interval=1",
                "dataset.num_workers=0", "model.dropout=0", "model.attention_dropout=0")  # fmt: skip
        done = run(
            "bash", "scripts/pretrain.sh", data, *keys, f"checkpoint.save_dir={tmp_path / str(processes)}",
            GPUS="0", PROCESSES=str(processes), BATCH="8", BATCH_PER_GPU="4", MODEL="tupe_tiny",
            MASTER_PORT=str(20000 + os.getpid() % 10000),
        )  # fmt: skip
        assert f"{processes} x 4 sequences x {2 // processes} accumulated = 8 an update" in done.stdout
        log = train_log(done.stdout)
        losses.append([(float(r["loss"]), float(r["gnorm"])) for r in log["train_inner"]])
        assert float(log["valid"][-1]["valid_accuracy"]) >= 0
    assert len(losses[0]) == 6
    for one, two in zip(*losses):
        assert one == pytest.approx(two, abs=2e-3)


def test_single_fields_can_be_overridden(corpus, tmp_path):
    """A combination that no paper named is a command line away, and is what the checkpoint then holds."""
    flags = ("--relative", "clipped", "--relative-max-distance", 5, "--reset", "none", "--encoder-normalize-before")
    train(corpus, tmp_path, "--arch", "bert_a_tiny", *TINY, "--max-update", 6, *flags)
    state = torch.load(tmp_path / "checkpoint_last.pt", weights_only=True)
    table = state["model"]["encoder.sentence_encoder.position_bias.relative.weight"]
    assert table.shape == (11, 2)
    overrides = run("tupe", "model-overrides", tmp_path / "checkpoint_last.pt").stdout.split()
    assert {"+model.relative='clipped'", "+model.relative_max_distance=5"} <= set(overrides)


def test_installed_commands_are_the_tree_under_test():
    assert run("tupe", "user-dir").stdout.strip() == str(ROOT / "tupe")
    assert (BIN / "fairseq-train").exists()
