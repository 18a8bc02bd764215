#!/usr/bin/env bash
# Installs what is missing into .venv and runs the test suite.
#
#   bash scripts/test.sh [arguments of pytest]              all of it, as CI does
#   bash scripts/test.sh --quick [arguments of pytest]      without the slow tests, for use while writing code
set -euo pipefail
case ${1-} in -h | --help) sed -n '2,/^set/s/^# \{0,1\}//p' "$0" >&2; exit 2 ;; esac
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. scripts/lib/steps.sh
. scripts/lib/install.sh

[ "${1-}" != --quick ] || { shift && set -- -m "not slow" "$@"; }

run_tests() {
    # Tests run commands, so several processes help; one thread each, so that they do not fight for the cores.
    export OMP_NUM_THREADS=1
    # Python keeps its bytecode. Otherwise each of some hundred commands would compile the plugin again.
    unset PYTHONDONTWRITEBYTECODE
    # Keep the order of tests/conftest.py, which runs the longest first, and list the slowest tests at the end.
    python -m pytest -q --numprocesses auto --maxprocesses 4 --dist loadfile --no-loadscope-reorder \
        --durations 20 --durations-min 5 "$@"
}

begin test.sh runs/test
step install install test
export PATH=$PWD/.venv/bin:$PATH
step ruff-check ruff check .
step ruff-format ruff format --check .
step pytest run_tests "$@"
done_note=$(grep -Eo '[1-9][0-9]* passed.*' runs/test/pytest.log | tail -1) || fail "no test ran."
