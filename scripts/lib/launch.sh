# Where a training runs. A script that sources this file after command.sh says
#   find_config KIND NAME  sets `config`, the file of configs/KIND that CONFIG names, NAME by default
#   find_processes        sets `gpus` and `processes` of each node and `world`, their number, from GPUS, PROCESSES, NODES, or
#                         SLURM; and `settings`, the keys of Hydra that follow from them
#   take_settings ARGS... adds to `settings` those of the user: checkpoint.save_dir may have any name
#   start PLAN            says by `tupe PLAN` what the training will be, and becomes it: fairseq-hydra-train on them with
#                         `settings`, to which it adds Hydra's pluses, and which keeps others from the folder until it ends;
#                         or its sentence, if it cannot work

find_config() {
    config=$root/configs/$1/${CONFIG:=$2}.yaml
    [ -f "$config" ] || fail "there is no $config: set CONFIG to a file of configs/$1, such as $2"
}

find_processes() {
    if [ -n "${SLURM_NNODES-}" ]; then
        NODES=$SLURM_NNODES NODE_RANK=$SLURM_NODEID
        MASTER_ADDR=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | sed -n 1p) # reads all: `head` could end scontrol by SIGPIPE
    fi
    nodes=$(number NODES 1)
    gpus=${GPUS:-$(($({ nvidia-smi -L 2>/dev/null || true; } | wc -l)))}
    if [ "$gpus" = 0 ]; then processes=$(number PROCESSES 1); else processes=$(number GPUS "$gpus"); fi
    [ "$gpus" != 0 ] || [ -n "${GPUS-}" ] || echo "warning: nvidia-smi sees no GPU: this trains on the CPU, in float32" >&2
    world=$((nodes * processes))
    settings=("distributed_training.distributed_world_size=$world")
    if [ "$gpus" = 0 ]; then
        for_cpu "$processes"
        settings+=(common.cpu=true common.fp16=false)
        [ "$world" -eq 1 ] || settings+=(distributed_training.distributed_backend=gloo
            distributed_training.ddp_backend=legacy_ddp distributed_training.distributed_init_method=env://
            distributed_training.distributed_no_spawn=true)
    fi
}

take_settings() {
    local setting
    for setting in "$@"; do
        [[ $setting != checkpoint.save_dir=* ]] || setting=checkpoint.save_dir=$(quoted "${setting#*=}")
        settings+=("$setting")
    done
}

start() {
    local folder=${config%/*} train
    train=(fairseq-hydra-train --config-dir "$folder" --config-name "$CONFIG" "${settings[@]}")
    if [ "$world" -gt 1 ]; then
        # torchrun hands signals on, and gives the processes ten minutes to save
        export PET_SIGNALS_TO_HANDLE=SIGTERM,SIGINT,SIGHUP,SIGQUIT,SIGUSR1
        export TORCH_ELASTIC_SHUTDOWN_TIMEOUT=${TORCH_ELASTIC_SHUTDOWN_TIMEOUT:-600}
        # each process knows its rank from torchrun alone
        train=(torchrun --nnodes "$nodes" --node-rank "${NODE_RANK:-0}" --nproc-per-node "$processes"
            --master-addr "${MASTER_ADDR:-127.0.0.1}" --master-port "${MASTER_PORT:-29500}" --no-python
            bash -c 'exec "$@" distributed_training.distributed_rank=$RANK' rank "${train[@]}")
    fi
    exec python3 -m tupe "$1" --here --nodes "$nodes" --node-rank "${NODE_RANK:-0}" --gpus "$gpus" \
        --processes "$processes" "$folder" "$CONFIG" "${settings[@]}" --start "${train[@]}"
}
