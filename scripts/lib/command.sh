# What the commands of this folder begin with. A script that sources this file under `set -euo pipefail` has
#   root             the clone; `python3 -m tupe` runs its package, by the Python of its .venv if there is one
#   usage            shows the script's head and ends it
#   fail SENTENCE    ends the script
#   value FILE KEY   the whole number that a configuration has as KEY; of a list, the first
#   for_cpu N        sets what each of N processes on the CPU needs; variables that are set keep their values

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
case :$PATH: in
    *:"$root/.venv/bin":*) ;; # what is before it is meant to be
    *) export PATH=$root/.venv/bin:$PATH ;;
esac
export PYTHONPATH=$root${PYTHONPATH:+:$PYTHONPATH}
export PYTHONWARNINGS=${PYTHONWARNINGS-ignore} # of fairseq's and Hydra's own use of what is deprecated

fail() {
    echo "error: $1" >&2
    exit 1
}

usage() {
    sed -n '2,/^set/s/^# \{0,1\}//p' "$0" >&2
    exit 2
}

value() {
    sed -n "s/^ *$2: \[*\([^], #]*\).*/\1/p" "$1"
}

for_cpu() {
    local cores
    cores=$(nproc)
    export OMP_NUM_THREADS=${OMP_NUM_THREADS:-$((cores > $1 ? cores / $1 : 1))}
    export GOMP_SPINCOUNT=${GOMP_SPINCOUNT:-100000} # threads that wait for each other spin briefly
    # glibc keeps the memory of tensors: docs/dev/performance.md
    export MALLOC_MMAP_THRESHOLD_=${MALLOC_MMAP_THRESHOLD_:-1073741824}
    export MALLOC_TRIM_THRESHOLD_=${MALLOC_TRIM_THRESHOLD_:-1073741824}
}
