# Where a training runs. A script that sources this file after command.sh says
#   find_config KIND NAME  sets `config`, the file of configs/KIND that CONFIG names, NAME by default
#   find_processes        sets `gpus` and `processes` of each node and `world`, their number, from GPUS, PROCESSES, NODES, or
#                         SLURM; and `settings`, the keys of Hydra that follow from them
#   take_settings ARGS... adds to `settings` those of the user, key=value: checkpoint.save_dir may have any name
#   start PLAN [OPTION..] says by `tupe PLAN` what the training will be, and becomes it: fairseq-hydra-train on them with
#                         `settings`, to which it adds Hydra's pluses, and which keeps others from the folder until it ends;
#                         or its sentence, if it cannot work

find_config() {
    CONFIG=${CONFIG:-$2}
    CONFIG=${CONFIG#"configs/$1/"} CONFIG=${CONFIG%.yaml}
    config=$root/configs/$1/$CONFIG.yaml
    [ -f "$config" ] || fail "there is no $config: set CONFIG to a file of configs/$1, such as $2"
}

find_processes() {
    [ -z "${SLURM_NNODES-}" ] || nodes_of_slurm
    nodes=$(number NODES 1)
    [ "$nodes" = 1 ] || { [ -n "${NODE_RANK-}" ] && [ -n "${MASTER_ADDR-}" ]; } ||
        fail "NODES is $nodes, but NODE_RANK or MASTER_ADDR is not set: set NODE_RANK from 0 to $((nodes - 1)), another one on each node, and MASTER_ADDR to the name of node 0"
    local port
    port=$(number MASTER_PORT 29500)
    [ "$port" -le 65535 ] || fail "MASTER_PORT is $MASTER_PORT: give the number of a port, at most 65535"
    gpus=${GPUS:-$(python3 "$root/tupe/cores.py" gpus)}
    if [ "$gpus" = 0 ]; then processes=$(number PROCESSES 1); else processes=$(number GPUS "$gpus"); fi
    [ "$gpus" != 0 ] || [ -n "${GPUS-}" ] || echo "warning: nvidia-smi sees no GPU: this trains on the CPU, in float32" >&2
    world=$((nodes * processes))
    [ "$world" != 1 ] || [ "${WORLD_SIZE:-1}" = 1 ] ||
        fail "WORLD_SIZE is $WORLD_SIZE, as another launcher sets it, but one process is asked for, which would wait for others: unset WORLD_SIZE, or set NODES, NODE_RANK and MASTER_ADDR"
    settings=("distributed_training.distributed_world_size=$world")
    if [ "$gpus" = 0 ]; then
        settings+=(common.cpu=true common.fp16=false)
        [ "$world" -eq 1 ] || settings+=(distributed_training.distributed_backend=gloo
            distributed_training.ddp_backend=legacy_ddp distributed_training.distributed_init_method=env://
            distributed_training.distributed_no_spawn=true)
    fi
}

nodes_of_slurm() {
    NODES=$SLURM_NNODES
    NODE_RANK=${SLURM_NODEID:-0}
    [ "$NODES" != 1 ] || return 0
    [ -n "${SLURM_NODEID-}" ] || fail "SLURM_NNODES is $NODES, but SLURM_NODEID is not set: start this on each node by srun, or by sbatch scripts/pretrain.sbatch, or unset SLURM_NNODES"
    [ -n "${SLURM_JOB_NODELIST-}" ] || fail "SLURM_NNODES is $NODES, but SLURM_JOB_NODELIST is not set: start this by srun, or unset SLURM_NNODES and set NODES, NODE_RANK and MASTER_ADDR"
    if command -v scontrol >/dev/null; then # not in a container, where scripts/pretrain.sbatch has asked it before
        MASTER_ADDR=$(scontrol show hostnames "$SLURM_JOB_NODELIST" 2>/dev/null | sed -n 1p) || true # sed reads all: `head` could end scontrol by SIGPIPE
    fi
    [ -n "${MASTER_ADDR-}" ] || fail "scontrol does not say the nodes of SLURM_JOB_NODELIST=$SLURM_JOB_NODELIST: unset SLURM_NNODES and set NODES, NODE_RANK and MASTER_ADDR"
    [ -z "${MASTER_PORT-}" ] || return 0
    [[ ${SLURM_JOB_ID:=9500} =~ ^[0-9]{1,18}$ ]] || fail "SLURM_JOB_ID is $SLURM_JOB_ID, not a number: set MASTER_PORT, the same on every node"
    MASTER_PORT=$((20000 + 10#$SLURM_JOB_ID % 20000)) # two jobs may share a node
}

# Sets `meeting`, where the processes of a run meet: one machine takes any free port unless MASTER_PORT names one
find_meeting() {
    local port=${MASTER_PORT:-29500}
    if [ "$nodes" = 1 ] && [ -z "${MASTER_PORT-}" ]; then
        meeting=(--standalone --local-addr 127.0.0.1)
        return
    fi
    meeting=(--nnodes "$nodes" --node-rank "${NODE_RANK:-0}" --master-addr "${MASTER_ADDR:-127.0.0.1}" --master-port "$port")
    [ "${NODE_RANK:-0}" != 0 ] || python3 -c 'import socket, sys; s = socket.socket(); s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1); s.bind(("", int(sys.argv[1])))' "$port" 2>/dev/null ||
        fail "the port $port is taken or not allowed: set MASTER_PORT to another one, the same on every node$([ "$nodes" != 1 ] || echo ", or to nothing")"
}

take_settings() {
    local setting
    for setting in "$@"; do
        [[ $setting != -* ]] || fail "$setting is no setting: give key=value, such as checkpoint.save_dir=OUT"
        [[ $setting != checkpoint.save_dir=* ]] || setting=checkpoint.save_dir=$(quoted "${setting#*=}")
        settings+=("$setting")
    done
}

start() {
    local folder=${config%/*} train
    train=(python3 -m tupe.hydra_train --config-dir "$folder" --config-name "$CONFIG" "${settings[@]}")
    if [ "$world" -gt 1 ]; then
        # torchrun hands signals on, and gives the processes ten minutes to save
        export PET_SIGNALS_TO_HANDLE=SIGTERM,SIGINT,SIGHUP,SIGQUIT,SIGUSR1
        export TORCH_ELASTIC_SHUTDOWN_TIMEOUT=${TORCH_ELASTIC_SHUTDOWN_TIMEOUT:-600}
        # each process knows its rank from torchrun alone, and dies with it: nothing else would end one that waits for
        # the others, or keep the next start from writing beside it
        find_meeting
        train=(torchrun "${meeting[@]}" --nproc-per-node "$processes" --no-python
            bash -c 'exec python3 -IS "$0" SIGKILL $PPID "$@" distributed_training.distributed_rank=$RANK'
            "$root/tupe/experiments/process.py" "${train[@]}")
    fi
    exec python3 -m tupe "$@" --here --nodes "$nodes" --node-rank "${NODE_RANK:-0}" --gpus "$gpus" \
        --processes "$processes" "$folder" "$CONFIG" "${settings[@]}" --start "${train[@]}"
}
