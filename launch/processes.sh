# shellcheck shell=bash
# Sourced by the scripts for several processes: what they share.

# What `rlvr_jax.train` exits with after it saved because it was told to stop
# (sysexits.h: temporary failure): run the same command again and it goes on.
# shellcheck disable=SC2034
readonly REQUEUE=75

# Runs a command, or prints it when DRY_RUN=1.
run() {
  if [ "${DRY_RUN:-0}" = 1 ]; then
    printf '%q ' "$@"
    echo
  else
    "$@"
  fi
}

# Stops with exit code 2 unless every named variable is set.
need() {
  local name
  for name in "$@"; do
    if [ -z "${!name:-}" ]; then
      echo "error: set $name: $(explain "$name")" >&2
      exit 2
    fi
  done
}

# What a variable means: its line in the head of the calling script.
explain() {
  sed -n "s/^#   $1 *//p" "$0" | head -n 1
}
