#!/usr/bin/env bash
# The checks that take too long for tests/run.sh, by hand: tests/full.sh PART…
#
#   fuzz          60 s of libFuzzer on each target of tests/fuzz (FUZZ_SECONDS; new inputs and
#                 crashes stay in build-fuzz/)
#   bench         Google Benchmarks of the kernels
#   evaluate      the lookup, its parts, an oracle and the paper's lookup against exact attention:
#                 1,000 questions on 20 documents each of 8K and 32K tokens; goes on from what
#                 build-release/evaluate holds
#   missed        estimates and bounds of missed attention against the truth: a million rows
#   recall        attention mass recalled by the cluster tree against flat K-means
#   reader        the reader's training and what it exports (PYTHON with torch, sentencepiece and
#                 transformers)
#   sanitize-all  every test under ASan and UBSan, then under ThreadSanitizer
set -euo pipefail
cd "$(dirname "$0")/.."
. tools/packages.sh

build() {  # PRESET TARGET…
  cmake --preset "$1" >/dev/null
  cmake --build "build-$1" --target "${@:2}"
}

fuzz() {
  local source name status=0
  install_packages "${fuzz_packages[@]}"
  build fuzz tests/fuzz/all
  for source in tests/fuzz/*_fuzz.cc; do
    name=$(basename "$source" .cc)
    echo "== $name"
    mkdir -p "build-fuzz/new/$name"
    "build-fuzz/tests/fuzz/$name" -max_total_time="${FUZZ_SECONDS:-60}" -print_final_stats=1 \
      -artifact_prefix="build-fuzz/$name-" "build-fuzz/new/$name" "${source%_fuzz.cc}_corpus" \
      >"build-fuzz/$name.log" 2>&1 || status=$?
    grep -E 'ERROR|SUMMARY|Test unit written|number_of_executed_units' "build-fuzz/$name.log" || true
  done
  return $status
}

bench() {
  build release kernels_bench
  build-release/tests/bench/kernels_bench
}

evaluate() {
  build release lectern-evaluate
  tools/evaluate/run.sh build-release/evaluate
}

recall() {
  local document
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
  build release tree_recall
  tools/reader/make_evaluation_set.sh "$work"
  for document in 8k_1 16k_1 32k_1; do
    build-release/tests/evaluation/tree_recall tools/reader/model "$work/$document.txt" \
      "$work/$document.jsonl"
  done
}

missed() {
  local work=build-release/missed
  build release missed_mass
  python3 tools/evaluate/make_documents.py "$work" --lengths 8192 --documents 10 --questions 40
  build-release/tests/evaluation/missed_mass tools/reader/model 40 "$work"/*.jsonl
}

reader() {
  "${PYTHON:-python3}" tests/reader/train_test.py --verbose
}

sanitize-all() {
  local preset fixed_addresses=()
  # ThreadSanitizer of GCC 12 cannot start where the kernel randomizes many address bits.
  if setarch -R true 2>/dev/null; then fixed_addresses=(setarch -R); fi
  for preset in asan tsan; do
    build $preset all
    "${fixed_addresses[@]}" ctest --preset $preset -j2
  done
}

if [ $# -eq 0 ]; then
  sed -n '2,/^set/s/^# \?//p' "$0"
  exit 2
fi
for part; do
  case $part in
    fuzz | bench | evaluate | missed | recall | reader | sanitize-all) ;;
    *) echo "$0: no part \"$part\"; without an argument it lists them" >&2; exit 2 ;;
  esac
done
install_packages "${product_packages[@]}" "${test_packages[@]}"
for part; do "$part"; done
