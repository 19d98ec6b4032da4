#!/usr/bin/env bash
# What only a machine with an NVIDIA GPU can tell: the tests of the CUDA kernels on it, the same under
# compute-sanitizer, and how fast the kernels are; writes tests/bench/RESULTS-GPU.md. Needs nvcc 12 or
# later; PYTHON with PyTorch, for its attention beside ours, and MODEL, a folder that
# tests/bench/make_models.py wrote, for indexing 32,768 tokens and asking 16,384 and 131,072 there and
# on the CPU, are optional; with DEVICE_MEMORY_MIB, some numbers, also with so much of the GPU's memory.
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
  cluster_bench index-document ask_bench lectern_cuda
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
  echo "== NOT RUN: indexing a document and asking it, for want of MODEL"
fi

# Questions of 64 tokens and 32 tokens of answers, the fourth one of each, when all is where it stays;
# with so many MiB of the GPU, or as many as are free. Great depths repeat the text's first chunk.
ask_ms() {
  local tokens=$1 budget=$2 device=$3 memory=${4:-0}
  printf "$budget 64 32\n%.0s" 1 2 3 4 |
    LD_LIBRARY_PATH="$build/engine" "$build/tests/bench/ask_bench" ask "$MODEL" "$build/store-ask" \
      "$tokens" 0 0 "$device" "$memory" | tail -1 |
    "${PYTHON:-python3}" -c 'import json, sys; r = json.load(sys.stdin); q = r["prefill_ms"]
t = r["token_ms"]; print("|", " | ".join(sys.argv[1:]), f"| {q:.1f} | {t:.2f} |")' \
      "${device:-CPU}" "$([ "$memory" = 0 ] && echo all || echo "$memory MiB")" "$tokens" "$budget"
}
: >"$build/ask.md"
if [ -n "${MODEL:-}" ]; then
  { printf '| device | memory | tokens | budget | question ms | token ms |\n|---|---|---|---|---|---|\n'
    for tokens in 16384 131072; do
      "$build/tests/bench/ask_bench" index "$MODEL" "$build/store-ask" stored "$tokens" 1024 >/dev/null
      for budget in 0.1 1; do
        ask_ms "$tokens" "$budget" cuda
        ask_ms "$tokens" "$budget" ""
      done
    done
    for memory in ${DEVICE_MEMORY_MIB:-}; do ask_ms 131072 0.1 cuda "$memory"; done
  } | tee "$build/ask.md"
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
  if [ -s "$build/ask.md" ]; then
    printf '\nQuestions to it:\n\n'
    cat "$build/ask.md"
  fi
  if [ -s "$build/sdpa.md" ]; then
    printf '\nThe same shapes, dense, by PyTorch:\n\n'
    cat "$build/sdpa.md"
  fi
} >"$results"
echo "wrote $results"
