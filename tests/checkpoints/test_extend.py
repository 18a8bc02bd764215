"""More positions: what was there is there, distances go on, the optimizer's state goes along, training resumes."""

import pytest
import torch

from tests.commands import train as train_run
from tests.commands import train_log
from tupe.checkpoints.extend import Axes, extend_positions
from tupe.cli.main import main
from tupe.errors import UserError
from tupe.position import FreeAbsolute, PositionTable, RelativeTerm, UnbinnedRelative

TINY = ("--encoder-layers", 1, "--encoder-embed-dim", 16, "--encoder-ffn-embed-dim", 16, "--encoder-attention-heads", 2)


def extended(module, name, new, rule):
    tensor = getattr(module, name).detach()
    old = module.max_positions if hasattr(module, "max_positions") else len(tensor)
    axes = Axes(*module.position_axes[name], isinstance(module, RelativeTerm))
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


def test_a_free_value_is_that_of_the_pair_it_repeats():
    term = FreeAbsolute(4, 2)
    weight = term.weight.detach()
    longer = extended(term, "weight", 7, "repeat")
    assert longer.shape == (2, 7, 7)
    torch.testing.assert_close(longer[:, 5, 6], weight[:, 2, 3])
    torch.testing.assert_close(longer[:, 0, 4], weight[:, 0, 1])


@pytest.mark.parametrize("bidirectional", [True, False])
@pytest.mark.parametrize("rule", ["repeat", "interpolate"])
def test_distances_go_on(rule, bidirectional):
    term, longer = UnbinnedRelative(2, 4, bidirectional), UnbinnedRelative(2, 9, bidirectional)
    longer.weight.data = extended(term, "weight", 9, rule)
    torch.testing.assert_close(longer(4), term(4), rtol=0, atol=0)
    ours, theirs = longer(9), term(4)
    torch.testing.assert_close(ours[:, 8, 0], theirs[:, 3, 0], rtol=0, atol=0)
    torch.testing.assert_close(ours[:, 0, 8], theirs[:, 0, 3], rtol=0, atol=0)


@pytest.fixture(scope="module", params=["tupe_r_tiny", "diet_abs_tiny", "electra_bert_a_tiny"])
def run(request, corpus, tmp_path_factory):
    """A model's name and the folder of its training at 16 positions."""
    folder = tmp_path_factory.mktemp("short")
    criterion = ("--criterion", "tupe_electra") if request.param.startswith("electra") else ()
    train_run(corpus, folder, "--arch", request.param, *TINY, *criterion, "--tokens-per-sample", 16, "--max-update", 6)
    return request.param, folder


@pytest.mark.parametrize("rule", ["repeat", "interpolate"])
def test_training_resumes(rule, run, corpus, tmp_path):
    name, folder = run
    assert (
        main(["extend-positions", str(folder / "checkpoint_last.pt"), "24", str(tmp_path / "long.pt"), "--rule", rule])
        == 0
    )
    before, after = (
        torch.load(path, weights_only=True) for path in (folder / "checkpoint_last.pt", tmp_path / "long.pt")
    )
    changed = [n for n, tensor in before["model"].items() if after["model"][n].shape != tensor.shape]
    assert changed
    for n, tensor in before["model"].items():
        if n not in changed:
            assert torch.equal(tensor, after["model"][n])
    assert after["cfg"]["model"]["max_positions"] == after["cfg"]["task"]["tokens_per_sample"] == 24
    moments = [s["last_optimizer_state"]["state"] for s in (before, after)]
    assert moments[0].keys() == moments[1].keys()
    assert sum(moments[0][k]["exp_avg"].shape != moments[1][k]["exp_avg"].shape for k in moments[0]) == len(changed)
    if rule == "repeat":
        criterion = ("--criterion", "tupe_electra") if name.startswith("electra") else ()
        done = train_run(
            corpus, tmp_path / "on", "--arch", name, *TINY, *criterion, "--tokens-per-sample", 24, "--max-update", 8,
            "--restore-file", tmp_path / "long.pt",
        )  # fmt: skip
        assert [int(record["num_updates"]) for record in train_log(done.stdout)["train_inner"]] == [7, 8]


def test_flat_masters_go_along(corpus, tmp_path):
    """Mixed precision keeps one flat tensor of all parameters, here made of those of a run in 32 bits."""
    train_run(corpus, tmp_path, "--arch", "tupe_r_tiny", *TINY, "--tokens-per-sample", 16, "--max-update", 2)
    path = tmp_path / "checkpoint_last.pt"
    state = torch.load(path, weights_only=True)
    each = state["last_optimizer_state"]["state"]
    flat = {k: torch.cat([slot[k].flatten() for slot in each.values()]) for k in ("exp_avg", "exp_avg_sq")}
    state["last_optimizer_state"]["state"] = {0: {**each[0], **flat}}
    state["last_optimizer_state"]["fp32_params"] = [flat["exp_avg"].clone()]
    torch.save(state, tmp_path / "flat.pt")
    one, other = (extend_positions(p, 20).state["last_optimizer_state"] for p in (path, tmp_path / "flat.pt"))
    expected = torch.cat([slot["exp_avg"].flatten() for slot in one["state"].values()])
    assert torch.equal(other["state"][0]["exp_avg"], expected)
    assert torch.equal(other["fp32_params"][0], expected)


def test_what_cannot_be_extended(corpus, tmp_path):
    train_run(corpus, tmp_path, "--arch", "linformer_tiny", *TINY, "--tokens-per-sample", 16, "--max-update", 1)
    with pytest.raises(UserError, match="is a Linformer"):
        extend_positions(tmp_path / "checkpoint_last.pt", 32)


def test_fewer_positions(run):
    _, folder = run
    with pytest.raises(UserError, match="has 16 positions and cannot be given 16"):
        extend_positions(folder / "checkpoint_last.pt", 16)
