# shellcheck shell=bash
# Sourced by the other scripts: activates a virtual environment with the project in it.
#
# Uses the active environment, else .venv, which it makes with $PYTHON (default python3).
# install EXTRA installs the project with that extra ("" for none), once: it looks at
# nothing but setup.py, so that a second call takes no time.

set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

fail() {
  echo "error: $1" >&2
  exit 2
}

if [ -z "${VIRTUAL_ENV:-}" ]; then
  if [ ! -x .venv/bin/python ]; then
    python=${PYTHON:-python3}
    command -v "$python" >/dev/null || fail "$python is missing: install Python 3.11 or newer"
    "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' ||
      fail "$python is older than 3.11: name a newer one, PYTHON=python3.12 $0"
    "$python" -m venv .venv
  fi
  export VIRTUAL_ENV="$PWD/.venv"
  export PATH="$VIRTUAL_ENV/bin:$PATH"
fi

install() {
  local extra=$1 stamp="$VIRTUAL_ENV/.rlvr_jax-$1"
  if [ ! "$stamp" -nt setup.py ] || [ "$(cat "$stamp")" != "$PWD" ]; then
    python -m pip install --quiet --disable-pip-version-check -e ".${extra:+[$extra]}"
    echo "$PWD" >"$stamp"
  fi
}
