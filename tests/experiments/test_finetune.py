"""One fine-tuning, without its training: what is given to fairseq, and whose folder it is."""

import shutil
from pathlib import Path

import pytest
import torch
from hydra.core.override_parser.overrides_parser import OverridesParser

from tests.commands import ROOT, run
from tests.samples import write_checkpoint, write_indexed, write_task
from tupe.cli.main import main
from tupe.experiments import finetune as module
from tupe.experiments.settings import read_settings

ODD = "it's a (folder), {é}=[1] #~;&*\\o\\'\n\\"


class Training:
    """Takes the place of fairseq: notes the command, and leaves what training leaves."""

    def __init__(self):
        self.commands = []

    def __call__(self, program, arguments, **_):
        assert program == "fairseq-hydra-train"
        self.commands.append(arguments)
        folder = Path(self.given["checkpoint.save_dir"])
        write_checkpoint(folder / "checkpoint_best.pt", self.given["task.data"], num_classes=2)
        (folder / "checkpoint_last.pt").touch()
        return ()

    @property
    def given(self):
        """What Hydra reads of the last command: the last of each key."""
        command = self.commands[-1]
        parsed = OverridesParser.create().parse_overrides(command[command.index("--config-name") + 2 :])
        return {one.key_or_group: one.value() for one in parsed}


@pytest.fixture
def training(monkeypatch):
    training = Training()
    monkeypatch.setattr(module, "run_program", training)
    return training


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A folder with a pre-trained checkpoint `a/b.pt` and a prepared task `DATA/CoLA`."""
    monkeypatch.chdir(tmp_path)
    write_task(Path("DATA/CoLA"))
    write_checkpoint(Path("a/b.pt"), "DATA")
    return tmp_path


def say(*arguments):
    return main(["finetune", "CoLA", "a/b.pt", "DATA", *arguments])


def test_folders_of_any_name(here, training, capsys):
    shutil.move("a", ODD)
    shutil.move("DATA", f"{ODD}/data")
    save_dir = f"{ODD}/b{ODD}"
    assert main(["finetune", "CoLA", f"{ODD}/b.pt", f"{ODD}/data", f"checkpoint.save_dir={save_dir}"]) == 0
    given = training.given
    assert given["common.user_dir"] == str(ROOT / "tupe")
    assert given["task.data"] == f"{ODD}/data/CoLA"
    assert given["model.pretrained"] == f"{ODD}/b.pt"
    assert given["checkpoint.save_dir"] == save_dir
    assert capsys.readouterr().out.startswith("CoLA: mcc 50.00 at epoch 1 (tupe_tiny, lr 2e-05, seed 1); outputs in it")
    assert not Path(save_dir, "checkpoint_last.pt").exists()


@pytest.mark.parametrize(
    ("overrides", "folder"),
    [
        ([], "lr_3e-05/seed_1"),
        (["optimization.lr=[2e-5]"], "lr_2e-05/seed_1"),
        (["optimization.lr=[0.00002]", "common.seed=7"], "lr_2e-05/seed_7"),
        (["+optimization.lr=[5e-5,1e-5]"], "lr_5e-05/seed_1"),
    ],
)
def test_rates_and_seeds_have_their_own_folders(overrides, folder, here, training):
    assert say(*overrides, "optimization.max_epoch=2") == 0
    assert training.given["checkpoint.save_dir"] == f"runs/finetuning/a-b/CoLA/{folder}"
    assert training.given["optimization.max_epoch"] == 2


@pytest.mark.parametrize("plus", ["", "+", "++"])
def test_the_folder_however_it_is_set(plus, here, training, capsys):
    assert say(f"{plus}checkpoint.save_dir=OUT") == 0
    assert [part for part in training.commands[0] if "save_dir" in part] == ["checkpoint.save_dir='OUT'"]
    assert capsys.readouterr().out.endswith("outputs in OUT\n")


def test_a_finished_run_stays_and_nothing_else_is_taken_for_it(here, training, capsys):
    """The default folder knows the end of the checkpoint's name, the rate and the seed alone."""
    assert say() == 0
    score = capsys.readouterr().out
    # said otherwise, or where the result does not depend on it
    assert say("optimization.lr=[0.00003]", "common.log_format=json", "dataset.num_workers=0") == 0
    assert len(training.commands) == 1
    assert capsys.readouterr().out.splitlines() == [
        "runs/finetuning/a-b/CoLA/lr_3e-05/seed_1 holds a finished run. To train again, remove it or set "
        "checkpoint.save_dir.",
        score.rstrip("\n"),
    ]

    def refused(said, *arguments):
        assert main(["finetune", "CoLA", *(arguments or ("a/b.pt", "DATA"))]) == 1
        out, err = capsys.readouterr()
        assert "mcc" not in out
        assert said in err
        assert err.endswith("Choose another folder.\n")

    refused("with optimization.max_epoch = 10, not 3", "a/b.pt", "DATA", "optimization.max_epoch=3")
    refused("with model.dropout = 0.1, not 0.2", "a/b.pt", "DATA", "model.dropout=0.2")
    state = torch.load("a/b.pt", weights_only=True)
    state["extra_state"]["best"] = 2.0
    Path("x/a").mkdir(parents=True)
    torch.save(state, "x/a/b.pt")
    refused("begun with checkpoint = ", "x/a/b.pt", "DATA")
    write_indexed(here / "DATA/CoLA/input0/train", 9)
    refused("begun with data = ")
    assert len(training.commands) == 1


def test_settings_say_what_a_result_depends_on():
    settings = read_settings(
        "STS-B", ["++checkpoint.save_dir=a b", "optimizer._name=sgd", "~model.dropout", "hydra.verbose=1"]
    )
    assert settings.save_dir == "a b"
    assert settings.overrides == ["optimizer._name=sgd", "~model.dropout", "hydra.verbose=1"]
    assert settings.of["optimizer"]["_name"] == "sgd"
    assert settings.of["model"]["dropout"] is None
    assert settings.of["checkpoint"]["best_checkpoint_metric"] == "pearson"
    assert not {"save_dir", "finetune_from_model"} & settings.of["checkpoint"].keys()
    assert "hydra" not in settings.of


_HANDLER = "+hydra.job_logging.handlers.x={class:subprocess.Popen,args:[touch {}],shell:true,level:INFO}"
ATTACKS = {
    "activation_fn": f"gelu\n{_HANDLER}",
    "reset": "paper\ncommon.user_dir={}",
    "max_positions": f"32\n{_HANDLER}",
}


@pytest.mark.parametrize("field", ATTACKS)
def test_a_hostile_checkpoint_runs_nothing(field, here):
    """Through the whole script: a name in a checkpoint was a line of Hydra's command line."""
    witness = here / "witness"
    state = torch.load("a/b.pt", weights_only=True)
    if field == "reset":  # what fairseq imports on common.user_dir
        (here / "evil").mkdir()
        (here / "evil/__init__.py").write_text(f"open({str(witness)!r}, 'w')\n")
    state["cfg"]["model"][field] = ATTACKS[field].replace("{}", str(here / "evil" if field == "reset" else witness))
    torch.save(state, "a/b.pt")
    done = run("bash", ROOT / "scripts/finetune_glue.sh", "CoLA", "a/b.pt", "DATA", cwd=here, check=False)
    assert done.returncode
    assert not witness.exists()
