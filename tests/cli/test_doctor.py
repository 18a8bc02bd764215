"""The doctor runs whole on the CPU, and what fails is a line and the exit status."""

from tests.commands import tupe
from tupe.cli import doctor


def test_whole(capsys):
    assert tupe("doctor") == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(":")[0].split(maxsplit=1)[1] for line in lines] == [
        "versions",
        "attention, sdpa, torch.float32",
        "attention, factors, torch.float32",
        "training, --cpu",
    ]
    assert all(line.startswith("ok ") for line in lines)


def test_a_failure_is_the_exit_status_and_the_next_examination_follows(monkeypatch, capsys):
    def raises():
        raise RuntimeError("out of\nluck")

    monkeypatch.setattr(doctor, "examinations", lambda: [("first", raises), ("second", lambda: "well")])
    assert tupe("doctor") == 1
    assert capsys.readouterr().out == "failed   first: RuntimeError: out of luck\nok       second: well\n"
