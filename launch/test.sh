#!/usr/bin/env bash
# Formatting, lint and the default tests.
#
#   bash launch/test.sh [pytest arguments ...]

# shellcheck source=launch/environment.sh
source "$(dirname "${BASH_SOURCE[0]}")/environment.sh"
install test
ruff format --check .
ruff check .
# A file stays in one process, so that its fixtures are made once.
exec python -m pytest -q --numprocesses=auto --maxprocesses=8 --dist=loadfile "$@"
