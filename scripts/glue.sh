#!/usr/bin/env bash
# Fine-tunes a checkpoint on GLUE: tasks x learning rates x seeds, and prints the papers' table.
#
#   bash scripts/glue.sh CHECKPOINT DATA OUT [key=value ...]
#
# CHECKPOINT  a pre-trained checkpoint of this plugin
# DATA        folder made by scripts/prepare_glue.sh
# OUT         folder of the sweep, only for this checkpoint
# key=value   any key of configs/finetuning/glue.yaml
# TASKS       MNLI,QNLI,QQP,SST-2,CoLA,MRPC,RTE,STS-B,WNLI by default
# LRS         2e-5,3e-5,4e-5,5e-5 by default
# SEEDS       1,2,3,4,5 by default
# JOBS        runs at a time: by default one per visible GPU, or one on the CPU
#
# The same command resumes: finished runs are kept, others start again. A run that fails does not stop
# the others. Only the checkpoint of each task's best run is kept. To print the table again: tupe table OUT
set -euo pipefail
. "$(dirname "$0")/lib/command.sh"
[[ $# -ge 3 && $1 != -* ]] || usage
exec python3 -m tupe sweep glue ${TASKS:+"--tasks=$TASKS"} ${LRS:+"--lrs=$LRS"} ${SEEDS:+"--seeds=$SEEDS"} \
    ${JOBS:+"--jobs=$JOBS"} "$@"
