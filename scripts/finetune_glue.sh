#!/usr/bin/env bash
# Fine-tunes a checkpoint on one GLUE task with the paper's settings (configs/finetuning), on one GPU or the CPU.
#
#   bash scripts/finetune_glue.sh TASK CHECKPOINT DATA [key=value ...]
#
# TASK        CoLA, SST-2, MRPC, STS-B, QQP, MNLI, QNLI, RTE or WNLI
# CHECKPOINT  a pre-trained checkpoint of this plugin (tupe convert-release for the authors')
# DATA        folder made by scripts/prepare_glue.sh, of this task or of all
# key=value   any key of the configuration, for example optimization.lr=[2e-5] common.seed=3 checkpoint.save_dir=OUT
#
# OUT is runs/finetuning/CHECKPOINT/TASK/lr_LR/seed_SEED by default. Run again after an interruption, it goes on where
# it stopped; a finished run stays as it is. The last line is the metric, the best epoch and the folder.
set -euo pipefail
. "$(dirname "$0")/lib/command.sh"
[ $# -ge 3 ] || usage
task=$1 checkpoint=$2 data=$3
shift 3
case $task in
    CoLA | SST-2 | MRPC | STS-B | QQP | MNLI | QNLI | RTE | WNLI) config=$(tr 'A-Z-' 'a-z_' <<<"$task") ;;
    *)
        echo "error: unknown task $task: choose CoLA, SST-2, MRPC, STS-B, QQP, MNLI, QNLI, RTE or WNLI" >&2
        exit 1
        ;;
esac
[ ! -d "$data/$task" ] || data=$data/$task
if [ ! -f "$data/input0/dict.txt" ]; then
    echo "error: $data holds no prepared $task: bash scripts/prepare_glue.sh GLUE_DOWNLOAD CORPUS $data $task" >&2
    exit 1
fi

defaults=$root/configs/finetuning/glue.yaml
save_dir='' lr=$(value "$defaults" lr) seed=$(value "$defaults" seed) settings=()
for setting in "$@"; do
    key=${setting%%=*} text=${setting#*=}
    case ${key//+/} in
        checkpoint.save_dir) save_dir=$text && continue ;;
        optimization.lr) lr=${text//[][]/} ;;
        common.seed) seed=$text ;;
    esac
    settings+=("$setting")
done
if [ -z "$save_dir" ]; then
    save_dir=runs/finetuning/$(basename "$(dirname "$checkpoint")")-$(basename "$checkpoint" .pt)/$task
    save_dir+=/lr_$(LC_ALL=C printf %g "${lr%%,*}")/seed_$seed # as a sweep names it: 2e-05, also for 0.00002
fi

if [ -f "$save_dir/result.json" ]; then
    echo "$save_dir holds a finished run: to train anew, remove it or set checkpoint.save_dir"
else
    model=$(python3 -m tupe model-overrides "$checkpoint") # its sentence, if the checkpoint is none of ours
    mapfile -t model <<<"$model"
    if nvidia-smi -L >/dev/null 2>&1; then
        device=(common.fp16=true common.fp16_init_scale=4 common.threshold_loss_scale=1 common.fp16_scale_window=128
            distributed_training.distributed_world_size=1)
    else
        device=(common.cpu=true)
        for_cpu 1
    fi
    user_dir=$(python3 -m tupe user-dir)
    fairseq-hydra-train --config-dir "$root/configs/finetuning" --config-name glue "glue=$config" \
        "common.user_dir=$(quoted "$user_dir")" "task.data=$(quoted "$data")" \
        "checkpoint.finetune_from_model=$(quoted "$checkpoint")" "checkpoint.save_dir=$(quoted "$save_dir")" \
        "${model[@]}" "${device[@]}" "${settings[@]}"
fi
result=$(python3 -m tupe finetuning-result "$save_dir")
rm -f "$save_dir/checkpoint_last.pt" # was there to resume from
echo "$task: $result"
