# What the scripts of this folder begin with: `python3 -m tupe` runs the clone's package by the Python of its .venv, if
# there is one, and `usage` shows the script's head and ends it. Source this file under `set -euo pipefail`.

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
case :$PATH: in
    *:"$root/.venv/bin":*) ;; # what is before it is meant to be
    *) export PATH=$root/.venv/bin:$PATH ;;
esac
export PYTHONPATH=$root${PYTHONPATH:+:$PYTHONPATH}
# for trainings on the CPU: threads that wait for each other spin briefly, and glibc keeps the memory of tensors
export GOMP_SPINCOUNT=${GOMP_SPINCOUNT:-100000}
export MALLOC_MMAP_THRESHOLD_=${MALLOC_MMAP_THRESHOLD_:-1073741824}
export MALLOC_TRIM_THRESHOLD_=${MALLOC_TRIM_THRESHOLD_:-1073741824}
export PYTHONWARNINGS=${PYTHONWARNINGS-ignore} # of fairseq's and Hydra's own use of what is deprecated

usage() {
    sed -n '2,/^set/s/^# \{0,1\}//p' "$0" >&2
    exit 2
}
