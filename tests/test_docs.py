"""The commands that README.md and docs/ print: a block that names a command, flag, key or file that is not there fails.

Each bash block runs as printed, in an empty folder, where every program only writes down what it is given; that then
goes through the parser of the real one.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from textwrap import dedent

import pytest
from fairseq import options
from hydra.errors import HydraException
from typer.exceptions import TyperException

from tests.commands import ROOT, run
from tests.samples import write_checkpoint, write_manifest
from tupe.cli.launch import training_of
from tupe.cli.main import load
from tupe.cli.plan import read_config
from tupe.systems import ELECTRAS, MODELS, TRANSLATORS
from tupe.util import UserError

PAGES = ["README.md", "CONTRIBUTING.md", "lab/benchmarks/README.md"]
PAGES += sorted(str(path.relative_to(ROOT)) for path in [*ROOT.glob("docs/*.md"), *ROOT.glob("docs/*/*.md")])

#: Programs and scripts, whose own tests run them in small.
PROGRAMS = {"tupe", "python", "pip", "ruff", "npx", "sphinx-build", "hf", "sacrebleu", "fairseq-train"}
PROGRAMS |= {"fairseq-hydra-train", "fairseq-generate", "fairseq-preprocess", "lab/benchmarks/gpu.sh"}
PROGRAMS |= {"scripts/pretrain.sbatch", *(f"scripts/{path.name}" for path in ROOT.glob("scripts/*.sh"))}
#: variables of the environment that our scripts do not read themselves
NOT_OURS = {"GOMP_SPINCOUNT", "OMP_NUM_THREADS", "TUPE_USER_DIR", "MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_"}
NOT_OURS |= {"NODE_RANK", "MASTER_ADDR"}  # `tupe pretrain` does
OWN = "examples/own_term"
IN_ANOTHER_PROCESS = f"""
import json, sys
sys.path[:0] = [".", "{OWN.rpartition("/")[0]}"]
import {OWN.rpartition("/")[2]}
from tests.test_docs import check
for words, environment in json.load(open(sys.argv[1])):
    check(words, environment)
"""


def blocks(kind):
    for page in PAGES:
        for number, code in enumerate(re.findall(rf"```{kind}\n(.*?)```", (ROOT / page).read_text(), re.DOTALL)):
            yield pytest.param(page, dedent(code), id=f"{page}-{number + 1}")  # in a list it is indented


RECORDER = """#!/bin/sh
{ printf '%s\\0' "${0##*/}" "$@"; printf '\\1'; env -0; } >"$RECORD/$$"
case "${0##*/} $1" in
    "tupe user-dir") echo USER_DIR ;;
    "tupe config-dir") echo "configs/$2" ;;
esac
"""


@pytest.fixture(scope="module")
def recorder(tmp_path_factory):
    """A folder of programs that write down their arguments and environment."""
    folder = tmp_path_factory.mktemp("programs")
    for name in {"bash", "sbatch", *(program for program in PROGRAMS if "/" not in program)}:
        (folder / name).write_text(RECORDER)
        (folder / name).chmod(0o755)
    return folder


def commands(code, recorder, here):
    """What a block runs: arguments and the environment that it adds."""
    (here / ".venv/bin").mkdir(parents=True)
    (here / ".venv/bin/activate").touch()
    (here / "record").mkdir()
    environment = {"PATH": f"{recorder}{os.pathsep}/usr/bin{os.pathsep}/bin", "RECORD": str(here / "record")}
    done = subprocess.run(["/bin/bash", "-euc", code], cwd=here, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, f"{code}\n{done.stderr}"
    shell = {*environment, "PWD", "SHLVL", "_", "OLDPWD"}
    for path in sorted((here / "record").iterdir(), key=lambda path: path.stat().st_mtime_ns):
        words, _, variables = path.read_text().partition("\1")
        added = dict(variable.split("=", 1) for variable in variables.split("\0") if "=" in variable)
        yield words.split("\0")[:-1], {name: value for name, value in added.items() if name not in shell}


@pytest.mark.parametrize(("page", "code"), blocks("bash"))
def test_block(page, code, recorder, tmp_path):
    found = list(commands(code, recorder, tmp_path))
    assert found
    if OWN in code:  # its flags are made in a process that imports it first
        (tmp_path / "found.json").write_text(json.dumps(found))
        run(sys.executable, "-c", IN_ANOTHER_PROCESS, tmp_path / "found.json")
        return
    for words, environment in found:
        try:
            check(words, environment)
        except (UserError, HydraException, SystemExit, TyperException) as error:
            pytest.fail(f"{page}: {' '.join(words)}: {error}")


def test_keys_of_tables():
    for page, config in (("pretraining", ["base"]), ("finetuning", ["glue", "glue=cola"])):
        for row in re.findall(r"^\| (`.*?) \|", (ROOT / f"docs/{page}.md").read_text(), re.MULTILINE):
            read_config(ROOT / "configs" / page, config[0], [*config[1:], *re.findall(r"[\w+.]+=[^` ]+", row)])


def check(words, environment):
    """Raises for a program, file, flag, key or variable that there is not."""
    program, *arguments = [word for word in words if not word.endswith("...")]
    given = [word for word in words if word.endswith("...")]  # TEXT..., and what is left out: a page has no room for it
    if program in ("bash", "sbatch"):
        while program == "sbatch" and arguments[0].startswith("--"):
            arguments = arguments[2:]  # its own
        script, *arguments = arguments
        assert script in PROGRAMS, script
        check_script(script, [*arguments, *given], environment)
        return
    assert program in PROGRAMS, program
    assert not environment.keys() - NOT_OURS, environment
    if program == "tupe":
        parse([*arguments, *given])
    elif program == "fairseq-train":
        options.parse_args_and_arch(options.get_training_parser(), without_user_dir(arguments))
    elif program == "fairseq-generate":
        options.parse_args_and_arch(options.get_generation_parser(), without_user_dir(arguments))
    elif program == "fairseq-preprocess":
        options.get_preprocessing_parser().parse_args(arguments)
    elif program == "fairseq-hydra-train":
        _, folder, _, name, *overrides = arguments
        read_config(ROOT / folder, name, overrides)
    elif program == "python" and arguments[0] == "-c":
        compile(arguments[1], program, "exec")
    elif program == "python" and arguments[0] != "-m":
        flags_are_in(ROOT / arguments[0], arguments[1:])
    elif program == "python" and arguments[1].startswith("lab."):
        flags_are_in(ROOT / f"{arguments[1].replace('.', '/')}.py", arguments[2:])
    elif program == "python":
        assert all((ROOT / word).exists() for word in arguments if word.startswith("tests"))
    elif program == "pip":
        extras = {extra for word in arguments for names in re.findall(r"\[(.*)\]", word) for extra in names.split(",")}
        assert extras <= tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"].keys()


def without_user_dir(arguments):
    """Its flag is given as any: `$(tupe user-dir)`; in this process the plugin is there."""
    at = arguments.index("--user-dir")
    assert arguments[at + 1] in ("USER_DIR", OWN), "only $(tupe user-dir) is there in every folder"
    return arguments[:at] + arguments[at + 2 :]


def command_of(words):
    """The command that `tupe WORDS` runs, and its arguments; `tupe convert` has commands of its own."""
    number = 2 if words[0] == "convert" else 1
    return load(" ".join(words[:number])), words[number:]


def parse(words):
    """The arguments of a command, by its own parser."""
    command, arguments = command_of(words)
    parsed = command.make_context(words[0], list(arguments)).params
    if words[0] in ("plan", "pretrain"):
        missing = {"overrides": parsed["overrides"] or [], "gpus": parsed["gpus"] or 0, "init_from": None}
        training = training_of(**parsed | missing)
        read_config(training.config.parent, training.config.stem, training.settings)
    return parsed


def check_script(script, arguments, environment):
    text = (ROOT / script).read_text()
    runs = re.search(r"exec python3 -m tupe ((?:[a-z-]+ )+)", text)
    for sourced in re.findall(r'\$0"\)/(lib/\S+)"', text):
        text += (ROOT / "scripts" / sourced).read_text()
    if script.endswith(".sbatch"):
        text += (ROOT / "scripts/pretrain.sh").read_text()
    for name in environment:
        assert name in NOT_OURS or re.search(rf"\b{name}\b", text), f"{script} knows no {name}"
    if (runs and runs[1] == "pretrain ") or script.endswith(".sbatch"):
        kind, config = ("translation", "wmt18") if "translation/" in text else ("pretraining", "base")
        assert environment.get("MODEL", "tupe_base") in (*MODELS, *ELECTRAS, *TRANSLATORS)
        overrides = [*arguments[1:], *([f"model._name={environment['MODEL']}"] if "MODEL" in environment else [])]
        read_config(ROOT / "configs" / kind, environment.get("CONFIG", config), overrides)
    elif script == "scripts/study.sh":
        flags_are_in(ROOT / "lab/study.py", arguments)
    elif script in ("scripts/quickstart.sh", "scripts/test.sh", "scripts/wheelhouse.sh", "lab/benchmarks/gpu.sh"):
        assert all(argument in text for argument in arguments)
    else:
        overrides = parse([*runs[1].split(), *arguments]).get("overrides") or []
        read_config(ROOT / "configs/finetuning", "glue", ["glue=cola", "model.pretrained=null", *overrides])


def flags_are_in(script, arguments):
    text = script.read_text()
    for name in re.findall(r"^from (?:lab\.)?(\w+) import", text, re.M):
        if (script.parent / f"{name}.py").exists():
            text += (script.parent / f"{name}.py").read_text()
    for flag in (word for word in arguments if word.startswith("--") and word != "--help"):
        assert f'"{flag}"' in text, f"{script.name} has no {flag}"


def sentences(page):
    """The page without its blocks."""
    return re.sub(r"```.*?```", "", (ROOT / page).read_text(), flags=re.DOTALL)


@pytest.mark.parametrize("page", PAGES)
def test_commands_stand_in_blocks(page):
    """Markdown's other kind, four spaces, is not looked into here."""
    assert not re.findall(rf"^ {{4,}}(?:\S+=\S+ |time )*(?:export|{'|'.join(PROGRAMS)}) .*", sentences(page), re.M)


INLINE = [
    (page, command)
    for page in PAGES
    for command in re.findall(r"`(tupe [a-z][^`]*|bash scripts/[^`]*)`", sentences(page))
]


@pytest.mark.parametrize(("page", "command"), INLINE)
def test_command_in_a_sentence(page, command):
    """It is there, and so are its flags."""
    program, name, *arguments = command.split()
    if program == "bash":
        text = (ROOT / name).read_text()
    else:
        command, _ = command_of([name, *arguments])
        text = command.get_help(command.make_context(name, [], resilient_parsing=True))
    for flag in (word.split("=")[0] for word in arguments if re.match("--[a-z]", word)):
        assert flag in text, f"{page}: {command}: there is no {flag}"


#: Page -> the test that runs its Python blocks, which need more than there is here.
ELSEWHERE = {  # exported folders
    "docs/export.md": "tests/hf/test_card.py",
    "docs/getting-started.md": "tests/end_to_end/test_tutorial.py",
}


@pytest.mark.parametrize(("page", "code"), list(blocks("python")))
def test_python(page, code, corpus, tmp_path, monkeypatch):
    """Runs as printed, here or elsewhere."""
    if page in ELSEWHERE:
        assert page in (ROOT / ELSEWHERE[page]).read_text()
        return
    names = {}
    if "checkpoints/tupe_a_base" in code:
        write_base(tmp_path, corpus)
        monkeypatch.chdir(tmp_path)
    exec(compile(code, page, "exec"), names)
    for result in ("features", "out"):
        assert result not in names or names[result].isfinite().all()
    for name, shape in re.findall(r"^(\w+)(?:, \w+)* = .*  # \(([^)]*)\)", code, re.MULTILINE):
        assert names[name].ndim == len(shape.split(", ")), name


def write_base(folder, corpus):
    """Write an untrained `checkpoints/tupe_a_base`, and `data/wiki`."""
    write_manifest(shutil.copytree(corpus, folder / "data/wiki"))
    symbols = [line.split()[0] for line in (corpus / "dict.txt").read_text().splitlines()]
    write_checkpoint(folder / "checkpoints/tupe_a_base/checkpoint_best.pt", corpus, symbols=symbols)


def anchors(page):
    """Those of a page's headings, as GitHub makes them."""
    headings = re.findall(r"(?m)^#+ (.*)", re.sub(r"(?s)```.*?```", "", page.read_text(encoding="utf-8")))
    words = (re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower() for heading in headings)
    return {re.sub(r"[^\w\- ]", "", text).replace(" ", "-") for text in words}


@pytest.mark.parametrize("page", [*PAGES, "SECURITY.md"])
def test_links_lead_somewhere(page):
    text = re.sub(r"(?s)```.*?```", "", (ROOT / page).read_text(encoding="utf-8"))
    wrong = []
    for link in re.findall(r"\]\(([^)\s]+)\)", text):
        name, _, anchor = link.partition("#")
        target = ROOT / page if not name else (ROOT / page).parent / name
        if ":" not in name and (not target.exists() or (anchor and anchor not in anchors(target))):
            wrong.append(link)
    assert not wrong
