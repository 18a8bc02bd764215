# Makes or completes .venv in the repository's root with what both commands need, at pinned versions. A script in the
# repository's root sources this file after steps.sh and says
#   step install install EXTRAS     EXTRAS of pyproject.toml, as corpus,plot
#   use_venv                 puts the commands of .venv first on PATH
# PYTHON names the Python (3.11 to 3.13) that .venv is made with.

install() {
    local stamp=.venv/installed # written last: for what .venv is complete
    [ -e .venv/bin/python ] || [ -L .venv/bin/python ] || make_venv
    .venv/bin/python -m pip --version >/dev/null 2>&1 || .venv/bin/python -m ensurepip # interrupted while it was made

    local of wanted
    of=$(fingerprint)
    wanted="$of $1"
    if grep -qsxF -e "$wanted" -e "$of test" "$stamp"; then # `test` has the others
        echo "nothing to do: .venv is complete"
        return
    fi
    rm -f "$stamp"
    pip_install pip setuptools wheel
    pip_install torch
    pip_install numpy cython setuptools-scm # the sources of fairseq are built with them
    pip_install --no-build-isolation fairseq-fixed # in isolation it would build against a second torch
    pip_install --no-build-isolation --editable ".[$1]"
    # an editable installation is asked last: in the folder above a clone called tupe, Python would import that
    pwd >"$(.venv/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/tupe-clone.pth"
    # fairseq brings torchaudio, which nothing here uses. Beside a CPU build of PyTorch it does not load, and Transformers,
    # which imports it wherever it is installed, fails
    .venv/bin/python -c "import torchaudio" 2>/dev/null || .venv/bin/python -m pip uninstall --quiet --yes torchaudio
    echo "checking that it runs"
    .venv/bin/fairseq-train --help >/dev/null
    .venv/bin/tupe user-dir >/dev/null
    echo "$wanted" >"$stamp"
}

use_venv() {
    export PATH=$PWD/.venv/bin:$PATH
}

make_venv() {
    local python
    python=$(find_python)
    echo "making .venv with $python, $("$python" --version)"
    "$python" -m venv .venv
}

# Prints the Python to use (PYTHON). 3.12 comes first, because fairseq-fixed has a wheel for it; a build takes minutes.
find_python() {
    local python candidates=(python3.12 python3.13 python3.11 python3)
    [ -z "${PYTHON-}" ] || candidates=("$PYTHON")
    for python in "${candidates[@]}"; do
        if is_supported "$python"; then
            echo "$python"
            return
        fi
    done
    fail "no Python of version 3.11, 3.12 or 3.13 runs as ${PYTHON:-python3}: install one, or say where it is (PYTHON=...)."
}

is_supported() {
    "$1" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 14))' >/dev/null 2>&1
}

pip_install() {
    echo "-- pip install $*"
    # with CUDA_HOME set, fairseq's build looks for CUDA sources that its package lacks
    env -u CUDA_HOME .venv/bin/python -m pip install --disable-pip-version-check --constraint constraints.txt "$@"
}

# Changes with the pins, with what pyproject.toml asks for, with the Python, and when the folder moves.
fingerprint() {
    .venv/bin/python - constraints.txt setup.py pyproject.toml scripts/lib/install.sh <<'EOF'
import hashlib, os, pathlib, sys
parts = [sys.version.encode(), os.getcwd().encode(), *(pathlib.Path(name).read_bytes() for name in sys.argv[1:])]
print(hashlib.sha256(b"\0".join(parts)).hexdigest())
EOF
}
