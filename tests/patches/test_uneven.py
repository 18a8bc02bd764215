"""The same batches on 1, 2 and 4 processes make the same updates, also where they do not divide evenly among them."""

import copy
import itertools
import json
import logging
from argparse import Namespace

import fairseq.trainer
import pytest
import torch
from fairseq import distributed_utils, options, tasks
from fairseq.data.iterators import GroupedIterator
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq.logging import progress_bar
from fairseq_cli import validate

import tupe.models  # noqa: F401  registers everything, as --user-dir does
from tests.data.conftest import write_corpus, write_json
from tests.data.test_translation import pairs
from tests.tasks.test_question_answering import made_questions
from tupe.cli.main import main

COMMON = (
    "--arch", "tupe_tiny", "--encoder-layers", 1, "--encoder-embed-dim", 16, "--encoder-ffn-embed-dim", 16,
    "--encoder-attention-heads", 2, "--dropout", 0, "--attention-dropout", 0, "--cpu", "--num-workers", 0,
    "--optimizer", "sgd", "--lr", 0.05, "--lr-scheduler", "fixed", "--ddp-backend", "legacy_ddp",
)  # fmt: skip
WORDS = ("--task", "masked_lm", "--tokens-per-sample", 32)
SENTENCES = ("--task", "tupe_sentence_prediction", "--criterion", "tupe_sentence_prediction", "--max-positions", 32)
TRANSLATION = (
    "--task", "translation", "--left-pad-source", "--arch", "seq2seq_tupe_r_tiny", "--share-all-embeddings",
    "--criterion", "label_smoothed_cross_entropy", "--label-smoothing", 0.1,
)  # fmt: skip
QUESTIONS = (
    "--task", "tupe_question_answering", "--criterion", "tupe_question_answering", "--max-positions", 48,
    "--max-query", 8, "--doc-stride", 16,
)  # fmt: skip
#: Of a criterion the data, a name of `data` or else the corpus, the flags, and the batch size that makes 7 batches.
CRITERIONS = {
    "tupe_masked_lm": (None, (*WORDS, "--criterion", "tupe_masked_lm"), 50),
    "classes": ("MNLI", (*SENTENCES, "--num-classes", 3), 14),
    "regression": ("STS-B", (*SENTENCES, "--num-classes", 1, "--regression-target"), 14),
    "electra": (
        None,
        (*WORDS, "--arch", "electra_tupe_r_tiny", "--generator-size", 0.5, "--criterion", "tupe_electra"),
        50,
    ),
    "questions": ("questions", QUESTIONS, 4),
    "translation": ("pairs", TRANSLATION, 4),
}
SPLITS = ((1, 4), (2, 2), (4, 1))  # processes x accumulated batches


def configuration(data, flags, batch_size):
    parser = options.get_training_parser()
    command = [data, *COMMON, *flags, "--batch-size", batch_size, "--required-batch-size-multiple", 1]
    return convert_namespace_to_omegaconf(options.parse_args_and_arch(parser, [str(part) for part in command]))


def updates(cfg, rank, processes, accumulated):
    """Gradient norm, sample size and loss of every update of an epoch, and the parameters after it, on one process."""
    cfg = copy.deepcopy(cfg)
    cfg.distributed_training.distributed_world_size = processes
    cfg.distributed_training.distributed_rank = rank
    task = tasks.setup_task(cfg.task)
    torch.manual_seed(1)
    trainer = fairseq.trainer.Trainer(cfg, task, task.build_model(cfg.model), task.build_criterion(cfg.criterion))
    seen, clip = [], trainer.clip_grad_norm
    trainer.clip_grad_norm = lambda norm: seen.append([float(clip(norm))]) or torch.tensor(seen[-1][0])
    batches = trainer.get_train_iterator(1)
    trainer.begin_epoch(1)
    for samples in GroupedIterator(batches.next_epoch_itr(shuffle=False), accumulated):
        log = trainer.train_step(samples)
        seen[-1] += [float(log["sample_size"]), float(log["loss"])]
    return seen, [p.detach() for p in trainer.get_model().parameters()], len(batches)


def validated(data, checkpoint, rank, processes):
    """What `fairseq-validate` says, on one process."""
    command = [data, "--task", "masked_lm", "--path", checkpoint, "--batch-size", 8, "--cpu", "--num-workers", 0,
               "--valid-subset", "valid", "--log-format", "json"]  # fmt: skip
    args = options.parse_args_and_arch(options.get_validation_parser(), [str(part) for part in command])
    cfg = convert_namespace_to_omegaconf(args)
    cfg.distributed_training.distributed_world_size = processes
    cfg.distributed_training.distributed_rank = rank
    said, handler, logger = [], logging.Handler(), progress_bar.logger
    handler.emit = lambda record: said.append(json.loads(record.getMessage())) if record.name == "valid" else None
    logging.disable(logging.NOTSET)  # commands of ours in this process switch fairseq off
    logger.setLevel(logging.INFO)
    logger.addHandler(handler)
    validate.main(cfg, Namespace(data=str(data)))  # as the command: a checkpoint does not say where its data were
    logger.removeHandler(handler)
    return {key: value for key, value in said[-1].items() if not key.endswith("wps")}  # but for the speed


def process(rank, folder, cases, corpus, checkpoint):
    """A process of gloo, of which the first 1, 2 and all 4 work; the first writes down what came out."""
    torch.set_num_threads(1)
    cases = {**{name: (updates, cfg) for name, cfg in cases.items()}, "validate": (validated, corpus, checkpoint)}
    for (name, (work, *case)), (processes, accumulated) in itertools.product(cases.items(), SPLITS):
        if rank >= processes:
            continue
        torch.distributed.init_process_group(
            "gloo", init_method=f"file://{folder}/{name}-{processes}", rank=rank, world_size=processes
        )
        result = work(*case, rank, processes, *([accumulated] if work is updates else []))
        if rank == 0:
            torch.save(result, folder / f"{name}-{processes}.pt")
        torch.distributed.destroy_process_group()
        vars(distributed_utils.get_global_group).pop("_global_group", None)


def prepared(folder):
    """28 questions and 28 pairs of sentences."""
    made = made_questions(28)
    text = [text for p in made["data"][0]["paragraphs"] for text in (p["context"], *(q["question"] for q in p["qas"]))]
    vocabulary, questions = write_corpus(folder / "vocabulary", text, 60), write_json(folder / "made.json", made)
    command = ["prepare-qa", f"train={questions}", vocabulary, folder / "questions", "--workers", 1]
    assert main(list(map(str, command))) == 0
    for language, lines in zip(("en", "de"), pairs(28)):
        (folder / f"pairs.{language}").write_text("".join(f"{line}\n" for line in lines))
    both = (f"--train={folder}/pairs", f"--valid={folder}/pairs", "--max-ratio=99")
    assert main(["prepare-translation", "en", "de", f"{folder}/pairs", *both, "--vocab-size=60", "--workers=1"]) == 0
    return {name: folder / name for name in ("questions", "pairs")}


@pytest.fixture(scope="module")
def results(corpus, glue, trained, tmp_path_factory):
    """`results(name, processes)`, of four processes that are started once."""
    folder = tmp_path_factory.mktemp("processes")
    data = {None: corpus, "MNLI": glue / "MNLI", "STS-B": glue / "STS-B", **prepared(folder)}
    cases = {name: configuration(data[where], *rest) for name, (where, *rest) in CRITERIONS.items()}
    # forked: what this process imported need not be imported four times; autograd's threads for CUDA forbid it
    method = "fork" if torch.version.cuda is None else "spawn"
    arguments = (folder, cases, corpus, trained / "checkpoint_last.pt")
    torch.multiprocessing.start_processes(process, arguments, nprocs=4, start_method=method)
    return lambda name, processes: torch.load(folder / f"{name}-{processes}.pt")


@pytest.mark.parametrize("name", CRITERIONS)
def test_processes_and_accumulation_are_one_batch(name, results):
    (expected, parameters, batches), *others = (results(name, processes) for processes, _ in SPLITS)
    assert batches == 7
    for seen, their_parameters, _ in others:
        for one, other in zip(expected, seen):
            assert other[:2] == pytest.approx(one[:2], rel=1e-6)
            assert other[2] == pytest.approx(one[2], abs=2e-3)  # fairseq rounds it
        assert len(seen) == len(expected)
        torch.testing.assert_close(their_parameters, parameters, rtol=1e-6, atol=1e-6)


def test_validation_does_not_depend_on_the_processes(results):
    expected, *others = (results("validate", processes) for processes, _ in SPLITS)
    assert {"valid_loss", "valid_ppl"} <= expected.keys()
    assert others == [expected, expected]
