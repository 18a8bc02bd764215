"""Names and shapes in the state dict of every `*_tiny`, and of the equations' cases, are those of 69687301."""

import json
import re

import pytest

from tests.contract.aliases import build
from tests.contract.data import FIXTURES
from tests.contract.equations import SYSTEMS, TRANSLATORS
from tests.contract.test_equations import CASES, SMALL, STACKS, TRANSLATIONS

#: family -> name -> model and its fields; the cases are here because the equations read optional parameters by name.
MODELS = {
    "encoders": {system: (f"{system}_tiny", {}) for system in SYSTEMS},
    "electras": {system: (f"electra_{system}_tiny", {}) for system in SYSTEMS},
    "translators": {system: (f"seq2seq_{system}_tiny", {}) for system in TRANSLATORS},
    "cases": {name: (f"{case[0]}_tiny", {**SMALL, **case[1]}) for name, case in CASES.items()},
    "translations": {name: (f"seq2seq_{case[0]}_tiny", {**STACKS, **case[1]}) for name, case in TRANSLATIONS.items()},
}


def shapes(model):
    """name -> `[number, *shape]`, where the layers of a stack are one entry, of their number."""
    found = {}
    for name, tensor in model.state_dict().items():
        name, shape = re.sub(r"layers\.\d+\.", "layers.*.", name), [*tensor.shape]
        number, *before = found.get(name, [0, *shape])
        assert before == shape
        found[name] = [number + 1, *shape]
    return found


@pytest.mark.parametrize("family,name", [(family, name) for family, models in MODELS.items() for name in models])
def test_names_and_shapes(family, name):
    expected, (arch, fields) = json.loads((FIXTURES / "state_dicts.json").read_text())[family], MODELS[family][name]
    assert shapes(build(arch, **fields)) == {**expected["common"], **expected["own"][name]}
