"""The authors' release as checkpoints of ours; tests/contract compares the numbers."""

import json
import shlex
from argparse import Namespace
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.commands import hydra_train, run, train_log
from tupe.checkpoints.release import load_release
from tupe.cli.main import main

GOLDEN = Path(__file__).parents[1] / "golden"


@pytest.fixture(scope="module", params=["abs", "rel"])
def golden(request):
    with np.load(GOLDEN / f"authors_{request.param}.npz", allow_pickle=False) as arrays:
        return {
            name: torch.from_numpy(arrays[name]) if arrays[name].ndim else arrays[name][()] for name in arrays.files
        }


def part(arrays, prefix):
    return {name[len(prefix) :]: value for name, value in arrays.items() if name.startswith(prefix)}


@pytest.fixture(scope="module")
def release_file(golden, tmp_path_factory):
    """A checkpoint as the release's code writes it."""
    path = tmp_path_factory.mktemp("release") / "checkpoint.pt"
    args = Namespace(**json.loads(str(golden["args_json"])))
    torch.save({"args": args, "model": part(golden, "state/"), "optimizer_history": [], "extra_state": {}}, path)
    return path


def test_the_command_converts_and_pre_training_goes_on(release_file, golden, tmp_path, capsys):
    model, data = tmp_path / "model.pt", tmp_path / "data"
    assert main(["convert-release", str(release_file), str(model)]) == 0
    symbols = len(golden["state/decoder.sentence_encoder.embed_tokens.weight"])
    words = [f"word{i}" for i in range(symbols - 4 - 1)]
    for name, lines in (("dict", [f"{word} 1" for word in words]), ("text", [" ".join(words[:12])] * 16)):
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines))
    run("fairseq-preprocess", "--only-source", "--srcdict", tmp_path / "dict", "--trainpref", tmp_path / "text",
        "--validpref", tmp_path / "text", "--destdir", data, "--workers", 1)  # fmt: skip
    capsys.readouterr()
    assert main(["model-overrides", str(model)]) == 0
    fields = [line for line in capsys.readouterr().out.split() if not line.startswith("task.")]
    done = hydra_train(
        data, tmp_path / "run", *fields, "task.tokens_per_sample=40", "optimization.max_update=2",
        "lr_scheduler.warmup_updates=1", f"checkpoint.restore_file={model}", "dataset.disable_validation=true",
    )  # fmt: skip
    assert f"Loaded checkpoint {model}" in done.stdout
    assert len(train_log(done.stdout)["train_inner"]) == 2
    before, after = (
        torch.load(path, weights_only=True)["model"] for path in (model, tmp_path / "run/checkpoint_last.pt")
    )
    assert before.keys() == after.keys()
    assert all((after[name] - tensor).abs().max() < 0.05 for name, tensor in before.items())  # two small steps away


def test_prenorm_release(golden, tmp_path):
    """A pre-norm checkpoint has one more layer norm, at the end."""
    args = Namespace(**json.loads(str(golden["args_json"])))
    args.encoder_normalize_before = True
    state = part(golden, "state/")
    for name in ("weight", "bias"):
        state[f"decoder.sentence_encoder.emb_out_layer_norm.{name}"] = torch.full((48,), 0.5)
    torch.save({"args": args, "model": state}, tmp_path / "pre.pt")
    model = load_release(tmp_path / "pre.pt")
    with torch.no_grad():
        features, _ = model(golden["b/src_tokens"], features_only=True)
    # gain and bias 0.5 at the end: mean 0.5, standard deviation 0.5 at every position
    torch.testing.assert_close(features.mean(-1), torch.full(features.shape[:2], 0.5), rtol=0, atol=1e-5)
    torch.testing.assert_close(features.std(-1, correction=0), torch.full(features.shape[:2], 0.5), rtol=0, atol=1e-3)


def test_the_next_command_can_be_pasted(release_file, tmp_path, capsys):
    out = tmp_path / "TUPE's own.pt"
    assert main(["convert-release", str(release_file), str(out)]) == 0
    command = capsys.readouterr().out.partition("fine-tune it with: ")[2]
    assert shlex.split(command) == ["tupe", "finetune", "TASK", str(out), "DATA"]
