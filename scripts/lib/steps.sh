# Named steps with one closing line. A script sources this file under `set -euo pipefail` and says
#   begin NAME LOGS          once: the script's name, and a folder for the steps' logs
#   step STEP COMMAND...     runs COMMAND and shows its output, which is kept in LOGS/STEP.log
# When it ends, the last line is "NAME: done ($done_note)", or "NAME: FAILED in step STEP (see LOGS/STEP.log)" and the
# exit status is not 0. A command that can say more clearly what is wrong calls `fail SENTENCE`.

done_note="all steps passed"

begin() {
    script_name=$1
    log_dir=$2
    step_name=start
    trap closing_line EXIT
    trap 'exit 130' INT TERM
}

step() {
    step_name=$1
    shift
    echo "== $script_name: $step_name"
    mkdir -p "$log_dir" 2>/dev/null || fail "$log_dir cannot be a folder: name a place that can be written"
    # tee ignores Ctrl-C, so that the command's last words are not lost
    "$@" 2>&1 | tee -i "$log_dir/$step_name.log"
}

fail() {
    echo "error: $1" >&2
    exit 1
}

closing_line() {
    local status=$?
    trap - EXIT INT TERM
    case $status in
        0) echo "$script_name: done ($done_note)" ;;
        130) echo "$script_name: INTERRUPTED in step $step_name" ;;
        *)
            local log=$log_dir/$step_name.log
            if [ -f "$log" ]; then echo "$script_name: FAILED in step $step_name (see $log)"
            else echo "$script_name: FAILED in step $step_name"; fi
            ;;
    esac
    exit "$status"
}
