#!/usr/bin/env bash
# Formatting, lint and the default tests.
#
#   bash launch/test.sh [pytest arguments ...]

# shellcheck source=launch/environment.sh
source "$(dirname "${BASH_SOURCE[0]}")/environment.sh"
install test
ruff format --check .
ruff check .
exec python -m pytest -q "$@"
