#!/usr/bin/env bash
# Checks and measures everything on this machine's GPU, without a network, into one folder:
#   bash benchmarks/gpu.sh [FOLDER [STEP...]]
# FOLDER is runs/gpu if not given. The steps are tests, attention, dropout, ragged, graphs, tiles, tiles_in_parts, model,
# translation, table1 and finetuning, all of them if none is named; the last takes prepared tasks from the folder GLUE, and is left out
# where that is not set. PYTHON names the Python that has PyTorch (python3); tests needs pytest and hypothesis too, and
# is faster with pytest-xdist; the last four need fairseq, and model takes the authors' code from the checkout AUTHORS if
# that is set. A step that fails is named in the last line; the others run. Every step writes what it has measured at
# once. All of them should take some 25 minutes on an H100, attention 6 and each other one 1 to 4 (counted, not measured).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
folder=${1:-runs/gpu}
shift || true
python=${PYTHON:-python3}
export PYTHONPATH=$PWD${PYTHONPATH:+:$PYTHONPATH} PYTHONUNBUFFERED=1

tests() { # without the conftest.py, which needs fairseq; compiling is most of the work, so several processes help
    local options=(-q -p no:cacheprovider --noconftest)
    if "$python" -c 'import xdist' 2>/dev/null; then
        options+=(--numprocesses auto --maxprocesses 8 --maxschedchunk 1)
    fi
    "$python" -m pytest "${options[@]}" tests/attention/test_triton.py tests/attention/test_triton_packed.py
}
attention() { "$python" benchmarks/attention.py --output "$folder/attention"; }
dropout() { "$python" benchmarks/attention.py --dropout 0.1 --output "$folder/dropout"; }
ragged() { "$python" benchmarks/attention.py --ragged --cases 32x128 32x512 16x1024 --output "$folder/ragged"; }
graphs() { "$python" benchmarks/attention.py --graph --cases 32x128 32x512 16x1024 --output "$folder/graphs"; }
tiles() { "$python" benchmarks/tune_tiles.py; }
tiles_in_parts() { "$python" benchmarks/tune_tiles.py --structured --batch 1 --length 8192; }
model() { "$python" benchmarks/model.py ${AUTHORS:+--authors "$AUTHORS"} --output "$folder/model"; }
translation() { "$python" benchmarks/translation.py; }
finetuning() { "$python" benchmarks/finetuning.py "${GLUE:?the folder of prepared tasks}"/{MNLI,SST-2}; }
table1() { # DIET's
    "$python" benchmarks/model.py --rivals bert_a shaw tupe_r diet_abs diet_rel --sizes base small --length 128 \
        --vocab-size 30522 --rounds 30 --output "$folder/table1"
}

"$python" -c 'import sys, torch; sys.exit(not torch.cuda.is_available())' || {
    echo "error: $python sees no GPU through PyTorch: set PYTHON to one that does." >&2
    exit 1
}
mkdir -p "$folder"
"$python" - >"$folder/machine.txt" <<'END' || true
import torch
print(torch.cuda.get_device_properties(0))
import triton
print(f"PyTorch {torch.__version__}, CUDA {torch.version.cuda}, Triton {triton.__version__}")
END
[ $# -gt 0 ] || set -- tests attention dropout ragged graphs tiles tiles_in_parts model translation table1 ${GLUE:+finetuning}
failed=()
for step in "$@"; do
    echo "== $step"
    "$step" 2>&1 | tee "$folder/$step.log" || failed+=("$step")
done
[ ${#failed[@]} -eq 0 ] || {
    echo "gpu.sh: FAILED in ${failed[*]} (see $folder)"
    exit 1
}
echo "gpu.sh: done (see $folder)"
