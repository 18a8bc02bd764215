from pickle import UnpicklingError
from types import SimpleNamespace

import pytest
import torch
from fairseq import checkpoint_utils, distributed_utils
from fairseq.data import Dictionary

from tests.test_safe_load import Malicious
from tupe.fairseq_patches.checkpoints import broadcast_configurations, compare
from tupe.models.config import named
from tupe.util import UserError


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
    with pytest.raises(UnpicklingError, match="exec"):
        read(str(bad))
    assert not witness.exists()


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


def test_an_encoder_begins_no_electra():
    state = {"cfg": {"model": {"_name": "tupe_tiny", "dictionary_sha256": None}}, "model": {}}
    task, name = SimpleNamespace(source_dictionary=Dictionary()), "electra_tupe_r_tiny"
    with pytest.raises(UserError, match=r"of another system \(.*generator_size: checkpoint has none, here"):
        compare("a.pt", state, named(name), task)
