import contextlib
import dataclasses
import importlib
import math
import re
import sys
from argparse import Namespace

import pytest
import torch
from fairseq import distributed_utils
from fairseq.dataclass import FairseqDataclass
from fairseq.dataclass.configs import DistributedTrainingConfig, FairseqConfig
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq.models import MODEL_DATACLASS_REGISTRY
from fairseq.optim import FairseqOptimizer, register_optimizer
from fairseq.registry import REGISTRIES
from fairseq.tasks import TASK_DATACLASS_REGISTRY
from omegaconf import OmegaConf
from omegaconf.errors import ValidationError

from tests.commands import hydra_train
from tupe.errors import UserError
from tupe.fairseq_patches.commands import generation_is_checked
from tupe.fairseq_patches.ranges import refuse_out_of_range


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--lr", -1], r"optimization.lr is -1.0: give a number, 0 or more"),
        (["--adam-betas", "abc"], r"optimizer.adam_betas is abc: give two numbers, each a number from 0, below 1"),
        (
            ["--encoder-attention-heads", 100],
            r"model.encoder_attention_heads is 100, model.encoder_embed_dim is 16: give",
        ),
        (["--lr", "1e999"], r"optimization.lr is inf: give a number, 0 or more"),
        (
            ["--leave-unmasked-prob", 0.7, "--random-token-prob", 0.7],
            r"random_token_prob is 0.7: give at most 1 in sum",
        ),
    ],
)
def test_training_refuses(flags, said, train, tmp_path):
    with pytest.raises(UserError, match=said):
        train(tmp_path, *flags)
    assert not list(tmp_path.glob("*.pt"))


NOT_A_COUNT, NOT_A_RATE, NOT_A_SEED = (
    "give a number (above 0|from 1)",
    "give a number, 0 or more",
    "from 0 to 4294967295",
)


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        *((key, 0, NOT_A_COUNT) for key in (
            "common.log_interval", "dataset.required_batch_size_multiple", "dataset.validate_interval",
            "checkpoint.save_interval", "distributed_training.distributed_world_size", "task.mask_multiple_length",
            "task.max_answer",
        )),
        *((key, -1, NOT_A_RATE) for key in (
            "optimization.max_update", "optimizer.weight_decay",
            "checkpoint.save_interval_updates", "lr_scheduler.warmup_updates", "task.mask_stdev",
            "task.length_window", "criterion.discriminator_weight",
        )),
        *((key, math.nan, NOT_A_RATE) for key in (
            "optimization.clip_norm", "model.save_interval_minutes",
        )),
        *(("optimizer.adam_eps", eps, "give a number above 0") for eps in (0.0, -1, math.nan)),
        ("optimizer.adafactor_eps", "(0, 1e-3)", "give two numbers, each a number above 0"),
        ("optimization.stop_min_lr", math.nan, "give a finite number"),
        ("dataset.batch_size", -3, NOT_A_COUNT),
        ("dataset.batch_size_valid", 10**19, "and at most 9223372036854"),
        ("dataset.batch_size", 10**400, "1.000e.400: give a number above 0, and at most"),
        ("dataset.required_batch_size_multiple", 1 << 31, "give a number from 1, below 2147483648"),
        ("model.rotary_factor", 0.5, "give a number from 1, below 2147483648"),
        ("criterion.sampling_temperature", 0.0, "give a number above 0"),
        ("task.mask_prob", 1.0, "give a share from 0.001, below 1"),
        ("task.leave_unmasked_prob", 1.0, "give a number from 0, below 1"),
        ("task.mask_prob", 1e-9, "give a share from 0.001, below 1"),
        ("task.frozen_layers", -2, "give a number from -1 to 1048576"),
        ("model.dropout", -0.5, "give a share, from 0 to 1"),
        ("common.seed", -1, NOT_A_SEED),
        *(("dataset.num_workers", number, "from 0 to 1024") for number in (-1, 10**9)),
        *((key, 1e300, "at most 1e.38") for key in ("optimization.lr", "optimizer.weight_decay", "generation.unkpen")),
        ("task.tokens_per_sample", 1, "a number from 2, below"),
        ("common.model_parallel_size", 2, "no model of TUPE is split"),
        ("common.quantization_config_path", "x", "no model of TUPE is quantised"),
        ("common.use_plasma_view", True, "leave it out: it needs pyarrow.plasma"),
        ("task.skip_masking", True, "leave it out: the model would see"),
        ("lr_scheduler.epoch2lr", "abc", "give a dictionary, as"),
        ("common.seed", 1 << 32, NOT_A_SEED),
        ("optimization.lr", [], "optimization.lr is empty: give a list"),
        ("optimization.update_freq", [], "optimization.update_freq is empty: give a list"),
        ("optimization.update_freq", [2, 0], "0: " + NOT_A_COUNT),
        ("optimization.max_epoch", -2, NOT_A_RATE),
        *(("model.encoder_layers", layers, "from 1 to 1024") for layers in (0, -4, 10**8)),
        *(("model.encoder_attention_heads", heads, "from 1 to 1048576") for heads in (0, -4, 10**8)),
        ("model.max_positions", -4, "from 1 to 1048576"),
        ("model.randomised_positions", 10**9, "from 0 to 1048576"),
        *(("optimizer.adam_betas", betas, "give two numbers") for betas in (
            "abc", "0.9", "(0.9, 1.0)", "(0.9, nan)", "__import__('os').abort()", [0.9], [0.9, "x"], "(0.9, True)",
        )),
    ],
)  # fmt: skip
def test_values_that_cannot_be(key, value, said):
    group, _, name = key.partition(".")
    for cfg in ({group: {name: value}}, OmegaConf.create({group: {name: value}})):
        with pytest.raises(UserError, match=rf"^{key} is .*{said}|^{said}"):
            refuse_out_of_range(cfg)


BY_KIND = {
    "ema": [
        ("ema_start_update", -1, NOT_A_RATE), ("ema_update_freq", 0, NOT_A_COUNT),
        ("ema_decay", 0.5, "set store_ema"),
    ],
    "bmuf": [
        ("global_sync_iter", 0, NOT_A_COUNT), ("warmup_iterations", -1, NOT_A_RATE),
        ("block_lr", 2.0, "set optimization.use_bmuf"), ("block_momentum", 1.0, "below 1"),
    ],
    "optimizer": [
        ("adadelta_rho", 2.0, "below 1"), ("decay_rate", 5.0, "0 or less"), ("clip_threshold", 0.0, "above 0"),
        ("beta1", 2.0, "below 1"),
    ],
    "lr_scheduler": [
        ("t_mult", 0.1, "1 or more"), ("lr_shrink", -1.0, "share"), ("lr_decay", 2.0, "share"),
        ("force_anneal", 0, NOT_A_COUNT),
        ("power", -1.0, NOT_A_RATE), ("end_learning_rate", -1.0, NOT_A_RATE), ("min_lr", -1.0, NOT_A_RATE),
        ("final_lr_scale", 0.0, "above 0"),
        ("hold_steps", -1, NOT_A_RATE), ("warmup_init_lr", -5.0, NOT_A_RATE),
        ("lr_period_updates", 0.5, "above 0"), ("lr_patience", -1, NOT_A_RATE),
    ],
    "task": [("upsample_primary", 0, "above 0"), ("num_batch_buckets", 10**9, "from 0 to 1048576")],
    "criterion": [("ignore_prefix_size", -1, NOT_A_RATE), ("rdrop_alpha", -1.0, NOT_A_RATE)],
    "generation": [
        ("beam_mt", 3, "only models of speech"), ("eos_token", "x", "only models of speech"),
        ("diverse_beam_strength", -1.0, NOT_A_RATE),
    ],
    "eval_lm": [("context_window", -1, NOT_A_RATE), ("softmax_batch", 0, "above 0")],
    "distributed_training": [("distributed_port", 10**6, "a port"), ("distributed_port", 0, "a port")],
    "common": [("amp_batch_retries", -1, NOT_A_RATE), ("threshold_loss_scale", -1.0, "above 0")],
}  # fmt: skip


@pytest.mark.parametrize(
    ("group", "name", "value", "said"), [(group, *row) for group, rows in BY_KIND.items() for row in rows]
)
def test_values_of_parts(group, name, value, said):
    with pytest.raises(UserError, match=rf"^{group}\.{name} is {re.escape(str(value))}.*: .*{said}"):
        refuse_out_of_range({group: {name: value, "store_ema": False}, "optimization": {"use_bmuf": False}})


@pytest.mark.parametrize(
    ("kind", "values", "said"),
    [
        ("cosine", {"lr_period_updates": -1, "warmup_updates": 3}, "give a period, or a max_update above the warm-up"),
        ("inverse_sqrt", {"warmup_updates": 0}, "give a warm-up above 0"),
        ("linear_decay", {"warmup_updates": 3, "warmup_ratio": 0.06}, "keep one of them"),
        ("polynomial_decay", {"warmup_updates": 5, "total_num_update": 5}, "give a warm-up shorter"),
        (
            "polynomial_decay",
            {"total_num_update": 2, "end_learning_rate": 0.0},
            "give a total_num_update of max_update",
        ),
        ("triangular", {"lr_period_updates": 1.0}, "give a period of 2 or more"),
        ("step", {"min_lr": 1.0}, "give a min_lr below lr"),
        ("reduce_lr_on_plateau", {}, "validate, because"),
    ],
)
def test_values_of_a_schedule_that_do_not_fit(kind, values, said):
    others = {"optimization": {"max_update": 3, "lr": [0.1]}, "dataset": {"disable_validation": True}}
    refuse_out_of_range({"lr_scheduler": {"_name": "fixed", **values}, **others})
    with pytest.raises(UserError, match=rf"^lr_scheduler\._name is {kind}, .*: {said}"):
        refuse_out_of_range({"lr_scheduler": {"_name": kind, **values}, **others})


def test_a_warm_up_that_falls():
    with pytest.raises(
        UserError, match=r"warmup_init_lr is 1\.0, optimization\.lr is \[0\.1\]: give a warmup_init_lr of"
    ):
        refuse_out_of_range({"lr_scheduler": {"warmup_init_lr": 1.0}, "optimization": {"lr": [0.1]}})


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (
            ["--lr-scheduler", "cosine", "--lr", "0.1,0.01"],
            "lr_scheduler cosine .*warmup_updates 0.*: Cannot use a fixed",
        ),
        (
            ["--lr-scheduler", "tri_stage", "--warmup-steps", 1],
            "lr_scheduler tri_stage .*decay_steps 0.* by zero; change",
        ),
    ],
)
def test_a_schedule_that_cannot_be_built(flags, said, train, tmp_path):
    with pytest.raises(UserError, match=said):
        train(tmp_path, *flags)


def test_every_default_can_be():
    """Covers fairseq's groups, and every model, task, criterion, optimizer and schedule that it knows."""
    groups = {f.name: [f.type] for f in dataclasses.fields(FairseqConfig) if dataclasses.is_dataclass(f.type)}
    registered = {"model": MODEL_DATACLASS_REGISTRY, "task": TASK_DATACLASS_REGISTRY}
    registered |= {kind: registry["dataclass_registry"] for kind, registry in REGISTRIES.items()}
    for group, kinds in {**groups, **{group: known.values() for group, known in registered.items()}}.items():
        for kind in kinds:
            refuse_out_of_range({group: {f.name: f.default for f in dataclasses.fields(kind)}})
    assert len(groups) > 5 and len(registered["model"]) > 50


def test_fields_of_another_package_are_its_own():
    @register_optimizer("of_another", dataclass=dataclasses.make_dataclass("Of", [], bases=(FairseqDataclass,)))
    class OfAnother(FairseqOptimizer):
        pass

    refuse_out_of_range({"optimizer": {"_name": "of_another", "eps": -1.0, "adam_betas": "abc"}})


def test_hydra_refuses_before_a_process_begins(corpus, tmp_path):
    """fairseq starts no process at a world size of 0, and ends with 0, before it imports the plugin by itself."""
    done = hydra_train(corpus, tmp_path, "distributed_training.distributed_world_size=0", check=False)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith("error: distributed_training.distributed_world_size is 0: give")


def test_what_is_there_may_be_at_its_end_or_not_set():
    refuse_out_of_range(
        OmegaConf.create(
            {
                "model": {"dropout": 0.0, "attention_dropout": 1},
                "dataset": {"batch_size": None, "max_tokens": -1, "batch_size_valid": 1},
                "optimization": {"lr": [0.0, 1e-3], "update_freq": [1]},
            }
        )
    )


@pytest.mark.parametrize("command", ["train", "validate"])
def test_a_batch_has_a_size(command):
    main = importlib.import_module(f"fairseq_cli.{command}").main
    cfg = OmegaConf.create({
        "task": "masked_lm", "model": "tupe_tiny", "criterion": "tupe_masked_lm",
        "dataset": {"batch_size": None, "max_tokens": None}, "common": {"user_dir": None},
    })  # fmt: skip
    with pytest.raises(UserError, match="no size of a batch is given: set --batch-size or --max-tokens"):
        distributed_utils.call_main(cfg, main)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"sampling": True, "nbest": 1, "beam": 5}, "generation.beam is 5: give --nbest equal to --beam"),
        ({"sampling": False, "nbest": 6, "beam": 5}, "generation.nbest is 6, .* give --nbest at most --beam"),
        ({"sampling": False, "sampling_topk": 3}, "generation.sampling_topk is 3, .* add --sampling"),
        ({"diverse_beam_groups": 2, "beam": 5}, "generation.diverse_beam_groups is 2, .* give a divisor of the beam"),
        ({"sampling": True, "diverse_beam_groups": 5, "beam": 5, "nbest": 5, "match_source_len": False,
          "diversity_rate": -1.0}, "give one of these searches"),
        ({"retain_iter_history": True}, "generation.retain_iter_history is True: leave it out"),
        ({"retain_dropout": True}, "generation.retain_dropout is True: leave it out"),
        ({"retain_dropout_modules": ["X"]}, "generation.retain_dropout_modules is .*: leave it out"),
        ({"print_step": True}, "generation.print_step is True: leave it out"),
        ({"iter_decode_max_iter": 3}, "generation.iter_decode_max_iter is 3: leave it out"),
    ],
)  # fmt: skip
def test_fields_of_a_search_that_do_not_fit(fields, said):
    with pytest.raises(UserError, match=said):
        refuse_out_of_range({"generation": fields})


def test_a_profile_needs_a_gpu(monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    with pytest.raises(UserError, match=r"^common.profile is True: leave it out, without a GPU to profile"):
        refuse_out_of_range({"common": {"profile": True}})


@pytest.mark.skipif(importlib.util.find_spec("iopath") is not None, reason="iopath is installed")
def test_a_checkpoint_in_the_background_needs_a_package():
    with pytest.raises(UserError, match=r"^checkpoint.write_checkpoints_asynchronously is True: install iopath"):
        refuse_out_of_range({"checkpoint": {"write_checkpoints_asynchronously": True}})


@pytest.mark.skipif(importlib.util.find_spec("fairscale") is not None, reason="fairscale is installed")
def test_sharding_needs_a_package():
    for place, value in (
        ("distributed_training.zero_sharding", "os"),
        ("distributed_training.ddp_backend", "slowmo"),
        ("checkpoint.checkpoint_shard_count", 2),
    ):
        group, _, name = place.partition(".")
        with pytest.raises(UserError, match=rf"^{place} is {value}: install fairscale, or leave"):
            refuse_out_of_range({group: {name: value}})


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("pipeline_decoder_balance", "abc", "leave it out: no model of TUPE is a pipeline"),
        ("pipeline_model_parallel", True, "leave it out: no model of TUPE is a pipeline"),
        ("distributed_rank", 7, "give a rank from 0, below the world size"),
        ("distributed_backend", "1.5", "give one of PyTorch's, as nccl or gloo"),
        ("fp32_reduce_scatter", True, "leave it out, or set ddp_backend to fully_sharded, without"),
        ("localsgd_frequency", 5, "leave it out, or set ddp_backend to slowmo, without"),
    ],
)
def test_fields_that_nothing_would_read(name, value, said):
    usual = vars(DistributedTrainingConfig())
    refuse_out_of_range({"distributed_training": usual})
    with pytest.raises(UserError, match=rf"^distributed_training\.{name} is {value}.*: {said}"):
        refuse_out_of_range({"distributed_training": {**usual, name: value}})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("train_subset", ""),
        ("valid_subset", ""),
        ("valid_subset", "valid,"),
        ("valid_subset", "a,a"),
        ("gen_subset", " "),
    ],
)
def test_a_split_has_a_name(name, value):
    with pytest.raises(UserError, match=rf"^dataset.{name} is {value}.*: name "):
        refuse_out_of_range({"dataset": {name: value, "disable_validation": False}})


@pytest.mark.parametrize(("name", "value"), [("mask_multiple_length", 32), ("mask_stdev", 40.0)])
def test_masks_are_shorter_than_a_text(name, value):
    refuse_out_of_range({"task": {"mask_multiple_length": 5, "mask_stdev": 1.0, "tokens_per_sample": 32}})
    with pytest.raises(UserError, match=rf"^task.{name} is {value}, task.tokens_per_sample is 32: give a s"):
        refuse_out_of_range({"task": {name: value, "tokens_per_sample": 32}})


@pytest.mark.parametrize("name", ["patience", "keep_best_checkpoints"])
def test_what_waits_for_a_validation_has_one(name):
    refuse_out_of_range({"checkpoint": {name: 2}, "dataset": {"disable_validation": False}})
    with pytest.raises(UserError, match=rf"^checkpoint.{name} is 2, dataset.disable_validation is True: validate, or"):
        refuse_out_of_range({"checkpoint": {name: 2}, "dataset": {"disable_validation": True}})


def test_a_loss_has_words():
    weights = {"discriminator_weight": 0.0, "generator_weight": 0.0}
    with pytest.raises(UserError, match=r"^criterion.discriminator_weight is 0.0, .*: give one above 0"):
        refuse_out_of_range({"criterion": weights})
    refuse_out_of_range({"criterion": {**weights, "generator_weight": 1.0}})
    cfg = {"criterion": {"ignore_prefix_size": 64}, "task": {"max_target_positions": 64}}
    with pytest.raises(UserError, match=r"^criterion.ignore_prefix_size is 64, .*: give fewer words"):
        refuse_out_of_range(cfg)


def test_overrides_are_a_dictionary():
    for group, name in (("common_eval", "model_overrides"), ("checkpoint", "optimizer_overrides")):
        refuse_out_of_range({group: {name: "{'eps': 1e-6}"}})
        with pytest.raises(UserError, match=rf"^{group}.{name} is a/b: give a dictionary of plain values, as "):
            refuse_out_of_range({group: {name: "a/b"}})


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("common_eval.post_process", "nosuch", "common_eval.post_process is nosuch: give one of 'sentencepiece', "),
        *(("common_eval.model_overrides", text, "give a dictionary") for text in (
            "abc", "[1]", "{", "dict(data='/')", "__import__('os').abort()", "{1: 2}",
        )),
        *(("task.eval_bleu_args", text, "give a dictionary of options of the search") for text in (
            "x", "[]", '{"nosuch": 0}',
        )),
        ("task.eval_bleu_detok_args", "x", "give a dictionary, as"),
        ("task.eval_bleu_detok", "nosuch", "nosuch: give one of moses, nltk, space"),
        ("task.eval_bleu_remove_bpe", "nosuch", "nosuch: give one of 'sentencepiece'"),
        ("criterion.classification_head_name", "a.b", "a.b: give a name without a dot"),
        ("criterion.classification_head_name", "", "give a name without a dot"),
        ("checkpoint.checkpoint_suffix", "a/b", "checkpoint.checkpoint_suffix is a/b: give one without a slash"),
        ("checkpoint.save_dir", "", "checkpoint.save_dir is : name a folder"),
        ("checkpoint.save_dir", "~/run", "checkpoint.save_dir is ~/run: write .HOME, as ~ would be a folder of"),
    ],
)  # fmt: skip
def test_texts_that_cannot_be(key, value, said):
    group, _, name = key.partition(".")
    with pytest.raises(UserError, match=said):
        refuse_out_of_range({group: {name: value}})


@pytest.mark.parametrize(("shard", "can_be"), [(-1, False), (0, True), (1, True), (2, False), (5, False)])
def test_shards(shard, can_be):
    cfg = OmegaConf.create({"dataset": {"shard_id": shard, "num_shards": 2}})
    with (
        contextlib.nullcontext() if can_be else pytest.raises(UserError, match=f"shard_id is {shard}, .*from 0, below")
    ):
        refuse_out_of_range(cfg)


@pytest.fixture
def command(monkeypatch, tmp_path):
    """`command("generate", "--beam", 2)`: a command of translation, in this process, on data that is not there."""

    def command(name, *flags):
        module = importlib.import_module(f"fairseq_cli.{name}")
        generation_is_checked()  # fairseq's module may be imported after fairseq was patched
        words = ("fairseq-" + name, tmp_path, "--user-dir", "tupe", "--task", "translation", "--path", "no.pt", *flags)
        monkeypatch.setattr(sys, "argv", [str(word) for word in words])
        module.cli_main()

    return command


@pytest.mark.parametrize("name", ["generate", "interactive"])
def test_commands_of_translation_refuse(name, command):
    with pytest.raises(UserError, match=r"generation.sampling is True, .* give --nbest equal to --beam"):
        command(name, "--sampling")
    with pytest.raises(UserError, match=r"common_eval.model_overrides is abc: give a dictionary"):
        command(name, "--model-overrides", "abc")
    with pytest.raises(UserError, match=r"^--model-overrides has 'criterion': 'x', but criterion is no field: give"):
        command(name, "--model-overrides", "{'criterion': 'x'}")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("interactive --tokenizer moses", "--tokenizer moses needs the languages: set --source-lang and --target-lang"),
        ("validate --task tupe_sentence_prediction", r"the task \w+ needs a criterion with \w+: set --criterion"),
        ("generate --constraints", "--constraints are read .* by fairseq-interactive alone"),
        ("interactive --score-reference", "--score-reference scores .* by fairseq-generate alone: leave it out"),
        ("interactive --num-shards 2", "--num-shards divides what fairseq-generate translates, and nothing else"),
        ("interactive --batch-size 5", "--batch-size 5 is above --buffer-size: raise the latter"),
    ],
)
def test_options_that_a_command_cannot_use(words, said, command):
    with pytest.raises(UserError, match=f"^{said}"):
        command(*words.split())


def test_weights_that_overrides_do_not_fit():
    cfg = convert_namespace_to_omegaconf(
        Namespace(user_dir="tupe", path="no.pt", model_overrides="{'encoder_layers': 2}")
    )

    def main(cfg):
        torch.nn.Linear(1, 1).load_state_dict({})

    main.__module__ = "fairseq_cli.generate"
    with pytest.raises(
        UserError, match=r"^the weights of no.pt do not fit the model that --model-overrides {'encoder_layers': 2}"
    ):
        distributed_utils.call_main(cfg, main)


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (OSError("file /nosuch not found"), "^file /nosuch not found: give another path"),
        (ValueError("Unsupported language modeling target: future"), "^fairseq-eval-lm scores models of the next word"),
        (ImportError("Please install editdistance to use WER scorer"), "^a package is missing: Please install edit"),
        (
            AssertionError("Dataset contains mask_idx (=24), this is"),
            "^the data hold <mask>, number 24, which training",
        ),
        (RuntimeError("alloc_cpu.cpp: err == 0. can't allocate memory: you tried"), "^there is too little memory"),
        (torch.OutOfMemoryError("CUDA out of memory. Tried"), "^there is too little memory for a batch: lower dataset"),
        (AssertionError("Sentences lengths should not exceed max_tokens=7"), "than the 7 tokens of a batch: raise"),
    ],
)
def test_what_fairseq_says_of_options(error, said):
    cfg = convert_namespace_to_omegaconf(Namespace(user_dir="tupe", path="no.pt", max_tokens=1))

    def main(cfg):
        raise error

    with pytest.raises(UserError, match=said):
        distributed_utils.call_main(cfg, main)


def test_a_checkpoint_that_makes_no_configuration():
    cfg = convert_namespace_to_omegaconf(Namespace(user_dir="tupe", path="no.pt"))

    def main(cfg):
        raise ValidationError("'x' is no bool\n    full_key: seed\n    object_type=C")

    main.__module__ = "fairseq_cli.generate"
    said = r"^no\.pt with --model-overrides \{\} makes no configuration \(seed: 'x' is no bool\): give another"
    with pytest.raises(UserError, match=said):
        distributed_utils.call_main(cfg, main)


def test_a_seed_of_averaged_weights_has_them(train, trained, tmp_path):
    with pytest.raises(UserError, match=r"checkpoint_last.pt has no averaged weights: give ema.ema_seed_model a"):
        train(tmp_path, "--store-ema", "--ema-seed-model", trained / "checkpoint_last.pt")


def test_a_file_that_cannot_be_a_folder_of_results(command, tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match=f"^{tmp_path / 'file'}: File exists; give another path"):
        command("generate", "--results-path", tmp_path / "file")


def test_a_file_that_is_not_there(tmp_path):
    cfg = convert_namespace_to_omegaconf(Namespace(user_dir="tupe", path="no.pt"))

    def main(cfg):
        (tmp_path / "nosuch").read_text()

    with pytest.raises(UserError, match=f"^{tmp_path / 'nosuch'}: No such file or directory; give another path"):
        distributed_utils.call_main(cfg, main)
