#!/usr/bin/env bash
# Text files -> cleaned text, SentencePiece, fairseq's data: bash scripts/prepare_corpus.sh OUT INPUT... [options; -h shows them]
set -euo pipefail
. "$(dirname "$0")/lib/command.sh"
exec python3 -m tupe prepare-corpus "$@"
