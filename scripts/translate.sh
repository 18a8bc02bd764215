#!/usr/bin/env bash
# Translates a file, or standard input, to standard output, by the beam of DIET's translations: 10, length penalty 0.6.
#
#   bash scripts/translate.sh CHECKPOINT [FILE] --data DATA [option ...]    more options: python3 -m tupe translate -h
#   bash scripts/translate.sh RUN_FOLDER FILE --data DATA --average 10      the mean of the last ten checkpoints of a run
#
# DATA    folder made by scripts/prepare_translation.sh, whose vocabulary is read
set -euo pipefail
. "$(dirname "$0")/lib/command.sh"
[[ $# -ge 1 && $1 != -* ]] || usage
checkpoint=$1
shift
for_cpu 1
if [ $# -ge 1 ] && [ "${1#--}" = "$1" ]; then set -- --input "$@"; fi
exec python3 -m tupe translate "$checkpoint" "$@"
