#!/usr/bin/env bash
# Pre-trains a model in TUPE's setting (configs/pretraining/base.yaml) or another, on any number of GPUs and nodes, in
# mixed precision: `tupe pretrain`, with its options as variables.
#
#   bash scripts/pretrain.sh DATA [key=value ...]                                        all GPUs of this machine
#   NODES=2 NODE_RANK=0 MASTER_ADDR=host0 bash scripts/pretrain.sh DATA [key=value ...]  on each node, with its rank
#   sbatch scripts/pretrain.sbatch DATA [key=value ...]                                  SLURM: 2 nodes of 8 GPUs
#   GPUS=0 PROCESSES=2 bash scripts/pretrain.sh DATA [key=value ...]                     two processes on the CPU
#
# DATA           folder made by tupe prepare-corpus; shards as a:b:c
# key=value      any key of the configuration, for example optimization.max_update=300000 checkpoint.save_dir=OUT;
#                a flag of the model that the file does not name needs Hydra's plus: +model.relative=unbinned
# CONFIG         a file of configs/pretraining, base by default; it has the defaults of the following variables
# MODEL          a model that `tupe systems` lists
# BATCH          sequences per update, whatever the number of GPUs
# BATCH_PER_GPU  sequences per GPU and step; lower it where memory is short
#
# Ctrl-C, SIGTERM and SIGUSR1 finish the update and save; the same command resumes from the last checkpoint.
set -euo pipefail
. "$(dirname "$0")/lib/command.sh"
[[ $# -ge 1 && $1 != -* ]] || usage
exec python3 -m tupe pretrain "$@" ${CONFIG:+--config "$CONFIG"} ${MODEL:+--model "$MODEL"} ${BATCH:+--batch "$BATCH"} \
    ${BATCH_PER_GPU:+--batch-per-gpu "$BATCH_PER_GPU"} ${GPUS:+--gpus "$GPUS"} ${PROCESSES:+--processes "$PROCESSES"} \
    ${NODES:+--nodes "$NODES"}
