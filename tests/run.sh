#!/usr/bin/env bash
# Builds and tests Lectern: everything as released but with asserts, then parsers, store and kernels
# under AddressSanitizer and UBSan, then the thread pool and sessions under ThreadSanitizer. A
# released model, which is fetched, is asked beside llama.cpp's answers (tests/real.sh quick);
# without a network that is skipped.
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

# Files of a room are compiled together, which takes half the time; a file that lacks an include is for
# the release build to find.
build() {  # PRESET [TARGET…]
  cmake --preset "$1" -D CMAKE_UNITY_BUILD=ON >"$log" || { cat "$log"; return 1; }
  cmake --build "build-$1" --target "${@:2}"
}

# Cases of what `ctest` printed into the file $1: "passed failed skipped". Of GoogleTest's and
# unittest's summaries; a program without one, and one that failed without saying where, is one case.
count_cases() {
  awk '
    function number(of) {
      return match($0, of "=[0-9]+") ? substr($0, RSTART + length(of) + 1) + 0 : 0
    }
    /^ *[0-9]+\/[0-9]+ Testing: / { p = f = s = ran = 0 }
    /^\[  PASSED  \] [0-9]+ test/ { p = $4 }
    /^\[  FAILED  \] [0-9]+ test/ { f = $4 }
    /^\[  SKIPPED \] [0-9]+ test/ { s = $4 }
    /^Ran [0-9]+ test/ { ran = $2 }
    ran > 0 && /^(OK|FAILED)( \(.*\))?$/ {
      f = number("failures") + number("errors"); s = number("skipped"); p = ran - f - s
    }
    /^Test (Passed|Failed)\.$/ {
      if ($2 == "Failed." && f == 0) f = 1
      if (p + f + s == 0) p = 1
      passed += p; failed += f; skipped += s
    }
    END { print passed + 0, failed + 0, skipped + 0 }' "$1"
}

# More at a time than there are cores: many wait for a disk or for each other. Without the tests that are
# labelled long, whose like is run here with fewer cases: they are tests/full.sh's part long.
run_tests() {  # PRESET [OPTION…]
  local status=0 p f s
  "${fixed_addresses[@]}" ctest --preset "$1" -j$((2 * $(nproc))) -LE long "${@:2}" || status=$?
  read -r p f s < <(count_cases "build-$1/Testing/Temporary/LastTest.log")
  [ $status -eq 0 ] || [ "$f" -gt 0 ] || f=1  # what could not be started is in no log
  passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
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

# A released model, beside what llama.cpp makes of it. Without a network its cases are skipped.
run_real() {
  local status=0 p f s
  tests/real.sh quick >"$log" 2>&1 || status=$?
  cat "$log"
  if [ $status -eq 0 ]; then echo "Test Passed."; else echo "Test Failed."; fi >>"$log"
  read -r p f s < <(count_cases "$log")
  passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
  return $status
}

install_packages "${product_packages[@]}" "${batch_packages[@]}" "${test_packages[@]}"

# ThreadSanitizer of GCC 12 cannot start where the kernel randomizes many address bits.
fixed_addresses=()
if setarch -R true 2>/dev/null; then fixed_addresses=(setarch -R); fi

# The programs of tests/full.sh are compiled, too, so that no change leaves them behind.
suite checked 'all tests/evaluation/all'
stage "real model" run_real || true
if [ ! -e build-checked/engine/liblectern_cuda.so.1 ]; then
  echo "== NOT BUILT: liblectern_cuda.so.1, for want of nvcc 12 or later; its kernels ran emulated"
fi
# The emulated CUDA kernels, a quarter of the time of both sanitizers, are tests/full.sh's: its parts
# sanitize-all and races. Left to sanitize-all, too: tests that count bits or seconds on many or long inputs
# whose code other tests run.
long=('*SameBitsForAnyGrouping*' '*OutputHeadTest*' '*LongRuns*' '*ReadsTheLongestTexts*' '*InReasonableTime'
  '*ManyMegabytes*' '*DrawsFromThePenalised*' '*InSeconds')
GTEST_FILTER="-$(IFS=: && echo "${long[*]}")" \
suite asan 'kernels_test kernels_thread_pool_test tests/store/all tests/fuzz/all model_test ingest_test
  pdf_layout_test text_encoding_test' \
  --tests-regex '^(kernels|kernels_thread_pool|model|ingest|pdf_layout|text_encoding)_test|^store_|_fuzz_replay$'
# Without the tests of one thread at a time, which have no race to show and take minutes there, and
# without those of a whole document that others do with a short one.
alone=(LookupDecodingTest.{ChangesNo,EndsWhere,ASession,IsOff,AnUnknown}'*'
  FewLogitsTest.{AStepGivesThoseThatAreWantedAndNoOthers,ChangeNoAnswer} 'TokenRunsTest.*' IndexProgressTest.LayersOf'*'
  CancelCallsTest.{AnExceptionOf,NothingIsCommitted}'*')
whole=(FewLogitsTest.ChangeNoAnswerWhereSessionsShareSteps
  LookupDecodingTest.SessionsThatShareSteps'*')
GTEST_FILTER="-$(IFS=: && echo "${alone[*]}:${whole[*]}")" \
suite tsan 'kernels_thread_pool_test sessions_test in_order_test' \
  --tests-regex '^(kernels_thread_pool|sessions|in_order)_test'

printf '\n%s\n' "$table"
echo "$passed passed, $failed failed$([ $skipped -eq 0 ] || echo ", $skipped skipped")"
[ $failed -eq 0 ]
