#!/usr/bin/env bash
# The GLUE download -> fairseq's data, with a corpus' vocabulary: bash scripts/prepare_glue.sh GLUE_DIR CORPUS_MANIFEST OUT [TASK...]
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
python=$root/.venv/bin/python
[ -x "$python" ] || python=python3
PYTHONPATH=$root${PYTHONPATH:+:$PYTHONPATH} exec "$python" -m tupe prepare-glue "$@"
