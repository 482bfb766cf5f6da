#!/usr/bin/env bash
# Trains on a Cloud TPU slice: creates it if need be, installs, runs on all workers.
#
#   TPU_NAME=murphy ZONE=us-west4-a ACCELERATOR=v5litepod-64 SOURCE=gs://bucket/rlvr_jax.tar.gz \
#     bash launch/tpu_pod.sh --config=... --workdir=gs://bucket/runs/murphy
#
# Needs gcloud, logged in. The slice is asked for as a queued resource and kept after the
# run; `gcloud compute tpus queued-resources delete TPU_NAME --force` ends it and its
# cost. On every worker the same command starts and JAX finds the others from the
# metadata. Run again after a preemption: it goes on from the last checkpoint.
# Environment:
#   TPU_NAME      of the slice
#   ZONE          where it is
#   ACCELERATOR   its type as gcloud names it, for example v5litepod-64
#   SOURCE        a tar.gz of the project, gs://... (git archive --format=tar.gz HEAD)
#   PROJECT       Google Cloud project, default gcloud's own
#   RUNTIME       software of the machines, default v2-alpha-tpuv5-lite
#   SPOT          1 asks for preemptible capacity
#   DRY_RUN       1 prints the commands
set -euo pipefail
# shellcheck source=launch/processes.sh
source "$(dirname "${BASH_SOURCE[0]}")/processes.sh"
need TPU_NAME ZONE ACCELERATOR SOURCE

where=(--zone="$ZONE" ${PROJECT:+--project="$PROJECT"})
tpu() { run gcloud compute tpus "$@" "${where[@]}"; }
on_all_workers() { tpu tpu-vm ssh "$TPU_NAME" --worker=all --command="$1"; }
state() {
  gcloud compute tpus queued-resources describe "$TPU_NAME" "${where[@]}" \
    --format='value(state.state)' 2>/dev/null || true
}

if [ "${DRY_RUN:-0}" = 1 ] || [ -z "$(state)" ]; then
  tpu queued-resources create "$TPU_NAME" --node-id="$TPU_NAME" \
    --accelerator-type="$ACCELERATOR" \
    --runtime-version="${RUNTIME:-v2-alpha-tpuv5-lite}" ${SPOT:+--spot}
fi
if [ "${DRY_RUN:-0}" != 1 ]; then
  while current=$(state) && [ "$current" != ACTIVE ]; do
    case $current in
    FAILED | SUSPENDED) echo "error: $TPU_NAME is $current" >&2 && exit 1 ;;
    esac
    echo "$(date +%H:%M:%S) $TPU_NAME is ${current:-unknown}, waiting" >&2
    sleep 30
  done
fi

printf -v arguments '%q ' "$@"
on_all_workers "rm -rf rlvr_jax && mkdir rlvr_jax && gcloud storage cat $SOURCE | tar xz -C rlvr_jax \
&& cd rlvr_jax && python3 -m venv .venv && .venv/bin/pip install --quiet -e '.[tpu]'"
# One worker that fails leaves the others at a barrier: their heartbeat ends them.
on_all_workers "cd rlvr_jax && .venv/bin/python -m rlvr_jax.train $arguments"
