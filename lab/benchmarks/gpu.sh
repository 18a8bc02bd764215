#!/usr/bin/env bash
# Checks and measures on this machine's GPU in 8.5 minutes, without a network, the most important first, into FOLDER:
#   bash lab/benchmarks/gpu.sh [--dry-run] [FOLDER]
# It needs PyTorch and Triton, and Transformers for whole models, but no fairseq. FOLDER is runs/gpu by default. The
# verdict of docs/dev/kernels.md on the Triton kernels follows each case in attention.log and dropout.log. --dry-run
# runs everything at a small size on the CPU and measures nothing. On Hopper use PyTorch 2.15, or set TRITON_PTXAS_PATH
# to the ptxas of CUDA 13.3 or later.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
export PYTHONPATH=$PWD${PYTHONPATH:+:$PYTHONPATH} PYTHONUNBUFFERED=1 HF_HUB_OFFLINE=1
python=${PYTHON:-python3} cases=(32x512 32x128 8x2048) attention=() model=()
check=(--cases 1x202 1x193 1x512 --rivals triton sdpa factors flex) # the longest to compile last
if [ "${1-}" = --dry-run ]; then
    shift
    export TRITON_INTERPRET=1 CUDA_VISIBLE_DEVICES='' OMP_NUM_THREADS=1
    round=(--rounds 1 --warm-up 0 --steps 1)
    check=(--cases 1x34 --width 16 --rivals sdpa factors triton) # FlexAttention has no backward
    cases=(2x16) attention=(--heads 2 --width 16 "${round[@]}" --rivals sdpa factors triton)
    model=(--layers 1 --width 32 --batch 2 --length 16 --vocab-size 64 "${round[@]}")
fi
folder=${1:-runs/gpu} failed=()
mkdir -p "$folder"
step() { # SECONDS NAME COMMAND...: is ended after SECONDS, and the next step follows
    local limit=$1 name=$2
    shift 2
    echo "== $name"
    timeout -k 5 "$limit" "$python" "lab/benchmarks/$@" 2>&1 | tee "$folder/$name.log" || failed+=("$name")
}
step 100 correctness attention.py --check "${check[@]}"
step 100 attention attention.py --cases "${cases[@]}" --output "$folder/attention" "${attention[@]}"
step 60 dropout attention.py --dropout 0.1 --cases "${cases[0]}" --output "$folder/dropout" "${attention[@]}"
step 150 steps steps.py --output "$folder/steps" "${model[@]}"
step 60 ragged steps.py --ragged --output "$folder/ragged" "${model[@]}"
step 40 dropout_free steps.py --attention-dropout 0 --rivals tupe_a 'tupe_a, flex' 'tupe_a, triton' \
    --output "$folder/dropout_free" "${model[@]}"
[ ${#failed[@]} -eq 0 ] || { echo "gpu.sh: FAILED in ${failed[*]} (see $folder)" && exit 1; }
echo "gpu.sh: done (see $folder)"
