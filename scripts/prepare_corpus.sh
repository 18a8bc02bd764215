#!/usr/bin/env bash
# Text files -> cleaned text, SentencePiece, fairseq's data: bash scripts/prepare_corpus.sh OUT INPUT... [options; -h shows them]
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
python=$root/.venv/bin/python
[ -x "$python" ] || python=python3
PYTHONPATH=$root${PYTHONPATH:+:$PYTHONPATH} exec "$python" -m tupe prepare-corpus "$@"
