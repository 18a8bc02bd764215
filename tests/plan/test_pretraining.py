"""The plan of a pre-training run: its numbers, and what is refused before anything is started."""

import importlib
import json
import re
import shutil
from argparse import Namespace
from collections import namedtuple
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from fairseq.data.indexed_dataset import MMapIndexedDataset

from tests.commands import ROOT, hydra_train
from tupe.analysis.cost import read_costs
from tupe.cli.main import main
from tupe.criterions.throughput import KNOWN_DEVICES
from tupe.data.corpus.report import vocabulary_warning
from tupe.errors import UserError
from tupe.plan import Launch, plan, plus, pretraining, read_config
from tupe.plan.config import last_of_each

CPU = Launch(nodes=1, processes=1, gpus=0)
Usage = namedtuple("Usage", "total used free")


def config(corpus, *overrides, name="base"):
    common = ["common.fp16=false", "common.cpu=true", "task.tokens_per_sample=32", "lr_scheduler.warmup_updates=0"]
    overrides = [*common, f"task.data={corpus}", "model._name=tupe_tiny", *overrides]
    return read_config(ROOT / "configs/pretraining", name, overrides)


@pytest.fixture(autouse=True)
def disk(monkeypatch):
    """A disk with 10 GB free."""
    monkeypatch.setattr(shutil, "disk_usage", lambda path: Usage(0, 0, 10_000_000_000))


def test_numbers(corpus, tmp_path):
    tokens = sum(len(line.split()) + 1 for line in (corpus / "raw/train").read_text().splitlines())
    cfg = config(corpus, "dataset.batch_size=4", "optimization.update_freq=[8]", f"checkpoint.save_dir={tmp_path}/a/b")
    first, batch, total, _, disk = plan(cfg, Launch(nodes=2, processes=4, gpus=0))
    assert first.startswith("tupe_tiny, 859k parameters, 91 symbols, on 2 node(s) x 4 process(es)")
    assert batch == "8 x 4 sequences x 8 accumulated = 256 an update, of 32 tokens each: 8,192 tokens an update"
    assert total.startswith(f"1,000,000 updates: 8.19G tokens, {8.192e9 / tokens:,.3g} times the training data of ")
    # last, best, the copy of one of them, three to resume from and the newest, and ten for good
    assert disk == f"checkpoints in {tmp_path}/a/b: at most 17 of 10.4MB, 177MB; 10GB free"


@pytest.mark.parametrize("precision", ["fp16=false", "bf16=true", "memory_efficient_bf16=true"])
def test_checkpoint_has_the_size_that_was_planned(precision, corpus, tmp_path):
    keys = ("optimization.max_update=2", f"common.{precision}")
    last = list(plan(config(corpus, *keys, f"checkpoint.save_dir={tmp_path}"), CPU))[-1]
    planned = float(last.partition(" of ")[2].partition("MB,")[0])
    hydra_train(corpus, tmp_path, "model._name=tupe_tiny", "lr_scheduler.warmup_updates=1", *keys)
    assert (tmp_path / "checkpoint_last.pt").stat().st_size == pytest.approx(planned * 1e6, rel=0.05)


@pytest.mark.parametrize(("name", "updates", "batch"), [("base", "1,000,000", 16 * 16), ("diet", "500,000", 64 * 64)])
def test_configurations_of_the_papers(name, updates, batch, corpus):
    _, second, third, *_ = plan(config(corpus, name=name), CPU)
    assert f"= {batch} an update" in second
    assert third.startswith(f"{updates} updates")


def test_too_much_for_cores_is_said(corpus, monkeypatch):
    monkeypatch.setattr(pretraining, "available_cores", lambda: 2)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: Usage(0, 0, 10**12))
    cfg = config(corpus, "model._name=tupe_base", "task.tokens_per_sample=512")
    (long,) = (line for line in plan(cfg, CPU) if "GFLOP/s" in line)
    updates, tokens, weights = 1_000_000, 256 * 512, 85_054_464  # of the layers of BERT base
    found = int(re.match(r"warning: ([\d,]+) days at least, if 2 core\(s\)", long)[1].replace(",", ""))
    assert 1 < found / (6 * updates * tokens * weights / 2e11 / 86_400) < 1.3
    assert not [line for line in plan(config(corpus, "optimization.max_update=12"), CPU) if "GFLOP/s" in line]


def test_length_of_a_run_given_in_epochs(corpus):
    run_of_epochs = ("optimization.max_update=0", "optimization.max_epoch=3", "optimization.update_freq=[1]")
    cfg = config(corpus, *run_of_epochs, "dataset.batch_size=8")
    assert " updates: 32.3k tokens, 3.02 times the training data" in list(plan(cfg, CPU))[2]


def test_shards_are_counted_together(corpus):
    one, two = (list(plan(config(data), CPU))[2] for data in (corpus, f"{corpus}:{corpus}"))
    times = [float(line.partition("tokens, ")[2].split()[0].replace(",", "")) for line in (one, two)]
    assert times[0] == pytest.approx(2 * times[1], rel=0.01)
    assert two.endswith("2 folder(s)")


def test_an_epoch_is_one_shard(corpus):
    epochs = ("optimization.max_update=0", "optimization.max_epoch=3", "dataset.batch_size=8")
    one, two = (list(plan(config(data, *epochs), CPU))[2] for data in (corpus, f"{corpus}:{corpus}"))
    assert one.partition(" tokens, ")[0] == two.partition(" tokens, ")[0]


@pytest.mark.parametrize(
    ("overrides", "number"),
    [
        ([], 3 + 3 + 1 + 10),  # last, best and a copy; the last three and the newest; every 100k
        (["checkpoint.keep_interval_updates=0"], 3 + 40),  # all, every 25k
        (["checkpoint.keep_interval_updates=-1"], 3 + 40),
        (["optimization.max_update=1000"], 3),
        (["checkpoint.no_save=true"], 0),
        (["optimization.max_epoch=4", "checkpoint.no_epoch_checkpoints=false"], 3 + 4),
        (["optimization.max_epoch=4", "checkpoint.no_epoch_checkpoints=false", "checkpoint.save_interval=2"], 3 + 2),
        (
            ["optimization.max_epoch=4", "checkpoint.no_epoch_checkpoints=false", "checkpoint.keep_last_epochs=3"],
            3 + 3 + 1,
        ),
        (["optimization.max_update=1000", "checkpoint.keep_best_checkpoints=2"], 3 + 2),
    ],
)
def test_number_of_checkpoints(overrides, number, corpus):
    assert f"at most {number} of" in list(plan(config(corpus, *overrides), CPU))[-1]


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        (["model._name=tupe_huge"], "no model '?tupe_huge"),
        (["task.data=/nowhere"], "/nowhere/dict.txt"),
        (["common.fp16=true"], "bf16"),
        (["+model.max_positions=16"], "do not fit"),
        (["optimization.max_update=0"], "no end"),
        (["dataset.batch_size=null", "dataset.max_tokens=512"], "in sequences"),
        (["dataset.max_tokens=64"], "in sequences"),
        (["dataset.batch_size=20"], "fairseq would use 16"),
        (["model._name=tupe_base", "checkpoint.keep_interval_updates=-1"], "10GB free"),
        (["checkpoint.sav_dir=x"], r"^checkpoint has no sav_dir \(did you mean save_dir\?\): nothing would read it$"),
        (["optimization.max_epoch=abc"], "^optimization cannot have this max_epoch: Value 'abc'"),
        (["common.log_format=xml"], "^common cannot have this log_format: Invalid value 'xml', expected one of"),
        (['common.seed="a\nb"'], "^common cannot have this seed: Value 'a b' of type 'str' could not be converted"),
        (["common.user_dir=/nowhere"], "^there is no folder /nowhere: set common.user_dir to a package"),
        (["checkpoint.restore_file=/nowhere"], "^there is no checkpoint /nowhere: give the path of one"),
        (["checkpoint.restore_file=configs/pretraining/base.yaml"], "base.yaml cannot be read as a checkpoint"),
        (
            ["optimization.lr=0.1"],
            r"^optimization cannot have this lr: it is a list, so write it in brackets, as \[1\]$",
        ),
        (["optimization.lr=[[1]]"], r"^optimization.lr is \[\[1\]\]: give a list of numbers, as \[1\]"),
        (["model._name=seq2seq_tupe_r_tiny"], "^seq2seq_tupe_r_tiny is an encoder-decoder: train it by"),
        (["common.cpu=2"], "^common cannot have this cpu: '2' is neither true nor false$"),
        (["task=nan"], "^the configuration base cannot be made|^task "),
        (
            ["common.user_dir=a,b"],
            r"made: common\.user_dir=a,b is several values, .* write \"common\.user_dir='a,b'\" if",
        ),
        (["common.log_file=configs/pretraining"], "common.log_file is configs/pretraining, which cannot be written"),
        (["lr_scheduler=null"], "^lr_scheduler is a group of settings, which cannot be null: leave it out"),
        (["task="], "^task is a group of settings, which cannot be empty: leave it out"),
        (["model.encoder_layers=2", "model.encoder_layers=0.5"], "encoder_layers"),
        (["save_dir=x"], r"^the configuration has no 'save_dir' \(did you mean checkpoint\.save_dir\?\): nothing"),
        (["relative=none"], r"no 'relative' \(did you mean model\.relative\?\)"),
        (["tokens_per_sample=32"], r"no 'tokens_per_sample' \(did you mean task\.tokens_per_sample\?\)"),
        (["foo.bar=1"], "^the configuration has no 'foo': nothing would read it$"),
        (["optimization.max_update"], "^'optimization.max_update' is no setting: give key=value"),
        (["lr_scheduler.warmup_updates=50", "optimization.max_update=50"], "warm-up of 50 .* run of 50"),
        (["optimization.max_update=many"], "max_update"),
        (["optimization.update_freq=[0]"], "optimization.update_freq is 0"),
        (["dataset.batch_size=-1"], "in sequences"),
        (["dataset.batch_size=-3"], "dataset.batch_size is -3"),
        (["task.mask_prob=1.5"], "task.mask_prob is 1.5"),
        (["model._name=electra_tupe_tiny"], "tupe_masked_lm does not train electra_tupe_tiny: set CONFIG=electra"),
        (["criterion._name=tupe_electra"], "tupe_electra does not train tupe_tiny"),
        (["dataset.train_subset=nosuch"], r"there is no \S+/nosuch\.idx: give what tupe prepare-corpus wrote"),
        (["dataset.valid_subset=nosuch"], r"there is no \S+/nosuch\.bin: the first folder holds the validation data"),
        (["lr_scheduler.warmup_update=5"], "linear_decay has no warmup_update .did you mean warmup_updates"),
    ],
)
def test_refuses(overrides, said, corpus):
    with pytest.raises(UserError, match=said):
        list(plan(config(corpus, *overrides), CPU))


def test_a_fine_tuning_has_no_plan():
    given = ["glue=cola", "task.data=x", "checkpoint.save_dir=x", "model._name=tupe_tiny"]
    with pytest.raises(UserError, match=r"^the configuration has no 'nosuch'"):
        read_config(ROOT / "configs/finetuning", "glue", [*given, "nosuch=1"])
    with pytest.raises(UserError, match=r"^the task tupe_sentence_prediction is no pre-training and no translation"):
        list(plan(read_config(ROOT / "configs/finetuning", "glue", given), CPU))


def test_configurations_that_are_not_whole(tmp_path):
    (tmp_path / "empty.yaml").write_text("")
    with pytest.raises(UserError, match=r"^the configuration empty names no task: set task\._name"):
        read_config(tmp_path, "empty", ["model._name=tupe_tiny"])
    (tmp_path / "other.yaml").write_bytes(b"# \xff\n")
    with pytest.raises(UserError, match=rf"^{tmp_path}/other\.yaml is not what a text editor writes \(not UTF-8 from"):
        read_config(tmp_path, "other", [])
    (tmp_path / "other.yaml").write_text("checkpoint:\n  no_save: [1]\n")
    with pytest.raises(UserError, match=r": checkpoint\.no_save: .* \(Value '\[1\]' is not a valid bool"):
        read_config(tmp_path, "other", [])
    (tmp_path / "other.yaml").write_text("delay: 3\n")
    with pytest.raises(UserError, match=r"^the configuration other cannot be made: .* schema \(.*'delay'"):
        read_config(tmp_path, "other", [])


def test_the_precision_of_another_machine_is_its_own(corpus):
    """The plan of a cluster, on a machine without GPUs, without `--gpus`."""
    assert list(plan(config(corpus, "common.fp16=true"), replace(CPU, here=False)))


def test_lines_that_are_too_long_to_be_used(corpus):
    data = MMapIndexedDataset(str(corpus / "train"))  # kept: `sizes` is memory that it unmaps
    sizes = np.array(data.sizes)
    longest, total = int(sizes.max()), int(sizes.sum())
    few = int(sizes[sizes >= longest].sum())

    def lines(length, *overrides, **launch):
        cfg = config(corpus, f"task.tokens_per_sample={length}", *overrides)
        return list(plan(cfg, Launch(nodes=1, processes=1, gpus=0, **launch)))

    assert "never be used" not in "".join(lines(longest + 1))
    said = f"{few:,} of {total:,} tokens ({few / total:.2%}) would never be used"
    assert lines(longest, max_unused=few / total)[0].startswith(f"warning: {said}")
    with pytest.raises(
        UserError, match=re.escape(said) + rf".*longest needs {longest + 1}\): .*--max-tokens {longest - 2}"
    ):
        lines(longest, max_unused=few / total - 1e-6)
    with pytest.raises(UserError, match="would never be used"):
        lines(5)
    assert "never be used" not in "".join(lines(5, "task.sample_break_mode=none"))


def test_refuses_gpus_that_are_not_there(corpus):
    with pytest.raises(UserError, match="GPU"):
        list(plan(config(corpus), Launch(nodes=1, processes=99, gpus=torch.cuda.device_count() + 1)))


def test_a_plan_needs_neither_the_gpus_nor_the_disk(corpus):
    """TUPE's base, by hand: 6 operations a weight of a layer and token, and so on, as `training_flops` counts them."""
    cfg = config(corpus, "model._name=tupe_base", "checkpoint.keep_interval_updates=-1", "task.tokens_per_sample=512")
    away = Launch(nodes=2, processes=8, gpus=8, here=False, gpu="h100", mfu=0.4)
    *_, hours, epochs, disk = plan(cfg, away)
    tokens = 1_000_000 * 16 * 16 * 16 * 512
    layers = 12 * 12 * 768**2  # four products of attention and two of eight times its size
    head = 0.15 * (768**2 + 91 * 768)
    flops = 6 * tokens * (layers + head) + 12 * tokens * 512 * 768 * 12
    shown = float(re.match(r"([\d.,e+]+) hours on 16 H100 at 40% of their 989 TFLOP/s", hours)[1].replace(",", ""))
    assert shown == pytest.approx(flops / (16 * 989e12 * 0.4) / 3600, rel=0.01)
    assert epochs.startswith("warning: the data are repeated")
    assert "free" not in disk


@pytest.mark.parametrize(
    ("launch", "said"),
    [
        ({"gpu": "abacus"}, "abacus is not known: give --gpu one of B200"),
        ({"gpu": "h100", "gpus": 0}, "hours are those of GPUs"),
    ],
)
def test_refuses_hours(launch, said, corpus):
    with pytest.raises(UserError, match=said):
        list(plan(config(corpus), Launch(**{"nodes": 1, "processes": 8, "gpus": 8, "here": False, **launch})))


@pytest.fixture
def measure(tmp_path, monkeypatch):
    """Writes what `benchmarks/model.py --output` does, as far as it is read."""
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    conditions = importlib.import_module("model").conditions
    more = {"device": "cpu", "batch": 8, "pairs": False, "vocab_size": 90, "backend": "auto", "rounds": 1, "steps": 1}
    more["attention_dropout"] = None

    def write(dtype="bfloat16", length=32, **changes):
        args = Namespace(dtype=dtype, length=length, clock="wall", **more)
        record = {"size": "tiny", "mode": "training", "rival": "tupe", "time_over_first": [1, 1, 1], **changes}
        others = ({"mode": "inference"}, {"size": "base"}, {"rival": "roberta"})
        records = [{**record, **other, "tokens_per_second": 7} for other in others]
        records.append({**record, "tokens_per_second": 1000})
        (tmp_path / "model.json").write_text(json.dumps({"run": conditions(args), "records": records}))
        return tmp_path / "model.json"

    return write


@pytest.mark.parametrize("model", ["tupe_tiny", "tupe_r_tiny", "bert_r_tiny model.absolute=untied model.reset=paper"])
def test_hours_by_what_was_measured(model, measure, corpus):
    keys = ("optimization.max_update=8000", "optimization.update_freq=[1]", "dataset.batch_size=8", "common.bf16=true")
    conditions, _ = costs = read_costs(measure())
    away = Launch(nodes=2, processes=8, gpus=8, here=False, measured=costs)
    (line,) = (line for line in plan(config(corpus, *keys, *f"model._name={model}".split()), away) if " hours " in line)
    hours = 8000 * (16 * 8 * 32) / (16 * 1000) / 3600
    said = f"{hours:.3g} hours on 16 GPU(s), if each does the 1,000 tokens a second that were measured: "
    assert line == said + conditions


@pytest.mark.parametrize(
    ("overrides", "changes"),
    [
        *(([], {"rival": other}) for other in ("bert_a", "tupe_a", "electra_tupe", "tupe_compiled")),
        ([], {"size": "small"}),
        ([], {"mode": "inference"}),
        ([], {"length": 128}),
        ([], {"dtype": "float32"}),
        (["common.bf16=false"], {}),
        (["model.encoder_layers=5"], {}),
        (["model.relative=unbinned"], {}),
        (["model.compile=true"], {}),
    ],
)
def test_refuses_what_was_measured_of_something_else(overrides, changes, measure, corpus):
    launch = Launch(nodes=1, processes=1, gpus=0, measured=read_costs(measure(**changes)))
    with pytest.raises(UserError, match=r"^--measured has no training of tupe_tiny.* in .. bits and sequences of 32:"):
        list(plan(config(corpus, "common.bf16=true", *overrides), launch))


def test_hours_in_the_docs(corpus, tmp_path):
    """Of 8 GPUs of every kind that is known, at 40%, with 32,768 symbols."""
    shutil.copytree(corpus, data := tmp_path / "data")
    (data / "dict.txt").write_text("".join(f"word{number} 1\n" for number in range(32_768 - 5)))
    page = (ROOT / "docs/pretraining.md").read_text()
    heads, hours = (line.split(" | ") for line in re.findall(r"^\| (?:hours )?\| ([B\d].*) \|$", page, re.M)[:2])
    table = dict(zip(heads, hours))
    assert {kind for kinds in table for kind in kinds.split(", ")} == set(KNOWN_DEVICES)
    cfg = config(data, "model._name=tupe_base", "task.tokens_per_sample=512", "optimization.update_freq=[2]")
    for kinds, hours in table.items():
        for kind in kinds.split(", "):
            lines = plan(cfg, Launch(nodes=1, processes=8, gpus=8, here=False, gpu=kind))
            assert any(line.startswith(f"{hours} hours on 8 {kind.upper()} ") for line in lines)


def test_a_vocabulary_too_large_for_the_corpus(corpus, tmp_path):
    few = [line for line in plan(config(corpus, "optimization.max_epoch=3"), CPU) if line.startswith("warning")]
    assert not few
    shutil.copytree(corpus, large := tmp_path / "large")
    with (large / "dict.txt").open("a") as lines:
        lines.writelines(f"rare{number} 1\n" for number in range(4000))
    said = [line for line in plan(config(large, "optimization.max_epoch=3"), CPU) if line.startswith("warning")]
    assert len(said) == 1
    assert "4,091 symbols are many" in said[0]
    assert "with --vocab-size 1000, or with more text" in said[0]
    (small,) = vocabulary_warning(900, 5000)
    assert small.endswith("prepare the corpus with more text")  # 1000 are not fewer


def test_the_last_of_a_key_stays():
    given = ["-m", "model.a=1", "x", "+model.a=2", "x", "-m", "~b"]
    assert last_of_each(given) == ["-m", "x", "+model.a=2", "x", "-m", "~b"]


@pytest.mark.parametrize(
    ("override", "wanted"),
    [
        ("model.relative=none", "+model.relative=none"),
        ("+model.relative=none", "+model.relative=none"),
        ("+model._name=t5_tiny", "model._name=t5_tiny"),
        ("model.dropout=0", "model.dropout=0"),
        ("++model.dropout=0", "++model.dropout=0"),
        ("~model.dropout", "~model.dropout"),
        ("optimization.lr=[1]", "optimization.lr=[1]"),
        ("lr_scheduler.warmup_updates=5", "+lr_scheduler.warmup_updates=5"),
        ("+task.mask_prob=0.2", "task.mask_prob=0.2"),
        ("optimizer=adam", "optimizer=adam"),
    ],
)
def test_fields_of_what_has_a_name_need_no_plus(override, wanted):
    assert plus(override, {"model": {"_name", "dropout"}, "task": {"mask_prob"}, "lr_scheduler": None}) == wanted


def test_refuses_data_without_validation(corpus, tmp_path):
    for name in ("dict.txt", "train.bin", "train.idx"):
        shutil.copy(corpus / name, tmp_path)
    with pytest.raises(UserError, match=r"valid\.bin"):
        list(plan(config(tmp_path), CPU))


def test_refuses_folders_of_two_dictionaries(corpus, tmp_path):
    for name in ("train.bin", "train.idx"):
        shutil.copy(corpus / name, tmp_path)
    (tmp_path / "dict.txt").write_text("a 1\n")
    with pytest.raises(UserError, match=r"dict\.txt has other symbols than .*dict\.txt, by which all folders are read"):
        list(plan(config(f"{corpus}:{tmp_path}"), CPU))


def test_the_model_is_called_by_what_was_given(corpus):
    line = next(plan(config(corpus, "model.relative=unbinned"), CPU))
    assert line.startswith("tupe_tiny relative=unbinned, ")


def test_space_of_checkpoints_that_are_there_counts_as_free(corpus, tmp_path, monkeypatch):
    monkeypatch.setattr(shutil, "disk_usage", lambda path: Usage(0, 0, 1_000_000))
    cfg = config(corpus, f"checkpoint.save_dir={tmp_path}")
    with pytest.raises(UserError, match="free"):
        list(plan(cfg, CPU))
    with (tmp_path / "checkpoint_last.pt").open("wb") as file:
        file.truncate(200_000_000)
    assert "1MB free" in list(plan(cfg, CPU))[-1]


def test_command(corpus, measure, capsys):
    folder = str(ROOT / "configs/pretraining")
    assert main(["plan", folder, "nothing", "task.data=x"]) == 1
    assert "nothing" in capsys.readouterr().err
    overrides = ["common.fp16=false", f"task.data={corpus}", "checkpoint.save_dir=x", "model._name=tupe_small"]
    assert main(["plan", "--processes", "2", folder, "base", *overrides]) == 0
    assert capsys.readouterr().out.startswith("plan: tupe_small, ")
    file = str(measure("float32", length=512, size="small"))
    assert main(["plan", "--measured", file, folder, "base", *overrides]) == 0
    assert " the 1,000 tokens a second that were measured: " in capsys.readouterr().out
    assert not Path("x").exists()


@pytest.mark.parametrize("name", sorted(path.stem for path in (ROOT / "configs/pretraining").glob("*.yaml")))
def test_every_configuration_has_a_folder_for_each_model(name):
    """`save_dir: ???` would be fairseq's default, `checkpoints`, in which the runs of all would lie."""
    cfg = read_config(ROOT / "configs/pretraining", name, ["task.data=x"])
    folder = Path(cfg.checkpoint.save_dir)
    assert folder.name == cfg.model._name
    assert folder.parts[0] == "checkpoints"


def test_configuration_that_does_not_exist(capsys):
    assert main(["plan", str(ROOT / "configs/pretraining"), "nope"]) == 1
    assert "there is no " in (said := capsys.readouterr().err)
    assert said.startswith("error: ")
    assert "nope.yaml" in said


def test_configuration_that_cannot_be_read(tmp_path):
    (tmp_path / "mine.yaml").write_text("model: [tupe")
    with pytest.raises(UserError, match=r"^the configuration mine cannot be made: "):
        read_config(tmp_path, "mine", [])
