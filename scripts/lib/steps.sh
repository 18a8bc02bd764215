# Named steps with one closing line. Source this file under `set -euo pipefail`:
#   begin NAME LOGS          once: the script's name, and a folder for the steps' logs
#   step STEP COMMAND...     runs COMMAND, whose output goes to LOGS/STEP.log too
#   fail SENTENCE            ends the script
# The last line is "NAME: done ($done_note)", or names the step that failed, and its log.

done_note="all steps passed"

begin() {
    script_name=$1 log_dir=$2 step_name=start
    trap closing_line EXIT
    trap 'exit 130' INT TERM
}

step() {
    step_name=$1
    shift
    echo "== $script_name: $step_name"
    mkdir -p "$log_dir"
    "$@" 2>&1 | tee -i "$log_dir/$step_name.log" # tee ignores Ctrl-C, so that the last words are not lost
}

fail() {
    echo "error: $1" >&2
    exit 1
}

closing_line() {
    local status=$? log=$log_dir/$step_name.log
    case $status in
        0) echo "$script_name: done ($done_note)" ;;
        130) echo "$script_name: INTERRUPTED in step $step_name" ;;
        *) echo "$script_name: FAILED in step $step_name$([ ! -f "$log" ] || echo " (see $log)")" ;;
    esac
}
