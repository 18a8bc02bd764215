#!/usr/bin/env bash
# Pre-trains a model in TUPE's setting (configs/pretraining/base.yaml) on any number of GPUs and nodes, in mixed precision;
# gradient accumulation keeps the effective batch, 256 sequences, whatever the number of GPUs.
#
#   bash scripts/pretrain.sh DATA [key=value ...]                                        all GPUs of this machine
#   NODES=2 NODE_RANK=0 MASTER_ADDR=host0 bash scripts/pretrain.sh DATA [key=value ...]  on each node, with its rank
#   srun --nodes 2 --ntasks-per-node 1 --gpus-per-node 8 bash scripts/pretrain.sh DATA   SLURM: 16 GPUs
#   GPUS=0 PROCESSES=2 bash scripts/pretrain.sh DATA [key=value ...]                     two processes on the CPU
#
# DATA           folder made by scripts/prepare_corpus.sh; shards as a:b:c
# key=value      any key of the configuration, for example optimization.max_update=300000
# MODEL          tupe_base by default; `tupe systems` lists them
# CONFIG         a file of configs/pretraining, base by default
# BATCH          sequences an update, 256 by default
# BATCH_PER_GPU  sequences a GPU and step, 16 by default; lower it where memory is short
#
# First it prints the plan (size, batch, updates, tokens, disk for the checkpoints), and ends if that cannot work.
# Run again after an interruption, it goes on from the last checkpoint.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
[ ! -d "$root/.venv/bin" ] || export PATH=$root/.venv/bin:$PATH

if [ $# -lt 1 ]; then
    sed -n '2,/^set/s/^# \{0,1\}//p' "$0" >&2
    exit 2
fi
data=$1
shift
if [ -n "${SLURM_NNODES-}" ]; then
    NODES=$SLURM_NNODES NODE_RANK=$SLURM_NODEID
    MASTER_ADDR=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
fi
nodes=${NODES:-1}
gpus=${GPUS:-$({ nvidia-smi -L 2>/dev/null || true; } | wc -l)}
if [ "$gpus" -gt 0 ]; then processes=$gpus; else processes=${PROCESSES:-1}; fi
world=$((nodes * processes))
batch=${BATCH:-256}
per_gpu=${BATCH_PER_GPU:-16}
if [ $((batch % (world * per_gpu))) -ne 0 ]; then
    echo "error: $world processes x $per_gpu sequences do not divide the batch of $batch: set BATCH_PER_GPU or BATCH" >&2
    exit 1
fi
update_freq=$((batch / (world * per_gpu)))

settings=("common.user_dir=$(tupe user-dir)" "model._name=${MODEL:-tupe_base}" "task.data=$data"
    "dataset.batch_size=$per_gpu" "optimization.update_freq=[$update_freq]"
    "distributed_training.distributed_world_size=$world")
if [ "$gpus" -eq 0 ]; then
    settings+=(common.cpu=true common.fp16=false)
    [ "$world" -eq 1 ] || settings+=(distributed_training.distributed_backend=gloo
        distributed_training.ddp_backend=legacy_ddp distributed_training.distributed_init_method=env://
        distributed_training.distributed_no_spawn=true)
fi
settings+=("$@")
tupe pretraining-plan --nodes "$nodes" --gpus "$gpus" --processes "$processes" \
    "$root/configs/pretraining" "${CONFIG:-base}" "${settings[@]}" # its sentence, if it cannot work

train=(fairseq-hydra-train --config-dir "$root/configs/pretraining" --config-name "${CONFIG:-base}" "${settings[@]}")
if [ "$world" -gt 1 ]; then
    # each process knows its rank from torchrun alone
    train=(torchrun --nnodes "$nodes" --node-rank "${NODE_RANK:-0}" --nproc-per-node "$processes"
        --master-addr "${MASTER_ADDR:-127.0.0.1}" --master-port "${MASTER_PORT:-29500}" --no-python
        bash -c 'exec "$@" distributed_training.distributed_rank=$RANK' rank "${train[@]}")
fi
exec "${train[@]}"
