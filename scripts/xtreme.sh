#!/usr/bin/env bash
# Fine-tunes a checkpoint on English and tests it on all languages: XTREME's tasks x learning rates x seeds, and DIET's table.
#
#   bash scripts/xtreme.sh CHECKPOINT DATA OUT [key=value ...]
#
# CHECKPOINT  a pre-trained checkpoint of this plugin, of many languages
# DATA        folder of the prepared tasks XNLI, SQuAD (tested on XQuAD and MLQA in the same folder) and TyDiQA, see docs/finetuning.md
# OUT         folder of the sweep, only for this checkpoint
# key=value   any key of configs/finetuning/glue.yaml (XNLI) or qa.yaml
# TASKS       XNLI,SQuAD,TyDiQA by default
# LRS         1e-5,2e-5,3e-5,4e-5 by default
# SEEDS       1,2,3,4,5 by default
# JOBS        runs at a time: by default one per visible GPU, or one on the CPU
#
# The same command resumes: finished runs are kept, others start again. A run that fails does not stop
# the others. To print the table again: tupe table OUT --by-language --published xtreme
set -euo pipefail
. "$(dirname "$0")/lib/command.sh"
[[ $# -ge 3 && $1 != -* ]] || usage
exec python3 -m tupe sweep xtreme ${TASKS:+"--tasks=$TASKS"} ${LRS:+"--lrs=$LRS"} ${SEEDS:+"--seeds=$SEEDS"} \
    ${JOBS:+"--jobs=$JOBS"} "$@"
