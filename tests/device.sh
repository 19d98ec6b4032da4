#!/usr/bin/env bash
# What only a machine with an NVIDIA GPU can tell: the tests of the CUDA kernels on it, the same under
# compute-sanitizer, and how fast the kernels are; writes tests/bench/RESULTS-GPU.md. Needs nvcc 12 or
# later; PYTHON with PyTorch, for its attention beside ours, and MODEL, a folder that
# tests/bench/make_models.py wrote, for indexing 32,768 tokens there and on the CPU, are optional.
#   tests/device.sh [--build-only]     # what needs no GPU, on another machine of the same kind
# Exits 1 when a test failed, or when none ran on a GPU.
set -euo pipefail
cd "$(dirname "$0")/.."
. tools/packages.sh
results=tests/bench/RESULTS-GPU.md
build=build-cuda

install_packages "${product_packages[@]}" "${test_packages[@]}"
cmake --preset cuda -D LECTERN_UNITY_BUILD=ON >/dev/null
cmake --build "$build" --target kernels_cuda_test index_cuda_test device_test cuda_bench \
  cluster_bench index-document lectern_cuda
if [ "${1:-}" = --build-only ]; then exit 0; fi

nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader
tests=("$build/tests/kernels/kernels_cuda_test" "$build/tests/index/index_cuda_test"
  "$build/tests/engine/device_test")
of_gpu='*/gpu:FaissGpuTest.*'

echo "== tests on the GPU"
for test in "${tests[@]}"; do "$test" --gtest_filter="$of_gpu"; done | tee "$build/gpu.log"
ran=$(grep -c '^\[       OK \].*/gpu' "$build/gpu.log" || true)
if [ "$ran" -eq 0 ]; then echo "$0: no test ran on a GPU" >&2; exit 1; fi

sanitizer=$(command -v compute-sanitizer || ls /usr/local/cuda/bin/compute-sanitizer 2>/dev/null || true)
checked=()
if [ -n "$sanitizer" ]; then
  for tool in memcheck racecheck synccheck initcheck; do
    echo "== compute-sanitizer $tool"
    for test in "${tests[@]}"; do
      "$sanitizer" --tool "$tool" --error-exitcode 1 "$test" --gtest_filter="$of_gpu" --gtest_brief=1
    done
    checked+=("$tool")
  done
else
  echo "== NOT RUN: compute-sanitizer is not in this toolkit"
fi

echo "== benches"
"$build/tests/bench/cuda_bench" | tee "$build/bench.md"
"$build/tests/bench/cluster_bench" | tee "$build/cluster.md"
: >"$build/sdpa.md"
if "${PYTHON:-python3}" -c 'import torch; assert torch.cuda.is_available()' 2>/dev/null; then
  "${PYTHON:-python3}" tests/bench/sdpa_bench.py | tee "$build/sdpa.md"
else
  echo "== NOT RUN: tests/bench/sdpa_bench.py, for want of PyTorch with CUDA"
fi

# One small word is one token.
index_seconds() {
  printf 'the of and in to was is for %.0s' {1..4096} |
    LD_LIBRARY_PATH="$build/engine" "$build/tools/index-document" --store "$build/store-$1" --again --device "$1" --model "$MODEL" \
      --name words --yes --progress none --json - |
    "${PYTHON:-python3}" -c 'import json, sys; r = json.load(sys.stdin); s = r["seconds"]; print("|",
      r["gpu"] or "CPU", "|", r["tokens"], "|", s["prefill"], "|", s["cluster"], "|", s["total"], "|")'
}
: >"$build/index.md"
if [ -n "${MODEL:-}" ]; then
  { printf '| device | tokens | prefill s | clustering s | all s |\n|---|---|---|---|---|\n'
    index_seconds cuda
    index_seconds cpu; } | tee "$build/index.md"
else
  echo "== NOT RUN: indexing a document, for want of MODEL"
fi

{
  echo "# On a GPU"
  echo
  echo "Written by \`tests/device.sh\`, $(date -u +%Y-%m-%d), commit $(git rev-parse --short=12 HEAD)."
  echo
  nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader
  echo
  echo "$ran tests passed; compute-sanitizer: ${checked[*]:-not run}."
  echo
  cat "$build/bench.md"
  printf '\nThe keys of 32 heads clustered:\n\n'
  cat "$build/cluster.md"
  if [ -s "$build/index.md" ]; then
    printf '\nA document indexed, model %s:\n\n' "$(basename "$MODEL")"
    cat "$build/index.md"
  fi
  if [ -s "$build/sdpa.md" ]; then
    printf '\nThe same shapes, dense, by PyTorch:\n\n'
    cat "$build/sdpa.md"
  fi
} >"$results"
echo "wrote $results"
