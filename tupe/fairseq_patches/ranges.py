"""Values that a configuration cannot have: ONE table for training, plans, `tupe describe` and checkpoints.

fairseq does not look: it trains upwards at a negative rate, divides by an interval of 0, or ends without an update.
"""

import ast
import contextlib
import importlib.util
import json
import math
import operator
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import fields
from decimal import Decimal
from typing import Any

import torch
from fairseq.data.plasma_utils import PYARROW_AVAILABLE
from fairseq.dataclass.configs import (
    DistributedTrainingConfig,
    EMAConfig,
    FairseqBMUFConfig,
    FairseqConfig,
    GenerationConfig,
)
from fairseq.registry import REGISTRIES
from omegaconf import ListConfig
from omegaconf.errors import InterpolationKeyError, MissingMandatoryValue

from tupe.errors import UserError
from tupe.fairseq_patches.scope import REGISTERED, chosen, in_scope

_LARGEST = (1 << 63) - 1  # that C counts with
_LARGEST_FLOAT = 1e38  # above it single precision is infinite
MOST = 1 << 20  # of layers, widths, positions and so on

#: Whether a number can be, and what can.
Range = tuple[Callable[[float], bool], str]

_SHARE = (lambda x: 0 <= x <= 1), "a share, from 0 to 1"
_PART = (lambda x: 0 < x < 1), "a share above 0 and below 1"
_MASKED = (lambda x: 0.001 <= x < 1), "a share from 0.001, below 1"  # with less, most batches have nothing to learn
_BELOW_ONE = (lambda x: 0 <= x < 1), "a number from 0, below 1"
_ABOVE = (lambda x: x > 0), "a number above 0"
_RATE = (lambda x: x >= 0), "a number, 0 or more"
_COUNT = (lambda x: 1 <= x < 1 << 31), "a number from 1, below 2147483648"  # fairseq counts some in 32 bits
_LENGTH = (lambda x: 2 <= x < 1 << 31), "a number from 2, below 2147483648"  # `[CLS]` and a word
_POWER = (lambda x: -20 <= x <= 20), "a number from -20 to 20"
_TOP = (lambda x: 0 < x <= 1 or x == -1), "a share, above 0 and at most 1"
_LIMIT = (lambda x: x >= 1 or x == -1), "a number above 0"  # -1 is fairseq's own for none
_KEPT = (lambda x: x >= -1), "a number, 0 or more, or -1 for all"
_PORT = (lambda x: 1 <= x < 1 << 16 or x == -1), "a port, from 1 to 65535"
_WORKERS = (lambda x: 0 <= x <= 1024), "a number from 0 to 1024"
_FIRST = (lambda x: x >= 0 or x == -1), "a number, 0 or more"  # -1 is fairseq's own for the default
_FACTOR = (lambda x: x >= 1), "a number, 1 or more"
_FALLING = (lambda x: x <= 0), "a number, 0 or less"
_SEED = (lambda x: 0 <= x < 1 << 32), "a number from 0 to 4294967295"
_SIZE = (lambda x: 1 <= x <= MOST), f"a number from 1 to {MOST}"
_WIDTH = (lambda x: 0 <= x <= MOST), f"a number from 0 to {MOST}"
_OTHER_SIZE = (lambda x: -1 <= x <= MOST), f"a number from -1 to {MOST}"
_SEPARATORS = (lambda x: x in (1, 2)), "1 or 2"
_LAYERS = (lambda x: 1 <= x <= 1024), "a number from 1 to 1024"

_NAMES: list[tuple[Range, str]] = [
    (_SEED, "seed fixed_validation_seed"),
    (_SHARE, "dropout attention_dropout activation_dropout pooler_dropout label_smoothing ema_decay"),
    (_SHARE, "random_token_prob fp16_scale_tolerance"),
    (_MASKED, "mask_prob"),
    (_PART, "layer_norm_eps"),
    (_BELOW_ONE, "warmup_ratio momentum leave_unmasked_prob"),
    (_ABOVE, "fp16_init_scale amp_init_scale min_loss_scale generator_size sampling_temperature"),
    (_RATE, "lr clip_norm stop_time_hours weight_decay mask_stdev multilang_sampling_alpha"),
    (_RATE, "max_epoch max_update warmup_updates save_interval_minutes save_interval_updates"),
    (_RATE, "validate_interval_updates validate_after_updates curriculum empty_cache_freq"),
    (_RATE, "data_buffer_size buffer_size distributed_rank device_id length_window"),
    (_COUNT, "log_interval save_interval validate_interval update_freq max_valid_steps total_num_update num_shards"),
    (_COUNT, "required_batch_size_multiple required_seq_len_multiple distributed_world_size nprocs_per_node"),
    (_COUNT, "mask_multiple_length fp16_scale_window amp_scale_window model_parallel_size bucket_cap_mb"),
    (_COUNT, "all_gather_list_size max_query max_answer doc_stride beam nbest checkpoint_shard_count"),
    (_LENGTH, "tokens_per_sample"),
    (_ABOVE, "temperature final_lr_scale max_lr threshold_loss_scale softmax_batch clip_threshold"),
    (_SHARE, "lr_shrink lr_decay"),
    (_RATE, "min_lr end_learning_rate power lr_patience lr_threshold init_lr_scale"),
    (_RATE, "warmup_steps hold_steps decay_steps"),
    (_RATE, "ema_start_update amp_batch_retries warmup_iterations ignore_prefix_size rdrop_alpha"),
    (_RATE, "context_window block_lr diverse_beam_strength lm_weight"),
    (_ABOVE, "adam_eps eps adadelta_eps adamax_eps"),  # at 0, words that a batch lacks become 0 / 0
    (_BELOW_ONE, "block_momentum adadelta_rho beta1"),
    (_COUNT, "force_anneal lr_deacy_period ema_update_freq global_sync_iter"),
    (_FIRST, "warmup_init_lr"),
    (_FACTOR, "t_mult"),
    (_FALLING, "decay_rate"),
    (_LIMIT, "lr_period_updates upsample_primary"),
    (_PORT, "distributed_port"),
    (_WORKERS, "num_workers"),
    (_RATE, "fire_length rotary_length attention_window log_length"),
    (_COUNT, "rotary_base rotary_factor"),
    (_OTHER_SIZE, "rotary_dims"),
    (_RATE, "max_len_a max_len_b min_len prefix_size no_repeat_ngram_size discriminator_weight generator_weight"),
    (_POWER, "lenpen"),
    (_TOP, "sampling_topp"),
    (_LIMIT, "sampling_topk diverse_beam_groups"),
    (_LIMIT, "batch_size batch_size_valid max_tokens max_tokens_valid patience num_classes"),
    (_KEPT, "keep_interval_updates keep_interval_updates_pattern keep_last_epochs keep_best_checkpoints"),
    (_LAYERS, "encoder_layers decoder_layers"),
    (_SIZE, "encoder_embed_dim encoder_ffn_embed_dim encoder_attention_heads"),
    (_SIZE, "max_positions max_source_positions max_target_positions"),
    (_SIZE, "position_rank relative_max_distance fire_width vocab_size"),
    (_WIDTH, "decoder_embed_dim decoder_ffn_embed_dim decoder_attention_heads decoder_input_dim decoder_output_dim"),
    (_WIDTH, "embedding_dim linformer_k randomised_positions content_terms relative_buckets num_batch_buckets"),
    (_SEPARATORS, "pair_separators"),
]
#: By the names of fields, which fairseq and this plugin use for the same in every group.
RANGES = {name: limits for limits, names in _NAMES for name in names.split()}
#: Pairs of numbers that fairseq evaluates as Python.
_PAIRS: dict[str, Range] = {
    **dict.fromkeys(("adam_betas", "adamax_betas", "lamb_betas"), _BELOW_ONE),
    "adafactor_eps": _ABOVE,
}
_PROCESSES = ("sentencepiece", "wordpiece", "letter", "silence", "_EOW", "subword_nmt", "@@ ", "@@", "none")
_TOKENIZERS = sorted(REGISTRIES["tokenizer"]["registry"])
_SEARCHES = "sampling diverse_beam_groups match_source_len diversity_rate"


def literal(value: str) -> Any:
    """Return the constant that a text of Python's stands for, or None if it is none."""
    try:
        return ast.literal_eval(value)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return None


def _is_backend(value: str) -> bool:
    """Tell whether PyTorch has the backend, or those of `cpu:gloo,cuda:nccl`; some builds have none at all."""
    known = getattr(getattr(torch.distributed, "Backend", None), "backend_list", None)
    return known is None or all(part.rpartition(":")[2] in known for part in value.split(","))


def _is_dictionary(value: str) -> bool:
    found = literal(value)
    return isinstance(found, dict) and all(isinstance(name, str) for name in found)


def _json(value: str) -> Any:
    try:
        return json.loads(value)
    except ValueError:
        return None


def _is_search(value: str) -> bool:
    found = _json(value)
    return isinstance(found, dict) and found.keys() <= {field.name for field in fields(GenerationConfig)}


def _has(package: str) -> bool:
    return importlib.util.find_spec(package) is not None


def _can_shard(backend: str, on_cpu: bool) -> bool:
    return backend != "fully_sharded" or (not on_cpu and torch.cuda.is_available() and _has("fairscale"))


_NO_FAIRSCALE = "install fairscale, or leave it out"
_NOT_SHARDED = "fully_sharded needs GPUs and the package fairscale, so choose legacy_ddp, or on GPUs pytorch_ddp"
_ALL_SAMPLES = "give --nbest equal to --beam"
#: Fields of a group that limit each other, or have choices: whether their values can be, all given, and what to do.
#: A name with a dot is of another group.
_TOGETHER: list[tuple[str, str, Callable[..., bool], str]] = [
    ("common_eval", "model_overrides", _is_dictionary, "give a dictionary of plain values, as {'dropout': 0}"),
    ("lr_scheduler", "epoch2lr", _is_dictionary, "give a dictionary, as {'1-3': 1e-4}"),
    ("lr_scheduler", "update2lr", _is_dictionary, "give a dictionary, as {'1-3': 1e-4}"),
    ("checkpoint", "optimizer_overrides", _is_dictionary, "give a dictionary of plain values, as {'eps': 1e-6}"),
    ("common_eval", "post_process", _PROCESSES.__contains__, f"give one of {', '.join(map(repr, _PROCESSES))}"),
    ("task", "eval_bleu_args", _is_search, 'give a dictionary of options of the search, as {"beam": 4}'),
    ("task", "eval_bleu_detok_args", lambda x: isinstance(_json(x), dict), 'give a dictionary, as {"x": 1}'),
    ("task", "eval_bleu_detok", _TOKENIZERS.__contains__, f"give one of {', '.join(_TOKENIZERS)}"),
    ("task", "eval_bleu_remove_bpe", _PROCESSES.__contains__, f"give one of {', '.join(map(repr, _PROCESSES))}"),
    ("task", "mask_multiple_length tokens_per_sample", operator.lt, "give a shorter one"),
    ("task", "mask_stdev tokens_per_sample", operator.lt, "give a smaller one"),
    ("task", "leave_unmasked_prob random_token_prob", lambda *given: sum(given) <= 1, "give at most 1 in sum"),
    ("criterion", "discriminator_weight generator_weight", lambda *given: any(given), "give one above 0"),
    ("common", "profile", lambda x: not x or torch.cuda.is_available(), "leave it out, without a GPU to profile"),
    ("common", "tpu", lambda x: not x or _has("torch_xla"), "install the package torch_xla, or leave it out"),
    ("distributed_training", "zero_sharding", lambda x: x == "none" or _has("fairscale"), _NO_FAIRSCALE),
    ("distributed_training", "ddp_backend common.cpu", _can_shard, _NOT_SHARDED),
    ("distributed_training", "ddp_backend", lambda x: x != "slowmo" or _has("fairscale"), _NO_FAIRSCALE),
    ("checkpoint", "checkpoint_shard_count", lambda x: x == 1 or _has("fairscale"), _NO_FAIRSCALE),
    ("checkpoint", "checkpoint_suffix", lambda x: "/" not in x, "give one without a slash"),
    ("checkpoint", "write_checkpoints_asynchronously", lambda x: not x or _has("iopath"),
     "install iopath, without which nothing would be saved, or leave it out"),
    ("common", "model_parallel_size", lambda x: x == 1, "leave it out: no model of TUPE is split over GPUs"),
    ("common", "quantization_config_path", operator.not_, "leave it out: no model of TUPE is quantised in training"),
    ("common", "use_plasma_view", lambda x: not x or PYARROW_AVAILABLE, "leave it out: it needs pyarrow.plasma"),
    ("task", "d2v2_multi", operator.not_, "leave it out: data2vec's batches have no masks"),
    ("task", "skip_masking", operator.not_, "leave it out: the model would see the words that it predicts"),
    ("criterion", "classification_head_name", lambda x: x and "." not in x, "give a name without a dot"),
    ("checkpoint", "save_dir", str.strip, "name a folder"),
    ("checkpoint", "save_dir", lambda x: x.split("/")[0] != "~", "write $HOME, as ~ would be a folder of that name"),
    ("dataset", "train_subset", str.strip, "name a split, as train"),
    ("dataset", "gen_subset", str.strip, "name a split, as test"),
    ("dataset", "valid_subset disable_validation",
     lambda x, off: off or (all(map(str.strip, x.split(","))) and len({*x.split(",")}) > x.count(",")),
     "name one split or more, each once, separated by commas, as valid"),
    ("checkpoint", "patience dataset.disable_validation", lambda x, off: x < 0 or not off, "validate, or leave it out"),
    ("checkpoint", "keep_best_checkpoints dataset.disable_validation", lambda x, off: x < 0 or not off,
     "validate, or leave it out"),
    ("model", "max_positions task.max_positions", operator.eq, "leave out the model's, which takes the task's"),
    ("model", "encoder_attention_heads encoder_embed_dim", lambda heads, width: heads <= width, "give fewer heads"),
    ("distributed_training", "distributed_rank distributed_world_size", operator.lt,
     "give a rank from 0, below the world size"),
    ("distributed_training", "distributed_backend", _is_backend, "give one of PyTorch's, as nccl or gloo"),
    ("criterion", "ignore_prefix_size task.max_target_positions", operator.lt,
     "give fewer words, or the loss would have none"),
    ("dataset", "shard_id num_shards", lambda x, count: 0 <= x < count, "give a shard from 0, below their number"),
    ("lr_scheduler", "warmup_init_lr optimization.lr", lambda x, lr: x <= lr[0], "give a warmup_init_lr of at most lr"),
    ("generation", "nbest beam", lambda x, beam: x <= beam, "give --nbest at most --beam"),
    ("generation", "sampling nbest beam", lambda x, nbest, beam: not x or nbest == beam, _ALL_SAMPLES),
    ("generation", "sampling_topk sampling", lambda x, sampling: x < 0 or sampling, "add --sampling"),
    ("generation", "sampling_topp sampling", lambda x, sampling: x < 0 or sampling, "add --sampling"),
    ("generation", "diverse_beam_groups beam", lambda x, beam: x < 1 or beam % x == 0, "give a divisor of the beam"),
    ("generation", _SEARCHES, lambda *given: sum(x > 0 for x in given) <= 1, "give one of these searches"),
]  # fmt: skip
#: The same for fields of one schedule: its name, the fields, whether their values can be, and what to do.
_OF_SCHEDULES: list[tuple[str, str, Callable[..., bool], str]] = [
    ("cosine", "lr_period_updates warmup_updates optimization.max_update",
     lambda period, warmup, most: period > 0 or warmup < most, "give a period, or a max_update above the warm-up"),
    ("inverse_sqrt", "warmup_updates", lambda x: x > 0, "give a warm-up above 0, from which the rate falls"),
    ("linear_decay", "warmup_updates warmup_ratio", lambda *given: not all(given), "keep one of them"),
    ("polynomial_decay", "warmup_updates total_num_update", lambda warmup, total: total <= 0 or warmup < total,
     "give a warm-up shorter than the schedule"),
    ("polynomial_decay", "total_num_update end_learning_rate optimization.max_update",
     lambda total, end, most: end > 0 or most <= total,
     "give a total_num_update of max_update or more, or the last updates learn nothing"),
    ("triangular", "lr_period_updates", lambda x: x >= 2, "give a period of 2 or more"),
    ("step", "min_lr optimization.lr", lambda x, lr: x < lr[0], "give a min_lr below lr"),
    ("reduce_lr_on_plateau", "dataset.disable_validation", operator.not_,
     "validate, because the schedule waits for a loss of validation"),
]  # fmt: skip
_TOGETHER += [
    ("lr_scheduler", f"_name {names}", lambda kind, *given, of=of, can_be=can_be: kind != of or can_be(*given), words)
    for of, names, can_be, words in _OF_SCHEDULES
]
#: Fields that nothing reads, so that they can only have their defaults: group, its fields, which of them, and why.
_UNREAD = [
    ("generation", GenerationConfig, "iter_decode_.*|retain_iter_history|decoding_format|print_step",
     "no model of TUPE refines translations"),
    ("generation", GenerationConfig, ".*_mt|eos_token", "only models of speech read it"),
    ("generation", GenerationConfig, "retain_dropout.*", "models of TUPE translate without dropout"),
    ("distributed_training", DistributedTrainingConfig, "pipeline_.*", "no model of TUPE is a pipeline"),
]  # fmt: skip
_TOGETHER += [
    (group, field.name, [field.default].__contains__, f"leave it out: {why}")
    for group, of, names, why in _UNREAD
    for field in fields(of)
    if re.fullmatch(names, field.name)
]
#: Fields that are read with one value of a switch alone: group, its fields, which of them, the switch, and the value.
_READ_WITH = [
    ("distributed_training", DistributedTrainingConfig, "slowmo_.*|localsgd_.*", "ddp_backend", "slowmo"),
    ("distributed_training", DistributedTrainingConfig,
     "no_reshard_after_forward|fp32_reduce_scatter|cpu_offload|use_sharded_state|not_fsdp_flatten_parameters",
     "ddp_backend", "fully_sharded"),
    ("ema", EMAConfig, "(?!_name|store_ema).*", "store_ema", True),
    ("bmuf", FairseqBMUFConfig, "(?!_name|distributed_world_size).*", "optimization.use_bmuf", True),
]  # fmt: skip
_TOGETHER += [
    (
        group,
        f"{field.name} {switch}",
        lambda x, value, usual=field.default, reads=reads: x == usual or value == reads,
        f"leave it out, or set {switch} to {reads}, without which nothing reads it",
    )
    for group, of, names, switch, reads in _READ_WITH
    for field in fields(of)
    if re.fullmatch(names, field.name)
]
_NOT_EMPTY = ("lr", "update_freq")
#: Of attention that is computed in one piece.
NO_WEIGHTS = "weights of attention, which models of TUPE do not hand out"
GROUPS = [field.name for field in fields(FairseqConfig)]


def refuse_out_of_range(cfg: Any, groups: Iterable[str] | None = None) -> None:
    """Raise a `UserError` for the first value that cannot be, in these groups of a configuration or in all.

    `cfg` and its groups are dictionaries, or have attributes.
    """
    for group in GROUPS if groups is None else groups:
        part = _get(cfg, group)
        for name, value in () if of_others(group, part) else _items(part):
            refuse_value(name, value, f"{group}.{name}")
    for group, names, can_be, words in _TOGETHER:
        places = [name if "." in name else f"{group}.{name}" for name in names.split()]
        values = {place: value_of(cfg, place) for place in places}
        if None not in values.values() and not can_be(*values.values()):
            raise UserError(f"{', '.join(f'{place} is {x!s:.40}' for place, x in values.items())}: {words}.")


def refuse_value(name: str, value: Any, where: str) -> None:
    """Raise a `UserError` if the field `name`, shown as `where`, cannot have this value."""
    if name in _PAIRS:
        _refuse_pair(name, value, where)
        return
    several = isinstance(value, (list, tuple, ListConfig))
    if several and not value and name in _NOT_EMPTY:
        raise UserError(f"{where} is empty: give a list of one number or more, as [1].")
    size = name.endswith(("_layers", "_dim", "_heads", "_positions"))  # of models of fairseq's
    can_be, words = RANGES.get(name, _OTHER_SIZE if size else (lambda x: True, "a finite number"))
    for number in value if several else [value]:
        if several and name in _NOT_EMPTY and isinstance(number, (list, tuple, ListConfig)):
            raise UserError(f"{where} is {value!s:.40}: give a list of numbers, as [1].")
        if isinstance(number, bool) or not isinstance(number, (int, float)):
            continue
        most = _LARGEST if isinstance(number, int) else _LARGEST_FLOAT
        also = f", and at most {most}" if most < abs(number) < math.inf else ""
        if also or not (math.isfinite(number) and can_be(number)):
            raise UserError(f"{where} is {_shown(number)}: give {words}{also}.")


def of_others(group: str, part: Any) -> bool:
    """Tell whether the class that a part names is of neither fairseq nor this plugin: its fields are its own."""
    kind = chosen(group, _get(part, "_name") or part) if group in REGISTERED else None
    return kind is not None and kind.__module__.partition(".")[0] not in ("fairseq", "tupe") and not in_scope(kind)


def _refuse_pair(name: str, value: Any, where: str) -> None:
    can_be, words = _PAIRS[name]
    pair = literal(value) if isinstance(value, str) else value
    whole = isinstance(pair, (list, tuple, ListConfig)) and len(pair) == 2
    if not whole or not all(
        type(number) in (int, float) and math.isfinite(number) and can_be(number) for number in pair
    ):
        raise UserError(f"{where} is {value!s:.40}: give two numbers, each {words}, as (0.9, 0.98).")


def _shown(number: float) -> str:
    return str(number) if isinstance(number, float) or abs(number) < 10**20 else f"{Decimal(number):.3e}"


def value_of(cfg: Any, place: str) -> Any:
    """Return `group.field` of a configuration, by group a dictionary or with attributes, or None."""
    group, _, field = place.partition(".")
    return _get(_get(cfg, group), field)


def _get(part: Any, name: str) -> Any:
    return part.get(name) if isinstance(part, dict) else getattr(part, name, None)


def _items(part: Any) -> Iterator[tuple[str, Any]]:
    """Yield the fields that have a value: one that follows a field of another part has none where that is absent."""
    fields = {} if part is None or isinstance(part, str) else part if isinstance(part, Mapping) else vars(part)
    for name in fields:
        with contextlib.suppress(InterpolationKeyError, MissingMandatoryValue):
            yield str(name), fields[name]
