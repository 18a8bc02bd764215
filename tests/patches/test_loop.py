"""Signals and minutes: what is saved, how the command ends, and that it goes on from there bit for bit."""

import os
import signal
import subprocess
import time
from types import SimpleNamespace

import pytest
import torch
from fairseq.trainer import Trainer
from omegaconf import OmegaConf

from tests.commands import BIN, ROOT, environment, train_command
from tupe.patches import loop

NUMBERS = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1)


@pytest.fixture
def after(monkeypatch):
    """`after(update, act)`: calls `act` in an update, once."""

    def after(update, act):
        train_step, acts = Trainer.train_step, [act]

        def step(self, samples, *args, **kwargs):
            log = train_step(self, samples, *args, **kwargs)
            if self.get_num_updates() == update and acts:
                acts.pop()()
            return log

        monkeypatch.setattr(Trainer, "train_step", step)

    return after


def receive(number):
    """Sends this process a signal, and waits until it is heard."""
    os.kill(os.getpid(), number)
    deadline = time.monotonic() + 10
    while not loop._received and time.monotonic() < deadline:
        time.sleep(0.001)


def last(folder):
    return torch.load(folder / "checkpoint_last.pt", weights_only=True)


def updates(folder):
    return last(folder)["optimizer_history"][-1]["num_updates"]


@pytest.mark.parametrize("number", NUMBERS)
def test_a_signal_finishes_the_update_and_saves(number, train, after, tmp_path, caplog):
    caplog.set_level("INFO")
    before = [signal.getsignal(number) for number in NUMBERS]
    after(2, lambda: receive(number))
    with pytest.raises(SystemExit) as ended:
        train(tmp_path, "--dropout", 0.1, "--max-update", 5)
    assert ended.value.code == 128 + number
    assert f"stopped by {number.name} after update 2: the same command resumes" in caplog.text
    assert updates(tmp_path) == 2
    assert [signal.getsignal(number) for number in NUMBERS] == before
    train(tmp_path, "--dropout", 0.1, "--max-update", 5)
    train(tmp_path / "whole", "--dropout", 0.1, "--max-update", 5)
    for part in ("model", "last_optimizer_state"):
        torch.testing.assert_close(last(tmp_path)[part], last(tmp_path / "whole")[part], rtol=0, atol=0)


def test_a_signal_between_two_epochs(train, tmp_path, monkeypatch):
    """The run ends after the next update. A later run in the same process does not see the signal."""
    lr_step = Trainer.lr_step

    def step(self, epoch, *args, **kwargs):
        if self.get_num_updates() and not loop._received:
            receive(signal.SIGTERM)
        return lr_step(self, epoch, *args, **kwargs)

    with monkeypatch.context() as patch, pytest.raises(SystemExit):
        patch.setattr(Trainer, "lr_step", step)
        train(tmp_path, "--max-update", 100, "--max-epoch", 3, "--batch-size", 120)
    assert last(tmp_path)["extra_state"]["train_iterator"]["epoch"] == 2
    assert not loop._received


def kill():
    raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("flags", "update"),
    [
        (("--max-update", 3), 3),
        (("--max-epoch", 1, "--max-update", 100), 44),
        (("--validate-interval-updates", 2, "--max-update", 5), 2),
    ],
    ids=["the last", "of the last epoch", "on the way"],
)
def test_a_validation_that_a_signal_ends_is_done_by_the_next_start(flags, update, train, tmp_path, monkeypatch, caplog):
    """What was learnt is saved at once."""
    caplog.set_level("INFO", "valid")
    valid_step, validated, signals = Trainer.valid_step, [], [signal.SIGUSR1]

    def step(self, *args, **kwargs):
        validated.append(self.get_num_updates())
        if signals:
            assert not (tmp_path / "checkpoint_last.pt").exists()
            receive(signals.pop())
        return valid_step(self, *args, **kwargs)

    monkeypatch.setattr(Trainer, "valid_step", step)
    with pytest.raises(SystemExit) as ended:
        train(tmp_path, "--dropout", 0.1, *flags)
    assert ended.value.code == 128 + signal.SIGUSR1
    assert validated == [update] and updates(tmp_path) == update
    assert not (tmp_path / "checkpoint_best.pt").exists()
    validated.clear()
    train(tmp_path, "--dropout", 0.1, *flags)
    resumed, validated[:] = list(validated), []
    train(tmp_path / "whole", "--dropout", 0.1, *flags)
    assert resumed == validated
    epochs = [record.getMessage()[:9] for record in caplog.records if record.name == "valid"]
    assert epochs == 2 * epochs[: len(epochs) // 2] != []
    for name in ("last", "best"):
        ends = [
            torch.load(folder / f"checkpoint_{name}.pt", weights_only=True) for folder in (tmp_path, tmp_path / "whole")
        ]
        for part in ("model", "last_optimizer_state"):
            torch.testing.assert_close(*(end[part] for end in ends), rtol=0, atol=0)
        for part in ("best", "val_loss", "train_iterator"):
            assert ends[0]["extra_state"][part] == ends[1]["extra_state"][part]
    validated.clear()
    train(tmp_path, "--dropout", 0.1, *flags)  # once
    assert not validated


def test_a_validation_is_due_after_whole_intervals_of_epochs():
    parts = {"dataset": {"validate_interval": 2, "validate_after_updates": 0, "validate_interval_updates": 0}}
    parts["dataset"]["disable_validation"], parts["checkpoint"] = False, {"reset_dataloader": False}
    cfg = OmegaConf.create({**parts, "optimization": {"max_update": 0}})
    trainer = SimpleNamespace(cfg=cfg, get_num_updates=lambda: 5)
    states = ({"val_loss": None, "train_iterator": {"epoch": e, "iterations_in_epoch": 0}} for e in (2, 3))
    assert [loop.validation_due(trainer, state) for state in states] == [False, True]


@pytest.mark.parametrize("patience", [0, 1])
def test_the_schedule_hears_of_the_epoch_that_ended_before_the_run_goes_on(patience, train, after, tmp_path):
    """No epoch is much better than the first, so the rate falls after the second and the third, or after that alone."""
    flags = ("--lr-scheduler", "reduce_lr_on_plateau", "--lr-shrink", 0.1, "--lr-threshold", 0.9,
             "--lr-patience", patience, "--max-update", 100, "--max-epoch", 4, "--batch-size", 120)  # fmt: skip
    train(tmp_path / "whole", *flags)
    whole = last(tmp_path / "whole")
    assert whole["last_optimizer_state"]["param_groups"][0]["lr"] == pytest.approx(0.001 * 0.1 ** (2 - patience))
    for epoch in (1, 2, 3):
        after(updates(tmp_path / "whole") // 4 * epoch + 1, kill)
        with pytest.raises(KeyboardInterrupt):
            train(tmp_path, *flags)
    train(tmp_path, *flags)
    torch.testing.assert_close(last(tmp_path)["model"], whole["model"], rtol=0, atol=0)


def test_patience_counts_on(train, after, tmp_path):
    """Nothing is learnt, so no validation is better than the first."""
    flags = ("--lr", 0, "--patience", 3, "--max-update", 100, "--batch-size", 120)
    train(tmp_path / "whole", *flags)
    whole = updates(tmp_path / "whole")
    for update in (whole // 2 + 1, whole - 1):  # in the third of four epochs, and in the last
        after(update, lambda: receive(signal.SIGTERM))
        with pytest.raises(SystemExit):
            train(tmp_path, *flags)
    for _ in range(2):  # the second has nothing to do
        train(tmp_path, *flags)
        assert updates(tmp_path) == whole


def test_minutes(train, after, tmp_path, monkeypatch):
    """Less than a millisecond: every update is saved, without validation. A run that is killed in one resumes."""
    seen = []
    after(2, lambda: seen.append(updates(tmp_path)))
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(Trainer, "valid_step", lambda *args, **kwargs: kill())
        train(tmp_path, "--save-interval-minutes", 1e-6)
    train(tmp_path, "--save-interval-minutes", 1e-6)
    assert seen == [1] and last(tmp_path)["extra_state"]["val_loss"]


def test_several_signals_are_one_and_a_second_ctrl_c_ends_the_process():
    trainer = SimpleNamespace(cfg=SimpleNamespace(model=None), is_data_parallel_master=True, saved_at=0)
    loop.listen()
    try:
        for number in (signal.SIGTERM, signal.SIGTERM, signal.SIGUSR1):
            os.kill(os.getpid(), number)
            assert loop.local_stop_request(trainer) == [0, 1, 0, 0]
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
    finally:
        loop.restore()


def test_signals_to_every_process_leave_the_workers_that_load():
    """As SLURM and torchrun send them. A training without its workers could not finish the update."""
    loaders = [iter(torch.utils.data.DataLoader(range(100), num_workers=1)) for _ in range(2)]
    (one,), (other,) = (batches._workers for batches in loaders)
    assert [next(batches).item() for batches in loaders] == [0, 0]
    for number in NUMBERS:
        subprocess.run(["kill", f"-{number.value}", str(one.pid)], check=True)
    assert [batch.item() for batch in loaders[0]] == [*range(1, 100)]
    other.terminate()  # as a training that fails does when it exits
    other.join(60)
    assert other.exitcode == 0


def test_processes_stop_after_the_same_update(corpus, tmp_path):
    """One of two processes gets the signal; both save after the same update, and go on from it."""
    command = (
        BIN / "torchrun", "--standalone", "--nproc-per-node", 2, "--no-python",
        *train_command(corpus, tmp_path, "--arch", "tupe_tiny", "--encoder-layers", 1, "--encoder-embed-dim", 16,
                       "--encoder-attention-heads", 2, "--max-update", 100000, "--no-epoch-checkpoints",
                       "--disable-validation"),
    )  # fmt: skip
    log = tmp_path / "log"
    with log.open("wb") as out:
        launcher = subprocess.Popen(
            [str(part) for part in command], cwd=ROOT, env=environment(), stdout=out, stderr=subprocess.STDOUT
        )
        deadline = time.monotonic() + 300
        while '"num_updates": "3"' not in log.read_text():
            assert launcher.poll() is None and time.monotonic() < deadline, log.read_text()
            time.sleep(0.05)
        children = subprocess.run(["pgrep", "-P", str(launcher.pid)], capture_output=True, text=True).stdout.split()
        assert len(children) == 2
        os.kill(int(children[1]), signal.SIGUSR1)
        assert launcher.wait(timeout=120) != 0
    said = log.read_text()
    assert "stopped by SIGUSR1 after update" in said
    assert f"exitcode  : {128 + signal.SIGUSR1}" in said
    assert f"after update {updates(tmp_path)}:" in said
