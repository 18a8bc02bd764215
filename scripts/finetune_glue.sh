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
# Run again after an interruption, it goes on where it stopped. The last line is the metric, the best epoch and the folder.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
[ ! -d "$root/.venv/bin" ] || export PATH=$root/.venv/bin:$PATH

if [ $# -lt 3 ]; then
    sed -n '2,/^set/s/^# \{0,1\}//p' "$0" >&2
    exit 2
fi
task=$1 checkpoint=$2 data=$3
shift 3
config=$(tr 'A-Z-' 'a-z_' <<<"$task")
if [ ! -f "$root/configs/finetuning/glue/$config.yaml" ]; then
    echo "error: unknown task $task: choose CoLA, SST-2, MRPC, STS-B, QQP, MNLI, QNLI, RTE or WNLI" >&2
    exit 1
fi
[ ! -d "$data/$task" ] || data=$data/$task
save_dir=runs/finetuning/$(basename "$(dirname "$checkpoint")")-$(basename "$checkpoint" .pt)/$task
for override in "$@"; do
    case $override in checkpoint.save_dir=*) save_dir=${override#*=} ;; esac
done

model=$(tupe model-overrides "$checkpoint") # its sentence, if the checkpoint is none of ours
mapfile -t model <<<"$model"
if nvidia-smi -L >/dev/null 2>&1; then
    device=(common.fp16=true common.fp16_init_scale=4 common.threshold_loss_scale=1 common.fp16_scale_window=128
        distributed_training.distributed_world_size=1)
else
    device=(common.cpu=true)
fi
fairseq-hydra-train --config-dir "$root/configs/finetuning" --config-name glue "glue=$config" \
    "common.user_dir=$(tupe user-dir)" "task.data=$data" "checkpoint.finetune_from_model=$checkpoint" \
    "checkpoint.save_dir=$save_dir" "${model[@]}" "${device[@]}" "$@"
result=$(tupe finetuning-result "$save_dir")
rm -f "$save_dir/checkpoint_last.pt" # was there to resume from
echo "$task: $result"
