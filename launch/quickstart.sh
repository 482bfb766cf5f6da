#!/usr/bin/env bash
# Trains the shipped model with one algorithm and shows what it learnt.
#
#   bash launch/quickstart.sh [murphy_mars|reapo|grpo|...] [--config.field=value ...]
#
# Outputs: runs/quickstart-ALGORITHM (or $WORKDIR).

# shellcheck source=launch/environment.sh
source "$(dirname "${BASH_SOURCE[0]}")/environment.sh"
algorithm=murphy_mars
if [ $# -gt 0 ] && [[ $1 != --* ]]; then
  algorithm=$1
  shift
fi
config=configs/quickstart.py:$algorithm
workdir=${WORKDIR:-runs/quickstart-$algorithm}
# The evaluation after the training needs the programs of the one before it.
export JAX_COMPILATION_CACHE_DIR=${JAX_COMPILATION_CACHE_DIR:-$PWD/runs/compiled}
export JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS=0.2

install ""
# Also the check of the algorithm's name, before anything is written.
python -m rlvr_jax.train --config="$config" "$@" --dry_run >/dev/null
mkdir -p "$workdir"
before=$workdir/eval_before.json after=$workdir/eval_after.json
if [ ! -f "$before" ]; then
  python -m rlvr_jax.evaluate --config="$config" "$@" --checkpoint=base --output="$before"
fi
python -m rlvr_jax.train --config="$config" "$@" --workdir="$workdir"
python -m rlvr_jax.evaluate --config="$config" "$@" --workdir="$workdir" \
  --output="$after" --compare="$before"
echo
echo "before:   $before"
echo "after:    $after"
echo "metrics:  $workdir/metrics.jsonl"
echo "rollouts: $workdir/rollouts/"
