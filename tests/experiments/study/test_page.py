"""docs/study.md: its schema is that of the code, and its study can be run."""

import dataclasses
import re
import typing

import pytest

from tests.commands import ROOT
from tupe.experiments.study import training
from tupe.experiments.study.design import Design, FineTuning, Search, Start, System, read_design
from tupe.plan.config import read_config

PAGE = (ROOT / "docs/study.md").read_text(encoding="utf-8")


def keys(kind, prefix=""):
    """Key -> its default as the page writes it."""
    types = typing.get_type_hints(kind)
    for field in dataclasses.fields(kind):
        nested = {Search: Search, FineTuning: FineTuning}.get(types[field.name])
        if nested:
            yield from keys(nested, f"{field.name}.")
            continue
        if types[field.name] == Start | None:  # a key, and those of its value
            yield from keys(Start, f"{field.name}.")
        default = field.default if field.default_factory is dataclasses.MISSING else field.default_factory()
        known = {dataclasses.MISSING: "needed", (): "`[]`", "": '`""`', None: "none"}
        shown = (
            "`{}`"
            if default == {}
            else known.get(default, f"`{default}`" if isinstance(default, str) else str(default))
        )
        yield f"{prefix}{field.name}", shown


@pytest.mark.parametrize(("number", "kind"), [(0, Design), (1, System)])
def test_the_schema(number, kind):
    table = re.findall(r"\| key \| type .*\n\|[-|]+\n((?:\|.*\n)+)", PAGE)[number]
    rows = [[cell.strip() for cell in row.strip("|").split(" | ")] for row in table.splitlines()]
    written = {row[0].strip(" |`"): row[2] for row in rows}
    assert written == {name: default for name, default in keys(kind) if name != "name"}


def test_the_study_can_be_run(tmp_path):
    """Each of its trainings is one that the plan takes."""
    text = re.search(r"```yaml\n(.*?)```", PAGE, re.DOTALL)[1]
    assert len(text.splitlines()) == 12
    path = tmp_path / "mine.yaml"
    path.write_text(text)
    design = read_design(str(path))
    runs = list(design.runs())
    assert len(runs) == 3 * (2 + 2)
    for run in runs:
        given = training.overrides(design, run, run.lr or 0.001)
        cfg = read_config(training.CONFIGS, design.config, [f"{key}={value}" for key, value in given.items()])
        assert cfg.model._name == f"{run.system}_tiny" and cfg.task.tokens_per_sample == 32
