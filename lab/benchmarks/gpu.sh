#!/usr/bin/env bash
# Checks and measures on this machine's GPU, without a network, into one folder, most important first:
#   bash lab/benchmarks/gpu.sh [--dry-run] [FOLDER]
# attention says whether the Triton kernels stay, by the rule of docs/dev/kernels.md; then their tests, and whole models. FOLDER is
# runs/gpu by default. Everything but model needs only PyTorch and Triton. --dry-run runs it in small on the CPU and measures nothing.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
export PYTHONPATH=$PWD${PYTHONPATH:+:$PYTHONPATH} PYTHONUNBUFFERED=1
python=${PYTHON:-python3} small_attention=() small_model=() tests=(tests/attention)
if [ "${1-}" = --dry-run ]; then
    shift
    export TRITON_INTERPRET=1 CUDA_VISIBLE_DEVICES=''
    small_attention=(--cases 2x16 --heads 2 --width 16 --rounds 1 --warm-up 0 --steps 1 --rivals sdpa factors triton)
    small_model=(--sizes tiny --batch 1 --length 16 --vocab-size 64 --rounds 1 --warm-up 0 --steps 1 --rivals tupe)
    tests=(--version)
fi
folder=${1:-runs/gpu} failed=()
mkdir -p "$folder"
step() { # NAME COMMAND...: ended after 10 minutes; the others go on
    local name=$1
    shift
    echo "== $name"
    timeout 600 "$python" "$@" 2>&1 | tee "$folder/$name.log" || failed+=("$name")
}
step attention lab/benchmarks/attention.py --output "$folder/attention" "${small_attention[@]}"
step dropout lab/benchmarks/attention.py --dropout 0.1 --output "$folder/dropout" "${small_attention[@]}"
step tests -m pytest -q -p no:cacheprovider "${tests[@]}"
step backends lab/benchmarks/model.py --modes training --output "$folder/backends" \
    --rivals tupe_a_triton tupe_a_factors tupe_a_sdpa "${small_model[@]}"
step flex lab/benchmarks/model.py --modes training --attention-dropout 0 --output "$folder/flex" \
    --rivals tupe_a_triton tupe_a_factors tupe_a_sdpa tupe_a_flex "${small_model[@]}"
step model lab/benchmarks/model.py ${AUTHORS:+--authors "$AUTHORS"} --output "$folder/model" "${small_model[@]}"
[ ${#failed[@]} -eq 0 ] || { echo "gpu.sh: FAILED in ${failed[*]} (see $folder)" && exit 1; }
echo "gpu.sh: done (see $folder)"
