"""The shell scripts hand everything to the commands."""

import pytest

from tests.commands import run


@pytest.mark.parametrize(
    ("script", "arguments", "message"),
    [
        ("prepare_corpus.sh", ["a b"], "Expected text files"),
        ("prepare_glue.sh", [".", ".", "out", "a b"], "KeyError: 'a b'"),
    ],
)
def test_arguments_and_exit_status_go_through(script, arguments, message):
    done = run("bash", f"scripts/{script}", *arguments, check=False)
    assert done.returncode == 1
    assert message in done.stderr
