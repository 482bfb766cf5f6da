#!/usr/bin/env bash
# Trains on all GPUs of this node, in one process (JAX drives every GPU from one).
#
#   bash launch/gpu_node.sh --config=... --workdir=... [--config.mesh.fsdp=8]
#
# Told to stop (SIGTERM), the run saves and exits with code 75; the same command goes on
# from there. Environment:
#   CUDA_VISIBLE_DEVICES   which GPUs, default all
#   MEMORY_FRACTION        share of each GPU's memory that JAX takes, default 0.92
#   DRY_RUN                1 prints the command

# shellcheck source=launch/environment.sh
source "$(dirname "${BASH_SOURCE[0]}")/environment.sh"
# shellcheck source=launch/processes.sh
source launch/processes.sh
if [ "${DRY_RUN:-0}" != 1 ]; then
  command -v nvidia-smi >/dev/null || fail "no NVIDIA driver here: nvidia-smi is missing"
  install cuda
fi
export XLA_PYTHON_CLIENT_MEM_FRACTION=${MEMORY_FRACTION:-0.92}
export JAX_COMPILATION_CACHE_DIR=${JAX_COMPILATION_CACHE_DIR:-$PWD/runs/compiled}
run exec python -m rlvr_jax.train "$@"
