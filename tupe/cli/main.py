"""`tupe COMMAND`: finds the command's file in this folder and runs it.

The file `tupe/cli/user_dir.py` is the command `tupe user-dir`, and `import_.py` is `tupe import`. Such a file has a
docstring, which is the command's help and whose first line is shown in the list of commands; `add_arguments(parser)`;
and `run(args)`. `TUPE_USER_DIR` names a folder that is imported first, as fairseq's `--user-dir`.
"""

from __future__ import annotations

import argparse
import ast
import importlib
import logging
import os
import re
import signal
import sys
from pathlib import Path
from typing import Any, Callable, NoReturn

from tupe.errors import UserError
from tupe.user_dir import import_own


def main(argv: list[str] | None = None) -> int:
    """Runs one command and returns the exit status, as `status`."""
    return status(lambda: _run(sys.argv[1:] if argv is None else argv))


def status(work: Callable[[], None]) -> int:
    """Does a command's work and returns the exit status: 0, or 1 after an error, whose sentence goes to stderr."""
    try:
        work()
        sys.stdout.flush()
    except BrokenPipeError:  # who reads the output, such as `head`, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (UserError, OSError) as error:  # OSError: a full disk, a file that may not be read
        print(f"error: {_one_line(_sentence(error))}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("error: interrupted.", file=sys.stderr)
        return 128 + signal.SIGINT
    return 0


def _sentence(error: UserError | OSError) -> str:
    if getattr(error, "filename", None) is None or error.strerror is None:
        return str(error)
    return f"{error.filename} cannot be read or written ({error.strerror}): give another place."


def _one_line(text: str) -> str:
    """Whatever a file's name or content puts into a message, it breaks no line and moves no cursor."""
    text = re.sub(r"\s*\n\s*", " ", text)
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def _check_names(argv: list[str]) -> None:
    """A name that is not UTF-8 could not be written to any file or screen."""
    for argument in argv:
        try:
            argument.encode()
        except UnicodeEncodeError:
            raise UserError(f"{argument!r} is not UTF-8: rename that file or folder.") from None


class _Parser(argparse.ArgumentParser):
    """One whose errors are a sentence, without the usage before it."""

    def add_argument(self, *names: str, **options: Any) -> argparse.Action:
        """What may be left out is not among what is required; argparse does so by the default alone."""
        if options.get("nargs") == "*":
            options.setdefault("default", [])
        return super().add_argument(*names, **options)

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"error: {_one_line(message)}: see {self.prog} --help.\n")


def _run(argv: list[str]) -> None:
    _check_names(argv)
    files = {path.stem.rstrip("_").replace("_", "-"): path for path in sorted(Path(__file__).parent.glob("[!_]*.py"))}
    del files["main"]
    if argv[:1] in (["-h"], ["--help"]):
        print("usage: tupe COMMAND [-h] ...\n\ncommands:")
        width = max(map(len, files)) + 2
        for name, path in files.items():
            print(f"  {name:<{width}}{_summary(path)}")
        return
    if not argv or argv[0] not in files:
        wrong = f"there is no command '{argv[0]}'" if argv else "no command was given"
        raise UserError(f"{wrong}: the commands of tupe are {', '.join(files)} (see tupe --help).")
    if argv[0] != "user-dir":
        import_own()
    command = importlib.import_module(f"tupe.cli.{files[argv[0]].stem}")
    as_written = argparse.RawDescriptionHelpFormatter
    parser = _Parser(f"tupe {argv[0]}", description=command.__doc__, formatter_class=as_written, allow_abbrev=False)
    command.add_arguments(parser)
    logging.disable(logging.INFO)  # fairseq is talkative
    command.run(parser.parse_intermixed_args(argv[1:]))


def _summary(path: Path) -> str:
    """First line of the file's docstring, read without importing the file."""
    return (ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or "").partition("\n")[0]
