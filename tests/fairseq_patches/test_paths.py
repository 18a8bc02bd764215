import torch

from tests.commands import ROOT
from tupe.fairseq_patches.checkpoints import names


def strings(value):
    if isinstance(value, (dict, list)):
        for item in value.values() if isinstance(value, dict) else value:
            yield from strings(item)
    elif isinstance(value, str):
        yield value


def test_names():
    cfg = {"a": "/data/one/:/data/two", "b": ["rel/x", "/"], "c": "tcp://host:1", "d": {"kept": "/x/y", "e": None}}
    expected = {"a": "one:two", "b": ["rel/x", ""], "c": "tcp://host:1", "d": {"kept": "/x/y", "e": None}}
    assert names(cfg, {"kept"}) == expected


def test_a_checkpoint_holds_no_absolute_path_and_goes_on_without(corpus, train, tmp_path):
    train(tmp_path, "--user-dir", ROOT / "tupe", "--tensorboard-logdir", tmp_path / "board")
    cfg = torch.load(tmp_path / "checkpoint_last.pt", weights_only=True)["cfg"]
    assert [text for text in strings(cfg) if text.startswith("/")] == []
    assert (cfg["task"]["data"], cfg["common"]["user_dir"]) == (corpus.name, "tupe")
    train(tmp_path, "--max-update", 4)
