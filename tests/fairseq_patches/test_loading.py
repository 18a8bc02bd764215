from argparse import Namespace
from pickle import UnpicklingError
from types import SimpleNamespace

import pytest
import torch
from fairseq import checkpoint_utils, distributed_utils
from fairseq.data import Dictionary
from fairseq.models import MODEL_DATACLASS_REGISTRY
from fairseq_cli import validate
from omegaconf import OmegaConf
from omegaconf.errors import ConfigAttributeError

from tests.samples import write_checkpoint, write_corpus
from tests.test_safe_load import Malicious
from tupe.errors import UserError
from tupe.fairseq_patches import commands
from tupe.fairseq_patches.checkpoints import broadcast_configurations, compare


def changed(trained, path, **entries):
    """The checkpoint of `trained` with some entries replaced, or left out where None."""
    state = {**torch.load(trained / "checkpoint_last.pt", weights_only=True), **entries}
    torch.save({key: value for key, value in state.items() if value is not None or key == "args"}, path)
    return path


def test_fairseq_reads_its_own(trained):
    state = checkpoint_utils.load_checkpoint_to_cpu(str(trained / "checkpoint_last.pt"), {"data": "elsewhere"})
    assert state["cfg"].task.data == "elsewhere"
    assert state["optimizer_history"][-1]["num_updates"] == 3


@pytest.mark.parametrize("read", [checkpoint_utils.load_checkpoint_to_cpu, checkpoint_utils.load_ema_from_checkpoint])
def test_code_does_not_run_and_is_named(read, trained, tmp_path, monkeypatch):
    monkeypatch.setenv("TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD", "1")  # what PyTorch below 2.6 does by default
    witness = tmp_path / "witness"
    bad = changed(trained, tmp_path / "bad.pt", task_state=Malicious(exec, f"open({str(witness)!r}, 'w')"))
    with pytest.raises(UserError, match=r"bad\.pt .*`(builtins\.)?exec`"):
        read(str(bad))
    assert not witness.exists()


@pytest.mark.parametrize("key", ["model", "optimizer_history", "extra_state", "cfg"])
@pytest.mark.parametrize("value", [None, "of another kind"])
def test_other_dictionaries_are_no_checkpoints(key, value, trained, tmp_path):
    other = changed(trained, tmp_path / "other.pt", **{key: value})
    with pytest.raises(UserError, match=rf"other\.pt is not a checkpoint of fairseq, which has {key}"):
        checkpoint_utils.load_checkpoint_to_cpu(str(other))


def test_an_older_checkpoint_without_what_fairseq_upgrades(trained, tmp_path):
    stripped = tmp_path / "stripped.pt"
    model = torch.load(trained / "checkpoint_last.pt", weights_only=True)["model"]
    torch.save({"args": Namespace(arch="roberta_base"), "model": model}, stripped)
    with pytest.raises(
        UserError, match=r"stripped\.pt is not a checkpoint of fairseq, which has optimizer_history, extra"
    ):
        checkpoint_utils.load_checkpoint_to_cpu(str(stripped))


def test_training_does_not_go_on_from_weights_that_are_nan(trained, tmp_path):
    model = torch.load(trained / "checkpoint_last.pt", weights_only=True)["model"]
    model["encoder.lm_head.bias"][0] = float("nan")
    diverged = changed(trained, tmp_path / "diverged.pt", model=model)
    with pytest.raises(UserError, match=r"diverged\.pt holds weights that are NaN .* encoder\.lm_head\.bias"):
        checkpoint_utils.load_checkpoint_to_cpu(str(diverged))


@pytest.fixture
def alone():
    """A process group of this process alone."""
    torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
    yield torch.distributed.group.WORLD
    torch.distributed.destroy_process_group()


def test_a_checkpoint_reaches_the_other_ranks(trained, alone, monkeypatch):
    state = checkpoint_utils.load_checkpoint_to_cpu(str(trained / "checkpoint_last.pt"))
    sent = distributed_utils._split_tensors_from_obj(state, [])
    wire = []
    monkeypatch.setattr(distributed_utils, "broadcast", lambda tensor, **_: wire.append(tensor.clone()))
    distributed_utils._broadcast_object_slow(sent, 0, alone, torch.device("cpu"))
    monkeypatch.setattr(distributed_utils, "broadcast", lambda tensor, **_: tensor.copy_(sending.pop(0)))
    sending = wire.copy()
    with pytest.raises(UnpicklingError, match="Weights only load failed"):  # fairseq's own
        distributed_utils._broadcast_object_slow(None, 1, alone, torch.device("cpu"))
    sending = wire.copy()
    with broadcast_configurations():
        received = distributed_utils._broadcast_object_slow(None, 1, alone, torch.device("cpu"))
    assert received["cfg"] == state["cfg"]
    assert received["model"] == sent["model"]  # placeholders: the tensors follow


def test_validating_what_no_training_wrote(monkeypatch, tmp_path):
    """A checkpoint of `tupe import` has no criterion, which fairseq takes from the checkpoint: one sentence."""
    write_checkpoint(tmp_path / "a.pt", write_corpus(tmp_path / "corpus"))
    flags = ["--user-dir", "tupe", "--task", "masked_lm", "--cpu", "--batch-size", 4, "--path", tmp_path / "a.pt"]
    monkeypatch.setattr("sys.argv", ["fairseq-validate", *map(str, [tmp_path / "corpus", *flags])])
    with pytest.raises(UserError, match=r"a\.pt does not say its criterion, .* `tupe loss-by-position`\.$"):
        validate.cli_main()


def test_an_encoder_begins_no_electra():
    state = {"cfg": {"model": {"_name": "tupe_tiny", "dictionary_sha256": None}}, "model": {}}
    task, name = SimpleNamespace(source_dictionary=Dictionary()), "electra_tupe_r_tiny"
    with pytest.raises(UserError, match=r"of another system \(.*generator_size: checkpoint has none, here"):
        compare("a.pt", state, MODEL_DATACLASS_REGISTRY[name](_name=name), task)


def test_only_a_missing_criterion_is_explained_so():
    cfg = OmegaConf.create(
        {"dataset": {"batch_size": 4, "num_shards": 1}, "common_eval": {"path": "a.pt", "model_overrides": "{}"}}
    )
    state = OmegaConf.create({"criterion": {}}, flags={"struct": True})
    with pytest.raises(UserError, match="does not say its criterion"), commands._checked(cfg, validate.main):
        assert OmegaConf.create({}, flags={"struct": True}).criterion
    with pytest.raises(ConfigAttributeError), commands._checked(cfg, validate.main):
        assert state.criterion.report_accuracy
