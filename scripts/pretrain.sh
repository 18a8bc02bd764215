#!/usr/bin/env bash
# Pre-trains a model in TUPE's setting (configs/pretraining/base.yaml) or another, on any number of GPUs and nodes, in
# mixed precision; gradient accumulation keeps the effective batch, 256 sequences, whatever the number of GPUs.
#
#   bash scripts/pretrain.sh DATA [key=value ...]                                        all GPUs of this machine
#   NODES=2 NODE_RANK=0 MASTER_ADDR=host0 bash scripts/pretrain.sh DATA [key=value ...]  on each node, with its rank
#   sbatch scripts/pretrain.sbatch DATA [key=value ...]                                  SLURM: 2 nodes of 8 GPUs
#   GPUS=0 PROCESSES=2 bash scripts/pretrain.sh DATA [key=value ...]                     two processes on the CPU
#
# DATA           folder made by scripts/prepare_corpus.sh; shards as a:b:c
# key=value      any key of the configuration, for example optimization.max_update=300000 checkpoint.save_dir=OUT;
#                a flag of the model that the file does not name needs Hydra's plus: +model.relative=unbinned
# CONFIG         a file of configs/pretraining, base by default; it says what the following are if they are not set
# MODEL          `tupe systems` lists them
# BATCH          sequences an update
# BATCH_PER_GPU  sequences a GPU and step; lower it where memory is short
#
# First it prints the plan: size, batch, updates, tokens, operations.
# Ctrl-C, SIGTERM and SIGUSR1 finish the update and save; run again, it goes on from the last checkpoint.
set -euo pipefail
. "$(dirname "$0")/lib/command.sh"
. "$(dirname "$0")/lib/launch.sh"
[[ $# -ge 1 && $1 != -* ]] || usage
data=$1
shift
find_config pretraining base
find_processes
batch_size=$(value "$config" batch_size)
batch=${BATCH:-$((batch_size * $(value "$config" update_freq)))}
per_gpu=${BATCH_PER_GPU:-$batch_size}
[ $((batch % (world * per_gpu))) -eq 0 ] ||
    fail "$world processes x $per_gpu sequences do not divide the batch of $batch: set BATCH_PER_GPU or BATCH"

settings+=("common.user_dir='$(python3 -m tupe user-dir)'" "task.data='$data'" ${MODEL:+"model._name=$MODEL"}
    "dataset.batch_size=$per_gpu" "optimization.update_freq=[$((batch / (world * per_gpu)))]" "$@")
start
