#!/usr/bin/env bash
# The GLUE download -> fairseq's data, with a corpus' vocabulary: bash scripts/prepare_glue.sh GLUE_DOWNLOAD CORPUS OUT [TASK...]
set -euo pipefail
. "$(dirname "$0")/lib/command.sh"
exec python3 -m tupe prepare-glue "$@"
