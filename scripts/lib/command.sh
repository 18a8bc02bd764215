# What the scripts of this folder begin with: `python3 -m tupe` runs the clone's package by the Python of its .venv, if
# there is one, and `usage` shows the script's head and ends it. Source this file under `set -euo pipefail`.

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
case :$PATH: in
    *:"$root/.venv/bin":*) ;; # what is before it is meant to be
    *) export PATH=$root/.venv/bin:$PATH ;;
esac
export PYTHONPATH=$root${PYTHONPATH:+:$PYTHONPATH}
export PYTHONWARNINGS=${PYTHONWARNINGS-ignore} # of fairseq's and Hydra's own use of what is deprecated

usage() {
    sed -n '2,/^set/s/^# \{0,1\}//p' "$0" >&2
    exit 2
}
