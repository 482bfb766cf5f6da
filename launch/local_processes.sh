#!/usr/bin/env bash
# Trains in several processes of this host, and stops all of them when one fails.
#
#   NUM_PROCESSES=2 bash launch/local_processes.sh --config=... --workdir=...
#
# Each process decodes and verifies its own prompts; the update is one. On CPU they talk
# over gloo. The first one that fails is named with its exit code and its last words,
# the others are ended, and its code is this script's. Environment:
#   NUM_PROCESSES   how many, default 2
#   COORDINATOR     host:port of process 0, default a free port of this host
#   LOGS            folder of the processes' output, default runs/processes
#   GRACE           seconds between the request to stop and the kill, default 20
#   MODULE          what to run, default rlvr_jax.train
#   DRY_RUN         1 prints the commands

# shellcheck source=launch/environment.sh
source "$(dirname "${BASH_SOURCE[0]}")/environment.sh"
# shellcheck source=launch/processes.sh
source launch/processes.sh
number=${NUM_PROCESSES:-2} logs=${LOGS:-runs/processes} grace=${GRACE:-20}
[[ $number =~ ^[1-9][0-9]*$ ]] || fail "NUM_PROCESSES: wanted 1 or more, got $number"
free_port='import socket; s = socket.socket(); s.bind(("", 0)); print(s.getsockname()[1])'
coordinator=${COORDINATOR:-localhost:$(python -c "$free_port")}
[ "${DRY_RUN:-0}" = 1 ] || mkdir -p "$logs"

declare -A index=() # of a process, by its process id
command_of() {
  command=(env JAX_COORDINATOR_ADDRESS="$coordinator" JAX_NUM_PROCESSES="$number"
    JAX_PROCESS_ID="$1" python -m "${MODULE:-rlvr_jax.train}" "${@:2}")
}

stop_all() {
  local pid waited=0
  kill -TERM "${!index[@]}" 2>/dev/null || true
  while kill -0 "${!index[@]}" 2>/dev/null && [ "$waited" -lt "$((grace * 10))" ]; do
    sleep 0.1
    waited=$((waited + 1))
  done
  for pid in "${!index[@]}"; do
    kill -KILL "$pid" 2>/dev/null || true
  done
  wait 2>/dev/null || true
}

# Told to stop, the processes save: their own code says how that went.
trap 'kill -TERM "${!index[@]}" 2>/dev/null || true' TERM INT
for ((i = 0; i < number; i++)); do
  command_of "$i" "$@"
  if [ "${DRY_RUN:-0}" = 1 ]; then
    run "${command[@]}"
    continue
  fi
  # Process 0 also speaks to the terminal: its progress bar is the run's.
  if [ "$i" = 0 ]; then
    "${command[@]}" > >(tee "$logs/0.log") 2> >(tee "$logs/0.err" >&2) &
  else
    "${command[@]}" >"$logs/$i.log" 2>"$logs/$i.err" &
  fi
  index[$!]=$i
done

result=0
while [ "${#index[@]}" -gt 0 ]; do
  code=0
  wait -n -p ended "${!index[@]}" || code=$?
  # A trapped signal ends the wait, and nobody with it.
  [ -n "${ended:-}" ] || continue
  name=${index[$ended]}
  unset "index[$ended]"
  if [ "$code" = "$REQUEUE" ]; then
    result=$REQUEUE
  elif [ "$code" != 0 ]; then
    echo "error: process $name of $number ended with exit code $code" >&2
    tail -n 5 "$logs/$name.err" | sed "s/^/  [$name] /" >&2
    [ "${#index[@]}" = 0 ] || stop_all
    exit "$code"
  fi
done
if [ "$result" = "$REQUEUE" ]; then
  echo "saved and stopped (exit code $REQUEUE): run this again to go on" >&2
fi
exit "$result"
