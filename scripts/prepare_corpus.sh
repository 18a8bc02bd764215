#!/usr/bin/env bash
# Text files -> cleaned text, SentencePiece, fairseq's data: bash scripts/prepare_corpus.sh OUT INPUT... [options; -h shows them]
# Of many languages INPUT is de=INPUT, or --languages FOLDER: docs/xtreme.md
set -euo pipefail
. "$(dirname "$0")/lib/command.sh"
exec python3 -m tupe prepare-corpus "$@"
