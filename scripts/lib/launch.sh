# Where a training runs. A script that sources this file after command.sh says
#   find_processes        sets `gpus` and `processes` of each node and `world`, their number, from GPUS, PROCESSES, NODES, or
#                         SLURM; and `settings`, the keys of Hydra that follow from them
#   as_hydra_wants CONFIG SETTING  prints a key=value of the user's: model.FIELD=VALUE with a plus where CONFIG has no such field
#   launch_command FOLDER CONFIG  sets `train`, the command that runs fairseq-hydra-train on them with `settings`

find_processes() {
    if [ -n "${SLURM_NNODES-}" ]; then
        NODES=$SLURM_NNODES NODE_RANK=$SLURM_NODEID
        MASTER_ADDR=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | sed -n 1p) # reads all: `head` could end scontrol by SIGPIPE
    fi
    nodes=${NODES:-1}
    gpus=${GPUS:-$({ nvidia-smi -L 2>/dev/null || true; } | wc -l)}
    if [ "$gpus" -gt 0 ]; then processes=$gpus; else processes=${PROCESSES:-1}; fi
    [ "$gpus" -gt 0 ] || [ -n "${GPUS-}" ] || echo "warning: nvidia-smi sees no GPU: this trains on the CPU, in float32" >&2
    world=$((nodes * processes))
    settings=("distributed_training.distributed_world_size=$world")
    if [ "$gpus" -eq 0 ]; then
        for_cpu "$processes"
        settings+=(common.cpu=true common.fp16=false)
        [ "$world" -eq 1 ] || settings+=(distributed_training.distributed_backend=gloo
            distributed_training.ddp_backend=legacy_ddp distributed_training.distributed_init_method=env://
            distributed_training.distributed_no_spawn=true)
    fi
}

as_hydra_wants() {
    local key=${2%%=*}
    key=${key#+}
    case $2 in
        checkpoint.save_dir=*) printf 'checkpoint.save_dir=%s' "$(quoted "${2#*=}")" ;;
        model.*=* | +model.*=*)
            sed -n '/^model:/,/^[^ ]*:$/p' "$1" | grep -q "^  ${key#model.}:" || key=+$key
            printf '%s=%s' "$key" "${2#*=}"
            ;;
        *) printf '%s' "$2" ;;
    esac
}

launch_command() {
    train=(fairseq-hydra-train --config-dir "$1" --config-name "$2" "${settings[@]}")
    if [ "$world" -gt 1 ]; then
        # torchrun hands signals on, and gives the processes ten minutes to save
        export PET_SIGNALS_TO_HANDLE=SIGTERM,SIGINT,SIGHUP,SIGQUIT,SIGUSR1
        export TORCH_ELASTIC_SHUTDOWN_TIMEOUT=${TORCH_ELASTIC_SHUTDOWN_TIMEOUT:-600}
        # each process knows its rank from torchrun alone
        train=(torchrun --nnodes "$nodes" --node-rank "${NODE_RANK:-0}" --nproc-per-node "$processes"
            --master-addr "${MASTER_ADDR:-127.0.0.1}" --master-port "${MASTER_PORT:-29500}" --no-python
            bash -c 'exec "$@" distributed_training.distributed_rank=$RANK' rank "${train[@]}")
    fi
}
