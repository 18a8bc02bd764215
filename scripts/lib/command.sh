# What the commands of this folder begin with. A script that sources this file under `set -euo pipefail` has
#   root             the clone; `python3 -m tupe` runs its package, by the Python of its .venv if there is one
#   usage            shows the script's head and ends it
#   fail SENTENCE    says what is wrong, in one line whatever is in it, and ends the script
#   number NAME N    the variable NAME of the environment, N by default; ends the script if it is no whole number above 0
#   value FILE KEY   the whole number that a configuration has as KEY; of a list, the first
#   for_cpu          sets what a process on the CPU needs: `cpu_environment` of tupe/cores.py
#   quoted TEXT      TEXT as one value of Hydra's, whatever is in it, save ${...} and a backslash at its end or before '

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
case :$PATH: in
    *:"$root/.venv/bin":*) ;; # what is before it is meant to be
    *) export PATH=$root/.venv/bin:$PATH ;;
esac
export PYTHONPATH=$root${PYTHONPATH:+:$PYTHONPATH}
export PYTHONWARNINGS=${PYTHONWARNINGS-ignore} # of fairseq's and Hydra's own use of what is deprecated

fail() {
    printf 'error: %s\n' "$(printf %s "$1" | tr '[:cntrl:]' ' ')" >&2
    exit 1
}

python3 -c 'import sys; from importlib.util import find_spec as f; sys.exit(not (f("torch") and f("fairseq")))' ||
    fail "$(command -v python3) has no PyTorch or no fairseq: run bash scripts/test.sh, which installs them into .venv, or as docs/faq.md says into an environment of your own"

usage() {
    sed -n '2,/^set/s/^# \{0,1\}//p' "$0" >&2
    exit 2
}

number() {
    local value=${!1:-$2}
    [[ $value =~ ^[1-9][0-9]{0,8}$ ]] || fail "$1 is $value: give a whole number above 0"
    echo "$value"
}

value() {
    local found
    found=$(sed -n "s/^ *$2: \[*\([^], #]*\).*/\1/p" "$1")
    [[ $found =~ ^[1-9][0-9]{0,8}$ ]] || fail "$1 has no number as $2: give it one, or set CONFIG to another file"
    echo "$found"
}

for_cpu() {
    local settings setting
    settings=$(python3 "$root/tupe/cores.py" environment)
    for setting in $settings; do export "$setting"; done
}

quoted() {
    local quote="\'"
    printf "'%s'" "${1//"'"/"$quote"}"
}
