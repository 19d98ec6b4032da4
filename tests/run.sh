#!/usr/bin/env bash
# Builds and tests Lectern: everything as released but with asserts, then the parts that read foreign
# bytes under AddressSanitizer and UBSan, then what runs on several threads under ThreadSanitizer.
# Needs Debian 12, and root or sudo where packages are missing. The last line counts the tests;
# exits 1 when any failed. More, by hand: tests/full.sh.
set -euo pipefail
cd "$(dirname "$0")/.."
. tools/packages.sh

log=$(mktemp)
trap 'rm -f "$log"' EXIT
table='' passed=0 failed=0 skipped=0

# stage NAME COMMAND…: runs it and notes how long it took. A failure is the caller's to count.
stage() {
  local start=$SECONDS status=0
  echo "== $1"
  "${@:2}" || status=$?
  table+=$(printf '%-24s %4d s  %s' "$1" $((SECONDS - start)) "$([ $status -eq 0 ] || echo failed)")$'\n'
  return $status
}

build() {  # PRESET [TARGET…]
  cmake --preset "$1" >"$log" || { cat "$log"; return 1; }
  cmake --build "build-$1" --target "${@:2}"
}

run_tests() {  # PRESET [OPTION…]
  local status=0 bad total skips
  "${fixed_addresses[@]}" ctest --preset "$1" -j2 "${@:2}" 2>&1 | tee "$log" || status=$?
  # "98% tests passed, 2 tests failed out of 100"; those skipped count as passed there.
  read -r bad total < <(sed -n 's/.*passed, \([0-9]*\) tests failed out of \([0-9]*\).*/\1 \2/p' "$log") ||
    { failed=$((failed + 1)); return 1; }
  skips=$(grep -c '\*\*\*Skipped' "$log" || true)
  passed=$((passed + total - bad - skips)) failed=$((failed + bad)) skipped=$((skipped + skips))
  return $status
}

# suite PRESET TARGETS [CTEST OPTION…]: a build that fails counts as one failed test.
suite() {
  local targets
  read -ra targets -d "" <<<"$2" || true
  if stage "build $1" build "$1" "${targets[@]}"; then
    stage "test $1" run_tests "$1" "${@:3}" || true
  else
    failed=$((failed + 1))
  fi
}

install_packages "${product_packages[@]}" "${test_packages[@]}"

# ThreadSanitizer of GCC 12 cannot start where the kernel randomizes many address bits.
fixed_addresses=()
if setarch -R true 2>/dev/null; then fixed_addresses=(setarch -R); fi

suite checked all
# What reads foreign bytes, and the kernels; tests/full.sh sanitize-all takes the rest: what is not
# built here and, by their one name, tests that run whole.
suite asan 'tests/kernels/all tests/store/all tests/fuzz/all config_test json_test
  safetensors_test text_test tokenizer_test weights_test' --exclude-regex 'NOT_BUILT|^[a-z_]*_test$'
suite tsan 'kernels_thread_pool_test concurrent_asks_test' --tests-regex '^(ThreadPool|ConcurrentAsks)'

printf '\n%s\n' "$table"
echo "$passed passed, $failed failed$([ $skipped -eq 0 ] || echo ", $skipped skipped")"
[ $failed -eq 0 ]
