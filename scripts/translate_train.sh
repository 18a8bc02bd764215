#!/usr/bin/env bash
# Trains a translation model in DIET's setting (configs/translation/wmt18.yaml) or another, on any number of GPUs and
# nodes: `tupe pretrain --config translation/NAME`, with its options as variables.
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
# CONFIG          a file of configs/translation, wmt18 by default; its head describes the expected scores
# MODEL           seq2seq_SYSTEM_SIZE; `tupe systems --kind translation` lists them
# TOKENS_PER_GPU  source or target tokens per GPU and step; lower it where memory is short
#
# Ctrl-C, SIGTERM and SIGUSR1 finish the update and save; the same command resumes from the last checkpoint.
set -euo pipefail
. "$(dirname "$0")/lib/command.sh"
[[ $# -ge 1 && $1 != -* ]] || usage
exec python3 -m tupe pretrain "$@" --config "translation/${CONFIG:-wmt18}" ${MODEL:+--model "$MODEL"} \
    ${TOKENS_PER_GPU:+--batch-per-gpu "$TOKENS_PER_GPU"} ${GPUS:+--gpus "$GPUS"} \
    ${PROCESSES:+--processes "$PROCESSES"} ${NODES:+--nodes "$NODES"}
