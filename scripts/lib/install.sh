# `install EXTRAS` makes or completes .venv in the repository's root at the versions of constraints.txt, with the EXTRAS
# of pyproject.toml, such as corpus,plot. PYTHON names the Python (3.11 to 3.13); 3.12 comes first by default, because
# fairseq-fixed has a wheel for it, and a build takes minutes. Source this file after steps.sh, in the repository's root.

install() {
    local wanted stamp=.venv/installed # written last: the EXTRAS that .venv has
    wanted="$(pwd) $(cat constraints.txt pyproject.toml setup.py scripts/lib/install.sh | cksum)"
    if grep -qsxF -e "$wanted $1" -e "$wanted test" "$stamp"; then # `test` has the others
        echo "nothing to do: .venv is complete"
        return
    fi
    rm -f "$stamp"
    .venv/bin/python -m pip --version >/dev/null 2>&1 || "$(find_python)" -m venv .venv
    pip_install pip setuptools wheel torch
    pip_install numpy cython setuptools-scm # the sources of fairseq are built with them, and with this torch
    pip_install --no-build-isolation fairseq-fixed
    pip_install --no-build-isolation --editable ".[$1]"
    # Python searches an editable installation last, so in the folder above a clone named tupe it would import the clone
    pwd >"$(.venv/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/tupe-clone.pth"
    # fairseq installs torchaudio; with a CPU build of PyTorch it does not load, and Transformers would import it
    .venv/bin/python -c "import torchaudio" 2>/dev/null || .venv/bin/python -m pip uninstall --quiet --yes torchaudio
    .venv/bin/fairseq-train --help >/dev/null && .venv/bin/tupe user-dir >/dev/null
    echo "$wanted $1" >"$stamp"
}

find_python() {
    local python
    for python in ${PYTHON:-python3.12 python3.13 python3.11 python3}; do
        if "$python" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 14))' >/dev/null 2>&1; then
            echo "$python"
            return
        fi
    done
    fail "none of these is Python 3.11 to 3.13: ${PYTHON:-python3.12 python3.13 python3.11 python3}. Install one or set PYTHON."
}

pip_install() {
    echo "-- pip install $*"
    # with CUDA_HOME set, fairseq's build looks for CUDA sources that its package lacks
    env -u CUDA_HOME .venv/bin/python -m pip install --disable-pip-version-check --constraint constraints.txt "$@"
}
