#!/usr/bin/env bash
# Tries the failures that Lectern must survive: tests/trust.sh [--quick|--full] [PART…]
#
#   crashes      loss of power at every change that index, index again, remove, collect, recover,
#                seal and plan make; planted bugs that must be noticed
#   errors       every call that changes the disk fails, once and from then on; every call of Env and
#                SQLite, reading ones too, once
#   calls        kill -9, and errors of the system, at every system call of the same and of
#                index-document, the program
#   damage       flipped bits and wrong lengths
#   allocations  the n-th allocation fails
#   input        each field of each format with each wrong value; the corpora of tests/fuzz and
#                mutations of them (libFuzzer: tests/full.sh fuzz)
#   processes    indexers, readers, a remover and a collector, killed at random
#
# Without a PART all of them, two at a time. --quick (the default) is what tests/run.sh runs too, a
# minute; --full tries everything, hours on 2 cores. What each part said is kept in BUILD/trust, with
# commit and date, and tests/TRUST.md written from it: of a part that was run in both ways, the full
# one. SEED and STATES change the seed of what is random (1) and the number of crash states. Exits 1
# when anything failed; what that part said before stays.
set -euo pipefail
cd "$(dirname "$0")/.."
. tools/packages.sh

all_parts=(crashes errors calls damage allocations input processes)
mode=quick parts=()
for argument; do
  case $argument in
    --quick | --full) mode=${argument#--} ;;
    *) if [[ " ${all_parts[*]} " != *" $argument "* ]]; then
         sed -n '2,/^set/s/^# \?//p' "$0"
         exit 2
       fi
       parts+=("$argument") ;;
  esac
done
[ ${#parts[@]} -gt 0 ] || parts=("${all_parts[@]}")
seed=${SEED:-1}
build=${BUILD:-build-checked}
export LECTERN_SEED=$seed
if [ $mode = full ]; then
  states=${STATES:-1000000} mutations=20000
  export LECTERN_FAULT_STRIDE=1 LECTERN_CLUSTERED_FAULT_STRIDE=1 LECTERN_DAMAGE_STRIDE=1
  export LECTERN_CALL_STRIDE=1
  export LECTERN_KILLS=1000 LECTERN_ALLOCATIONS=all
else
  states=${STATES:-10000} mutations=300
fi
export LECTERN_CRASH_STATES=$states

install_packages "${product_packages[@]}" "${test_packages[@]}"
fuzz_targets=$(cd tests/fuzz && ls ./*_fuzz.cc | sed 's|^\./||; s/\.cc$/_replay/')
declare -A targets=(
  [crashes]=crash_states_test [errors]="crash_states_test store_every_call_test" [calls]="store_system_calls_test index_system_calls_test"
  [damage]=store_damage_test [allocations]=allocations_test [input]="$fuzz_targets model_test store_test"
  [processes]=store_processes_test)
[ -n "${BUILD:-}" ] || cmake --preset checked >/dev/null
wanted=$(for part in "${parts[@]}"; do echo "${targets[$part]}"; done)
# shellcheck disable=SC2086
cmake --build "$build" --target $wanted >/dev/null

crashes() { "$build/tests/engine/crash_states_test" --gtest_filter='-*Failing*'; }
errors() {
  "$build/tests/engine/crash_states_test" --gtest_filter='*Failing*'
  "$build/tests/store/store_every_call_test"
}
calls() {
  "$build/tests/store/store_system_calls_test"
  "$build/tests/tools/index_system_calls_test"
}
damage() { "$build/tests/store/store_damage_test"; }
processes() { "$build/tests/store/store_processes_test"; }
# In memory, where there is such a place: each failure has a store of its own.
allocations() {
  TMPDIR=$([ -w /dev/shm ] && echo /dev/shm || echo "${TMPDIR:-/tmp}") \
    "$build/tests/engine/allocations_test"
}
input() {
  local target test
  for test in engine/model_test store/store_test; do
    "$build/tests/$test" --gtest_filter='*EveryField*:*EverySection*:*NoName*'
  done
  for target in $fuzz_targets; do
    "$build/tests/fuzz/$target" --mutations "$mutations" --seed "$seed" \
      "tests/fuzz/${target%_fuzz_replay}_corpus"
    echo "trust: ${target%_fuzz_replay} input: corpus and $mutations mutations of each file," \
      "0 crashes; seed $seed"
  done
}

results=$build/trust
mkdir -p "$results"
commit=$(git rev-parse --short HEAD 2>/dev/null || echo unknown)
git diff --quiet HEAD -- . ':!tests/TRUST.md' 2>/dev/null || commit+=" and changes"

# run PART: its lines into the results, under when and of what they are; or its log is shown.
run() {
  local start=$SECONDS log=$results/$1.log
  if (set -e; "$1") >"$log" 2>&1; then
    {
      echo "$1, --$mode, commit $commit, $(date -u +%Y-%m-%d), $((SECONDS - start)) s on $(nproc) cores"
      grep '^trust: ' "$log" | sed 's/^trust: //'
    } >"$results/$1.$mode"
    sed 's/^/  /; 1s/^  //' "$results/$1.$mode"
  else
    echo "FAILED: $1"
    grep -v '^trust: ' "$log" | tail -40
    touch "$results/failed"
  fi
}

rm -f "$results/failed"
for part in "${parts[@]}"; do
  while [ "$(jobs -rp | wc -l)" -ge 2 ]; do wait -n; done
  run "$part" &
done
wait

{
  echo "# What Lectern survived"
  echo
  echo "Written by \`tests/trust.sh\`, each part when it was run last. A state is a disk after power was"
  echo "lost: what was not synced is there, torn, reordered or gone."
  for part in "${all_parts[@]}"; do
    file=$results/$part.full
    [ -e "$file" ] || file=$results/$part.quick
    [ -e "$file" ] || continue
    echo
    sed '1s/^/**/; 1s/$/**\n/; 2,$s/^/- /' "$file"
  done
  for table in misuse fuzz tokenizers coverage; do
    if [ -e "$build/trust/$table.md" ]; then echo; cat "$build/trust/$table.md"; fi
  done
} >tests/TRUST.md
[ ! -e "$results/failed" ]
