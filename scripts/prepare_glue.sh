#!/usr/bin/env bash
# The GLUE download -> fairseq's data, with a corpus' vocabulary: bash scripts/prepare_glue.sh GLUE CORPUS OUT [TASK...]
set -euo pipefail
. "$(dirname "$0")/lib/command.sh"
[[ $# -ge 3 && $1 != -* ]] || usage
exec python3 -m tupe prepare-glue "$1" "$2" "${@:4}" "$3"
