#!/usr/bin/env bash
# Parallel text -> one SentencePiece model, fairseq's data: bash scripts/prepare_translation.sh OUT SOURCE TARGET [options]
# `tupe prepare-translation --help` explains the options; --train PREFIX and --valid PREFIX are needed.
set -euo pipefail
. "$(dirname "$0")/lib/command.sh"
[[ $# -ge 3 && $1 != -* ]] || usage
exec python3 -m tupe prepare-translation "$2" "$3" "$1" "${@:4}"
