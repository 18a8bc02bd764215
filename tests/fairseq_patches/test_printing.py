import logging
import sys
from types import SimpleNamespace

import hydra.core.utils
import pytest
from fairseq.dataclass.configs import CommonConfig
from hydra._internal.utils import run_and_report
from omegaconf import OmegaConf
from omegaconf.errors import ValidationError
from torch.multiprocessing import ProcessRaisedException

import tupe.hydra_train
from tests.commands import hydra_command, hydra_train, run, train_command
from tupe.analysis.curves import read_log
from tupe.errors import UserError
from tupe.fairseq_patches.printing import print_sentence


def printed(error, capsys):
    others = []
    print_sentence(lambda *error: others.append(error))(type(error), error, None)
    return capsys.readouterr().err, others


def test_user_errors_are_a_sentence(capsys):
    assert printed(UserError("this was wrong"), capsys) == ("error: this was wrong\n", [])
    assert printed(UserError("a\nb\x1b[2J is wrong"), capsys) == ("error: a b\\x1b[2J is wrong\n", [])


def test_an_interrupt_is_a_sentence(capsys, monkeypatch):
    assert printed(KeyboardInterrupt(), capsys) == ("error: interrupted.\n", [])

    def interrupted():
        raise KeyboardInterrupt

    monkeypatch.setattr(logging, "basicConfig", lambda **_: None)  # the log stays that of the tests
    monkeypatch.setitem(sys.modules, "fairseq_cli.hydra_train", SimpleNamespace(cli_main=interrupted))
    with pytest.raises(SystemExit) as ended:
        tupe.hydra_train.main()
    assert (ended.value.code, capsys.readouterr().err) == (130, "error: interrupted.\n")


def test_user_errors_of_processes_that_fairseq_started(capsys):
    traceback = "\n\n-- Process 1 terminated with the following error:\nTraceback (most recent call last):\n  ...\n"
    error = ProcessRaisedException(f"{traceback}tupe.errors.UserError: this was wrong\n", 1, 1)
    assert printed(error, capsys) == ("error: this was wrong\n", [])


def test_a_value_of_another_type_is_a_sentence(capsys):
    """As of `--model-overrides`, which fairseq merges where it builds a model."""
    with pytest.raises(ValidationError) as wrong:
        OmegaConf.merge(OmegaConf.structured(CommonConfig), {"seed": "x\ny"})
    said, others = printed(wrong.value, capsys)
    whole = "seed: Value 'x y' of type 'str' could not be converted to Integer"
    assert (said, others) == (f"error: the configuration cannot be made: {whole}\n", [])


@pytest.mark.parametrize("error", [ValueError("other"), ProcessRaisedException("ValueError: other", 0, 1)])
def test_other_errors_keep_their_traceback(error, capsys):
    assert printed(error, capsys) == ("", [(type(error), error, None)])


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (
            lambda *given: hydra_train(*given, "common.log_file=${nosuch}", check=False),
            "common.log_file: Interpolation",
        ),
        (
            lambda corpus, _: run(
                "fairseq-generate", corpus, "--user-dir", "tupe", "--lr-scheduler", "polynomial_decay", check=False
            ),
            "Error merging override lr_scheduler.total_num_update=",
        ),
    ],
)
def test_a_configuration_that_cannot_be_made(command, said, corpus, tmp_path):
    done = command(corpus, tmp_path)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith(f"error: the configuration cannot be made: {said}"), done.stderr
    assert "Traceback" not in done.stderr


def test_commands_end_with_the_sentence(corpus, tmp_path):
    """`fairseq-train` and `fairseq-hydra-train` on a mistake: exit status 1 and no traceback."""
    said = "there is no model 'tupe_bse'"
    plain = run("fairseq-train", corpus, "--user-dir", "tupe", "--arch", "tupe_bse", check=False)
    hydra = hydra_train(corpus, tmp_path, "model._name=tupe_bse", check=False)
    for done in (plain, hydra):
        assert done.returncode == 1
        assert done.stderr.splitlines()[-1].startswith(f"error: {said}")
        for other in ("Traceback", "Error executing job", "HYDRA_FULL_ERROR"):
            assert other not in done.stdout + done.stderr


def raised(error):
    raise error


def ended(error=None):
    """A job of Hydra's; as `main` asks for its value."""
    job = hydra.core.utils.JobReturn(overrides=["a=b"])
    job.return_value = error or 3
    job.status = hydra.core.utils.JobStatus.FAILED if error else hydra.core.utils.JobStatus.COMPLETED
    return run_and_report(lambda: job.return_value)


def test_hydra_leaves_a_sentence_to_us(capsys):
    assert ended() == 3
    with pytest.raises(SystemExit, match=r"^error: the file is empty$"):
        ended(UserError("the file is empty"))
    assert capsys.readouterr() == ("", "")


def test_other_errors_stay_hydras(capsys):
    with pytest.raises(SystemExit):
        ended(ValueError("a mistake"))
    assert "ValueError: a mistake" in capsys.readouterr().err


def test_a_run_without_hydra_logs_beside_its_checkpoints(train, tmp_path, caplog):
    """Each its own, and what a run that goes on logs comes behind."""
    caplog.set_level("INFO")  # as fairseq's commands set it
    for name, updates in (("one", 3), ("other", 2), ("one", 4)):
        train(tmp_path / name, "--log-format", "json", "--log-interval", 1, "--max-update", updates)
    assert list(read_log(tmp_path / "one").train) == [1, 2, 3, 4]
    assert list(read_log(tmp_path / "other").train) == [1, 2]
    train(tmp_path / "named", "--log-file", tmp_path / "log", "--warmup-updates", 0, "--max-update", 1)
    assert not (tmp_path / "named/train.log").exists()


def test_plain_fairseq_train_speaks_of_the_run_alone(corpus, tmp_path):
    """No deprecations of fairseq's calls, and no line of 8 kB with every field of fairseq's configuration."""
    done = run(
        *train_command(corpus, tmp_path / "ours", "--arch", "tupe_tiny", "--warmup-updates", 0, "--max-update", 1),
        PYTHONWARNINGS="",
    )
    assert done.stderr == ""
    assert "configuration: task masked_lm, model tupe_tiny, criterion tupe_masked_lm, optimizer adam;" in done.stdout
    assert max(map(len, done.stdout.splitlines())) < 1000


def test_a_training_under_hydra_has_no_deprecations(corpus, tmp_path):
    overrides = ("model._name=tupe_tiny", "lr_scheduler.warmup_updates=0", "optimization.max_update=1")
    done = run(*hydra_command(corpus, tmp_path, *overrides), PYTHONWARNINGS="")
    assert "done training" in done.stdout + done.stderr
    assert "FutureWarning" not in done.stderr


def test_fairseqs_own_models_keep_its_log(corpus, tmp_path):
    options = (
        "--arch",
        "roberta",
        "--encoder-layers",
        1,
        "--criterion",
        "masked_lm",
        "--warmup-updates",
        0,
        "--max-update",
        1,
    )
    done = run(*train_command(corpus, tmp_path, *options), PYTHONWARNINGS="")
    assert "| {'_name': None, 'common': " in done.stdout
    assert "configuration: " not in done.stdout
