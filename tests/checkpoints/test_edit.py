"""Checkpoints made of checkpoints: the mean of a run's, and more positions, with which training goes on."""

import pytest
import torch

from tests.patches.conftest import trainer
from tests.samples import write_checkpoint
from tupe.checkpoints.edit import average, extend, last_checkpoints
from tupe.cli.main import main
from tupe.position import PositionTable, UnbinnedRelative
from tupe.util import UserError


@pytest.fixture
def save(tmp_path):
    """`save("checkpoint1.pt", 1, task={"source_lang": "en"})`: a checkpoint whose parameters are all 1."""

    def save(name, value, **cfg):
        shared = torch.full((2, 3), float(value), dtype=torch.float16)
        model = {"a": shared, "b": shared, "count": torch.tensor(3)}
        state = {"model": model, "cfg": {"model": {"_name": "x"}, **cfg}, "last_optimizer_state": {"exp_avg": shared}}
        torch.save({**state, "optimizer_history": [{"num_updates": value}], "extra_state": {}}, tmp_path / name)
        return tmp_path / name

    return save


def test_is_the_mean(save, tmp_path):
    for number in (1, 2, 6):
        save(f"checkpoint_1_{number}.pt", number)
    save("checkpoint1.pt", 100)
    command = ["convert", "average", "--last", "2", str(tmp_path)]
    assert main([*command, str(tmp_path / "another"), str(tmp_path / "out.pt")]) == 1
    assert main([*command, str(tmp_path / "out.pt")]) == 0
    state = torch.load(tmp_path / "out.pt", weights_only=True)
    torch.testing.assert_close(state["model"]["a"], torch.full((2, 3), 4.0))
    assert torch.equal(state["model"]["a"], state["model"]["b"])
    assert state["model"]["count"] == 3
    assert state["last_optimizer_state"] is None
    assert state["optimizer_history"] == [{"num_updates": 6}]


def test_epochs_are_sorted_as_numbers(save, tmp_path):
    for number in (2, 10, 9):
        save(f"checkpoint{number}.pt", number)
    save("checkpoint_best.pt", 0)
    assert [path.name for path in last_checkpoints(tmp_path, 2)] == ["checkpoint9.pt", "checkpoint10.pt"]
    with pytest.raises(UserError, match=r"has 3 numbered checkpoints, not 4"):
        last_checkpoints(tmp_path, 4)


@pytest.mark.parametrize(
    ("part", "field"),
    [("model", "relative"), ("model", "dictionary_sha256"), ("task", "labels_sha256"), ("task", "source_lang"),
     ("common", "seed"), ("checkpoint", "save_dir")],
)  # fmt: skip
def test_the_mean_of_other_runs_is_refused(part, field, save, tmp_path):
    first, second = ({part: {"_name": "x", field: value}} for value in ("one", "other"))
    with pytest.raises(UserError, match=rf"differ in {field}\.$"):
        average([save("checkpoint1.pt", 1, **first), save("checkpoint2.pt", 1, **second)], tmp_path / "out.pt")


def extended(module, name, new, rule):
    tensor = getattr(module, name).detach()
    old = module.max_positions if hasattr(module, "max_positions") else len(tensor)
    axes, centered = module.position_axes[name]
    return extend(tensor, int(old), new, axes, centered if isinstance(module, UnbinnedRelative) else None, rule)


def test_rules_of_a_table():
    table = PositionTable(4, 3)
    rows = table.weight.detach()
    repeated = extended(table, "weight", 9, "repeat")
    torch.testing.assert_close(repeated, rows[[0, 1, 2, 3, 1, 2, 3, 1, 2]], rtol=0, atol=0)
    between = extended(table, "weight", 6, "interpolate")
    torch.testing.assert_close(between[[0, 1, 5]], rows[[0, 1, 3]])
    torch.testing.assert_close(between[3], rows[2])
    torch.testing.assert_close(between[2], (rows[1] + rows[2]) / 2)


@pytest.mark.parametrize("bidirectional", [True, False])
@pytest.mark.parametrize("rule", ["repeat", "interpolate"])
def test_distances_go_on(rule, bidirectional):
    term, longer = UnbinnedRelative(2, 4, bidirectional), UnbinnedRelative(2, 9, bidirectional)
    longer.weight.data = extended(term, "weight", 9, rule)
    near = torch.arange(-3, 4 if bidirectional else 1)
    assert torch.equal(longer(near), term(near))
    assert torch.equal(longer(torch.tensor([-8])), term(torch.tensor([-3])))


@pytest.fixture(scope="module")
def train(corpus):
    """`fairseq-train` in this process, of a very small model on 16 positions."""
    with pytest.MonkeyPatch.context() as patch:
        in_process = trainer(corpus, patch)
        yield lambda folder, *flags, **options: in_process(folder, "--tokens-per-sample", 16, *flags, **options)


@pytest.fixture(scope="module", params=["tupe_r_tiny", "diet_abs_tiny", "electra_bert_a_tiny"])
def run(request, train, tmp_path_factory):
    """Flags of a model and the folder of its training."""
    folder = tmp_path_factory.mktemp("short")
    flags = ("--criterion", "tupe_electra") if request.param.startswith("electra") else ()
    train(folder, *flags, arch=request.param)
    return request.param, flags, folder / "checkpoint_last.pt"


@pytest.mark.parametrize("rule", ["repeat", "interpolate"])
def test_training_goes_on(rule, run, train, tmp_path):
    arch, flags, short = run
    long = tmp_path / "long.pt"
    assert main(["convert", "positions", str(short), "24", str(long), "--rule", rule]) == 0
    before, after = (torch.load(path, weights_only=True) for path in (short, long))
    changed = [name for name, tensor in before["model"].items() if after["model"][name].shape != tensor.shape]
    assert changed and before["cfg"]["task"] == after["cfg"]["task"]  # the length that it was trained on
    assert all(torch.equal(t, after["model"][name]) for name, t in before["model"].items() if name not in changed)
    train(tmp_path, *flags, "--tokens-per-sample", 24, "--finetune-from-model", long, arch=arch)
    trained = torch.load(tmp_path / "checkpoint_last.pt", weights_only=True)
    assert trained["model"][changed[0]].shape == after["model"][changed[0]].shape


def test_a_fine_tuned_one_keeps_its_task(tmp_path):
    path = write_checkpoint(tmp_path / "best.pt", tmp_path, num_classes=3)
    assert main(["convert", "positions", str(path), "40", str(tmp_path / "longer.pt")]) == 0
    before, after = (torch.load(file, weights_only=True) for file in (path, tmp_path / "longer.pt"))
    assert after["optimizer_history"][-1]["num_updates"] == 7
    before, after = before["cfg"], after["cfg"]
    assert after["task"] == {**before["task"], "max_positions": 40} and after["criterion"] == before["criterion"]
