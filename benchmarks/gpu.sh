#!/usr/bin/env bash
# Checks and measures everything on this machine's GPU, without a network, into one folder:
#   bash benchmarks/gpu.sh [--dry-run] [--wheels WHEELS] [FOLDER [STEP...]]
# FOLDER is runs/gpu if not given. The steps are attention, dropout, ragged, graphs, tests, model, backends, tiles, tiles_in_parts,
# translation, table1 and finetuning, all of them if none is named; the last takes prepared tasks from the folder GLUE, and is left out
# where that is not set. After gpu.sh comes `tupe doctor`, then the rest.
# PYTHON names the Python that has PyTorch and Triton (python3); the first four steps and the tiles need nothing else. tests needs
# pytest and hypothesis, and is faster with pytest-xdist. The steps of models need fairseq: --wheels unpacks all wheels of the folder
# WHEELS into FOLDER/site, beside PYTHON's packages. model takes the authors' code from the checkout AUTHORS if that is set.
# A step is ended after 10 minutes, and none begins after 25 (counted, not measured: no GPU was at hand). A step that fails is named in
# the last line; the others run. Every step writes what it has measured at once, and verdict.txt is what the rule of docs/dev/kernels.md
# decides. --dry-run runs every line in small on the CPU, the kernels by Triton's interpreter, and measures nothing.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
dry='' wheels=''
while [ $# -gt 0 ]; do
    case $1 in
    --dry-run) dry=1 ;;
    --wheels) wheels=${2:?--wheels needs a folder} && shift ;;
    *) break ;;
    esac
    shift
done
folder=${1:-runs/gpu}
shift || true
python=${PYTHON:-python3}
# Measured are the kernels as they are, whether or not they were checked here.
export PYTHONPATH=$PWD${PYTHONPATH:+:$PYTHONPATH} PYTHONUNBUFFERED=1 TUPE_CHECK_KERNELS=0
[ -z "$dry" ] || export TRITON_INTERPRET=1 CUDA_VISIBLE_DEVICES=''

# Options of a step: those after -- only where it is a dry run.
measure() {
    local options=()
    while [ $# -gt 0 ] && [ "$1" != -- ]; do options+=("$1") && shift; done
    [ -z "$dry" ] || options+=("${@:2}")
    "$python" "${options[@]}"
}

small_attention=(--device cpu --cases 2x16 --heads 2 --width 16 --rounds 1 --warm-up 0 --milliseconds 1 --dtype float32
    --rivals flash ours factors sdpa eager)
small_model=(--device cpu --sizes tiny --batch 1 --length 16 --vocab-size 64 --rounds 1 --warm-up 0 --steps 1)
small_tiles=(--device cpu --batch 1 --heads 1 --length 16 --width 16 --dtype float32 --rows 16 --warps 4 --stages 1)

tests() { # without the conftest.py, which needs fairseq; compiling is most of the work, so several processes help
    local options=(-q -p no:cacheprovider --noconftest)
    if [ -z "$dry" ] && "$python" -c 'import xdist' 2>/dev/null; then
        options+=(--numprocesses auto --maxprocesses 8 --maxschedchunk 1)
    fi
    measure -m pytest "${options[@]}" tests/attention/test_triton.py tests/attention/test_triton_packed.py -- -k philox
}
attention() {
    measure benchmarks/attention.py --output "$folder/attention" -- "${small_attention[@]}"
    measure benchmarks/verdict.py "$folder/attention/attention.json" | tee "$folder/verdict.txt"
}
dropout() { measure benchmarks/attention.py --dropout 0.1 --output "$folder/dropout" -- "${small_attention[@]}"; }
ragged() {
    measure benchmarks/attention.py --ragged --cases 32x128 32x512 16x1024 --output "$folder/ragged" -- "${small_attention[@]}"
}
graphs() { # a CPU has none
    measure benchmarks/attention.py --graph --cases 32x128 32x512 16x1024 --output "$folder/graphs" -- --help
}
tiles() { measure benchmarks/tune_tiles.py -- "${small_tiles[@]}"; }
tiles_in_parts() { measure benchmarks/tune_tiles.py --structured --batch 1 --length 8192 -- "${small_tiles[@]}" --rows 32; }
model() { measure benchmarks/model.py ${AUTHORS:+--authors "$AUTHORS"} --output "$folder/model" -- "${small_model[@]}" --rivals tupe; }
backends() { # one model by each backend: what the rule is about
    local step=(benchmarks/model.py --sizes base --modes training --rivals tupe_a_triton tupe_a_factors tupe_a_sdpa)
    measure "${step[@]}" --output "$folder/backends" -- "${small_model[@]}"
    # FlexAttention cannot drop attention weights, so it is compared where none does
    measure "${step[@]}" tupe_a_flex --attention-dropout 0 --output "$folder/without_dropout" -- "${small_model[@]}"
    for run in backends without_dropout; do
        measure benchmarks/verdict.py --model "$folder/$run/model.json" | tee -a "$folder/verdict.txt"
    done
}
translation() {
    measure benchmarks/translation.py -- --device cpu --size tiny --vocab-size 50 --sentences 3 --decoded 2 --length 5 --beam 2 \
        --rounds 1 --warm-up 0 --steps 1
}
finetuning() { measure benchmarks/finetuning.py "${GLUE:?the folder of prepared tasks}"/{MNLI,SST-2}; }
table1() { # DIET's
    measure benchmarks/model.py --rivals bert_a shaw tupe_r diet_abs diet_rel --sizes base small --length 128 \
        --vocab-size 30522 --rounds 30 --output "$folder/table1" -- "${small_model[@]}" --rivals bert_a shaw
}

[ -n "$dry" ] || "$python" -c 'import sys, torch; sys.exit(not torch.cuda.is_available())' || {
    echo "error: $python sees no GPU through PyTorch: set PYTHON to one that does, or try it with --dry-run." >&2
    exit 1
}
mkdir -p "$folder"
"$python" - >"$folder/machine.txt" <<'END' || true
import torch
print(torch.cuda.get_device_properties(0) if torch.cuda.is_available() else "no GPU")
import triton
print(f"PyTorch {torch.__version__}, CUDA {torch.version.cuda}, Triton {triton.__version__}")
END
if [ -n "$wheels" ]; then
    "$python" -m pip install --quiet --no-index --no-deps --no-compile --upgrade --target "$folder/site" "$wheels"/*.whl
    export PYTHONPATH=$PYTHONPATH:$(realpath "$folder/site")
fi
[ $# -gt 0 ] || set -- attention dropout ragged graphs tests model backends tiles tiles_in_parts translation table1 ${GLUE:+finetuning}
export -f measure "$@"
export folder python dry
for name in small_attention small_model small_tiles; do
    export "${name}_words=$(declare -p "$name")"
done
failed=() late=()
for step in "$@"; do
    if [ "$SECONDS" -gt 1500 ]; then
        late+=("$step")
        continue
    fi
    echo "== $step"
    # an array is not exported: the step's own shell declares it again
    timeout 600 bash -euo pipefail -c 'eval "$small_attention_words; $small_model_words; $small_tiles_words"; "$0"' "$step" \
        2>&1 | tee "$folder/$step.log" || failed+=("$step")
done
[ ${#late[@]} -eq 0 ] || echo "gpu.sh: after 25 minutes these were left: ${late[*]}"
[ -z "$dry" ] || echo "gpu.sh: a dry run, whose times and verdicts say nothing"
[ ! -s "$folder/verdict.txt" ] || cat "$folder/verdict.txt"
[ ${#failed[@]} -eq 0 ] || {
    echo "gpu.sh: FAILED in ${failed[*]} (see $folder)"
    exit 1
}
echo "gpu.sh: done (see $folder)"
