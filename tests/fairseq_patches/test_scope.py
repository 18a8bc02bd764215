"""Which runs, configurations and arguments the patches act on."""

from argparse import Namespace
from types import SimpleNamespace

import pytest
from omegaconf import OmegaConf

from tests.commands import ROOT
from tupe.fairseq_patches.scope import config_in_scope, in_scope
from tupe.fairseq_patches.task import put_in_scope
from tupe.models import TupeModel


def test_whose_a_run_is():
    task, other = SimpleNamespace(), SimpleNamespace()
    put_in_scope(task)
    assert in_scope(task) and not in_scope(other, None)
    assert in_scope(TupeModel, other) and in_scope(type("Users", (TupeModel,), {}))


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        ({"model": {"_name": "roberta"}, "task": {"_name": "masked_lm"}, "criterion": {"_name": "masked_lm"}}, False),
        ({"model": {"_name": "tupe_tiny"}, "task": {"_name": "masked_lm"}, "criterion": {"_name": "masked_lm"}}, True),
        ({"model": {"_name": "roberta"}, "task": {"_name": "tupe_sentence_prediction"}}, True),
        ({"model": None, "task": {"_name": "masked_lm"}, "common": {"user_dir": str(ROOT / "tupe")}}, True),
        ({"model": None, "task": {"_name": "masked_lm"}, "common": {"user_dir": str(ROOT / "tests")}}, False),
        ({"model": {"_name": "roberta"}, "task": None, "common": {"user_dir": str(ROOT / "tupe")}}, False),
    ],
)
def test_whose_a_configuration_is(parts, expected):
    cfg = OmegaConf.create({"criterion": None, "common": {"user_dir": None}, **parts})
    assert config_in_scope(cfg) == expected


def test_whose_parsed_arguments_are():
    assert config_in_scope(Namespace(arch="tupe_tiny", task="masked_lm", criterion="masked_lm"))
    assert not config_in_scope(Namespace(arch="roberta", task="masked_lm", criterion="masked_lm"))
