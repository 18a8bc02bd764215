#!/usr/bin/env bash
# From a clone to a result at a small size: bash scripts/quickstart.sh
# Installs missing packages into .venv. Then, on the CPU and on text that every Python carries, it learns a vocabulary,
# pre-trains TUPE-R and BERT-A for the same number of updates, fine-tunes both on a task of word order, and writes a
# report. If the packages for it are installed, TUPE-R is also exported for Transformers.
# The same command resumes. With other settings it starts again, and removes its earlier output, including the report.
# Settings, by environment variables:
#   QUICKSTART_OUT        folder of the results, runs/quickstart by default
#   QUICKSTART_UPDATES    updates of each pre-training
#   QUICKSTART_EPOCHS     epochs of each fine-tuning
#   QUICKSTART_INSTALL=0  install nothing: the commands on PATH are used
set -euo pipefail
[ $# -eq 0 ] || { sed -n '2,/^set/s/^# \{0,1\}//p' "$0" >&2; exit 2; }
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. scripts/lib/steps.sh
. scripts/lib/install.sh

out=${QUICKSTART_OUT:-runs/quickstart}
updates=${QUICKSTART_UPDATES:-1200}
epochs=${QUICKSTART_EPOCHS:-3}
models=(tupe_tiny bert_a_tiny)

# Removes results of other settings or of another version of this script, but no files of other programs.
start_or_go_on() {
    local settings found=
    settings="updates=$updates epochs=$epochs $(cat scripts/quickstart.sh configs/pretraining/quickstart.yaml | cksum)"
    if [ -e "$out/settings" ]; then
        found=$(cat "$out/settings")
    elif [ -z "$(ls -A "$out" 2>/dev/null | grep -vx log)" ]; then
        found=$settings
    fi
    case $found in
        "$settings") ;;
        updates=*)
            echo "the settings have changed: starting again in $out"
            rm -rf "$out"/{done,text,glue,corpus,glue-data,pretraining,finetuning,tupe-tiny,report.html}
            ;;
        *) fail "$out holds files that quickstart.sh did not write: set QUICKSTART_OUT to another folder." ;;
    esac
    mkdir -p "$out/done" 2>/dev/null || fail "$out cannot be a folder: set QUICKSTART_OUT to one that can be written"
    echo "$settings" >"$out/settings"
}

# Runs a step unless it has succeeded before.
step_once() {
    if [ -e "$out/done/$1" ]; then
        echo "== $script_name: $1 was done before"
    else
        step "$@"
        touch "$out/done/$1"
    fi
}

# Runs a step of all models side by side, each on one thread, with the model's name before each line.
step_of_models() { # STEP
    local model
    declare -A running
    step_name=$1
    trap 'wait; exit 130' INT TERM # Ctrl-C reaches the trainings too, which save a checkpoint first
    for model in "${models[@]}"; do
        step_once "$1-$model" "$1" "$model" > >(awk -v name="$model" '{ print name ": " $0; fflush() }') 2>&1 &
        running[$model]=$!
    done
    for model in "${models[@]}"; do wait "${running[$model]}" || step_name=$1-$model; done
    trap 'exit 130' INT TERM
    [ "$step_name" = "$1" ] || exit 1
}

# Bash starts background commands with SIGINT ignored. This lets Ctrl-C end a command all the same.
interruptible() {
    python3 -c 'import os, signal, sys; signal.signal(signal.SIGINT, signal.SIG_DFL); os.execvp(sys.argv[1], sys.argv[1:])' "$@"
}

text() {
    python3 -m lab.text "$out/text" "$out/glue"
}

prepare() {
    tupe prepare-corpus "$out/text/pretraining.txt" "$out/corpus" --vocab-size 4000 --valid-documents 0.06 \
        --max-tokens 30 --without join-short-sentences
    tupe prepare-glue "$out/glue" "$out/corpus" CoLA "$out/glue-data"
}

pretrain() { # MODEL
    CONFIG=quickstart MODEL=$1 GPUS=0 PROCESSES=1 interruptible bash scripts/pretrain.sh "$out/corpus" \
        "optimization.max_update=$updates" "checkpoint.save_dir=$out/pretraining/$1"
}

finetune() { # MODEL
    interruptible bash scripts/finetune_glue.sh CoLA "$out/pretraining/$1/checkpoint_last.pt" "$out/glue-data" \
        "checkpoint.save_dir=$out/finetuning/$1" "optimization.max_epoch=$epochs" "optimization.lr=[0.0005]" \
        common.cpu=true common.log_format=json dataset.num_workers=0
}

report() {
    python3 -m lab.quickstart "$out" "${models[@]}"
}

for_transformers() {
    tupe export "$out/pretraining/tupe_tiny/checkpoint_last.pt" "$out/corpus" "$out/tupe-tiny"
}

begin quickstart.sh "$out/log"
interval=$(sed -n 's/^ *log_interval: //p' configs/pretraining/quickstart.yaml)
[ "$updates" -ge "$interval" ] || fail "QUICKSTART_UPDATES is $updates: set it to $interval, the log interval, or more."
if [ "${QUICKSTART_INSTALL:-1}" != 0 ]; then
    step install install corpus,plot,transformers # a part of what test.sh installs
    export PATH=$PWD/.venv/bin:$PATH
elif ! command -v tupe >/dev/null; then
    fail "tupe is not on PATH: activate the environment that has it, or leave QUICKSTART_INSTALL unset."
fi
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-1} # more threads gain little here, and cost much on a busy machine
start_or_go_on
step_once text text
step_once prepare prepare
step_of_models pretrain
step_of_models finetune
step report report
done_note=$out/report.html
if python3 -c 'import google.protobuf, safetensors, tokenizers' 2>/dev/null; then
    step_once export for_transformers
    done_note+=", $out/tupe-tiny for Transformers"
fi
