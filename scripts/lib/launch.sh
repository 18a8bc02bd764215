# Where a training runs. A script that sources this file after command.sh says
#   find_config KIND NAME  sets `config`, the file of configs/KIND that CONFIG names, NAME by default
#   find_processes         sets `nodes`, `processes` of each and `world`, their number, from GPUS, PROCESSES, NODES, or
#                          SLURM; and `settings`, the keys of Hydra that follow from them
#   start                  prints the plan, and becomes fairseq-hydra-train on them with `settings`

find_config() {
    CONFIG=${CONFIG:-$2}
    config=$root/configs/$1/$CONFIG.yaml
}

find_processes() {
    if [ "${SLURM_NNODES:-1}" != 1 ]; then # on each node, by srun
        NODES=$SLURM_NNODES NODE_RANK=$SLURM_NODEID
        MASTER_ADDR=${MASTER_ADDR:-$(scontrol show hostnames "$SLURM_JOB_NODELIST" | sed -n 1p)}
        MASTER_PORT=${MASTER_PORT:-$((20000 + SLURM_JOB_ID % 20000))} # two jobs may share a node
    fi
    nodes=${NODES:-1}
    local gpus=${GPUS:-$(python3 -c 'import torch; print(torch.cuda.device_count())')}
    processes=$gpus settings=()
    if [ "$gpus" = 0 ]; then
        processes=${PROCESSES:-1}
        settings=(common.cpu=true common.bf16=false)
        for_cpu "$processes"
    fi
    world=$((nodes * processes))
    settings+=("distributed_training.distributed_world_size=$world")
}

start() {
    local train meeting=(--standalone --local-addr 127.0.0.1) # any free port
    python3 -m tupe plan --nodes "$nodes" --gpus "$processes" "${config%/*}" "$CONFIG" "${settings[@]}"
    train=(fairseq-hydra-train --config-dir "${config%/*}" --config-name "$CONFIG" "${settings[@]}")
    if [ "$world" -gt 1 ]; then
        # torchrun hands signals on, and gives the processes ten minutes to save
        export PET_SIGNALS_TO_HANDLE=SIGTERM,SIGINT,SIGHUP,SIGQUIT,SIGUSR1
        export TORCH_ELASTIC_SHUTDOWN_TIMEOUT=${TORCH_ELASTIC_SHUTDOWN_TIMEOUT:-600}
        [ "$nodes" = 1 ] && [ -z "${MASTER_PORT-}" ] ||
            meeting=(--nnodes "$nodes" --node-rank "${NODE_RANK:-0}" --master-addr "${MASTER_ADDR:-127.0.0.1}"
                --master-port "${MASTER_PORT:-29500}")
        # a process dies with torchrun: the next start would write beside it
        ! command -v setpriv >/dev/null || train=(setpriv --pdeathsig KILL "${train[@]}")
        train=(torchrun "${meeting[@]}" --nproc-per-node "$processes" --no-python "${train[@]}")
    fi
    exec "${train[@]}"
}
