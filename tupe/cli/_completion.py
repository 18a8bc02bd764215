"""Complete commands and options when Tab is pressed, by argcomplete, which the extra `completion` installs.

`eval "$(register-python-argcomplete tupe)"` in `~/.bashrc` or `~/.zshrc` turns it on. The shell then calls `tupe` with
the variable `_ARGCOMPLETE` and the line so far in `COMP_LINE`.
"""

import argparse
import os
from collections.abc import Callable, Iterable

WANTED = "_ARGCOMPLETE" in os.environ


def complete(commands: Iterable[str], add_arguments: Callable[[str, argparse.ArgumentParser], None]) -> None:
    """Write the completions to the shell, and end the process. Only the command on the line is imported."""
    import argcomplete

    typed = os.environ["COMP_LINE"].split()
    parser = argparse.ArgumentParser("tupe")
    parsers = parser.add_subparsers()
    for name in commands:
        command = parsers.add_parser(name)
        if name in typed[1:2]:
            add_arguments(name, command)
    argcomplete.autocomplete(parser)
