#!/usr/bin/env bash
# Fine-tunes a checkpoint on one GLUE task with the paper's settings (configs/finetuning), on one GPU or the CPU.
#
#   bash scripts/finetune_glue.sh TASK CHECKPOINT DATA [key=value ...]
#
# TASK        CoLA, SST-2, MRPC, STS-B, QQP, MNLI, QNLI, RTE or WNLI; XNLI, SQuAD or TyDiQA
# CHECKPOINT  a pre-trained checkpoint of this plugin (tupe convert release for the authors')
# DATA        folder made by scripts/prepare_glue.sh (questions: tupe prepare-qa), of this task or of all
# key=value   any key of the configuration, for example optimization.lr=[2e-5] common.seed=3 checkpoint.save_dir=OUT;
#             recipe=electra is ELECTRA's fine-tuning
#
# OUT is runs/finetuning/CHECKPOINT/TASK/lr_LR/seed_SEED by default. The same command again resumes an interrupted run.
# The first line of the output is the command of fairseq, the last line the metric of the best epoch.
set -euo pipefail
. "$(dirname "$0")/lib/command.sh"
[[ $# -ge 3 && $1 != -* ]] || usage
exec python3 -m tupe finetune "$@"
