"""Hours from a short run, and the warning of steps that are too small for a GPU."""

import re

import pytest
from omegaconf import OmegaConf

from tests.commands import ROOT, hydra_train
from tupe.analysis.probe import read_probe
from tupe.cli.main import main
from tupe.errors import UserError
from tupe.plan import Launch, plan, read_config

LOG = """\
[2026-11-23 16:04:08,469][fairseq.utils][INFO] - ***********CUDA enviroments for all 4 workers***********
[2026-11-23 16:04:08,469][fairseq.utils][INFO] - rank   0: capabilities =  8.0  ; name = NVIDIA A100-SXM4-80GB
[2026-11-23 16:04:08,555][fairseq_cli.train][INFO] - training on {devices} devices (GPUs/TPUs)
"""
INTERVAL = (
    "[2026-11-23 16:09:12,853][train_inner][INFO] - epoch 001:    {update} / 319 loss=11.934, accuracy=0, padding=0.1, "
    "ppl=3911, wps={wps}, ups=4.21, wpb=800, bsz=32, mfu={mfu}, num_updates={update}, lr=8e-05\n"
)
KEYS = ("model._name=tupe_tiny", "task.tokens_per_sample=32", "dataset.batch_size=8", "lr_scheduler.warmup_updates=0")


def configuration(corpus, *overrides):
    return read_config(ROOT / "configs/pretraining", "base", [f"task.data={corpus}", *KEYS, *overrides])


@pytest.fixture
def probe(corpus, tmp_path):
    """`probe(overrides, speeds=...)`: the folder of a run on four GPUs, which was started twice."""

    def write(*overrides, speeds=(100, 4000, 9, 8000, 6000), devices=4, mfu=41.0):
        folder = tmp_path / "probe"
        (folder / ".hydra").mkdir(parents=True, exist_ok=True)
        cfg = configuration(corpus, "common.bf16=true", "common.fp16=false", *overrides)
        cfg = OmegaConf.to_container(cfg, enum_to_str=True)
        named = ("_name", *(override.split("=")[0][6:] for override in overrides if override.startswith("model.")))
        cfg["model"] = {name: cfg["model"][name] for name in named}  # as Hydra writes it: without the defaults
        (folder / ".hydra/config.yaml").write_text(OmegaConf.to_yaml(OmegaConf.create(cfg)))
        before = LOG.format(devices=2) + INTERVAL.format(update=10, wps=1, mfu=1)
        intervals = "".join(INTERVAL.format(update=10 * n, wps=wps, mfu=mfu) for n, wps in enumerate(speeds, 2))
        (folder / "hydra_train.log").write_text(before + LOG.format(devices=devices) + intervals)
        return folder

    return write


def test_a_run_on_gpus(probe):
    """Of the last start, without its first interval: the median of 4000, 9, 8000 and 6000 tokens a second."""
    found = read_probe(probe())
    assert (found.devices, found.gpu, found.precision) == (4, "NVIDIA A100-SXM4-80GB", "bf16")
    assert found.tokens == pytest.approx(5000 / 4)
    assert found.sequences == pytest.approx(5000 / 800 * 32 / 4)
    assert found.mfu == pytest.approx(0.41)


def say(corpus, folder, *more, capsys):
    assert main(["plan", "--from", str(folder), *more, "configs/pretraining", "base", f"task.data={corpus}", *KEYS,
                 "optimization.max_update=36000", "optimization.update_freq=[1]"]) == 0  # fmt: skip
    return capsys.readouterr().out


def test_hours_by_a_run(probe, corpus, capsys):
    folder = probe()
    # 36,000 updates of 32 sequences, at 50 sequences a second and GPU; the configuration's fp16 has 16 bits as well
    said = f"a second of {folder}: 4 x NVIDIA A100-SXM4-80GB, bf16, 8 sequences a step, 41% of their peak\n"
    line = "plan: {} hours on {} GPU(s), if each does the 50 sequences (1,250 tokens) " + said
    assert line.format(f"{36_000 * 32 / 200 / 3600:.3g}", 4) in say(corpus, folder, capsys=capsys)
    assert line.format(f"{36_000 * 128 / 800 / 3600:.3g}", 16) in say(
        corpus, folder, "--nodes", "2", "--gpus", "8", capsys=capsys
    )


def test_the_share_of_the_peak_is_that_of_the_run(probe, corpus, capsys):
    assert "H100 at 41% of their 989 TFLOP/s" in say(corpus, probe(), "--gpu", "h100", capsys=capsys)
    assert "H100 at 30% of their" in say(corpus, probe(), "--gpu", "h100", "--mfu", "0.3", capsys=capsys)
    assert "H100 at 40% of their" in say(corpus, probe(mfu=0), "--gpu", "h100", capsys=capsys)


def test_a_share_of_no_peak(probe, corpus, capsys):
    with pytest.raises(AssertionError):
        say(corpus, probe(), "--mfu", "0.3", capsys=capsys)
    assert capsys.readouterr().err == "error: --mfu is the share of the peak of --gpu: give both or neither.\n"


def test_a_share_above_the_whole_peak(probe, corpus, capsys):
    """The hours by the run are told with a remark, and none are made of the share."""
    folder = probe(mfu=123)
    assert "123% of their peak (more than all of it, so that" in say(corpus, folder, capsys=capsys)
    assert "H100 at 30% of their" in say(corpus, folder, "--gpu", "h100", "--mfu", "0.3", capsys=capsys)
    with pytest.raises(AssertionError):
        say(corpus, folder, "--gpu", "h100", capsys=capsys)
    said = f"error: the log of {folder} has 123% of its GPUs' peak, which cannot be: give --mfu.\n"
    assert capsys.readouterr().err == said


@pytest.mark.parametrize(
    ("overrides", "launch", "said"),
    [
        (["task.tokens_per_sample=64"], {}, "is of a run with length = 64, not 32: give one of this model, length"),
        (["model._name=tupe_small"], {}, "is of a run with model.encoder_embed_dim = 512, not 128"),
        (["model.relative=unbinned"], {}, "is of a run with model.relative = unbinned, not bucketed"),
        (["model.compile=true"], {}, "is of a run with model.compile = True, not False"),
        (["common.bf16=false"], {}, "is of a run with bits = 32, not 16"),
        ([], {"gpus": 0}, "is of a run on GPUs, and this one is on the CPU: set --gpus"),
        (["common.cpu=true"], {}, "is of a run on the CPU, and this one is on GPUs: set --gpus"),
    ],
)
def test_refuses_another_run(overrides, launch, said, probe, corpus):
    launch = Launch(
        **{"nodes": 1, "processes": 4, "gpus": 4, "here": False, **launch, "probe": read_probe(probe(*overrides))}
    )
    with pytest.raises(UserError, match=re.escape(said)):
        list(plan(configuration(corpus), launch))


def test_refuses_a_run_that_measured_nothing(probe, tmp_path):
    folder = probe(speeds=())
    with pytest.raises(UserError, match=r"hydra_train.log has no intervals with tokens a second \(wps\): train for"):
        read_probe(folder)
    folder = probe(speeds=(4000,))  # the only one
    assert read_probe(folder).tokens == 1000
    for text in ("", "[1]", "model: {_name: roberta_base}\n", "model: {_name: tupe_tiny}\n", "a: ${b", "a: [\n"):
        (folder / ".hydra/config.yaml").write_text(text)
        with pytest.raises(UserError, match=r"config.yaml is no configuration of a pre-training: give a run of"):
            read_probe(folder)
    (folder / ".hydra/config.yaml").unlink()
    with pytest.raises(UserError, match=r"there is no .*\.hydra/config.yaml: give what scripts/pretrain.sh wrote"):
        read_probe(folder)
    with pytest.raises(UserError, match="there is no "):
        read_probe(tmp_path / "nowhere")


def test_a_run_that_trained(corpus, tmp_path, capsys):
    """fairseq's own log and Hydra's own configuration, on the CPU."""
    hydra_train(corpus, tmp_path / "run", "model._name=tupe_tiny", "+model.encoder_layers=1",
                "optimization.max_update=5", "dataset.disable_validation=true")  # fmt: skip
    found = read_probe(tmp_path / "run")
    assert (found.devices, found.gpu, found.precision, found.batch_size, found.mfu) == (1, None, "float32", 8, None)
    assert found.tokens > found.sequences > 0
    assert main(["plan", "--from", str(tmp_path / "run"), "configs/pretraining", "base", f"task.data={corpus}", *KEYS,
                 "model.encoder_layers=1", "common.fp16=false", "optimization.update_freq=[1]"]) == 0  # fmt: skip
    assert "hours on 1 process(es), if each does the " in capsys.readouterr().out


@pytest.mark.parametrize(
    ("batch_size", "accumulated", "gpus", "helps"),
    [
        (16, 2, 8, "set BATCH_PER_GPU (dataset.batch_size) to 32, or what its memory holds"),
        (16, 16, 1, "set BATCH_PER_GPU (dataset.batch_size) to 32, or what its memory holds"),
        (8, 3, 8, "set BATCH_PER_GPU (dataset.batch_size) to 24, or what its memory holds"),
        (16, 1, 16, "take fewer GPUs, with a larger BATCH_PER_GPU (dataset.batch_size), or a larger batch"),
        (32, 1, 8, None),
        (16, 2, 0, None),
    ],
)
def test_few_tokens_a_step(batch_size, accumulated, gpus, helps, corpus):
    cfg = configuration(corpus, "task.tokens_per_sample=512", f"dataset.batch_size={batch_size}",
                        f"optimization.update_freq=[{accumulated}]")  # fmt: skip
    lines = list(plan(cfg, Launch(nodes=1, processes=max(gpus, 1), gpus=gpus, here=False)))
    few = [line for line in lines if "below 16,000" in line]
    said = f"{batch_size * 512:,} tokens a GPU and step are below 16,000, which leaves much of a GPU idle: {helps}"
    assert few == ([] if helps is None else [f"warning: {said}"])
