"""fp16 or bf16: what is chosen on which GPUs, what a folder keeps, and what a flag does."""

import os
import shutil
import sys
from pathlib import Path

import pytest
import torch
from hydra.core.override_parser.overrides_parser import OverridesParser

from tests.commands import ROOT
from tests.samples import write_checkpoint, write_task
from tupe.cli.main import main
from tupe.cores import PRECISION
from tupe.errors import UserError
from tupe.experiments import finetune
from tupe.plan.precision import choose

V100, T4, A100, H100 = (7, 0), (7, 5), (8, 0), (9, 0)


@pytest.fixture
def gpus(monkeypatch):
    """`gpus((8, 0), ...)`: what PyTorch then says of this machine."""

    def pretend(*capabilities):
        monkeypatch.setattr(torch.cuda, "device_count", lambda: len(capabilities))
        monkeypatch.setattr(torch.cuda, "get_device_capability", lambda gpu: capabilities[gpu])

    return pretend


@pytest.mark.parametrize(
    ("capabilities", "name"),
    [([A100], "bf16"), ([H100] * 8, "bf16"), ([(12, 0)], "bf16"), ([V100], "fp16"), ([T4], "fp16"), ([], "fp16"),
     ([A100, V100], "fp16")],
)  # fmt: skip
def test_what_the_gpus_have(capabilities, name, gpus, tmp_path):
    gpus(*capabilities)
    choice = choose(tmp_path, ["optimization.lr=[1e-4]"])
    assert choice.name == name
    assert choice.overrides == (["common.fp16=false", "common.bf16=true"] if name == "bf16" else [])


@pytest.mark.parametrize(
    ("given", "added", "name"),
    [
        ("common.fp16=true", [], "fp16"),
        ("++common.fp16=True", [], "fp16"),
        ("common.bf16=y", ["common.fp16=false"], "bf16"),
        ("common.bf16=true", ["common.fp16=false"], "bf16"),
        ("common.bf16=true common.fp16=false", [], "bf16"),
        ("common.bf16=false", [], "fp16"),
        ("common.memory_efficient_bf16=true", ["common.fp16=false"], "bf16"),
        ("common.memory_efficient_fp16=true", [], "fp16"),
        ("common.memory_efficient_fp16=true common.fp16=false", [], "fp16"),
        ("common.amp=true", ["common.fp16=false"], "amp"),
        ("common.fp16=false", [], "fp32"),
        ("common.fp16=true common.fp16=false", [], "fp32"),
    ],
)
def test_a_flag_wins(given, added, name, gpus, tmp_path):
    gpus(H100)
    (tmp_path / PRECISION).write_text("fp16\n" if name == "bf16" else "bf16\n")
    choice = choose(tmp_path, given.split())
    assert (choice.overrides, choice.name) == (added, name)


def test_the_folder_keeps_it(gpus, tmp_path):
    """On other GPUs a training that resumes goes on as it began."""
    gpus(H100)
    choose(tmp_path, []).keep(tmp_path)
    gpus(V100)
    assert choose(tmp_path, []).name == "bf16"
    choose(tmp_path, ["common.fp16=true"]).keep(tmp_path)
    gpus(H100)
    assert choose(tmp_path, []).overrides == []
    assert choose(tmp_path, []).name == "fp16"


@pytest.mark.parametrize(("given", "kept"), [("common.fp16=false", []), ("common.amp=true", ["common.amp=true"])])
def test_the_folder_keeps_what_was_given(given, kept, gpus, tmp_path):
    gpus(H100)
    choose(tmp_path, [given]).keep(tmp_path)
    assert choose(tmp_path, []).overrides == ["common.fp16=false", *kept]


def test_a_run_of_before_goes_on_in_fp16(gpus, tmp_path):
    gpus(H100)
    (tmp_path / "checkpoint_last.pt").touch()
    assert choose(tmp_path, []).name == "fp16"


def test_a_configuration_of_32_bits_stays_so(gpus, tmp_path):
    gpus(H100)
    assert choose(tmp_path, [], fp16=False)[:2] == (None, {})
    assert choose(tmp_path, ["common.bf16=true"], fp16=False)[:2] == ("bf16", {})


def test_refuses_what_is_no_precision(gpus, tmp_path):
    gpus(H100)
    (tmp_path / PRECISION).write_text("int4\n")
    with pytest.raises(UserError, match=r"\.tupe\.precision holds 'int4', which is none of fp16, bf16, amp, fp32"):
        choose(tmp_path, [])


@pytest.fixture
def pretrain(corpus, tmp_path, monkeypatch, capsys):
    """`pretrain(flags, gpus=1)`: what scripts/pretrain.sh becomes, as Hydra reads its words, and the plan's lines."""
    started = []
    monkeypatch.setattr(os, "execvp", lambda file, command: started.append(command))

    def start(*flags, gpus=1):
        settings = [f"task.data={corpus}", f"checkpoint.save_dir={tmp_path / 'run'}", "model._name=tupe_tiny", *flags]
        settings += ["task.tokens_per_sample=32", "optimization.max_update=20000"]
        command = [sys.executable, "-c", "print()", *settings]
        status = main(["plan", "--max-unused", "1", "--here", "--gpus", str(gpus), "configs/pretraining", "base",
                       *settings, "--start", *command])  # fmt: skip
        said = capsys.readouterr()
        assert status == 0, said.err
        parsed = OverridesParser.create().parse_overrides(started[-1][3:])
        return {one.key_or_group: one.value() for one in parsed}, said.out

    return start


def test_a_pretraining_begins_and_resumes(pretrain, gpus, tmp_path):
    gpus(H100)
    given, said = pretrain()
    assert (given["common.fp16"], given["common.bf16"]) == (False, True)
    assert "plan: precision bf16, because every GPU here is an Ampere or later; common.fp16=true chooses fp16\n" in said
    assert (tmp_path / "run" / PRECISION).read_text() == "bf16\n"
    gpus(V100)
    given, said = pretrain()
    assert given["common.bf16"] is True
    assert "plan: precision bf16, as this run began\n" in said
    given, said = pretrain("common.fp16=true")  # the published setting
    assert given["common.fp16"] is True and "common.bf16" not in given
    assert (tmp_path / "run" / PRECISION).read_text() == "fp16\n"


def test_without_a_gpu_nothing_is_chosen(pretrain, gpus, tmp_path):
    gpus()
    given, said = pretrain("common.cpu=true", "common.fp16=false", gpus=0)  # as scripts/lib/launch.sh sets it
    assert given["common.fp16"] is False and "common.bf16" not in given
    assert "precision" not in said
    assert not (tmp_path / "run" / PRECISION).exists()


@pytest.mark.parametrize(("capability", "name"), [(A100, "bf16"), (V100, "fp16")])
def test_fine_tuning(capability, name, gpus, tmp_path, monkeypatch):
    given = []

    def training(program, arguments, **_):
        given[:] = arguments
        Path("run/hydra_train.log").touch()  # else a run that failed leaves nothing at all
        raise SystemExit(3)

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(finetune, "run_program", training)
    monkeypatch.setattr(finetune, "visible_gpus", lambda: ["0"])
    gpus(capability)
    write_task(Path("DATA/CoLA"))
    write_checkpoint(Path("a/b.pt"), "DATA")
    (tmp_path / "run").mkdir()

    def read(*flags):
        with pytest.raises(SystemExit):
            main(["finetune", "CoLA", "a/b.pt", "DATA", "checkpoint.save_dir=run", *flags])
        parsed = OverridesParser.create().parse_overrides(given[given.index("--config-name") + 2 :])
        values = {one.key_or_group: one.value() for one in parsed}
        return values["common.fp16"], values.get("common.bf16", False)

    assert read() == ((False, True) if name == "bf16" else (True, False))
    assert (tmp_path / "run" / PRECISION).read_text() == f"{name}\n"
    shutil.rmtree("run")
    assert read("common.bf16=true") == (False, True)
    shutil.rmtree("run")
    assert read("common.fp16=true") == (True, False)


def test_every_configuration_that_asks_for_16_bits_asks_for_fp16():
    """Else a script would never choose: `choose` looks at this one key."""
    from omegaconf import OmegaConf

    asked = [OmegaConf.load(path).get("common", {}) for path in ROOT.glob("configs/*/*.yaml")]
    assert sum(bool(common.get("fp16")) for common in asked) >= 6
    assert not [common for common in asked if common.get("bf16") or common.get("amp")]
