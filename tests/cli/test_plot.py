import pytest

from tupe.cli.main import main, parser_of
from tupe.cli.plot import FIGURES


@pytest.mark.parametrize("figure", FIGURES)
def test_the_help_says_what_it_shows(figure):
    text = parser_of("plot").format_help()
    assert FIGURES[figure].shows in text


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["ranks", "a.pt"], "tupe plot ranks needs --data, the corpus with the vocabulary of its checkpoints."),
        (["reset", "a.pt", "--column", "x"], "--column does not change tupe plot reset, but scores: leave it out."),
        (["segments", "a.pt", "b.pt"], "tupe plot segments draws one file at a time: give one of the 2."),
        (["training", "a", "--head", "1"], "--head does not change tupe plot training, but reset: leave it out."),
    ],
)
def test_what_a_figure_does_not_take_is_refused(arguments, said, capsys):
    assert main(["plot", *arguments, "--output", "x.png"]) == 1
    assert capsys.readouterr().err == f"error: {said}\n"


def test_a_run_without_a_finite_loss_is_not_drawn(tmp_path, capsys):
    log = tmp_path / "run.log"
    record = '{"epoch": 1, "num_updates": "10", "loss": "nan", "wps": "10", "wpb": "10"}'
    log.write_text(f"[2026-01-01 00:00:00,000][train_inner][INFO] - {record}\n")
    assert main(["plot", "training", str(log), "--output", str(tmp_path / "x.png")]) == 1
    assert "is finite: the training diverged, so lower its learning rate." in capsys.readouterr().err
    assert not (tmp_path / "x.png").exists()


@pytest.mark.parametrize("option", ["text", "sequences"])
def test_a_report_reads_no_text_without_its_vocabulary(option, capsys):
    assert main(["report", "x.html", "a.pt", f"--{option}", "3"]) == 1
    assert capsys.readouterr().err.startswith(f"error: --{option} needs --data, the folder of the corpus")
