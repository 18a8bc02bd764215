#!/usr/bin/env bash
# Collects this version and its dependencies as wheels, for machines without internet: bash scripts/wheelhouse.sh WHEELS
# Run it with internet, and with the Python and the kind of processor of those machines. It installs missing packages
# into .venv, builds fairseq and others that come as source, and writes the folder WHEELS. Then, on such a machine:
#
#   python -m venv .venv && source .venv/bin/activate
#   pip install --no-index --find-links WHEELS 'tupe[corpus,plot,transformers]'
#
#   EXTRAS               extras of the plugin: corpus,plot,transformers by default (pyproject.toml has their names)
#   PYTHON               the Python that .venv is made with
#   PIP_EXTRA_INDEX_URL  a PyTorch index, for a CPU build or a CUDA version other than the default
set -euo pipefail
[[ $# -eq 1 && $1 != -* ]] || { sed -n '2,/^set/s/^# \{0,1\}//p' "$0" >&2; exit 2; }
mkdir -p "$1"
wheels=$(cd "$1" && pwd)
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. scripts/lib/steps.sh
. scripts/lib/install.sh

EXTRAS=${EXTRAS:-corpus,plot,transformers}

collect() {
    # fairseq is built against the PyTorch of .venv, as `install` builds it
    env -u CUDA_HOME .venv/bin/python -m pip wheel --disable-pip-version-check --no-build-isolation \
        --constraint constraints.txt --wheel-dir "$wheels" ".[$EXTRAS]"
}

begin wheelhouse.sh runs/wheelhouse
step install install test
step collect collect
done_note="$(find "$wheels" -name '*.whl' | wc -l) wheels, $(du -sh "$wheels" | cut -f1), in $wheels"
