#!/usr/bin/env bash
# The papers' claims tested at a size that anyone can run: bash scripts/study.sh TEXT... [options; -h shows them]
# configs/study says what is compared, docs/results.md what came out.
set -euo pipefail
. "$(dirname "$0")/lib/command.sh"
exec python3 -m lab.study "$@"
