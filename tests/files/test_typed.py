"""Whatever a file holds, it becomes the dataclass or one sentence that names the file and the field."""

import dataclasses
import enum
import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tupe.errors import UserError
from tupe.files import checked, read, read_text, typed, write


class Reset(enum.Enum):
    NONE = "none"
    PAPER = "paper"


@dataclass(frozen=True)
class Run:
    task: str
    lr: float = checked(minimum=0)
    seed: int = 1


@dataclass(frozen=True)
class Sweep:
    version: ClassVar[int] = 2
    checkpoint: Path
    sha256: str = checked(pattern="[0-9a-f]{2}")
    runs: tuple[Run, ...] = ()
    pair: tuple[int, str] = (0, "")
    reset: Reset = Reset.PAPER
    launcher: Literal["basic", "joblib"] = "basic"
    share: int | float | None = None
    on: bool = False
    seeds: list[int] = checked(minimum=1, default_factory=list)
    scores: dict[str, float | None] = field(default_factory=dict)
    other: Any = None


LEAST = {"version": 2, "checkpoint": "a.pt", "sha256": "0f"}


def say(tmp_path, content):
    """The sentence for a file with this content, less what all have."""
    path = tmp_path / "sweep.json"
    path.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
    with pytest.raises(UserError) as raised:
        read(path, Sweep, "scripts/glue.sh")
    sentence = str(raised.value)
    assert sentence.startswith(str(path))
    assert "\n" not in sentence
    return sentence[len(str(path)) + 1 :]


def test_a_dataclass_goes_through_a_file(tmp_path):
    sweep = Sweep(
        Path("é.pt"), "00", (Run("RTE", 2e-5, 3), Run("CoLA", 1.0)), (1, "a"), share=0.5, on=True, seeds=[1, 9],
        scores={"mcc": 1.5, "é": None}, other={"a": [1, None]},
    )  # fmt: skip
    plain = dataclasses.replace(sweep, checkpoint="é.pt", reset="paper")
    write(tmp_path / "sweep.json", plain)
    assert read(tmp_path / "sweep.json", Sweep, "us") == sweep
    assert json.loads((tmp_path / "sweep.json").read_text(encoding="utf-8"))["version"] == 2
    whole = typed(Sweep, {"checkpoint": "a", "sha256": "00", "share": 3}, "it", "us")
    assert (whole.share, type(whole.share), type(typed(Run, {"task": "a", "lr": 1}, "it", "us").lr)) == (3, int, float)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"more": 1}, "it has the unknown field 'more'"),
        ({"mo\nre": 1}, r"it has the unknown field 'mo\nre'"),
        ({"checkpoint": 3}, "checkpoint is 3, not a path"),
        ({"sha256": "0f\n"}, r"sha256 is '0f\n', not like [0-9a-f]{2}"),
        ({"runs": {}}, "runs is {}, not a list"),
        ({"runs": [{"task": "a"}]}, "runs[0].lr is missing"),
        ({"runs": [{"task": "a", "lr": 1}, {"task": "a", "lr": -1}]}, "runs[1].lr is -1, not 0 or more"),
        ({"runs": [{"task": "a", "lr": True}]}, "runs[0].lr is True, not a finite number"),
        ({"runs": [{"task": "a", "lr": float("nan")}]}, "runs[0].lr is nan, not a finite number"),
        ({"runs": [{"task": "a", "lr": 10**400}]}, "not a finite number"),
        ({"runs": [{"task": "\ud800", "lr": 1}]}, r"runs[0].task is '\ud800', not text"),
        ({"runs": [7]}, "runs[0] is 7, not an object with named fields"),
        ({"pair": [1]}, "pair is [1], not a list of 2"),
        ({"pair": ["a", "b"]}, "pair[0] is 'a', not a whole number"),
        ({"reset": "x"}, "reset is 'x', not one of none, paper"),
        ({"launcher": 1}, "launcher is 1, not one of basic, joblib"),
        ({"share": "a"}, "share is 'a', not a whole number, and share is 'a', not a finite number"),
        ({"on": 1}, "on is 1, not true or false"),
        ({"seeds": [1, 0]}, "seeds[1] is 0, not 1 or more"),
        ({"seeds": [1.0]}, "seeds[0] is 1.0, not a whole number"),
        ({"scores": {"a": "b"}}, "scores['a'] is 'b', not a finite number"),
        ({"scores": {"a": "\x1b[31m" * 100}}, r"scores['a'] is '\x1b[31m"),
    ],
)
def test_what_is_wrong_is_named(change, said, tmp_path):
    sentence = say(tmp_path, {**LEAST, **change})
    assert sentence.startswith("is not what scripts/glue.sh writes (")
    assert said in sentence
    assert sentence.endswith(": copy it again from where it is whole, or make it again.")
    assert sentence.isprintable()
    assert len(sentence) < 300


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "it is empty"),
        (b" \n", "it is empty"),
        (json.dumps(LEAST).encode()[:-3], "no JSON from line 1"),
        (b"\xff{}", "not UTF-8 from byte 0 on"),
        (b"[" * 100_000, "maximum recursion depth exceeded"),
        (b"1" * 5000, "Exceeds the limit"),
        ([LEAST], "not an object with named fields"),
        ({"checkpoint": "a", "sha256": "00"}, "is of version 1, but this tupe reads version 2"),
        ({**LEAST, "version": 3}, "is of version 3, but"),
        ({**LEAST, "version": "1.1"}, "(version is '1.1', not a whole number)"),
        ({"version": 2, "sha256": "00"}, "checkpoint is missing"),
    ],
)
def test_what_is_no_such_file(content, said, tmp_path):
    assert said in say(tmp_path, content)


def test_what_is_no_file(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "loop").symlink_to("loop")
    for name, said in (
        ("none", "there is no .*none: give what us wrote"),
        ("pipe", "is a pipe or device, not a file"),
        ("loop", "cannot be read: Too many levels"),
        (".", "is a folder, not a file"),
        ("nul\0", "cannot be read: .*embedded null"),
    ):
        with pytest.raises(UserError, match=said):
            read_text(tmp_path / name, "us")


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters()),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
)
fields = st.dictionaries(st.sampled_from([f.name for f in dataclasses.fields(Sweep)]), json_values)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(json_values | fields.map(lambda some: {**LEAST, **some}))
def test_anything_is_the_dataclass_or_a_sentence(tmp_path, content):
    path = tmp_path / "sweep.json"
    path.write_text(json.dumps(content))
    try:
        assert isinstance(read(path, Sweep, "us"), Sweep)
    except UserError as error:
        assert str(error).isprintable()
