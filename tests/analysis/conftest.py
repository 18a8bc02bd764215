"""Checkpoints of small models with random parameters."""

from types import SimpleNamespace

import pytest
import torch
from fairseq.data import Dictionary

from tupe.models import ElectraModel
from tupe.models.config import named
from tupe.models.tupe import TupeModel, as_namespace
from tupe.systems import ELECTRA_NAMES

SMALL = {"encoder_layers": 2, "encoder_embed_dim": 24, "encoder_ffn_embed_dim": 48, "encoder_attention_heads": 3}


@pytest.fixture
def save(tmp_path):
    """`save("tupe_tiny")` writes a checkpoint as fairseq does and returns its path."""

    def save(name, **fields):
        torch.manual_seed(0)
        config = named(name, **{**SMALL, **fields})
        task = SimpleNamespace(source_dictionary=Dictionary(), max_positions=lambda: 20)
        kind = TupeModel
        if name in ELECTRA_NAMES:
            kind = ElectraModel
            task.source_dictionary.add_symbol("<mask>")
        model = kind.build_model(config, task)
        for parameter in model.parameters():
            torch.nn.init.normal_(parameter, std=0.3)
        cfg = {"model": {**vars(as_namespace(config)), "_name": name}, "task": {"tokens_per_sample": 20}}
        torch.save({"cfg": cfg, "model": model.state_dict()}, tmp_path / "checkpoint.pt")
        return tmp_path / "checkpoint.pt"

    return save
