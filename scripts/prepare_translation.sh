#!/usr/bin/env bash
# Parallel text -> one SentencePiece model, fairseq's data: bash scripts/prepare_translation.sh OUT SOURCE TARGET --train PREFIX --valid PREFIX [options; -h shows them]
set -euo pipefail
. "$(dirname "$0")/lib/command.sh"
exec python3 -m tupe prepare-translation "$@"
