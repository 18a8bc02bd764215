"""The driver does what is missing, once, and nothing of others: with runs that are a few lines of Python."""

import dataclasses
import json
import os
import re
import shutil
import signal
import sys
import threading
import time
from types import SimpleNamespace

import pytest

from tests.commands import ROOT
from tests.experiments.study.conftest import DESIGN, changed
from tupe.cli.main import main
from tupe.errors import UserError
from tupe.experiments import queue
from tupe.experiments.plan import Plan
from tupe.experiments.runs import grid
from tupe.experiments.study import driver, finetuning, starting, tables, training
from tupe.experiments.study.design import Run, read_design
from tupe.experiments.study.driver import ELSEWHERE, Begun, Study
from tupe.experiments.study.records import read_records
from tupe.experiments.study.tables import Results
from tupe.files import write, write_json

#: Logs as fairseq does, one update every `pause` seconds, from where it was; the loss is least at rate 0.002.
TRAINING = r"""
import json, os, signal, sys, time
ENDS = {"fails": "ValueError: it cannot be", "diverges": "error: the loss or a gradient is NaN or infinite; try"}
folder, updates, lr, pause, end = sys.argv[1], int(sys.argv[2]), float(sys.argv[3]), float(sys.argv[4]), sys.argv[5]
signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
log = os.path.join(folder, "hydra_train.log")
if not os.path.exists(log):
    open(log, "w").write("num. shared model params: 1,234 (num. trained\n")
    open(folder + "/../../threads", "a").write(os.environ["OMP_NUM_THREADS"])
for update in range(len(open(log).readlines()) - 1, updates):
    if end in ENDS and update == 1:
        sys.exit(ENDS[end])
    time.sleep(pause)
    loss = {"loss": 9, "num_updates": update + 1, "wps": 100, "wpb": 200}
    open(log, "a").write(json.dumps({"epoch": 1, **loss}) + "\n")
valid = {"valid_loss": 8 + abs(lr - 0.002), "valid_accuracy": 30, "valid_num_updates": updates}
open(log, "a").write(json.dumps({"epoch": 1, **valid}) + "\n")
if end == "unsaved":
    sys.exit("OSError: no space left")
for name in ("last", "1_20"):
    open(f"{folder}/checkpoint_{name}.pt", "w")
"""


#: A process that ended well.
FINISHED = SimpleNamespace(code=0, asked=False)


@pytest.fixture
def study(design, prepared, tmp_path, monkeypatch):
    """`study(pause, fails, unsaved, diverges, **options)`: its pre-trainings are `TRAINING`; `started` says which."""
    out = tmp_path / "out"
    (out / design.name).mkdir(parents=True)
    (out / design.name / "corpus").symlink_to(prepared)
    started = []
    monkeypatch.setattr(queue, "_POLL", 0.02)
    monkeypatch.setattr(training, "_measured", lambda *_: {})  # there are no checkpoints

    def make(pause=0.0, fails=(), unsaved=(), diverges=(), **options):
        def command(design, run, lr, corpus, folder, gpu, start=None):
            started.append(str(run))
            ends = {"fails": fails, "unsaved": unsaved, "diverges": diverges}
            end = next((end for end, runs in ends.items() if str(run) in runs), "ends")
            length = training.updates(design, run)
            return [sys.executable, "-S", "-c", TRAINING, str(folder), str(length), str(lr), str(pause), end]

        monkeypatch.setattr(training, "command", command)
        parts = options.pop("parts", ("search", "final"))
        return Study(options.pop("of", design), tmp_path / "records", out, parts, **options)

    make.started = started
    return make


def test_all_of_it(study, design, tmp_path, monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    done = study(systems=["bert_a"])
    assert done.do(jobs=1) == 0
    assert (tmp_path / "out/made/threads").read_text() == "1111"  # whatever cores no run takes
    assert sorted(study.started[:2]) == ["search/bert_a.lr_0.001", "search/bert_a.lr_0.002"]
    assert sorted(study.started[2:]) == ["final/bert_a.seed_1", "final/bert_a.seed_2"]
    records = read_records(tmp_path / "records/made", design)
    final = records[Run("final", "bert_a", 2)]
    assert (final.lr, final.loss, final.parameters, final.accuracy) == (0.002, 8, 1234, 30)
    assert final.curve == ((100, 8.0),) and final.training_seconds == 200
    assert final.settings["pretraining"]["common"]["seed"] == 2
    assert final.settings["pretraining"]["dataset"]["batch_size"] == 4
    assert not done.folder(Run("search", "bert_a", 1, 0.001)).exists()  # nothing of it is needed
    assert "/" not in json.dumps({**final.settings, "run": ""})  # no paths of the machine

    assert study(systems=["bert_a"]).do(jobs=2) == 0
    assert len(study.started) == 4  # nothing again


def test_a_record_of_other_settings_is_refused(study, design, leave, tmp_path):
    study(systems=["bert_a"], parts=["search"]).do(jobs=2)
    run = Run("search", "bert_a", 1, 0.002)
    leave({run: changed(read_records(tmp_path / "records/made", design)[run], updates=9)})
    with pytest.raises(UserError, match=r"bert_a\.lr_0\.002\.json is of a run with updates = 9, not 10: move it away"):
        study(systems=["bert_a"]).do(jobs=2)
    (tmp_path / "records/made" / run.path).write_text("{")
    with pytest.raises(UserError, match=r"is not what scripts/study\.sh writes"):
        study(systems=["bert_a"]).do(jobs=2)


def test_the_rate_is_that_of_the_search(study, design, leave, search, tmp_path):
    """A record made at another rate than the search has found since is of other settings."""
    study(systems=["tupe_r"]).do(jobs=1)
    run = Run("search", "tupe_r", 1, 0.001)
    records = read_records(tmp_path / "records/made", design)
    better = changed(records[run])
    object.__setattr__(better, "curve", ((10, 1.0),))
    leave({run: better})
    with pytest.raises(UserError, match=r"tupe_r\.seed_1\.json is of a run with lr = 0\.002, not 0\.001"):
        study().check()


def test_one_begun_at_another_rate_is_refused(study, design, leave, tmp_path):
    """As where the search was extended since."""
    with pytest.raises(UserError, match=r"1 run\(s\) failed"):
        study(fails=["final/tupe_r.seed_1"], systems=["tupe_r"]).do(jobs=1)
    run = Run("search", "tupe_r", 1, 0.001)
    better = changed(read_records(tmp_path / "records/made", design)[run])
    object.__setattr__(better, "curve", ((10, 1.0),))
    leave({run: better})
    with pytest.raises(UserError, match=r"final/tupe_r\.seed_1 is of a run with lr = 0\.002, not 0\.001: move it away"):
        study(systems=["tupe_r"]).do(jobs=1)


def test_one_that_fails(study, capsys):
    """The others go on; what needs it waits."""
    with pytest.raises(UserError, match=r"1 run\(s\) failed"):
        study(fails=["search/bert_a.lr_0.001"], systems=["bert_a", "tupe_r"]).do(jobs=2)
    assert "failed: search/bert_a.lr_0.001: ValueError: it cannot be" in capsys.readouterr().err
    assert "final/tupe_r.seed_1" in study.started and "final/bert_a.seed_1" not in study.started
    assert study(systems=["bert_a", "tupe_r"]).do(jobs=2) == 0  # tried again


def test_one_of_the_search_that_diverges(study, design, tmp_path):
    """It is the worst of its rates; where all diverge there is no best, and where a final run does it has failed."""
    one, other = (f"search/bert_a.lr_{lr}" for lr in (0.001, 0.002))
    assert study(diverges=[other], systems=["bert_a"]).do(jobs=2) == 0
    records = read_records(tmp_path / "records/made", design)
    assert records[Run("search", "bert_a", 1, 0.002)].loss == float("inf")
    assert records[Run("final", "bert_a", 1)].lr == 0.001
    assert tables.rates(Results(design, records))[2] == "| BERT-A | **8.001** | diverged |"
    searches = [name.replace("bert_a", "tupe_r") for name in (one, other)]
    assert study(diverges=searches, systems=["tupe_r"]).do(jobs=2) == 1
    with pytest.raises(UserError, match=r"1 run\(s\) failed"):
        study(diverges=["final/bert_a_scaled.seed_1"], systems=["bert_a_scaled"]).do(jobs=2)


def test_one_that_fails_to_save_its_end(study, tmp_path, capsys):
    """Its last validation is logged, but the checkpoint that would be measured and fine-tuned is an earlier one."""
    options = {"systems": ["bert_a"], "parts": ["search"]}
    with pytest.raises(UserError, match=r"1 run\(s\) failed"):
        study(unsaved=["search/bert_a.lr_0.001"], **options).do(jobs=2)
    assert "failed: search/bert_a.lr_0.001: OSError: no space left" in capsys.readouterr().err
    assert [path.name for path in tmp_path.glob("records/made/search/*.json")] == ["bert_a.lr_0.002.json"]
    assert study(**options).do(jobs=2) == 0


#: Writes its last argument, a new file, as `tupe loss-by-length --json`, unless it is stopped; appends to a list first.
MEASURING = """
import sys, time
open(sys.argv[1], "a").write("x")
time.sleep(float(sys.argv[2]))
open(sys.argv[3], "x").write("{}")
"""


def test_losses_by_length_are_measured_beside_other_runs(study, design, tmp_path, monkeypatch):
    """After a stop they are measured again; until then the run has no record."""
    measured, pause = tmp_path / "measured", [600]

    def command(design, run, of, corpus, folder):
        arguments = [str(measured), str(pause[0]), str(folder / "lengths.json")]
        return [sys.executable, "-S", "-c", MEASURING, *arguments]

    monkeypatch.setattr(training, "length_command", command)
    options = {"systems": ["bert_a"], "of": dataclasses.replace(design, masks=2)}
    with monkeypatch.context() as clock:  # its minutes are over when both seeds are being measured
        clock.setattr(time, "monotonic", lambda: 60.0 * (measured.is_file() and measured.read_text() == "xx"))
        stopped = study(**options)
        assert stopped.do(jobs=2, minutes=0.5) == 2
    (stopped.folder(Run("final", "bert_a", 2)) / "lengths.json").touch()  # of one that was killed before its record
    pause[0] = 0
    assert study(**options).do(jobs=2) == 0
    assert measured.read_text() == "xxxx"
    assert len([name for name in study.started if name.startswith("final")]) == 4  # fairseq ends at once


def test_a_download_that_is_not_there_is_said_before_the_corpus(study, tmp_path):
    here = study(systems=["bert_a"])
    (here.corpus).unlink()
    (tmp_path / "text.txt").write_text("A text.")
    with pytest.raises(UserError, match=r"there is no .*nosuch/CoLA/train\.tsv, the train file of CoLA"):
        here.prepare([tmp_path / "text.txt"], tmp_path / "nosuch")
    assert not here.corpus.exists()


def test_a_sweep_with_failed_runs_has_no_record(tmp_path):
    runs = grid(["CoLA"], [0.001], [1, 2])
    Plan("c.pt", "1", "bert_a_tiny", 100, "d", (), tuple(runs)).join(tmp_path)
    write_json(tmp_path / runs[0].folder / "result.json", {"score": 50.0})
    write_json(tmp_path / runs[1].folder / "failed.json", {"reason": "out of memory"})
    assert finetuning.sweep_record({}, tmp_path, 1.0) is None
    write_json(tmp_path / runs[1].folder / "result.json", {"score": 52.0})
    assert finetuning.sweep_record({}, tmp_path, 1.0).scores == {"CoLA": {"0.001": (50.0, 52.0)}}


def test_a_run_that_was_finished_on_another_machine_is_not_swept_here(study, tmp_path, capsys, monkeypatch):
    """The record says that it ended; what lies here was begun and left."""
    study(systems=["bert_a"]).do(jobs=2)
    here = study(systems=["bert_a"], parts=["glue"])
    here.glue.mkdir()
    swept = []

    def command(design, checkpoint, *_):
        swept.append(checkpoint.parent.name)
        return ["false"]

    monkeypatch.setattr(finetuning, "sweep_command", command)
    for run in (Run("final", "bert_a", seed) for seed in (1, 2)):
        for name in ("checkpoint_last.pt", "checkpoint_1_20.pt"):
            (here.folder(run) / name).touch()
    log = here.folder(Run("final", "bert_a", 2)) / "hydra_train.log"
    log.write_text("".join(log.read_text().splitlines(keepends=True)[:50]))
    with pytest.raises(UserError, match=r"2 run\(s\) failed"):
        here.do(jobs=1)
    assert swept == ["bert_a.seed_1"] * 2
    (here.folder(Run("final", "bert_a", 1)) / "hydra_train.log").unlink()
    (here.corpus / "manifest.json").touch()
    folders = ["--records", f"{tmp_path}/records", "--out", f"{tmp_path}/out"]
    options = ["--size", f"{tmp_path}/made.yaml", "--systems", "bert_a", *folders, "--parts"]
    assert main(["study", *options, "glue"]) == 1
    said = capsys.readouterr()
    assert "study: 0 of 4 runs have a record" in said.out
    assert "error: checkpoints for 4 missing runs, as glue/bert_a.seed_1.end, are not in" in said.err
    assert "or give --again to train them here." in said.err
    assert main(["study", *options, "final", "glue", "--again", "--list"]) == 0
    assert capsys.readouterr().out.splitlines()[1:3] == [
        "done    final/bert_a.seed_2 (trained again)",
        "missing glue/bert_a.seed_1.end",
    ]
    assert main(["study", *options, "final", "glue", "--list"]) == 0
    assert capsys.readouterr().out.splitlines()[1:3] == [
        "done    final/bert_a.seed_2 (checkpoint elsewhere)",
        "missing glue/bert_a.seed_1.end (checkpoint of the pre-training elsewhere)",
    ]


def test_what_is_missing_is_said_with_the_reason(study, tmp_path, capsys):
    searches = [f"search/bert_a.lr_{lr}" for lr in (0.001, 0.002)]
    study(diverges=searches, systems=["bert_a"]).do(jobs=2)
    here = study(systems=["bert_a"], parts=["final", "glue"])
    assert set(here.missing().values()) == {"every rate of the search diverged", ""}
    study(systems=["tupe_r"]).do(jobs=2)
    (here.folder(Run("final", "tupe_r", 1)) / "checkpoint_last.pt").touch()
    (here.corpus / "manifest.json").touch()
    folders = ["--records", f"{tmp_path}/records", "--out", f"{tmp_path}/out"]
    options = ["--size", f"{tmp_path}/made.yaml", "--systems", "tupe_r", *folders]
    assert main(["study", *options, "--parts", "glue", "--list"]) == 0
    assert "missing glue/tupe_r.seed_1.end (tasks not prepared: give --glue)" in capsys.readouterr().out


def test_a_pretraining_done_again_begins_its_fine_tunings_anew(study):
    here = study(systems=["bert_a"])
    begun = here.folder(Run("glue", "bert_a", 1, at="end")) / "sweep"
    begun.mkdir(parents=True)
    here.do(jobs=2)
    assert not begun.exists()


#: Writes the checkpoint that it is asked for, and says what that took, as `tupe warm-start` does.
STARTING = (
    "import pathlib, sys; pathlib.Path(sys.argv[1]).touch(exist_ok=False); print('it took 2.50 s of the processor')"
)


@pytest.fixture
def starts(study, tmp_path, monkeypatch):
    """`starts()`: a study of a row made of another's checkpoints, and one from scratch; `converted` says from which."""
    text = DESIGN.replace(
        "{seeds: 1}", "{seeds: 1, rates: [0.004], start: {row: bert_a}, settings: {+model.sharing: none}}"
    )
    text = text.replace(
        "roberta: {seeds: 1, label: RoBERTa}",
        "scratch: {model: tupe_r, label: TUPE-R from scratch, seeds: 2, lr: 0.1, start: {}}",
    )
    (tmp_path / "made.yaml").write_text(text + "shares: [0.1, 0.2]\n")
    converted = []

    def command(design, run, checkpoint, corpus, folder):
        converted.append(f"{checkpoint.parent.name}: {' '.join(real(design, run, checkpoint, corpus, folder)[-9:])}")
        return [sys.executable, "-S", "-c", STARTING, str(folder / starting.CHECKPOINT)]

    real = starting.start_command
    monkeypatch.setattr(starting, "start_command", command)

    def make(**options):
        parts, systems = ["search", "final", "start", "short"], ["bert_a", "tupe_r", "scratch"]
        here = study(of=read_design(str(tmp_path / "made.yaml")), parts=parts, systems=systems, **options)
        for seed in (1, 2):
            folder = here.folder(Run("final", "bert_a", seed))
            folder.mkdir(parents=True, exist_ok=True)
            (folder / "checkpoint_last.pt").touch()
        return here

    make.converted = converted
    return make


def test_short_runs_from_another_systems_checkpoints(starts, study, tmp_path):
    """The conversion waits for the checkpoint, the search for the conversion, and each length has a run of its own."""
    here = starts()
    assert here.do(jobs=1) == 0
    assert [name for name in study.started if "tupe_r" in name or "scratch" in name] == [
        *(f"search/tupe_r.lr_{lr}" for lr in (0.001, 0.002, 0.004)),
        *(
            f"short/{name}"
            for n in (0, 10, 20)
            for name in (f"tupe_r.seed_1.{n}", *(f"scratch.seed_{s}.{n}" for s in (1, 2)))
        ),
    ]
    assert len(starts.converted) == 1 and starts.converted[0].startswith("bert_a.seed_1: ")
    assert f"{starting.CHECKPOINT} tupe_r sharing=none --data " in starts.converted[0]
    assert starts.converted[0].endswith("--positions calibrate --seed 1")
    records = here.done
    assert records[Run("start", "tupe_r", 1)].seconds == 2.5
    at_once, longest = (records[Run("short", "tupe_r", 1, at=at)] for at in ("0", "20"))
    assert (at_once.lr, at_once.curve[-1][0]) == (0, 1) and (longest.lr, longest.curve[-1][0]) == (0.002, 20)
    assert records[Run("search", "tupe_r", 1, 0.004)].curve[-1][0] == 20  # as long as the longest
    assert longest.settings["start"] == {
        "row": "bert_a",
        "positions": "calibrate",
        "model": "tupe_r",
        "fields": ["sharing=none"],
    }
    assert longest.settings["of"] == records[Run("final", "bert_a", 1)].settings
    scratch = records[Run("short", "scratch", 2, at="20")]
    assert "start" not in scratch.settings and scratch.lr == 0.1
    assert not here.folder(Run("short", "tupe_r", 1, at="20")).exists()
    assert here.folder(Run("start", "tupe_r", 1)).exists()
    records[Run("short", "tupe_r", 1, at="20")] = dataclasses.replace(longest, processor_seconds=5.0)
    results = Results(here.design, records)
    assert results.start_cost("tupe_r") == [10] and results.start_cost("scratch") == []  # 2.5 s of 20 updates' 5 s
    text = "\n".join(tables.starts(results))
    assert "| TUPE-R | 1 | 10 |" in text and " | 2 | – | " in text
    assert "After 100 updates from scratch: BERT-A 8.000 ± 0.000." in text


def test_a_conversion_that_lies_on_another_machine(starts, study):
    """Runs that start from a checkpoint on another machine wait, and are named."""
    here = starts()
    here.runs = [run for run in here.wanted if run.system == "bert_a" or run.part == "start"]
    here.do(jobs=1)
    (here.folder(Run("start", "tupe_r", 1)) / starting.CHECKPOINT).unlink()
    begun = len(study.started)
    again = starts()
    assert again.do(jobs=1) == 6
    assert all("tupe_r" not in name for name in study.started[begun:])
    said = {str(run): why for run, why in again.missing().items()}
    assert said["search/tupe_r.lr_0.001"] == said["short/tupe_r.seed_1.20"] == ELSEWHERE


def test_again_makes_what_left_its_checkpoint_elsewhere(starts, study, tmp_path, capsys):
    """Before the first run that begins with it, whole where that was stopped; the record of the first time stays."""
    here = starts()
    here.runs = [run for run in here.wanted if run.system == "bert_a" or run.part == "start"]
    here.do(jobs=1)
    source, start = Run("final", "bert_a", 1), Run("start", "tupe_r", 1)
    shutil.rmtree(here.out / "final")
    (here.folder(start) / starting.CHECKPOINT).unlink()
    path = here.records / source.path
    record = json.loads(path.read_text())
    record["curve"][-1][1] = 8.5  # of another processor
    path.write_text(json.dumps(record))
    begun = len(study.started)

    again = starts(again=True, fails=[str(source)])
    assert again.again == {source, start} and again.runs[:5] == [*here.wanted[:4], start]
    assert ELSEWHERE not in again.missing().values()
    with pytest.raises(UserError, match=r"1 run\(s\) failed"):
        again.do(jobs=1)
    assert study.started[begun] == str(source) and len(starts.converted) == 1
    assert starts(again=True).do(jobs=1) == 0
    made = [name for name in study.started[begun + 1 :] if "scratch" not in name]
    assert made[:2] == [str(source), "search/tupe_r.lr_0.001"] and "short/tupe_r.seed_1.20" in made
    assert len(starts.converted) == 2
    assert f"{source} ends with a loss of 8.0; its record, which stays, has 8.5" in capsys.readouterr().out
    assert path.read_text() == json.dumps(record)
    assert starts(again=True).again == set()


def test_again_where_the_checkpoint_of_the_middle_alone_is_gone(study):
    first = study(systems=["bert_a"])
    first.do(jobs=1)
    source = Run("final", "bert_a", 1)
    (first.folder(source) / "checkpoint_1_20.pt").unlink()
    again = study(systems=["bert_a"], parts=["glue"], again=True)
    assert again.again == {source}
    again.runs = [source]
    again.do(jobs=1)
    assert (first.folder(source) / "checkpoint_1_20.pt").is_file()


def test_nothing_begins_with_what_is_trained_again_before_that_has_ended(starts):
    """Its log is that of the first time, where its checkpoints alone were removed."""
    here = starts()
    here.runs = [run for run in here.wanted if run.system == "bert_a"]
    here.do(jobs=1)
    source, start = Run("final", "bert_a", 1), Run("start", "tupe_r", 1)
    write(here.folder(source) / "begun.json", Begun(here.done[source].settings, 1.0))  # stopped
    stopped = starts()
    stopped.runs = [start]
    stopped.do(jobs=1)
    assert not starts.converted and stopped.missing()[start] == ELSEWHERE
    again = starts(again=True)
    again.runs = [source, start]
    again.do(jobs=2)
    assert len(starts.converted) == 1 and start in again.done


def test_killed_when_its_record_is_written_a_run_has_ended(starts, monkeypatch):
    here = starts()
    search, source, start = here.wanted[0], Run("final", "bert_a", 1), Run("start", "tupe_r", 1)
    here.runs = [run for run in here.wanted if run.system == "bert_a"]
    at = [here.records / run.path for run in (search, source)]

    def killed(path, value):
        write(path, value)
        if path == at[0]:
            del at[0]
            raise SystemExit

    with monkeypatch.context() as context:
        context.setattr(driver, "write", killed)
        for _ in range(2):
            with pytest.raises(SystemExit):
                here.do(jobs=1)
    again = starts(again=True)
    assert not again.again
    again.runs = [start]
    again.do(jobs=1)
    assert start in again.done
    assert not here.folder(search).exists()


def test_a_source_trained_again_is_converted_again(starts):
    here = starts()
    here.do(jobs=1)
    assert here.folder(Run("start", "tupe_r", 1)).exists()
    here._conclude(Run("final", "bert_a", 1), here.done[Run("final", "bert_a", 1)].settings, 1.0, FINISHED)
    assert not here.folder(Run("start", "tupe_r", 1)).exists()


@pytest.mark.parametrize("how", ["signal", "minutes"])
def test_stopped_it_goes_on(how, study, monkeypatch):
    options = {"systems": ["bert_a"], "parts": ["search"]}
    slow = study(pause=0.8, **options)
    logs = [slow.folder(run) / "hydra_train.log" for run in slow.wanted]

    def begun():
        return all(log.exists() and len(log.read_text().splitlines()) > 1 for log in logs)

    def interrupt():
        while not begun():
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGINT)

    if how == "signal":
        threading.Thread(target=interrupt).start()
        with pytest.raises(UserError, match=r"interrupted with 0 of 2 runs done: the same command goes on"):
            slow.do(jobs=2)
    else:
        with monkeypatch.context() as clock:
            clock.setattr(time, "monotonic", lambda: 60.0 * begun())
            assert slow.do(jobs=2, minutes=0.5) == 2
    before = [len(log.read_text().splitlines()) for log in logs]
    assert all(1 < number < 11 for number in before)
    assert study(**options).do(jobs=2) == 0
    assert len(study.started) == 4


def test_what_another_process_does_is_left_to_it(study, monkeypatch):
    """Two at once on one folder: each run is done by one of them."""
    other = study(pause=0.005, systems=["bert_a"])
    thread = threading.Thread(target=other.do, args=(1,))
    monkeypatch.setattr(signal, "signal", lambda *_: None)  # not in a thread
    thread.start()
    time.sleep(0.3)
    study(pause=0.005, systems=["bert_a"]).do(1)
    thread.join()
    assert sorted(study.started) == sorted({*study.started}) and len(study.started) == 4


def test_the_commands(design, prepared, tmp_path):
    """A plan that becomes the training, with the system's own settings; fairseq's model by fairseq's command alone."""
    run = Run("final", "bert_a_scaled", 2)
    command = training.command(design, run, 0.002, prepared, tmp_path / "it's", gpu=False)
    plan, train = command[: command.index("--start")], command[command.index("--start") + 1 :]
    assert plan[:4] == [sys.executable, "-m", "tupe", "plan"] and "study" in plan
    expected = {"+model.content_terms=2", "common.seed=2", "optimization.lr=[0.002]", "optimization.max_update=100",
                "model._name='bert_a_tiny'", "dataset.batch_size=4", "optimization.update_freq=[1]", "common.cpu=True",
                f"checkpoint.save_dir='{tmp_path}/it\\'s'", f"common.user_dir='{ROOT / 'tupe'}'"}  # fmt: skip
    assert expected <= {*plan} and expected <= {*train}
    command = training.command(design, Run("final", "roberta", 1), 0.001, prepared, tmp_path, gpu=True)
    assert {"model._name='roberta'", "criterion._name='masked_lm'", "+model.encoder_layers=4"} <= {*command}
    assert "plan" not in command and "common.cpu=True" not in command
    sweep = finetuning.sweep_command(design, tmp_path / "a.pt", tmp_path / "glue", tmp_path / "sweep")
    assert sweep[3:8] == ["sweep", "glue", "--tasks=CoLA,STS-B", "--lrs=0.001", "--seeds=1,2"]
    of = training.settings(design, run, 0.002, prepared)
    assert of["pretraining"]["model"]["content_terms"] == 2
    assert training.overrides(design, Run("search", "tupe_r", 1, lr=0.001), 0.001)["common.log_interval"] == 1  # of 10
    assert "log_interval" not in of["pretraining"]["common"]


def test_what_cannot_be(study, design, tmp_path, capsys, monkeypatch):
    with pytest.raises(UserError, match=r"there is no system tupe_x in the study: it has bert_a"):
        study(systems=["tupe_x"])
    with pytest.raises(UserError, match=r"made\.yaml is not a folder: give the name of a folder"):
        Study(design, tmp_path / "made.yaml", tmp_path / "out")
    untuned = dataclasses.replace(design, finetuning=dataclasses.replace(design.finetuning, tasks=()))
    with pytest.raises(UserError, match="the study made has no runs of these parts and systems: its parts are search,"):
        Study(untuned, tmp_path / "records", tmp_path / "out", parts=["glue"])
    with pytest.raises(UserError, match="the study made fine-tunes nothing: leave out --glue"):
        Study(untuned, tmp_path / "records", tmp_path / "out").prepare([], tmp_path)
    (tmp_path / "out/made/corpus").unlink()
    with pytest.raises(UserError, match=r"there is no corpus in .*: give text files"):
        study().prepare([], None)
    with monkeypatch.context() as patch, pytest.raises(UserError, match=r"by model\.py of a clone: leave them out by"):
        patch.setattr(finetuning, "BENCHMARK", tmp_path / "model.py")
        study(parts=["cost"]).do(jobs=1)
    options = ["--size", f"{tmp_path}/made.yaml", "--records", str(tmp_path / "records"), "--out", str(tmp_path)]
    capsys.readouterr()
    assert main(["study", "--list", *options, "nosuch.txt"]) == 1
    assert (
        capsys.readouterr().err
        == "error: there is no nosuch.txt: a TEXT is a text file of the corpus, or a folder of such.\n"
    )
    assert main(["study", "--list", *options]) == 0
    assert "missing search/bert_a.lr_0.001" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ('"512"', '"0"', "corpus of made is wrong: argument --vocab-size: .*: see tupe prepare-corpus --help"),
        (
            '--vocab-size, "512"',
            '"--vocab-size 512"',
            "corpus of made is wrong: '--vocab-size 512' is no option: give each",
        ),
        ("--vocab-size", "--vocab-sise", "corpus of made is wrong: unrecognized arguments: --vocab-sise.*: see"),
        ("sizes, tiny", "sizes, tinny", "cost of made is wrong: argument --sizes: invalid choice: 'tinny' .* --help"),
        ("sizes, tiny", "sises, tiny", "cost of made is wrong: unrecognized arguments: --sises tiny: see .*model.py"),
        ("sizes, tiny", 'device, "cuda:99"', ""),
    ],
)
def test_options_of_other_programs(before, after, said, design, tmp_path, capsys):
    size = tmp_path / "made.yaml"
    size.write_text(DESIGN.replace(before, after))
    options = ["--size", str(size), "--records", str(tmp_path / "records"), "--out", str(tmp_path)]
    assert main(["study", "--list", *options]) == bool(said)
    assert re.fullmatch(f"error: {said}.*\n" if said else "", capsys.readouterr().err)
