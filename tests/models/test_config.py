"""Named models: one dataclass of a kind and the row of a name, by `--arch`, by `model._name` and in old checkpoints."""

import pytest
import torch
from fairseq import options
from fairseq.dataclass.configs import FairseqConfig
from fairseq.dataclass.initialize import add_defaults
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq.models import ARCH_CONFIG_REGISTRY
from omegaconf import OmegaConf, open_dict

import tupe.plugin  # noqa: F401
from tests.contract.aliases import Seq2SeqModel, load
from tests.contract.fixtures.data import FIXTURES, write_dictionaries
from tupe.models.config import TupeConfig, named
from tupe.models.tupe import as_namespace
from tupe.systems import system_fields

#: A name of each dataclass, with a field of its row and one that no row has.
GIVEN = {
    "bert_a_base": {"relative": "bucketed", "dropout": 0.3},
    "electra_diet_abs_small": {"generator_size": 0.5, "untied_projection_bias": True},
    "seq2seq_shaw_tiny": {"encoder_layers": 3, "decoder_layers": 2},
}


def by_arch(name, fields):
    parser = options.get_training_parser(default_task="translation" if name.startswith("seq2seq") else "masked_lm")
    flags = [f"--{key.replace('_', '-')}{'' if value is True else f'={value}'}" for key, value in fields.items()]
    args = options.parse_args_and_arch(parser, ["data", "--arch", name, *flags])
    return convert_namespace_to_omegaconf(args)


def by_hydra(name, fields):
    cfg = OmegaConf.create(OmegaConf.to_container(OmegaConf.structured(FairseqConfig()), enum_to_str=True))
    cfg.model = {"_name": name, **fields}
    add_defaults(cfg)
    return OmegaConf.create(OmegaConf.to_container(cfg, enum_to_str=True))


@pytest.mark.parametrize("read", [by_arch, by_hydra])
@pytest.mark.parametrize("name", GIVEN)
def test_a_given_field_goes_before_the_row_and_the_row_before_the_default(read, name):
    cfg = read(name, GIVEN[name])
    ARCH_CONFIG_REGISTRY[name](cfg.model)  # as fairseq's `build_model`
    assert dict(cfg.model) == vars(as_namespace(named(name, **GIVEN[name])))


def test_flags_of_the_task_keep_their_defaults():
    task = by_arch("seq2seq_t5_tiny", {}).task
    assert (task.max_source_positions, task.max_target_positions) == (1024, 1024)


def test_empty_fields_are_those_of_a_pretrained_checkpoint(tmp_path):
    """An ELECTRA's too, whose encoder is fine-tuned alone; given fields stay."""
    state = torch.load(FIXTURES / "checkpoints/electra.pt", weights_only=True)
    state["cfg"]["model"]["pooler_activation_fn"] = "gelu"
    torch.save(state, tmp_path / "electra.pt")
    cfg = by_hydra("bert_a_base", {"pretrained": str(tmp_path / "electra.pt"), "segment": "per_head"}).model
    with open_dict(cfg):
        ARCH_CONFIG_REGISTRY["bert_a_base"](cfg)
    theirs = state["cfg"]["model"]
    fields = {name: theirs[name] for name in system_fields(TupeConfig) if name in theirs}
    assert f"electra_{cfg._name}" == theirs["_name"] and (cfg.max_positions, cfg.pooler_activation_fn) == (32, "gelu")
    assert {name: cfg[name] for name in fields} == {**fields, "segment": "per_head"}


@pytest.mark.parametrize("name", ["pretrained", "translator"])
def test_a_field_that_is_younger_than_a_checkpoint_has_the_default_of_its_name(name, tmp_path):
    state = torch.load(FIXTURES / f"checkpoints/{name}.pt", weights_only=True)
    data, fields = write_dictionaries(tmp_path / "data"), state["cfg"]["model"]
    younger = [key for key, value in vars(as_namespace(named(fields["_name"]))).items() if fields.get(key, 0) == value]
    removed = [key for key in younger if key not in ("_name", "dictionary_sha256")]
    assert {"rotary_base", "attention_backend"} <= set(removed)
    for key in removed:
        fields.pop(key, None)
    torch.save(state, tmp_path / "old.pt")
    if name == "translator":
        (model,) = Seq2SeqModel.from_pretrained(str(tmp_path), "old.pt", str(data), bpe=None).models
    else:
        model = load(tmp_path / "old.pt", data)
    assert model.args.rotary_base == 10000.0
