"""`tupe COMMAND`: find the command's file in this folder and run it.

The file `tupe/cli/user_dir.py` is the command `tupe user-dir`, and `import_.py` is `tupe import`. Such a file has
`add_arguments(parser)`, `run(args)`, and a docstring, which is the command's help and whose first line stands in the
list of commands. `TUPE_USER_DIR` names a folder that is imported first, as fairseq's `--user-dir`.
"""

import argparse
import ast
import difflib
import importlib
import keyword
import logging
import os
import re
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn

from tupe.cli import _completion
from tupe.cli._types import check_outputs
from tupe.errors import UserError, one_line, system_sentence
from tupe.user_dir import import_own

#: Purpose -> its commands, in the order of `tupe --help`.
GROUPS = {
    "examine a machine": ("doctor",),
    "begin from a pre-trained model": ("import",),
    "prepare data": ("prepare-corpus", "prepare-glue", "prepare-qa", "prepare-task", "prepare-translation"),
    "train": ("plan", "average-checkpoints", "extend-positions", "warm-start", "study", "study-report"),
    "fine-tune": ("finetune", "sweep", "table", "predict", "qa-score"),
    "translate": ("translate", "bleu"),
    "look": ("systems", "describe", "plot", "report", "loss-by-position", "loss-by-length"),
    "take elsewhere": ("export", "export-onnx", "export-electra", "convert-release"),
}

#: Commands for scripts and other commands, which the list leaves out.
OF_SCRIPTS = (
    *("config-dir", "finetuning-result", "model-overrides", "python-docs", "quickstart-report", "user-dir"),
    "word-order",
)

LISTED = tuple(name for names in GROUPS.values() for name in names)
COMMANDS = (*LISTED, *OF_SCRIPTS)

_NO_MEMORY = re.compile("can't allocate memory|out of memory")
_EMPTY = re.compile(r"(--)?[\w.+-]+=\s*")  # an option or a setting
_KINDS = ("correlations", "cost", "position", "ranks", "reset", "scores", "segments", "similarity", "training")
#: Name in version 0.1.0, which 0.3.0 removes -> the name now.
RENAMED = {
    "finetune-glue": ("finetune",),
    "glue-predict": ("predict",),
    "glue-sweep": ("sweep", "glue"),
    "glue-table": ("table",),
    "pretraining-plan": ("plan",),
    "translation-plan": ("plan",),
    **{f"plot-{kind}": ("plot", kind) for kind in _KINDS},
}


def main(argv: list[str] | None = None) -> int:
    """Run one command and return the exit status, as `status`."""
    given = sys.argv[1:] if argv is None else argv
    return status(lambda: _run(given), given)


def status(work: Callable[[], None], argv: list[str] | None = None) -> int:
    """Do a command's work and return the exit status: 0, or 1 after an error, whose sentence is printed on stderr."""
    code = 1
    try:
        _check_names(sys.argv[1:] if argv is None else argv)
        work()
        sys.stdout.flush()
        return 0
    except BrokenPipeError:  # the reader of the output, such as `head`, has ended
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (UserError, OSError) as error:  # OSError: a full disk, or a file without permission
        said = one_line(str(error) if isinstance(error, UserError) else system_sentence(error))
    except ModuleNotFoundError as error:
        if (error.name or "tupe").partition(".")[0] == "tupe":
            raise
        said = f"the command needs {error.name}, which is not installed: install tupe without --no-deps"
        said += " (docs/faq.md), or use its attention alone (docs/attention.md)."
    except (MemoryError, RuntimeError) as error:  # PyTorch's, of the CPU's memory or of a GPU's, is a RuntimeError
        if not isinstance(error, MemoryError) and not _NO_MEMORY.search(str(error)):
            raise
        said = "there is too little memory for these sizes: give smaller ones, or free some."
    except KeyboardInterrupt:
        said, code = "interrupted.", 128 + signal.SIGINT
    print(f"error: {said}", file=sys.stderr)
    return code


def _check_names(argv: list[str]) -> None:
    """Raise `UserError` for an argument without a value or not UTF-8, and for `--a=--`, whose value argparse drops."""
    for argument in argv:
        if not argument.strip() or _EMPTY.fullmatch(argument):
            raise UserError(
                f"an argument is empty{argument.strip() and f' ({argument})'}: leave it out, or look whether a "
                "variable of the shell has a value."
            )
        if argument.startswith("--") and argument.endswith("=--"):
            raise UserError(f"{argument[:-3]} has the value '--', which is none: give another one.")
        try:
            argument.encode()
        except UnicodeEncodeError:
            raise UserError(f"{argument!r} is not UTF-8: rename that file or folder.") from None


class _Parser(argparse.ArgumentParser):
    """Parser whose errors are one sentence, without the usage."""

    def add_argument(self, *names: str, **options: Any) -> argparse.Action:
        """Give `nargs="*"` a default, without which argparse requires the argument."""
        if options.get("nargs") == "*":
            options.setdefault("default", [])
        return super().add_argument(*names, **options)

    def error(self, message: str) -> NoReturn:
        settings = ""
        if message.startswith("unrecognized") and any(action.metavar == "key=value" for action in self._actions):
            settings = "give settings as key=value, such as checkpoint.save_dir=OUT; "
        self.exit(2, f"error: {one_line(message)}: {settings}see {self.prog} --help.\n")


def parser_of(command: str) -> argparse.ArgumentParser:
    module = _module(command)
    as_written = argparse.RawDescriptionHelpFormatter
    parser = _Parser(f"tupe {command}", description=module.__doc__, formatter_class=as_written, allow_abbrev=False)
    module.add_arguments(parser)
    return parser


def _run(argv: list[str]) -> None:
    if _completion.WANTED:
        _completion.complete(LISTED, lambda command, parser: _module(command).add_arguments(parser))
    if not argv or argv[0] in ("-h", "--help"):
        print(_list_of_commands())
        return
    if argv[0] in RENAMED:
        now = RENAMED[argv[0]]
        print(f"warning: tupe {argv[0]} is now tupe {' '.join(now)}; version 0.3.0 ends the old name", file=sys.stderr)
        argv = [*now, *argv[1:]]
    command, *arguments = argv
    if command not in COMMANDS:
        near = difflib.get_close_matches(command, COMMANDS)
        meant = f"did you mean {' or '.join(near)}? " if near else ""
        raise UserError(f"there is no command '{command}': {meant}tupe --help lists the commands.")
    if command != "user-dir":
        import_own()
    parser = parser_of(command)
    logging.disable(logging.INFO)  # fairseq logs much
    args = parser.parse_intermixed_args(arguments)
    check_outputs(parser, args)
    _module(command).run(args)


def _module(command: str) -> ModuleType:
    return importlib.import_module(f"tupe.cli.{_stem(command)}")


def _list_of_commands() -> str:
    width = max(map(len, LISTED)) + 2
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
