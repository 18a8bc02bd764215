#!/usr/bin/env bash
# Trains a translation model in DIET's setting (configs/translation/wmt18.yaml) or another, on any number of GPUs and
# nodes; gradient accumulation keeps the effective batch whatever the number of GPUs.
#
#   bash scripts/translate_train.sh DATA LANGUAGES [key=value ...]                              all GPUs of this machine
#   NODES=2 NODE_RANK=0 MASTER_ADDR=host0 bash scripts/translate_train.sh DATA LANGUAGES ...    on each node, its rank
#   srun --nodes 2 --ntasks-per-node 1 --gpus-per-node 8 bash scripts/translate_train.sh DATA LANGUAGES     SLURM: 16 GPUs
#   GPUS=0 CONFIG=multi30k_en_de bash scripts/translate_train.sh DATA                           on the CPU
#
# DATA            folder made by scripts/prepare_translation.sh
# LANGUAGES       of the data, task.source_lang=en task.target_lang=de, where the configuration has none
# key=value       any key of the configuration, for example optimization.max_update=300000 checkpoint.save_dir=OUT;
#                 a flag of the model that the file does not name needs Hydra's plus: +model.cross_position=low_rank
# CONFIG          a file of configs/translation, wmt18 by default; its head says what to expect
# MODEL           seq2seq_SYSTEM_SIZE; `tupe systems --translation` lists them
# TOKENS_PER_GPU  source or target tokens a GPU and step; lower it where memory is short
#
# First it prints the plan: size, batch, updates.
# Ctrl-C, SIGTERM and SIGUSR1 finish the update and save; run again, it goes on from the last checkpoint.
set -euo pipefail
. "$(dirname "$0")/lib/command.sh"
. "$(dirname "$0")/lib/launch.sh"
[[ $# -ge 1 && $1 != -* ]] || usage
data=$1
shift
find_config translation wmt18
find_processes
max_tokens=$(value "$config" max_tokens)
tokens=$((max_tokens * $(value "$config" update_freq))) # an update
per_gpu=${TOKENS_PER_GPU:-$max_tokens}
[ $((tokens % (world * per_gpu))) -eq 0 ] ||
    fail "$world processes x $per_gpu tokens do not divide the batch of $tokens: set TOKENS_PER_GPU"

settings+=("common.user_dir='$(python3 -m tupe user-dir)'" "task.data='$data'" ${MODEL:+"model._name=$MODEL"}
    "dataset.max_tokens=$per_gpu" "optimization.update_freq=[$((tokens / (world * per_gpu)))]" "$@")
start
