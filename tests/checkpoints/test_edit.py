"""Checkpoints made of checkpoints: the mean of a run's, and more positions, with which training resumes."""

import pytest
import torch

from tests.patches.conftest import trainer
from tupe.checkpoints.edit import Axes, average, extend_positions, last_checkpoints
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


def test_is_the_mean_and_shared_tensors_stay_one(save, tmp_path):
    for number in (1, 2, 6):
        save(f"checkpoint_1_{number}.pt", number)
    save("checkpoint1.pt", 100)
    assert main(["convert", "average", str(tmp_path), str(tmp_path / "out.pt"), "--last", "2"]) == 0
    state = torch.load(tmp_path / "out.pt", weights_only=True)
    torch.testing.assert_close(state["model"]["a"], torch.full((2, 3), 4.0, dtype=torch.float16))
    assert state["model"]["a"].data_ptr() == state["model"]["b"].data_ptr()
    assert state["model"]["count"] == 3
    assert state["last_optimizer_state"] is None
    assert state["optimizer_history"] == [{"num_updates": 6}]


def test_epochs_are_sorted_as_numbers(save, tmp_path):
    for number in (2, 10, 9):
        save(f"checkpoint{number}.pt", number)
    save("checkpoint_best.pt", 0)
    assert [path.name for path in last_checkpoints(tmp_path, 2)] == ["checkpoint9.pt", "checkpoint10.pt"]
    with pytest.raises(UserError, match=r"has 3 checkpoints of updates or epochs, not 4"):
        last_checkpoints(tmp_path, 4)


@pytest.mark.parametrize(
    ("part", "field"),
    [("model", "relative"), ("model", "dictionary_sha256"), ("task", "labels_sha256"), ("task", "source_lang"),
     ("common", "seed"), ("checkpoint", "save_dir"), ("task", "data")],
)  # fmt: skip
def test_the_mean_of_other_runs_is_refused(part, field, save, tmp_path):
    first, second = ({part: {"_name": "x", field: value}} for value in ("one", "other"))
    with pytest.raises(UserError, match=rf"differ in {field}\.$"):
        average([save("checkpoint1.pt", 1, **first), save("checkpoint2.pt", 1, **second)], tmp_path / "out.pt")


def extended(module, name, new, rule):
    tensor = getattr(module, name).detach()
    old = module.max_positions if hasattr(module, "max_positions") else len(tensor)
    axes = Axes(*module.position_axes[name], isinstance(module, UnbinnedRelative))
    return axes.extend(tensor, int(old), new, rule)


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
def test_training_resumes(rule, run, train, tmp_path):
    arch, flags, short = run
    long = tmp_path / "long.pt"
    assert main(["convert", "positions", str(short), "24", str(long), "--rule", rule]) == 0
    before, after = (torch.load(path, weights_only=True) for path in (short, long))
    changed = [name for name, tensor in before["model"].items() if after["model"][name].shape != tensor.shape]
    assert changed
    assert all(torch.equal(t, after["model"][name]) for name, t in before["model"].items() if name not in changed)
    assert after["cfg"]["model"]["max_positions"] == after["cfg"]["task"]["tokens_per_sample"] == 24
    moments = [s["last_optimizer_state"]["state"] for s in (before, after)]
    assert moments[0].keys() == moments[1].keys()
    assert sum(moments[0][k]["exp_avg"].shape != moments[1][k]["exp_avg"].shape for k in moments[0]) == len(changed)
    train(tmp_path, *flags, "--tokens-per-sample", 24, "--max-update", 5, "--restore-file", long, arch=arch)
    resumed = torch.load(tmp_path / "checkpoint_last.pt", weights_only=True)
    assert resumed["optimizer_history"][-1]["num_updates"] == 5
    assert resumed["model"][changed[0]].shape == after["model"][changed[0]].shape


def longer_optimizer(path):
    """The optimizer's state in the checkpoint, with 20 positions."""
    out = path.with_name("longer.pt")
    out.unlink(missing_ok=True)
    extend_positions(path, 20, out)
    return torch.load(out, weights_only=True)["last_optimizer_state"]


def test_weights_that_are_saved_twice(run, tmp_path):
    """As fairseq does of a model on a GPU or in 16 bits, whose tied weights it copies one by one."""
    state = torch.load(run[2], weights_only=True)
    state["model"] = {name: tensor.clone() for name, tensor in state["model"].items()}
    torch.save(state, tmp_path / "copied.pt")
    one, other = map(longer_optimizer, (run[2], tmp_path / "copied.pt"))
    torch.testing.assert_close(one["state"], other["state"], rtol=0, atol=0)


def test_flat_masters_go_along(run, tmp_path):
    """Mixed precision keeps one flat tensor of all parameters, here made of those of a run in 32 bits."""
    _, _, path = run
    state = torch.load(path, weights_only=True)
    each = state["last_optimizer_state"]["state"]
    flat = {k: torch.cat([slot[k].flatten() for slot in each.values()]) for k in ("exp_avg", "exp_avg_sq")}
    state["last_optimizer_state"]["state"] = {0: {**each[0], **flat}}
    state["last_optimizer_state"]["fp32_params"] = [flat["exp_avg"].clone()]
    torch.save(state, tmp_path / "flat.pt")
    one, other = map(longer_optimizer, (path, tmp_path / "flat.pt"))
    expected = torch.cat([slot["exp_avg"].flatten() for slot in one["state"].values()])
    assert torch.equal(other["state"][0]["exp_avg"], expected)
    assert torch.equal(other["fp32_params"][0], expected)
    state["last_optimizer_state"]["state"][0]["exp_avg"] = torch.zeros(7)
    torch.save(state, tmp_path / "other.pt")
    assert longer_optimizer(tmp_path / "other.pt") is None
