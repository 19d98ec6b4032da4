#!/usr/bin/env bash
# What Lectern's store survives: tests/trust.sh [--quick|--full]
#
# Loss of power and kill -9 at every step, failing calls, flipped bits, wrong lengths, planted bugs,
# damaged input. Prints what was tried and writes it to tests/TRUST.md. --quick (the default) is what
# tests/run.sh runs too, a minute; --full tries everything, about half an hour on 2 cores. SEED and
# STATES change the seed of what is random (1) and the number of crash states. Exits 1 when anything
# failed; then tests/TRUST.md stays as it was.
set -euo pipefail
cd "$(dirname "$0")/.."
. tools/packages.sh

case ${1:---quick} in
  --quick) mode=quick states=${STATES:-10000} ;;
  --full) mode=full states=${STATES:-1000000} ;;
  *) sed -n '2,/^set/s/^# \?//p' "$0"; exit 2 ;;
esac
seed=${SEED:-1}
build=${BUILD:-build-checked}

install_packages "${product_packages[@]}" "${test_packages[@]}"
fuzz_targets=$(cd tests/fuzz && ls ./*_fuzz.cc | sed 's|^\./||; s/\.cc$/_replay/')
[ -n "${BUILD:-}" ] || cmake --preset checked >/dev/null
cmake --build "$build" --target crash_states_test store_test store_damage_test \
  store_system_calls_test store_processes_test $fuzz_targets >/dev/null

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# part NAME COMMAND…: its output into a file; a failure is remembered.
part() {
  "${@:2}" >"$work/$1.log" 2>&1 || echo "$1" >>"$work/failed"
}

replays() {
  local target mutations
  mutations=$([ $mode = full ] && echo 20000 || echo 300)
  for target in $fuzz_targets; do
    "$build/tests/fuzz/$target" --mutations "$mutations" --seed "$seed" \
      "tests/fuzz/${target%_fuzz_replay}_corpus"
    echo "trust: ${target%_fuzz_replay} input: corpus and $mutations mutations of each file," \
      "0 crashes; seed $seed"
  done
}

start=$SECONDS
export LECTERN_SEED=$seed
if [ $mode = full ]; then
  export LECTERN_FAULT_STRIDE=1 LECTERN_DAMAGE_STRIDE=1 LECTERN_KILLS=1000
  # Two halves at a time: other seeds are other states.
  (export LECTERN_CRASH_STATES=$((states / 2))
   part crashes-1 "$build/tests/engine/crash_states_test" --gtest_filter='-*Failing*:*Planted*') &
  (export LECTERN_CRASH_STATES=$((states / 2)) LECTERN_SEED=$((seed + 1))
   part crashes-2 "$build/tests/engine/crash_states_test" --gtest_filter='-*Failing*:*Planted*') &
  wait
  part errors "$build/tests/engine/crash_states_test" --gtest_filter='*Failing*:*Planted*' &
  part damage "$build/tests/store/store_damage_test" &
  wait
  part calls "$build/tests/store/store_system_calls_test" &
  part input replays &
  wait
  part processes "$build/tests/store/store_processes_test"
else
  LECTERN_CRASH_STATES=$states part crashes "$build/tests/engine/crash_states_test" &
  (part calls "$build/tests/store/store_system_calls_test"
   part damage "$build/tests/store/store_damage_test"
   part processes "$build/tests/store/store_processes_test"
   part input replays) &
  wait
fi

grep -h '^trust: ' "$work"/*.log | sed 's/^trust: //' | tee "$work/lines"
if [ -e "$work/failed" ]; then
  while read -r name; do
    echo "FAILED: $name"
    grep -v '^trust: ' "$work/$name.log" | tail -40
  done <"$work/failed"
  exit 1
fi

{
  echo "# What the store survived"
  echo
  echo "Written by \`tests/trust.sh --$mode\` at commit $(git rev-parse --short HEAD 2>/dev/null ||
    echo unknown), $((SECONDS - start)) s on $(nproc) cores. A state"
  echo "is a disk after power was lost: what was not synced is there, torn, reordered or gone."
  echo
  sed 's/^/- /' "$work/lines"
} >tests/TRUST.md
echo "all passed; written to tests/TRUST.md"
