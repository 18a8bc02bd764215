# The common start of the scripts in this folder: `python3 -m tupe` runs the clone's package by the Python of its .venv,
# if there is one, and `usage` prints the head of the script and ends it. Source this file under `set -euo pipefail`.

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
case :$PATH: in
    *:"$root/.venv/bin":*) ;; # folders before it are there on purpose
    *) export PATH=$root/.venv/bin:$PATH ;;
esac
export PYTHONPATH=$root${PYTHONPATH:+:$PYTHONPATH}
# for trainings on the CPU: threads that wait for each other spin briefly, and glibc keeps the memory of tensors
export GOMP_SPINCOUNT=${GOMP_SPINCOUNT:-100000}
export MALLOC_MMAP_THRESHOLD_=${MALLOC_MMAP_THRESHOLD_:-1073741824}
export MALLOC_TRIM_THRESHOLD_=${MALLOC_TRIM_THRESHOLD_:-1073741824}
export PYTHONWARNINGS=${PYTHONWARNINGS-ignore} # fairseq and Hydra use deprecated features

usage() {
    sed -n '2,/^set/s/^# \{0,1\}//p' "$0" >&2
    exit 2
}
