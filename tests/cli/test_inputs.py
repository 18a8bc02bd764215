"""Every command and every kind of wrong input: one sentence, exit status 1, nothing lost, nothing left behind.

All kinds are tried where a reader first appears, and those of a file that cannot be opened where what opens it does;
the other rows show by one kind that their command asks that reader.

A new command is a row of ROWS for each thing that it reads, and a new kind of wrong input a function of SPOIL. What is
right to be taken (the text of a corpus may say anything) stands in the row as `takes`.
"""

import dataclasses
import hashlib
import importlib.util
import json
import os
import re
import shutil
import signal
from pathlib import Path

import pytest
import torch

from tests.checkpoints.foreign.conftest import fairseq_roberta
from tests.commands import ROOT
from tests.data.qa.conftest import LINES
from tests.data.qa.conftest import write_corpus as write_vocabulary
from tests.experiments.study.conftest import DESIGN, finetuning
from tests.samples import WORDS, write_checkpoint, write_corpus, write_manifest, write_task, write_translator
from tests.tasks.test_question_answering import make_model, make_task, save
from tupe.cli.main import COMMANDS, main
from tupe.experiments import finetune, sweep
from tupe.experiments.plan import Plan
from tupe.experiments.runs import Result, Run
from tupe.files import write
from tupe.files.folder import IDENTITY, Identity

RUN = Run("CoLA", 2e-5, 1)
HOSTILE = "gelu\n+hydra.job_logging.handlers.x={class:subprocess.Popen,args:[touch witness],shell:true}\x1b[2J"


@dataclasses.dataclass(frozen=True)
class Row:
    """Something that a command reads or writes.

    Attributes:
        command: the words of the command, whose {} is the folder of the samples.
        path: what is spoiled, below it.
        form: which kinds of wrong input there are.
        whole: whether the command ends well with the samples as they are (and in an instant).
        takes: kinds that are right for this one.
        also: kinds that are tried, although an earlier row has the same reader.
        wrong: whether wrong inputs are tried: not where the command opens the file in the same line as for a row above.
    """

    command: str
    path: str
    form: str
    whole: bool = True
    takes: tuple[str, ...] = ()
    also: tuple[str, ...] = ()
    wrong: bool = True

    def __str__(self) -> str:
        return f"{self.command.split()[0]}:{self.path}"


SET = "common.fp16=false common.cpu=true model._name=tupe_tiny task.tokens_per_sample=32 optimization.max_update=20000"
PLAN = "plan configs/pretraining base task.data={}/corpus checkpoint.save_dir={}/new " + SET
MULTILINGUAL = PLAN.replace(" base ", " multilingual ").replace("{}/corpus", "{}/languages")
FINETUNE = "finetune CoLA {}/pretrained.pt {}/glue checkpoint.save_dir={}/new"
SWEEP = "sweep glue --tasks CoLA --lrs 2e-5 --seeds 1 {}/pretrained.pt {}/glue {}/new"
PREDICT = "predict --partial {}/finetuned.pt {}/glue/CoLA {}/new"
SHOW = "plot {} {{}}/pretrained.pt --data {{}}/corpus --length 32 --output {{}}/new.png"
REPORT = "report {}/new.html {}/pretrained.pt --runs {}/run --glue {}/sweep"
EXPORT = "export {{}}/{}.pt {{}}/{} {{}}/new --no-tokenizer"
IMPORT = "import {}/exported {}/new.pt"
RELEASED = "import {}/released {}/new --no-tokenizer"
DRAWS = ("hostile", "foreign")  # a log is searched for records, whatever else is in it
MEASURED = ("hostile", "wrong version")  # what a benchmark calls its rivals

TRANSLATE = "prepare-translation {}/new en de --train {}/pair --valid {}/pair --vocab-size 60 --workers 1"
TRANSLATED = "translate {}/translator.pt --data {}/parallel --input {}/text.txt --output {}/new --beam 1"
CORPUS = "prepare-corpus {}/new {}/text.txt --vocab-size 60 --workers 1"
QUESTIONS = "prepare-qa {}/vocabulary {}/new valid={}/squad.json --workers 1"
ANSWER = "predict {}/answering.pt {}/questions {}/new --splits valid"
TRANSLATION = "plan configs/translation multi30k_en_de task.data={}/parallel common.cpu=true"
START = PLAN.replace("{}/new", "{}/run") + " --start true"  # a run that was begun

#: Of commands that need the packages of the extra `transformers`.
EXPORTS = (
    Row(EXPORT.format("pretrained", "corpus"), "pretrained.pt", "checkpoint"),
    Row(EXPORT.format("pretrained", "corpus"), "corpus", "folder"),
    Row(EXPORT.format("pretrained", "corpus"), "corpus/dict.txt", "text"),
    Row(EXPORT.format("finetuned", "glue/CoLA"), "glue/CoLA", "folder"),
    Row(EXPORT.format("finetuned", "glue/CoLA"), "glue/CoLA/label/dict.txt", "text"),
    Row(IMPORT, "exported/config.json", "json", takes=("wrong version", "not UTF-8")),
    Row(IMPORT, "exported/model.safetensors", "binary"),
    Row("export-onnx {}/exported", "exported", "folder", whole=False),
    Row(EXPORT.format("pretrained", "corpus"), "new", "folder out"),
    Row(IMPORT.replace("new", "new/a"), "new/a.pt", "file out"),
    Row("import {}/exported {}/new", "new", "checkpoint out", whole=False),
)
HAS_EXPORTS = importlib.util.find_spec("transformers") is not None

#: All that the commands read.
ROWS = (
    *(EXPORTS if HAS_EXPORTS else ()),
    Row("convert-release {}/release.pt {}/new", "release.pt", "checkpoint", whole=False),
    Row(RELEASED, "released/model.pt", "checkpoint", takes=("wrong version",)),
    Row(RELEASED, "released/dict.txt", "text"),
    Row(RELEASED, "new", "folder out"),
    Row("describe {}/pretrained.pt", "pretrained.pt", "checkpoint"),
    Row("extend-positions {}/pretrained.pt 64 {}/new", "pretrained.pt", "checkpoint"),
    Row("warm-start {}/pretrained.pt {}/new tupe_r sharing=none", "pretrained.pt", "checkpoint"),
    Row("loss-by-position {}/pretrained.pt --data {}/corpus", "pretrained.pt", "checkpoint"),
    Row("loss-by-position {}/pretrained.pt --data {}/corpus", "corpus", "folder"),
    Row("loss-by-length {}/pretrained.pt --data {}/corpus", "pretrained.pt", "checkpoint", whole=False),
    Row("loss-by-length {}/pretrained.pt --data {}/corpus", "corpus", "folder", whole=False),
    Row("model-overrides {}/pretrained.pt", "pretrained.pt", "checkpoint"),
    Row("plot position {}/pretrained.pt --output {}/new.png", "pretrained.pt", "checkpoint"),
    Row(SHOW.format("correlations"), "pretrained.pt", "checkpoint", wrong=False),
    Row(SHOW.format("correlations"), "corpus", "folder"),
    Row(SHOW.format("ranks"), "pretrained.pt", "checkpoint"),
    Row("plot reset {}/pretrained.pt --output {}/new.png", "pretrained.pt", "checkpoint", wrong=False),
    Row("plot segments {}/segments.pt --output {}/new.png", "segments.pt", "checkpoint", wrong=False),
    Row("plot similarity {}/pretrained.pt --output {}/new.png", "pretrained.pt", "checkpoint", wrong=False),
    Row("plot cost {}/model.json --output {}/new.png", "model.json", "json", takes=MEASURED),
    Row("plot scores {}/sweep --output {}/new.png", "sweep/sweep.json", "json"),
    Row("plot scores {}/sweep --output {}/new.png", "sweep", "folder"),
    Row(REPORT, "pretrained.pt", "checkpoint"),
    Row(REPORT, "run/hydra_train.log", "text", takes=(*DRAWS, "cut", "not UTF-8")),
    Row(REPORT, "sweep/sweep.json", "json"),
    Row(f"{REPORT} --data {{}}/corpus", "corpus", "folder"),
    Row(f"{REPORT} --cost {{}}/model.json", "model.json", "json", takes=MEASURED),
    Row(FINETUNE, "pretrained.pt", "checkpoint", whole=False, also=("hostile",)),  # its fields become words for Hydra
    Row(FINETUNE, "glue", "folder", whole=False),
    Row(FINETUNE, "glue/CoLA/input0/train.idx", "binary", whole=False),
    Row(FINETUNE, "glue/CoLA/label/valid.bin", "binary", whole=False),
    Row(FINETUNE, "glue/CoLA/input0/dict.txt", "text", whole=False),
    Row("finetune CoLA {}/pretrained.pt {}/glue checkpoint.save_dir={}/run", "run/.tupe.json", "json", whole=False),
    Row("finetuning-result {}/run", "run/checkpoint_best.pt", "checkpoint", takes=("other weights",)),
    Row(SWEEP, "pretrained.pt", "checkpoint", whole=False),
    Row(SWEEP, "glue/CoLA/input0/train.bin", "binary", whole=False),
    Row(SWEEP.replace("{}/new", "{}/sweep"), "sweep/sweep.json", "json", whole=False),
    Row("table {}/sweep", "sweep/sweep.json", "json"),
    Row("table {}/sweep", "sweep", "folder"),
    Row(PREDICT, "finetuned.pt", "checkpoint"),
    Row(PREDICT, "glue/CoLA", "folder"),
    Row(PREDICT, "glue/CoLA/input0/test.bin", "binary"),
    Row(PREDICT, "glue/CoLA/label/dict.txt", "text"),
    Row("plot training {}/run --output {}/new.png", "run/hydra_train.log", "text", takes=(*DRAWS, "cut", "not UTF-8")),
    Row(PLAN, "corpus", "folder"),
    Row(PLAN, "corpus/dict.txt", "text", takes=("cut", "foreign", "hostile", "wrong type")),
    Row(PLAN, "corpus/train.idx", "binary"),
    Row(PLAN, "corpus/valid.bin", "binary"),
    Row(f"{PLAN} --measured {{}}/model.json", "model.json", "json", takes=("wrong version",)),
    Row(f"{PLAN} --from {{}}/run", "run/hydra_train.log", "text", whole=False, takes=DRAWS),
    Row(MULTILINGUAL, "languages", "folder"),
    Row(MULTILINGUAL, "languages/de/train.idx", "binary"),
    Row("prepare-corpus {}/new --languages {}/texts --workers 1", "texts", "folder", whole=False),
    Row("quickstart-report {}/quickstart tupe_tiny", "quickstart/corpus", "folder", whole=False),
    Row("qa-score {}/squad.json {}/answers.json", "squad.json", "json", takes=("wrong version",)),
    Row("qa-score {}/squad.json {}/answers.json", "answers.json", "json", takes=("hostile",)),
    Row(QUESTIONS, "vocabulary", "folder"),
    Row(QUESTIONS, "squad.json", "json", takes=("wrong version",)),
    Row(QUESTIONS.replace("/new", "/questions"), "questions/valid/examples.npy", "binary"),
    Row(QUESTIONS.replace("/new", "/questions"), "questions/valid/report.json", "json", takes=("not UTF-8",)),
    Row(ANSWER, "answering.pt", "checkpoint"),
    Row(ANSWER, "questions/dict.txt", "text"),
    Row(ANSWER, "questions/valid/examples.npy", "binary"),
    Row(ANSWER, "questions/valid/context.idx", "binary"),
    Row(ANSWER, "questions/valid/questions.json", "json"),
    Row(ANSWER, "questions/valid/report.json", "json", takes=("not UTF-8",)),
    Row("export-electra {}/electra.pt {}/new", "electra.pt", "checkpoint", whole=False),
    Row("bleu --hypotheses {}/text.txt --reference {}/reference.txt", "text.txt", "text", takes=("hostile",)),
    Row("average-checkpoints {}/new {}/pretrained.pt {}/release.pt", "release.pt", "checkpoint", whole=False),
    Row("prepare-glue {}/download {}/corpus {}/new CoLA --workers 1", "corpus", "folder", whole=False),
    Row("prepare-task {}/download/CoLA/dev.tsv {}/corpus {}/new --workers 1", "corpus", "folder", whole=False),
    Row(TRANSLATE, "pair.de", "text", whole=False),
    Row(CORPUS, "text.txt", "input", whole=False),
    Row(TRANSLATION, "parallel/manifest.json", "json", takes=("not UTF-8",)),
    Row(TRANSLATION, "parallel/dict.de.txt", "text"),
    Row(TRANSLATION, "parallel/train.en-de.de.idx", "binary"),
    Row(START, "run/.tupe.json", "json", whole=False, takes=("absent",)),
    Row(TRANSLATED, "translator.pt", "checkpoint"),
    Row(TRANSLATED, "parallel/dict.en.txt", "text"),
    Row(TRANSLATED, "parallel/sentencepiece.bpe.model", "binary"),
    Row(TRANSLATED, "text.txt", "text", takes=("empty", "cut", "foreign", "hostile", "wrong type")),
    Row("translate {}/pretrained.pt --data {}/corpus --input {}/text.txt", "pretrained.pt", "checkpoint", whole=False),
    Row("study --size {}/study.yaml --records {}/new --list", "study.yaml", "text"),
    Row(
        "study-report --size {}/study.yaml --records {}/records --print glue",
        "records/study/glue/bert_a.seed_1.end.json",
        "json",
        takes=("absent", "hostile"),
    ),
    Row("word-order {}/text.txt {}/new", "text.txt", "text", takes=("cut", "foreign", "hostile", "wrong type")),
    Row("plot position {}/pretrained.pt --output {}/new/a.png", "new/a.png", "file out"),
    Row("table {}/sweep --output {}/new/a.md", "new/a.md", "file out"),
    Row("average-checkpoints {}/new/a.pt {}/pretrained.pt {}/release.pt", "new/a.pt", "file out", whole=False),
    Row("extend-positions {}/pretrained.pt 64 {}/pretrained.pt", "pretrained.pt", "checkpoint out", whole=False),
    Row("warm-start {}/pretrained.pt {}/pretrained.pt tupe_r", "pretrained.pt", "checkpoint out", whole=False),
    Row("average-checkpoints {}/new {}/pretrained.pt {}/release.pt", "new", "checkpoint out", whole=False),
    Row("convert-release {}/release.pt {}/new", "new", "checkpoint out", whole=False),
    Row("export-electra {}/electra.pt {}/new", "new", "checkpoint out", whole=False),
    Row(PREDICT, "new", "folder out", takes=("foreign", "another command's"), also=("a file",)),
    # a subset goes to OUT/CoLA
    Row("word-order {}/text.txt {}/new", "new", "folder out", takes=("foreign", "another command's"), also=("a file",)),
    Row(FINETUNE, "new", "folder out", whole=False),
    Row(SWEEP, "new", "folder out", whole=False),
    Row(CORPUS, "new", "folder out", whole=False),
    Row(TRANSLATE, "new", "folder out", whole=False),
    Row(QUESTIONS, "new", "folder out"),
    Row(PLAN + " --start true", "new", "folder out", whole=False, takes=("foreign",)),
)

PATIENCE = 60  # seconds

#: Commands that read nothing.
READ_NOTHING = {"config-dir", "doctor", "python-docs", "systems", "user-dir"}


def remove(path: Path) -> None:
    shutil.rmtree(path) if path.is_dir() else path.unlink()


def replaced(make):
    """What was there is gone."""

    def spoil(path):
        remove(path)
        make(path)

    return spoil


def content(new):
    return lambda path: path.write_bytes(new(path.read_bytes()) if callable(new) else new)


def state(change):
    """A checkpoint with another state."""

    def spoil(path):
        state = torch.load(path, weights_only=False)
        torch.save(change(state) or state, path)

    return spoil


def in_json(change):
    def spoil(path):
        value = json.loads(path.read_text())
        path.write_text(json.dumps(change(value) or value))

    return spoil


def set_model(**fields):
    def change(state):
        if isinstance(state.get("cfg"), dict):
            state["cfg"]["model"].update(fields)
            state["extra_state"]["best"] = "\n".join(map(str, fields.values()))  # of a fine-tuned one
        else:
            state["args"] = fields

    return state(change)


def hostile(value):
    """Every text in it says what a shell, Hydra and a terminal would obey."""
    if isinstance(value, dict):
        return {name: hostile(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [hostile(inner) for inner in value]
    return HOSTILE if isinstance(value, str) else value


def notes(path):
    """A folder of the user's own."""
    path.mkdir(parents=True)
    (path / "notes.txt").write_text("mine")


SPOIL = {
    "any": {
        "absent": remove,
        "unreadable": replaced(lambda path: path.symlink_to(path.name)),  # a loop: not even root reads it
        "pipe": replaced(os.mkfifo),
        "file or folder": lambda path: replaced(Path.touch if path.is_dir() else Path.mkdir)(path),
    },
    "checkpoint": {
        "empty": content(b""),
        "cut": content(lambda data: data[: len(data) // 2]),
        "wrong type": state(lambda state: [1]),
        "wrong version": set_model(field_of_tomorrow=True),
        "foreign": state(lambda state: {"state_dict": {}, "epoch": 3}),
        "not UTF-8": content(b"\xff\xfe\x00words"),
        "hostile": set_model(activation_fn=HOSTILE),
        "other weights": state(lambda state: {**state, "model": {}}),
        "wrong size": set_model(encoder_layers=10**9),
    },
    "json": {
        "empty": content(b""),
        "cut": content(lambda data: data[: len(data) // 2]),
        "wrong type": content(b"[1]"),
        "wrong version": in_json(lambda value: {**value, "version": 99}),
        "foreign": content(b'{"name": "of another program"}'),
        "not UTF-8": content(lambda data: data.replace(b"CoLA", b"\xff").replace(b"scripts", b"\xff")),
        "hostile": in_json(hostile),
    },
    "binary": {
        "empty": content(b""),
        "cut": content(lambda data: data[:-1]),
        "foreign": content(b"\x89PNG\r\n\x1a\n" + bytes(100)),
        "wrong version": content(lambda data: data[:9] + b"\x07" + data[10:] + b"more"),
    },
    "text": {
        "empty": content(b""),
        "cut": content(lambda data: data[: len(data) * 2 // 3]),
        "wrong type": content(b"{}\n"),
        "foreign": content(b"of another program\n"),
        "not UTF-8": content(b"\xff\xfe words 1\n"),
        "hostile": content(f"{HOSTILE} 1\n".encode()),
    },
    "folder": {"empty": replaced(Path.mkdir)},
    "input": {"empty": content(b"")},
    "file out": {"a folder": notes, "in a file": lambda path: path.parent.touch()},
    "checkpoint out": {"there already": Path.touch},
    "folder out": {
        "a file": Path.touch,
        "foreign": notes,
        "another command's": lambda path: write(path / IDENTITY, Identity("tupe of tomorrow", {})),
        "unwritable": lambda path: path.symlink_to(path.name),  # a loop
    },
}


def spoil(row):
    """The kinds of wrong input of a row: outputs may be absent."""
    return {**({} if row.form.endswith("out") else SPOIL["any"]), **SPOIL[row.form]}


#: Files that are not read by the one reader of their form, and what opens them.
READ_APART = {
    **dict.fromkeys(("config.json", "model.json", "study.yaml"), "json"),
    **dict.fromkeys(("squad.json", "answers.json"), "questions"),
    "hydra_train.log": "text",
    "text.txt": "text.txt",
}
#: Kinds that are found where a file is opened, whatever it should hold.
UNOPENED = ("unreadable", "pipe", "file or folder", "not UTF-8")
#: Kinds by which a row shows that its command asks a reader, or whose a folder is: the first that is wrong for it.
ASKED = ("cut", "foreign", "another command's", "a folder", "there already", "absent")


def reader(row):
    """Tell what reads the file of a row, and what opens it."""
    name = Path(row.path).name
    return (row.form, name if name in READ_APART else ""), READ_APART.get(name, row.form)


def kinds(number, row):
    """All kinds for the first row of a reader, one of `ASKED` for the others.

    A file in a folder is absent too where a command first reads one of its kind: it could be optional.
    """
    (read, opened), found, command = reader(row), spoil(row), row.command.split()
    earlier = [(*reader(each), each.command.split()[0]) for each in ROWS[:number] if each.wrong]
    if all(other != read for other, *_ in earlier):
        return [kind for kind in found if kind not in UNOPENED or all(other != opened for _, other, _ in earlier)]
    tried = [kind for kind in ASKED if kind in found and kind not in row.takes][:1]
    if not any(word.endswith("{}/" + row.path) for word in command) and "absent" not in row.takes:
        tried += [] if (read, opened, command[0]) in earlier else ["absent"]
    return [kind for kind in found if kind in (*tried, *row.also)]


CASES = [(kind, row) for number, row in enumerate(ROWS) if row.wrong for kind in kinds(number, row)]


@pytest.fixture(scope="module")
def samples(tmp_path_factory):
    """A folder with everything that the rows name."""
    folder = tmp_path_factory.mktemp("samples")
    write_corpus(folder / "corpus")
    (folder / "corpus/sentencepiece.bpe.model").touch()
    write_manifest(folder / "corpus")
    for language in ("de", "en"):
        write_corpus(folder / "languages" / language)
    shutil.move(folder / "languages/de/dict.txt", folder / "languages")
    (folder / "texts").mkdir()
    write_task(folder / "glue/CoLA", ("0", "1"))
    write_checkpoint(folder / "pretrained.pt", folder / "corpus")
    write_checkpoint(folder / "release.pt", folder / "corpus")
    (folder / "released").mkdir()
    shutil.copy(folder / "corpus/dict.txt", folder / "released")
    model, args = fairseq_roberta(4 + len(WORDS) + 1)
    torch.save({"args": args, "model": model.state_dict()}, folder / "released/model.pt")
    write_checkpoint(folder / "segments.pt", folder / "corpus", name="diet_rel_tiny")
    for path in ("finetuned.pt", "run/checkpoint_best.pt"):
        write_checkpoint(folder / path, folder / "glue/CoLA", num_classes=2)
    if HAS_EXPORTS:
        export = EXPORT.format("pretrained", "corpus").replace("new", "exported")
        assert main([word.replace("{}", str(folder)) for word in export.split()]) == 0
    (folder / "run/.tupe.json").write_text(
        json.dumps({"version": 1, "made_by": "scripts/finetune_glue.sh", "of": {"task": "MNLI"}})
    )
    record = '[train_inner][INFO] - {"epoch": 1, "loss": "9", "num_updates": "%d", "lr": "0.1", "wps": "1", "wpb": "1"}'
    (folder / "run/hydra_train.log").write_text("".join(f"{record % update}\n" for update in (1, 2, 3)))
    with (folder / "run/hydra_train.log").open("a") as log:
        log.write('[valid][INFO] - {"epoch": 1, "valid_loss": "8", "valid_num_updates": "3"}\n')
    runs = (RUN,)
    Plan("pretrained.pt", "0f", "tupe_tiny", 7, "glue", (), runs, {}).join(folder / "sweep")
    write(folder / "sweep" / RUN.folder / "result.json", Result(50.0))
    lines = (f"The dog number{number} sees a small bird and calls {number} .\n" for number in range(40))
    measured = {"size": "tiny", "mode": "training", "rival": "tupe", "time_over_first": [1.0, 1.0, 1.0]}
    records = [{**measured, "tokens_per_second": 1000.0}]
    conditions = "as scripts/study.sh does, float32, 32 sequences of 32 tokens, vocabulary 1000"
    (folder / "model.json").write_text(json.dumps({"run": conditions, "records": records}))
    (folder / "text.txt").write_text("".join(lines))
    (folder / "quickstart/corpus").mkdir(parents=True)
    (folder / "reference.txt").write_text("".join(reversed((folder / "text.txt").read_text().splitlines(True))))
    for side in ("en", "de"):
        (folder / f"pair.{side}").write_text((folder / "text.txt").read_text())
    answer = {"text": "bird", "answer_start": 2}
    question = {"id": "q1", "question": "Who sings?", "answers": [answer]}
    article = {"title": "CoLA", "paragraphs": [{"context": "A bird sings.", "qas": [question]}]}
    (folder / "squad.json").write_text(json.dumps({"version": "1.1", "data": [article]}))
    (folder / "answers.json").write_text(json.dumps({"q1": "CoLA"}))
    write_checkpoint(folder / "electra.pt", folder / "corpus")
    (folder / "download").mkdir()
    write_vocabulary(folder / "vocabulary", [*LINES.values()] * 20, 180)
    for command in (TRANSLATE.replace("/new", "/parallel"), QUESTIONS.replace("/new", "/questions")):
        assert main(command.replace("{}", str(folder)).split()) == 0
    task = make_task(folder / "questions")
    save(folder / "answering.pt", task, make_model(task))
    write_translator(folder / "translator.pt", folder / "parallel")
    (folder / "study.yaml").write_text(DESIGN)
    write(folder / "records/study/glue/bert_a.seed_1.end.json", finetuning(CoLA=50.0))
    return folder


def tree(folder: Path) -> dict[str, str]:
    """Everything in a folder, and what it holds."""
    found = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if path.is_symlink() or not path.is_file():
            found[name] = "link" if path.is_symlink() else "folder" if path.is_dir() else "pipe"
        else:
            found[name] = hashlib.sha256(path.read_bytes()).hexdigest()
    return found


def said(command: str, folder: Path, capsys) -> tuple[int, str]:
    """Exit status of the command, and what it wrote to the screen as an error."""
    try:
        status = main([word.replace("{}", str(folder)) for word in command.split()])
    except SystemExit as end:
        status = end.code
    return status, re.sub(r"\r[^\n]*\n?", "", capsys.readouterr().err)  # progress bars aside


def test_every_command_is_in_the_table():
    assert set(COMMANDS) == {row.command.split()[0] for row in (*ROWS, *EXPORTS)} | READ_NOTHING


@pytest.fixture
def copy(samples, tmp_path, monkeypatch):
    """The samples, in a command that does not wait for ever."""
    monkeypatch.chdir(ROOT)
    for module, name in ((finetune, "run_program"), (sweep, "multirun")):
        monkeypatch.setattr(module, name, lambda *_, **__: pytest.fail("the training begins"))
    monkeypatch.setattr(os, "execvp", lambda *_: None)
    before = signal.signal(signal.SIGALRM, waited)
    signal.alarm(PATIENCE)
    yield shutil.copytree(samples, tmp_path / "samples")
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def waited(*_):
    pytest.fail(f"no answer in {PATIENCE} seconds")


@pytest.mark.parametrize("command", dict.fromkeys(row.command for row in ROWS if row.whole))
def test_what_is_right_is_taken(command, copy, capsys):
    status, error = said(command, copy, capsys)
    assert (status, error.replace("error: ", "")) == (0, error)


@pytest.mark.parametrize(("kind", "row"), CASES, ids=str)
def test_what_is_wrong_is_one_sentence(kind, row, copy, capsys):
    spoil(row)[kind](copy / row.path)
    before = tree(copy)
    status, error = said(row.command, copy, capsys)
    if kind in row.takes and status == 0:
        return
    assert status == 1, error
    assert re.fullmatch(r"error: [^\n]+\n", error), error
    assert "\x1b" not in error
    assert not row.form.endswith("out") or str(copy / Path(row.path).parts[0]) in error
    assert tree(copy) == before


@pytest.mark.parametrize(
    "command",
    [
        TRANSLATED.replace("/new", "/translator.pt"),
        TRANSLATED.replace("/new", "/text.txt"),
        TRANSLATED.replace("/new", "/parallel/dict.en.txt"),
        "table {}/sweep --output {}/sweep/sweep.json",
        "table {}/sweep --output {}/pretrained.pt",
        "plot training {}/run --output {}/run/hydra_train.log",
        "report {}/pretrained.pt {}/pretrained.pt",
        ANSWER.replace("/new", "/questions"),
        PREDICT.replace("/new", "/glue/CoLA"),
        QUESTIONS.replace("/new", "/vocabulary"),
        "export-electra {}/electra.pt {}/electra.pt",
        "warm-start {}/pretrained.pt {}/new tupe_r sharing=none --data {}/finetuned.pt",
        PREDICT + " --splits valid",
        ANSWER + " --partial",
        "finetuning-result {}/run --test nosuch",
        "finetuning-result {}/run --test CoLA",
        "finetuning-result {}/run --test XNLI",
    ],
)
def test_what_a_command_cannot_do_changes_nothing(command, copy, capsys):
    before = tree(copy)
    status, error = said(command, copy, capsys)
    assert status == 1
    assert re.fullmatch(r"error: [^\n]+\n", error), error
    assert tree(copy) == before


def test_a_name_that_is_not_utf_8(copy, capsys):
    odd = copy.rename(os.fsdecode(os.fsencode(copy.parent) + b"/\xff"))
    before = tree(odd)
    for command in dict.fromkeys(row.command for row in ROWS):
        status, error = said(command, odd, capsys)
        assert status == 1
        assert re.fullmatch(r"error: '[^\n]+' is not UTF-8: rename that file or folder\.\n", error)
    assert tree(odd) == before
