import re
import sys
from argparse import Namespace
from types import SimpleNamespace

import pytest
import torch
from fairseq import criterions
from fairseq.criterions import FairseqCriterion
from fairseq.data import encoders
from fairseq.data.encoders.hf_bert_bpe import BertBPEConfig
from fairseq.data.encoders.moses_tokenizer import MosesTokenizerConfig
from fairseq.data.encoders.sentencepiece_bpe import SentencepieceConfig
from fairseq.dataclass.configs import FairseqConfig
from fairseq.dataclass.initialize import add_defaults
from fairseq.registry import REGISTRIES
from fairseq.tasks import FairseqTask
from fairseq_cli import train as fairseq_train
from fairseq_cli import validate
from omegaconf import OmegaConf

from tests.commands import hydra_train
from tupe.errors import UserError
from tupe.fairseq_patches.configuration import refuse_unknown, refuse_unknown_keys
from tupe.fairseq_patches.patching import patched
from tupe.fairseq_patches.trainer import TupeTrainer

SAID = r"no model 'tupe_bse' \(did you mean tupe_base\?\): .* system .*bert_ad.* and size tiny, small, base, large"


def test_architecture_on_the_command_line(train, tmp_path):
    with pytest.raises(UserError, match=SAID):
        train(tmp_path, arch="tupe_bse")


def test_validation_without_a_task(monkeypatch):
    monkeypatch.setattr("sys.argv", ["fairseq-validate", "DATA", "--user-dir", "tupe", "--path", "none.pt"])
    with pytest.raises(UserError, match="no task is given: set --task"):
        validate.cli_main()


@pytest.mark.parametrize("given", ["{'dropuot': 0}", "{'model': {'dropuot': 0}}", "{'beam': 3}"])
def test_an_override_that_nothing_reads(given, monkeypatch):
    command = "fairseq-validate DATA --user-dir tupe --task masked_lm --batch-size 1 --path none.pt --model-overrides"
    monkeypatch.setattr("sys.argv", [*command.split(), given])
    with pytest.raises(
        UserError, match=r"^--model-overrides has no (dropuot \(did you mean dropout\?\)|beam.*): nothing"
    ):
        validate.cli_main()


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (("--d2v2-multi",), "task.d2v2_multi is True: leave it out: data2vec's batches have no masks"),
        (("--use-plasma-view",), "common.use_plasma_view is True: leave it out"),
        (("--bf16", "--fp16"), "--fp16, --bf16 and --tpu exclude each other: keep one"),
        (("--stop-min-lr", 1), "no update would be made, because .* begins at .* and optimization.stop_min_lr is 1"),
        (("--bpe", "bytes"), "--bpe bytes has no settings in fairseq: choose one of bert, byte_bpe"),
        (("--batch-size-valid", "inf"), "^--batch-size-valid is 'inf': give a number"),
        (("--batch-size-valid", "1 2"), "^--batch-size-valid is '1 2': give a number"),
    ],
)
def test_flags_that_fairseq_takes_and_cannot_use(flags, said, train, tmp_path):
    with pytest.raises(UserError, match=said):
        train(tmp_path, *flags)


def test_a_wrong_flag_is_one_sentence(train, tmp_path, capsys):
    with pytest.raises(SystemExit) as ended:
        train(tmp_path, "--nosuch", 3)
    assert ended.value.code == 2
    assert re.fullmatch(r"error: unrecognized arguments: --nosuch 3: see \S+ --help\.\n", capsys.readouterr().err)
    with pytest.raises(SystemExit):
        train(tmp_path, "--lr-scheduler", "triangular")
    assert "argument --max-lr: it has no default, so give a value" in capsys.readouterr().err
    for flag, value, kind in (("--lr", "1e-3x", "float"), ("--update-freq", "1.5", "int")):
        with pytest.raises(SystemExit):
            train(tmp_path, flag, value)
        assert (
            f"error: argument {flag}: '{value}' is no {kind} and no list, such as 1,2: see " in capsys.readouterr().err
        )


def test_no_model(corpus, monkeypatch):
    monkeypatch.setattr("sys.argv", ["fairseq-train", str(corpus), "--user-dir", "tupe"])
    with pytest.raises(UserError, match=r"^no model is given: set --arch, such as tupe_base"):
        fairseq_train.cli_main()


def test_model_under_hydra():
    with pytest.raises(UserError, match=SAID):
        add_defaults(OmegaConf.create({"model": {"_name": "tupe_bse"}}))
    with pytest.raises(UserError, match=r"^there is no criterion '-3': change criterion\._name"):
        add_defaults(OmegaConf.create({"model": {"_name": "tupe_base"}, "criterion": {"_name": -3}}))


@pytest.mark.parametrize("kind", ["model", "criterion", "optimizer", "lr_scheduler"])
def test_no_name_under_hydra(kind):
    parts = {"model": {"_name": "tupe_base"}, "criterion": {"_name": "tupe_masked_lm"}, kind: {"_name": None}}
    with pytest.raises(UserError, match=rf"^the configuration names no {kind}: set {kind}\._name"):
        add_defaults(OmegaConf.create(parts))


def test_a_group_taken_out_under_hydra():
    cfg = OmegaConf.structured(FairseqConfig(model={"_name": "tupe_base"}))
    del cfg.__dict__["_content"]["optimization"]  # as Hydra does
    with pytest.raises(UserError, match=r"^the configuration has no optimization, which fairseq reads: leave out ~opt"):
        add_defaults(cfg)


@pytest.mark.parametrize("name", ["tupe_base", "bert_ad_tiny", "roberta", "roberta_base", "transformer_lm"])
def test_known_models(name):
    refuse_unknown(name)


@pytest.mark.parametrize(
    ("name", "said"), [("tupe_a", r"'tupe_a' \(did you mean tupe_a_base\?\)"), ("xyz", "'xyz': a name is")]
)
def test_a_system_without_a_size_and_nothing_near(name, said):
    with pytest.raises(UserError, match=f"^there is no model {said}"):
        refuse_unknown(name)


def build_optimizer(**parts):
    """Check as the trainer of a run of ours does, with its schedule."""
    trainer = object.__new__(TupeTrainer)
    trainer.cfg = OmegaConf.create({**vars(FairseqConfig()), "optimizer": {"_name": "adam", "lr": [1.0]}, **parts})
    trainer._wrapped_model = trainer._wrapped_criterion = torch.nn.Linear(1, 1)
    trainer.cuda = False
    trainer._build_optimizer()


@pytest.mark.parametrize("as_text", [False, True])
@pytest.mark.parametrize(
    ("kind", "name", "near"),
    [
        ("task", "maskedlm", "masked_lm"),
        ("criterion", "tupe_masked_lmm", "tupe_masked_lm"),
        ("optimizer", "adamm", "adam"),
        ("lr_scheduler", "linear_deca", "linear_decay"),
    ],
)
def test_other_parts_under_hydra(kind, name, near, as_text):
    with pytest.raises(
        UserError, match=rf"no {kind} '{name}' \(did you mean {near}\?\): change {kind}\._name; known are .*\b{near}\b"
    ):
        add_defaults(OmegaConf.create({kind: name if as_text else {"_name": name}}))


NO_ABSOLUT = r"tupe_base has no absolut \(did you mean absolute\?\): nothing would read it"


@pytest.mark.parametrize(
    ("field", "said"),
    [
        ("absolut", NO_ABSOLUT),
        ("attention_backend", "tupe_base cannot have this attention_backend: Invalid value 'flash'"),
    ],
)
def test_fields_and_values_under_hydra(field, said):
    with pytest.raises(UserError, match=f"^{said}"):
        add_defaults(OmegaConf.create({"model": {"_name": "tupe_base", field: "flash"}}))


def test_a_training_without_an_optimizer_under_hydra():
    with pytest.raises(
        UserError, match=r"^no optimizer is given: set --optimizer \(optimizer\._name\) to one of .*adam,"
    ):
        build_optimizer(optimizer={"_name": None})


def test_fields_of_other_parts_under_hydra():
    config = OmegaConf.create({"task": {"_name": "masked_lm", "tokens_per_sampl": 3}})
    with pytest.raises(UserError, match=r"^masked_lm has no tokens_per_sampl \(did you mean tokens_per_sample\?\)"):
        add_defaults(config)


@pytest.mark.parametrize(
    ("key", "said"),
    [
        ("+optimization.max_updates=10", r"optimization has no max_updates \(did you mean max_update\?\)"),
        ("+model.relativ=unbinned", r"tupe_tiny has no relativ \(did you mean relative\?\)"),
    ],
)
def test_keys_that_fairseq_does_not_read(corpus, tmp_path, key, said):
    done = hydra_train(corpus, tmp_path, "model._name=tupe_tiny", key, check=False)
    assert re.search(f"error: {said}: nothing would read it", done.stderr)
    assert done.returncode == 1


def test_a_training_without_a_task(corpus, tmp_path):
    done = hydra_train(corpus, tmp_path, "model._name=tupe_tiny", "~task._name", check=False)
    assert "error: the configuration names no task: set task._name" in done.stderr


def test_groups_that_fairseq_does_not_read():
    refuse_unknown_keys({"optimization": {"max_update": 1}, "job_logging_cfg": {}})
    with pytest.raises(UserError, match=r"no 'optimisation' \(did you mean optimization\?\): nothing would read it"):
        refuse_unknown_keys({"optimisation": {"max_update": 1}})
    for part in (None, 3):
        with pytest.raises(UserError, match=f"^checkpoint is {part}, but is a group: set its fields"):
            refuse_unknown_keys({"checkpoint": part})


@pytest.mark.parametrize(("key", "value"), [("max_update", "abc"), ("lr", "x"), ("update_freq", [1.5])])
def test_values_of_another_type(key, value):
    with pytest.raises(UserError, match=f"^optimization cannot have this optimization.{key}|cannot have this {key}"):
        refuse_unknown_keys({"optimization": {key: value}})


def test_a_number_is_neither_true_nor_false():
    refuse_unknown_keys({"checkpoint": {"reset_meters": 1, "no_save": False}})
    for wrong, said in ((7, "'7' is neither true nor false"), ("2", "Value '2' is not a valid bool")):
        with pytest.raises(UserError, match=f"^checkpoint cannot have this reset_meters: {said}"):
            refuse_unknown_keys({"checkpoint": {"reset_meters": wrong}})
    add_defaults(OmegaConf.create({"model": {"_name": "tupe_base", "compile": 1}}))
    for kind, name, flag in (("model", "tupe_base", "compile"), ("task", "masked_lm", "mask_whole_words")):
        with pytest.raises(UserError, match=f"^{name} cannot have this {flag}: '2' is neither true nor false$"):
            add_defaults(OmegaConf.create({"model": {"_name": "tupe_base"}, kind: {"_name": name, flag: 2}}))


@pytest.mark.parametrize("name", ["sgd", "adafactor", "adagrad", "adamax"])
def test_an_optimizer_without_defaults_under_hydra(name):
    with pytest.raises(UserError, match=rf"^the optimizer {name} needs a value of lr, .* add \+optimizer.lr=VALUE"):
        build_optimizer(optimizer={"_name": name})


@pytest.mark.parametrize(
    ("task", "criterion"),
    [
        ("TranslationTask", "ctc"),
        ("TranslationTask", "tupe_electra"),
        ("MaskedLMTask", "sentence_prediction"),
        ("MaskedLMTask", "cross_entropy"),
        ("MultilingualMaskedLMTask", "label_smoothed_cross_entropy"),
    ],
)
def test_a_criterion_of_another_kind_of_model(task, criterion):
    task = type(task, (FairseqTask,), {"__module__": "tupe.tasks"})(Namespace())
    with patched(), pytest.raises(UserError, match=rf"^the criterion {criterion} does not fit .*: choose one of"):
        criterions.build_criterion(Namespace(criterion=criterion), task)


class TheirBug(FairseqCriterion):
    """A criterion of a user's own keeps its traceback, which its author needs."""

    @classmethod
    def build_criterion(cls, cfg, task):
        raise ValueError("a bug")


def test_a_bug_of_a_criterion_of_somebodys_is_not_explained(monkeypatch):
    monkeypatch.setitem(REGISTRIES["criterion"]["registry"], "their_bug", TheirBug)
    task = SimpleNamespace()
    with patched(), pytest.raises(ValueError, match="a bug") as raised:
        criterions.build_criterion(Namespace(criterion="their_bug"), task)
    assert not isinstance(raised.value, UserError)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (SentencepieceConfig("sentencepiece", "/nosuch"), r"sentencepiece cannot be made \(OSError: .*/nosuch"),
        (BertBPEConfig("bert", bpe_vocab_file="/nosuch"), r"bert cannot be made \(\w+: .+\): give the files"),
    ],
)
def test_a_vocabulary_without_its_files(settings, said, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with patched(), pytest.raises(UserError, match=f"^--bpe {said}"):
        encoders.build_bpe(OmegaConf.structured(settings))


def test_a_tokenizer_without_its_package(monkeypatch):
    monkeypatch.setitem(sys.modules, "sacremoses", None)
    said = (
        r"^--tokenizer moses cannot be made \(ImportError: Please install Moses tokenizer with: pip install sacremoses"
    )
    with patched(), pytest.raises(UserError, match=said):
        encoders.build_tokenizer(OmegaConf.structured(MosesTokenizerConfig("moses")))
