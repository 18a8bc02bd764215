"""`tupe COMMAND`: find the command's file in this folder and run it.

The file `tupe/cli/user_dir.py` is the command `tupe user-dir`, and `import_.py` is `tupe import`. Such a file has
`add_arguments(parser)`, `run(args)`, and a docstring, which is the command's help and whose first line stands in the
list of commands. `TUPE_USER_DIR` names a folder that is imported first, as fairseq's `--user-dir`.
"""

import argparse
import ast
import importlib
import keyword
import logging
import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

from tupe.util import UserError, import_own

#: Purpose -> its commands, in the order of `tupe --help`.
GROUPS = {
    "examine a machine": ("doctor",),
    "begin from a pre-trained model": ("import",),
    "prepare data": ("prepare-corpus", "prepare-glue", "prepare-qa", "prepare-translation"),
    "train": ("plan", "average-checkpoints", "extend-positions", "warm-start"),
    "fine-tune": ("finetune", "sweep", "table", "predict", "qa-score"),
    "look": ("systems", "describe", "plot", "report", "loss-by-length"),
    "take elsewhere": ("export", "export-onnx", "export-electra", "convert-release"),
}

#: Commands for scripts and other commands, which the list leaves out.
OF_SCRIPTS = ("config-dir", "finetuning-result", "model-overrides", "user-dir")

COMMANDS = (*(name for names in GROUPS.values() for name in names), *OF_SCRIPTS)


def main(argv: list[str] | None = None) -> int:
    """Run one command and return the exit status, as `status`."""
    given = sys.argv[1:] if argv is None else argv
    return status(lambda: _run(given))


def status(work: Callable[[], None]) -> int:
    """Do a command's work and return the exit status: 0, or 1 after a `UserError`, which is printed on stderr."""
    try:
        work()
        sys.stdout.flush()
        return 0
    except BrokenPipeError:  # the reader of the output, such as `head`, has ended
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1


def parser_of(command: str) -> argparse.ArgumentParser:
    module = _module(command)
    as_written = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(
        f"tupe {command}", description=module.__doc__, formatter_class=as_written, allow_abbrev=False
    )
    module.add_arguments(parser)
    return parser


def _run(argv: list[str]) -> None:
    if not argv or argv[0] in ("-h", "--help"):
        print(_list_of_commands())
        return
    command, *arguments = argv
    if command not in COMMANDS:
        raise UserError(f"There is no command {command}. `tupe --help` lists the commands.")
    if command != "user-dir":
        import_own()
    parser = parser_of(command)
    logging.disable(logging.INFO)  # fairseq logs much
    _module(command).run(parser.parse_intermixed_args(arguments))


def _module(command: str) -> ModuleType:
    return importlib.import_module(f"tupe.cli.{_stem(command)}")


def _list_of_commands() -> str:
    width = max(map(len, COMMANDS)) + 2
    lines = ["usage: tupe COMMAND [-h] ..."]
    for group, names in GROUPS.items():
        lines += ["", f"{group}:", *(f"  {name:<{width}}{_summary(name)}" for name in names)]
    return "\n".join(lines)


def _stem(command: str) -> str:
    """Return the name of the command's module; a keyword of Python gets an underscore."""
    return f"{command}_" if keyword.iskeyword(command) else command.replace("-", "_")


def _summary(command: str) -> str:
    """Return the first line of the command's docstring, without importing the module."""
    path = Path(__file__).with_name(f"{_stem(command)}.py")
    return (ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or "").partition("\n")[0]
