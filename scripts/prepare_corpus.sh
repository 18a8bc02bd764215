#!/usr/bin/env bash
# Text files -> cleaned text, SentencePiece, fairseq's data: bash scripts/prepare_corpus.sh OUT INPUT... [options]
# `tupe prepare-corpus --help` explains the options. For many languages INPUT is --languages FOLDER: docs/data.md
set -euo pipefail
. "$(dirname "$0")/lib/command.sh"
[[ $# -ge 2 && $1 != -* ]] || usage
exec python3 -m tupe prepare-corpus "${@:2}" "$1"
