"""Commands of fairseq: their arguments, what is checked before one begins, and how its processes meet."""

import ast
import atexit
import contextlib
import errno
import gc
import io
import logging
import os
import re
import sys
from argparse import ArgumentTypeError, Namespace
from collections.abc import Callable, Iterator
from dataclasses import fields
from typing import Any

import torch
from fairseq import distributed_utils, options
from fairseq.dataclass import utils as dataclass_utils
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq.models.roberta import RobertaModel
from fairseq.registry import REGISTRIES
from omegaconf.errors import ConfigAttributeError, ValidationError

from tupe.errors import UserError, one_line, system_sentence
from tupe.fairseq_patches.checkpoints import same_direction
from tupe.fairseq_patches.configuration import refuse_outputs, refuse_unknown, refuse_unknown_names
from tupe.fairseq_patches.patching import only_runs, patches, wrap
from tupe.fairseq_patches.printing import silence_libraries
from tupe.fairseq_patches.ranges import NO_WEIGHTS, literal, refuse_out_of_range
from tupe.fairseq_patches.scope import config_in_scope

logger = logging.getLogger(__name__)

_HYDRA_LINES = (
    "distributed_world_size: ${oc.decode:${oc.env:WORLD_SIZE}}, distributed_rank: ${oc.decode:${oc.env:RANK}}, "
    "distributed_init_method: env://, distributed_no_spawn: true"
)
_HYDRA_CPU_LINES = ", distributed_backend: gloo, ddp_backend: legacy_ddp"
#: Criterions that give each parameter of an encoder of ours a gradient.
_TRAIN_EVERY_PARAMETER = ("masked_lm", "tupe_masked_lm", "tupe_electra")
_BATCHED = ("fairseq_cli.train", "fairseq_cli.validate")  # the others have a default
_UNDIVIDED = (*_BATCHED, "fairseq_cli.interactive")
_EVALUATE = ("fairseq_cli.validate", "fairseq_cli.generate", "fairseq_cli.interactive")
#: What is raised in a command: the type of error, a pattern of its text, in which commands (none: all), and what that
#: tells a user.
_EXPLAINED: list[tuple[type[Exception], str, tuple[str, ...], str]] = [
    (UnicodeDecodeError, "", ("fairseq_cli.interactive",),
     "the text to translate ({cfg.interactive.input}) is not UTF-8: convert it."),
    (RuntimeError, r"Error\(s\) in loading state_dict", _EVALUATE,
     "the weights of {cfg.common_eval.path} do not fit the model that --model-overrides "
     "{cfg.common_eval.model_overrides} makes of it: leave out those of its sizes, or give another checkpoint."),
    (ValidationError, r"(?s)(.*?)\n +full_key: (\S*)", _EVALUATE,
     "{cfg.common_eval.path} with --model-overrides {cfg.common_eval.model_overrides} makes no configuration "
     "({found[2]}: {found[1]}): give another checkpoint or value."),
    (RuntimeError, "(?s).*(can't allocate memory|out of memory)", (),
     "there is too little memory for a batch: lower dataset.batch_size (--batch-size), dataset.max_tokens or the "
     "sequences' length, set model.checkpoint_activations (--checkpoint-activations), or free some."),
    (ValueError, "Unsupported language modeling target", (),
     "fairseq-eval-lm scores models of the next word, and none of TUPE is one."),
    (ImportError, "Please install.*", (), "a package is missing: {found[0]}."),  # as --scoring wer without its package
    (AssertionError, "Could not infer (model|task) type", ("fairseq_cli.train",),
     "the configuration names no {found[1]} that is registered: set {found[1]}._name, and --user-dir for your own."),
    (AssertionError, "Could not infer (model|task) type", (),
     "nothing registers the {found[1]} of the checkpoint {cfg.common_eval.path}: give --user-dir the folder that "
     "does."),
    (AssertionError, r"(?s).*Dataset contains mask_idx \(=(\d+)\)", (),
     "the data hold <mask>, number {found[1]}, which training itself puts in: they are damaged, or of another "
     "dictionary, so prepare them again."),
    (AssertionError, r"Sentences lengths should not exceed max_tokens=(\d+)", (),
     "a sequence is longer than the {found[1]} tokens of a batch: raise --max-tokens, or of validation "
     "--max-tokens-valid."),
    (ConfigAttributeError, r"(?s).*full_key: criterion\n", ("fairseq_cli.validate",),
     "{cfg.common_eval.path} does not say its criterion, because no training wrote it: give one that a training wrote, "
     "or measure this one with `tupe loss-by-position`."),
    (OSError, "Model file not found: (.*)", (), "there is no checkpoint {found[1]}: give the path of one"),
    (OSError, "file .*", (), "{found[0]}: give another path."),  # of a vocabulary, as --sentencepiece-model
]  # fmt: skip
#: Errors of the system that name no file.
_OF_THE_MACHINE = (errno.EMFILE, errno.ENFILE, errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.ENOMEM)


@patches(options, "parse_args_and_arch", "parser input_args parse_known")
def arguments(original):
    """Name what the parser refuses or misses, or takes although Hydra cannot make it, and let `--bf16` train.

    fairseq sets `args.tpu` with `--bf16`, and training then asks torch_xla for a device. In validation `--task`
    has no default.
    """

    def parse_args_and_arch(parser, input_args=None, parse_known=False, **others):
        refused = "argument --arch/-a: invalid choice: '"

        def error(message):
            if message.startswith(refused):
                refuse_unknown(message[len(refused) :].partition("'")[0])
            message = re.sub(r"invalid \w+ value: '\?\?\?'", "it has no default, so give a value", message)
            # without a page of usage before it
            parser.exit(2, f"error: {one_line(message)}: see {parser.prog} --help.\n")

        parser.error = error
        try:
            parsed = original(parser, input_args=input_args, parse_known=parse_known, **others)
        except RuntimeError as missing:
            if missing.args:
                raise
            raise UserError("no model is given: set --arch, such as tupe_base (`tupe systems` lists them).") from None
        except KeyError as missing:
            if missing.args == (None,):
                raise UserError("no task is given: set --task, as the checkpoint was trained (masked_lm).") from missing
            raise
        except ValueError as error:
            if "--fp16 and --tpu" not in str(error):  # fairseq takes bfloat16 for --tpu
                raise
            raise UserError("--fp16, --bf16 and --tpu exclude each other: keep one of them.") from error
        finally:
            vars(parser).pop("error", None)  # fairseq calls the function within itself
        args = parsed[0] if parse_known else parsed
        _refuse_without_settings(args)
        if config_in_scope(args):
            if "--tpu" not in (sys.argv[1:] if input_args is None else input_args):
                args.tpu = False
            refuse_out_of_range({"common": args}, [])  # fairseq starts plasma's server before it calls `main`
            silence_libraries()
        return parsed

    return parse_args_and_arch


@patches(dataclass_utils, "eval_str_list", "x x_type")
def numbers_of_flags(original):
    """Let the parser name the flag whose text is no list of numbers (`--lr 1e-3x`, `--update-freq 1.5`)."""

    def eval_str_list(x, x_type=float):
        try:
            found = original(x, x_type)
            if x_type is int and found != original(x, float):
                raise ValueError
            return found
        except (SyntaxError, TypeError, ValueError):
            raise ArgumentTypeError(f"{x!r:.60} is no {x_type.__name__} and no list, such as 1,2") from None

    return eval_str_list


@patches(dataclass_utils, "_override_attr", "sub_node data_class args")
def typed_flags(original):
    """Refuse a text for a flag whose default is another field's (`--batch-size-valid`): fairseq evaluates it.

    And a default that is a field of another criterion, or no language where there has to be one.
    """

    def _override_attr(sub_node, data_class, args):
        for field in getattr(data_class, "__dataclass_fields__", {}).values() if sub_node == "task" else ():
            if str(field.default).startswith("${criterion.") and not hasattr(args, field.name):
                raise UserError(
                    f"the task {args.task} needs a criterion with {field.name}: set --criterion {args.task}."
                )
        try:
            given = original(sub_node, data_class, args)
            if sub_node == "tokenizer" and any(text.endswith("_lang=null") for text in given):
                raise UserError(
                    f"--tokenizer {args.tokenizer} needs the languages: set --source-lang and --target-lang."
                )
            return given
        except (ValueError, SyntaxError) as error:
            follow = [field.name for field in fields(data_class) if str(field.default).startswith("${")]
            for name in follow:
                text = getattr(args, name, None)
                if isinstance(text, str) and not text.startswith("${") and literal(text) is None:
                    raise UserError(f"--{name.replace('_', '-')} is {text!r:.60}: give a number.") from error
            raise

    return _override_attr


def _refuse_without_settings(parsed: Any) -> None:
    for kind in ("bpe", "tokenizer", "scoring"):
        name, settings = getattr(parsed, kind, None), REGISTRIES[kind]["dataclass_registry"]
        if name is not None and name not in settings:
            raise UserError(f"--{kind} {name} has no settings in fairseq: choose one of {', '.join(sorted(settings))}.")


@contextlib.contextmanager
def _checked(cfg: Any, main: Callable) -> Iterator[None]:
    """Check a configuration before the block, and raise a `UserError` for an error in it that a user can correct."""
    refuse_out_of_range(cfg)
    refuse_outputs(cfg)
    if main.__module__ in _BATCHED and cfg.dataset.batch_size is None and cfg.dataset.max_tokens is None:
        raise UserError("no size of a batch is given: set --batch-size or --max-tokens (dataset.batch_size).")
    evaluates = main.__module__ in _EVALUATE
    if evaluates and not cfg.common_eval.path:
        raise UserError("no checkpoint is given: set --path to one that a training wrote.")
    if evaluates:
        overrides = ast.literal_eval(cfg.common_eval.model_overrides)
        refuse_unknown_names(overrides, "--model-overrides", groups=("model", "task", "criterion"))
    generates = main.__module__ == "fairseq_cli.generate"
    if generates and cfg.generation.replace_unk is not None and cfg.dataset.dataset_impl != "raw":
        # with raw data, fairseq's own models can
        raise UserError(f"--replace-unk needs --dataset-impl raw, and {NO_WEIGHTS}: leave it out.")
    if generates and cfg.generation.constraints is not None:
        raise UserError("--constraints are read with a text's sentences, by fairseq-interactive alone: leave it out.")
    if generates and cfg.dataset.num_shards > 1:  # fairseq-generate reads the world size and rank in their place
        cfg.distributed_training.distributed_world_size = cfg.dataset.num_shards
        cfg.distributed_training.distributed_rank = cfg.dataset.shard_id
    if main.__module__ in _UNDIVIDED and cfg.dataset.num_shards > 1:
        raise UserError("--num-shards divides what fairseq-generate translates, and nothing else: leave it out.")
    interactive = main.__module__ == "fairseq_cli.interactive"
    if interactive and cfg.generation.score_reference:
        raise UserError("--score-reference scores prepared translations, by fairseq-generate alone: leave it out.")
    if interactive and (cfg.dataset.batch_size or 0) > max(cfg.interactive.buffer_size, 1):
        raise UserError(f"--batch-size {cfg.dataset.batch_size} is above --buffer-size: raise the latter to it.")
    if interactive and cfg.interactive.input == "-" and isinstance(sys.stdin, io.TextIOWrapper):
        sys.stdin.reconfigure(encoding="utf-8", errors="strict")
    try:
        with same_direction(getattr(cfg, "task", None) if evaluates else None):
            yield
    except Exception as error:
        for kind, text, commands, words in _EXPLAINED:
            found = re.match(text, str(error)) if isinstance(error, kind) else None
            if found and main.__module__ in (commands or (main.__module__,)):
                raise UserError(words.format(cfg=cfg, found=found)) from error
        if isinstance(error, OSError) and error.filename is not None:
            raise UserError(f"{error.filename}: {error.strerror}; give another path, or change that one.") from error
        if isinstance(error, OSError) and error.errno in _OF_THE_MACHINE:
            raise UserError(system_sentence(error)) from error
        raise


@patches(distributed_utils, "call_main", "cfg main", only_for=lambda cfg, *args, **kwargs: config_in_scope(cfg))
def command(original):
    """Check the configuration, take the world size and rank from `torchrun`, and on the CPU gloo and `legacy_ddp`.

    fairseq reads the environment only if `--distributed-world-size` (default: the GPUs of this machine) is above 1:
    on the CPU or with one GPU a machine, every process of `torchrun` would train a model of its own. Processes that
    fairseq starts itself are as many as there are GPUs: without any, nothing would be trained and the exit status
    would be 0. `fairseq-generate` comes not by here, nor does `fairseq-hydra-train` without the callback of `early`.
    """

    def call_main(cfg, main, **kwargs):
        atexit.register(leave_gloo)
        with _checked(cfg, main):
            if not cfg.common.tpu:
                configure(cfg.distributed_training, on_cpu=cfg.common.cpu or not torch.cuda.is_available())
            return original(cfg, main, **kwargs)

    return call_main


def generation(original):
    """Check the configuration of `fairseq-generate`, which calls its `main` without `call_main`."""

    def main(cfg):
        cfg = convert_namespace_to_omegaconf(cfg) if isinstance(cfg, Namespace) else cfg
        with _checked(cfg, original):
            return original(cfg)

    return main


@only_runs
def generation_is_checked() -> None:
    if "fairseq_cli.generate" in sys.modules:
        wrap(sys.modules["fairseq_cli.generate"], "main", "cfg", generation, config_in_scope)


def configure(distributed, on_cpu: bool) -> None:
    """Fill in `distributed` (fairseq's `DistributedTrainingConfig`) for the launcher and the device at hand.

    Raises:
        UserError: several processes were asked for that nobody would start, or a backend that cannot work here.
    """
    if _launched_processes() > 1 and distributed.distributed_init_method in (None, "env://"):
        distributed.distributed_world_size = _launched_processes()
        distributed.distributed_rank = int(os.environ["RANK"])
        distributed.distributed_init_method = "env://"
        distributed.distributed_no_spawn = True
        distributed.device_id = 0 if on_cpu else int(os.environ.get("LOCAL_RANK", 0))
    size, gpus = distributed.distributed_world_size, torch.cuda.device_count()
    if size == 1 and distributed.distributed_init_method is None:
        return
    one_machine = distributed.distributed_init_method is None and "SLURM_JOB_NODELIST" not in os.environ
    if not distributed.distributed_no_spawn and (gpus == 0 or (one_machine and size > gpus)):
        raise UserError(
            f"a world size of {size} needs {size} processes, but fairseq starts one for each GPU and sees {gpus} here: "
            f"start them with `torchrun --nproc-per-node {size} --no-python fairseq-train ...` or lower "
            "--distributed-world-size (of 1, leave out --distributed-init-method too)"
        )
    if on_cpu:
        for field, needs_gpus, works in (
            ("distributed_backend", "nccl", "gloo"),
            ("ddp_backend", "pytorch_ddp", "legacy_ddp"),
        ):
            if getattr(distributed, field) == needs_gpus:
                setattr(distributed, field, works)
                logger.info(f"{field} is {works} here: {needs_gpus} needs GPUs")


def find_unused_parameters(cfg, model) -> None:
    """Let `pytorch_ddp` look for parameters without gradients, at which it would stop.

    A criterion of anything but words leaves the language-model head without.
    """
    if isinstance(model, RobertaModel) and getattr(cfg.criterion, "_name", None) not in _TRAIN_EVERY_PARAMETER:
        cfg.distributed_training.find_unused_parameters = True


def refuse_to_train_alone() -> None:
    """Refuse processes that would train a model each.

    Under Hydra this package is imported after `call_main`, when it is too late to read the environment.

    Raises:
        UserError: `torchrun` started several processes, and the configuration does not connect them.
    """
    atexit.register(leave_gloo)
    if _launched_processes() > 1 and "fairseq_cli.hydra_train" in sys.modules:
        from hydra.core.hydra_config import HydraConfig

        if HydraConfig.initialized() and not torch.distributed.is_initialized():
            lines = _HYDRA_LINES + ("" if torch.cuda.is_available() else _HYDRA_CPU_LINES)
            raise UserError(
                f"torchrun started {_launched_processes()} processes, but each would train alone because "
                "fairseq-hydra-train does not read torchrun's environment: set in the YAML, in distributed_training, "
                + lines
            )


def leave_gloo() -> None:
    """End gloo's threads before the interpreter ends: otherwise a finished process can die of SIGABRT.

    fairseq keeps a group of its own, whose threads live as long as it is referred to.
    """
    distributed = torch.distributed
    if distributed.is_available() and distributed.is_initialized() and distributed.get_backend() == "gloo":
        distributed.destroy_process_group()
        vars(distributed_utils.get_global_group).pop("_global_group", None)
        gc.collect()


def _launched_processes() -> int:
    """Return how many processes `torchrun` started; 1 without it. Raise a `UserError` for values that it never sets."""
    unset = {"WORLD_SIZE": "", "RANK": "", "MASTER_PORT": "", "LOCAL_RANK": "0"}
    found = {name: os.environ.get(name, text) for name, text in unset.items()}
    if "" in found.values() or "MASTER_ADDR" not in os.environ:
        return 1
    size, rank, port, local = (int(text) if re.fullmatch("[0-9]{1,9}", text) else -1 for text in found.values())
    if not (0 <= rank < size and 0 < port < 1 << 16 and local >= 0):
        said = ", ".join(f"{name} is {text!r:.40}" for name, text in found.items())
        raise UserError(f"{said}, which torchrun does not set: start the processes with torchrun, or unset these.")
    return size
