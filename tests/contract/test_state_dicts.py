"""Names and shapes in the state dict of every `*_tiny` are those of 69687301 (`fixtures/state_dicts.json`)."""

import json
import re

import pytest

from tests.contract.aliases import build
from tests.contract.data import FIXTURES
from tests.contract.equations import SYSTEMS, TRANSLATORS

FAMILIES = {"": SYSTEMS, "electra_": SYSTEMS, "seq2seq_": TRANSLATORS}


def shapes(model):
    """name -> `[number, *shape]`, where the layers of a stack are one entry, of their number."""
    found = {}
    for name, tensor in model.state_dict().items():
        name, shape = re.sub(r"layers\.\d+\.", "layers.*.", name), [*tensor.shape]
        number, *before = found.get(name, [0, *shape])
        assert before == shape
        found[name] = [number + 1, *shape]
    return found


@pytest.mark.parametrize(
    "family,system", [(family, system) for family, systems in FAMILIES.items() for system in systems]
)
def test_names_and_shapes(family, system):
    expected = json.loads((FIXTURES / "state_dicts.json").read_text())[family]
    assert shapes(build(f"{family}{system}_tiny")) == {**expected["common"], **expected["own"][system]}
