#!/usr/bin/env bash
# Runs the checks and measurements that need an NVIDIA GPU: tests/device.sh PART…
#
#   pack          on Debian 12 with nvcc 12 or later, a GPU or not: builds and writes what the parts
#                 run, with its libraries, into build-cuda/bundle.tar.xz, for a machine with a GPU that
#                 has neither network nor our packages. There, in the sources of the same commit
#                 with the bundle where it was, the parts below need CUDA's libraries and Python alone
#   smoke         what the machine has, and a few tests
#   tests         the tests of the CUDA kernels, of clustering and of the engine on a GPU
#   benches       how fast attention is, beside PyTorch's (PYTHON with PyTorch; else without it)
#   cluster       how long clustering takes
#   engine        a document of 32,768 tokens indexed, and ones of 16,384 and 131,072 asked, on the GPU
#                 and on the CPU (MODEL: a folder that tests/bench/make_models.py wrote; else PYTHON
#                 with numpy makes S; DEVICE_MEMORY_MIB: some numbers; also with so much of the GPU's)
#   sanitize TOOL…  tests under compute-sanitizer: memcheck racecheck synccheck initcheck
#   report        tests/bench/RESULTS-GPU.md, of the tables that the parts left
#   all           all parts and the report (without an argument too, where nothing was unpacked)
#
# A part leaves its log and its table in OUT (build-cuda/results), and the others go on when it
# fails. Exits 1 when something failed or was not tested on a GPU. Several parts share DEVICE_SECONDS
# (570; of `all`: a day) evenly: what is still running when a part's share ends has failed.
set -euo pipefail
cd "$(dirname "$0")/.."
build='build-cuda'
bundle=$build/bundle.tar.xz
out=${OUT:-$build/results}
python=${PYTHON:-python3}
programs=(tests/kernels/kernels_cuda_test tests/index/index_cuda_test tests/engine/device_test
  tests/bench/cuda_bench tests/bench/cluster_bench tests/bench/ask_bench tools/index-document)
cuda_library=engine/liblectern_cuda.so.1
tests=("${programs[@]:0:3}")
of_gpu='*/gpu'
sanitizer_tools=(memcheck racecheck synccheck initcheck)
found_something=86  # compute-sanitizer's status then; no test's

build() {
  # shellcheck source=tools/packages.sh
  . tools/packages.sh
  install_packages "${product_packages[@]}" "${test_packages[@]}"
  cmake --preset cuda -D CMAKE_UNITY_BUILD=ON >/dev/null
  cmake --build "$build" --target lectern_cuda "${programs[@]##*/}"
  git describe --always --exclude '*' --dirty --abbrev=12 >"$build/commit"
}

# Packs the programs with the libraries that another machine lacks; its own are newer than these.
pack() {
  local staged=$build/bundle file name path serial
  local not_packed='^(lib(c|m|dl|rt|pthread|stdc\+\+|gcc_s|cuda.*|cublas.*|nv.*)|ld-linux.*)\.so'
  build
  rm -rf "$staged"
  for file in "${programs[@]}" "$cuda_library"; do
    mkdir -p "$staged/${file%/*}"
    strip -o "$staged/$file" "$build/$file"
  done
  mkdir "$staged/lib"
  for file in "${programs[@]}"; do ldd "$build/$file"; done |
    awk '$2 == "=>" { print $1, $3 }' | sort -u | grep -Ev "$not_packed" >"$build/libraries"
  while read -r name path; do
    # The one with threads starts them with the process.
    for serial in /usr/lib/*/openblas-serial/"$name"; do
      if [ -e "$serial" ]; then path=$serial; fi
    done
    strip -o "$staged/lib/$name" "$path"
  done <"$build/libraries"
  cp "$build/commit" "$staged"
  tar -C "$staged" --owner=0 --group=0 -cf - . | xz -T0 >"$bundle"
  rm -rf "$staged"
  echo "wrote $bundle: $(du -h "$bundle" | cut -f1), commit $(cat "$build/commit")"
}

# A machine that the bundle was brought to.
is_bare() { [ -e "$bundle" ] && [ ! -e "$build/CMakeCache.txt" ]; }

prepare() {
  if is_bare; then
    "$python" -W ignore -c 'import sys, tarfile; tarfile.open(sys.argv[1]).extractall(sys.argv[2])' \
      "$bundle" "$build"
  else
    build
  fi
}

# The folder of a library of CUDA: of the toolkit or of Python's packages.
cuda_folder() {
  local folder
  { ls -d /usr/local/cuda*/lib64 /usr/local/cuda*/targets/x86_64-linux/lib || true
    "$python" -c 'import glob, sys
for path in sys.path: print(*glob.glob(path + "/nvidia/*/lib"), sep="\n")' || true
  } 2>/dev/null | while read -r folder; do
    if [ -e "$folder/$1" ]; then echo "$folder"; break; fi
  done
}

# Where our programs, and nobody else, find their libraries.
find_libraries() {
  local missing folder
  libraries=$PWD/$build/lib:$PWD/$build/engine${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
  missing=$(LD_LIBRARY_PATH=$libraries ldd "$build/$cuda_library" |
    sed -n 's/^\t\(libcublas\.so[^ ]*\) => not found$/\1/p')
  if [ -n "$missing" ]; then
    folder=$(cuda_folder "$missing")
    libraries+=${folder:+:$folder}
  fi
}

# within SECONDS COMMAND…: as our programs are run; at most so long, and within the part's share.
within() {
  local left=$((part_end - SECONDS))
  if [ "$1" -lt "$left" ]; then left=$1; fi
  if [ "$left" -le 0 ]; then
    echo "no time left: ${*:2}" >&2
    return 124
  fi
  timeout --kill-after 5 "$left" \
    env LD_LIBRARY_PATH="$libraries" LECTERN_SOURCE_DIR="$PWD" "${@:2}"
}

gpu() {
  local said
  said=$(timeout 30 nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader 2>/dev/null) ||
    said='no GPU that nvidia-smi knows'
  echo "${said//$'\n'/; }"
}

how_it_ended() {  # STATUS
  case $1 in
    0 | 1) ;;
    124 | 137) echo "took too long" ;;
    *) echo "ended with status $1" ;;
  esac
}

# run_tests PROGRAM FILTER SECONDS [COMMAND TO RUN IT WITH]: one process. Sets passed, failed, skipped
# and note, and leaves what it printed in the file $printed. What did not come to its end has failed.
run_tests() {
  local status=0 listed
  listed=$(within 60 "$build/$1" --gtest_list_tests --gtest_filter="$2" | grep -c '^  ')
  within "$3" "${@:4}" "$build/$1" --gtest_filter="$2" >"$printed" 2>&1 || status=$?
  if [ "$status" -eq "$found_something" ]; then status=0; fi
  cat "$printed"
  passed=$(grep -c '^\[       OK \]' "$printed")
  skipped=$(grep -c '^\[  SKIPPED \] .* ms)$' "$printed")
  failed=$((listed - passed - skipped))
  note=$(how_it_ended "$status")
  if [ "$listed" -eq 0 ]; then note=${note:-no such tests}; fi
  if [ "$failed" -le 0 ] && { [ "$status" -ne 0 ] || [ "$listed" -eq 0 ]; }; then failed=1; fi
  if [ "$failed" -gt 0 ]; then
    note+=$(sed -n 's/^\[  FAILED  \] \([^ ,]*\).* ms)$/ \1/p' "$printed" | tr -d '\n')
    note+=$(awk '/^\[ RUN / { last = $4 } /^\[ +(OK|FAILED|SKIPPED) +\] / { last = "" }
      END { if (last != "") print " in", last }' "$printed")
  fi
  if [ "$skipped" -gt 0 ]; then note+=" $(grep -m1 -o 'NOT TESTED.*' "$printed")"; fi
  note=${note# }
}

suites() {  # PROGRAM FILTER
  within 60 "$build/$1" --gtest_list_tests --gtest_filter="$2" | sed -n 's/^\([^ ]*\)\.\( .*\)\?$/\1/p'
}

# test_row PROGRAM FILTER SECONDS: a row of the table; FAISS may have no GPU.
test_row() {
  local start=$SECONDS
  run_tests "$@"
  echo "| ${1##*/} | $2 | $passed | $failed | $skipped | $((SECONDS - start)) | $note |" >>"$table"
  case $2 in *FaissGpuTest*) ;; *) [ "$skipped" -eq 0 ] || return 1 ;; esac
  [ "$failed" -eq 0 ]
}

columns() {  # NAME…
  { printf '| %s ' "$@"; printf '|\n'; printf '|---%.0s' "$@"; printf '|\n'; } >>"$table"
}

smoke() {
  local status=0 program
  timeout 30 nvidia-smi || status=1
  for program in "${programs[@]}" "$cuda_library"; do
    echo "-- $program"
    within 20 ldd "$build/$program"
  done | tee "$printed"
  if grep 'not found' "$printed"; then status=1; fi
  echo "-- cuBLAS and the driver's library"
  grep -h cublas "$printed" || status=1
  ldconfig -p | grep 'libcuda\.so' || echo "libcuda.so is not in the loader's cache"
  IFS=: read -ra folders <<<"$libraries"
  ls -d "${folders[@]/%//libcuda.so.1}" 2>/dev/null || true
  timeout 60 "$python" -c 'import numpy, torch; print("Python: numpy", numpy.__version__, "PyTorch",
    torch.__version__, "CUDA", torch.version.cuda, torch.cuda.is_available())' || true
  columns program tests passed failed skipped s ''
  test_row "${tests[0]}" 'Machines/CudaDeviceTest.*/gpu' 60 || status=1
  test_row "${tests[0]}" 'Machines/CudaMatMulTest.*/gpu' 60 || status=1
  test_row "${tests[2]}" 'Machines/DeviceStepTest.ATokenReadsWhatTheHostDrivenOneReads/gpu' 60 || status=1
  return $status
}

# One process a suite: after some errors a process has no device any more.
tests() {
  local status=0 program suite
  columns program tests passed failed skipped s ''
  for program in "${tests[@]}"; do
    suites "$program" "$of_gpu:FaissGpuTest.*" >"$printed.suites"
    if [ ! -s "$printed.suites" ]; then
      echo "| ${program##*/} | none listed | 0 | 1 | 0 | 0 | |" >>"$table"
      status=1
    fi
    while read -r suite; do
      case $suite in
        FaissGpuTest) test_row "$program" "$suite.*" 120 || status=1 ;;
        *) test_row "$program" "$suite.$of_gpu" 120 || status=1 ;;
      esac
    done <"$printed.suites"
  done
  awk -F ' *[|] *' '$4 ~ /^[0-9]+$/ { p += $4; f += $5; s += $6 }
    END { printf "\n%d passed, %d failed, %d skipped.\n", p, f, s }' "$table" | tee -a "$table"
  return $status
}

# table_of SECONDS COMMAND…: what it prints into the table, and whether it could.
table_of() {
  local status=0 how
  within "$@" 2>&1 | tee -a "$table" || status=$?
  if [ $status -ne 0 ]; then
    how=$(how_it_ended $status)
    printf '\n%s: failed%s\n' "${2##*/}" "${how:+, it $how}" | tee -a "$table"
  fi
  return $status
}

benches() {
  local status=0
  table_of 400 "$build/tests/bench/cuda_bench" || status=1
  printf '\nThe same shapes, dense, by PyTorch:\n\n' >>"$table"
  if "$python" -c 'import torch; assert torch.cuda.is_available()' 2>/dev/null; then
    # Not with our libraries.
    timeout $((part_end > SECONDS ? part_end - SECONDS : 1)) "$python" tests/bench/sdpa_bench.py |
      tee -a "$table" || { echo "sdpa_bench.py: failed" | tee -a "$table"; status=1; }
  else
    echo "Not run, for want of PyTorch with CUDA." | tee -a "$table"
  fi
  return $status
}

cluster() { table_of 600 "$build/tests/bench/cluster_bench"; }

# One small word is one token. A row, or that there is none.
index_row() {
  local said
  said=$(printf 'the of and in to was is for %.0s' {1..4096} |
    within 300 "$build/tools/index-document" --store "$work/store-$1" --again --device "$1" \
      --model "$model" --name words --yes --progress none --json - |
    "$python" -c 'import json, sys
r = json.loads(sys.stdin.read() or sys.exit(1)); s = r["seconds"]; print("|",
      r["gpu"] or "CPU", "|", r["tokens"], "|", s["prefill"], "|", s["cluster"], "|", s["total"], "|")') ||
    { echo "| $1 | failed | | | |" | tee -a "$table"; return 1; }
  echo "$said" | tee -a "$table"
}

# Questions of 64 tokens and 32 tokens of answers, the fourth one of each, when all is where it stays;
# with so many MiB of the GPU, or as many as are free. Great depths repeat the text's first chunk.
ask_row() {
  local tokens=$1 budget=$2 device=$3 memory=${4:-0} said row
  row="| ${device:-CPU} | $([ "$memory" = 0 ] && echo all || echo "$memory MiB") | $tokens | $budget |"
  said=$(printf "$budget 64 32\n%.0s" 1 2 3 4 |
    within 200 "$build/tests/bench/ask_bench" ask "$model" "$work/store-ask" \
      "$tokens" 0 0 "$device" "$memory" | tail -1 |
    "$python" -c 'import json, sys
r = json.loads(sys.stdin.read() or sys.exit(1)); q = r["prefill_ms"]; t = r["token_ms"]
print(f" {q:.1f} | {t:.2f} |")') ||
    { echo "$row failed | |" | tee -a "$table"; return 1; }
  echo "$row$said" | tee -a "$table"
}

engine() {
  local status=0 model=${MODEL:-} work tokens budget device memory
  work=$(mktemp -d "$PWD/$build/engine-XXXXXX")
  if [ -z "$model" ]; then
    model=$work/S
    "$python" tests/bench/make_models.py S "$model" --no-gguf || status=1
  fi
  if [ $status -eq 0 ]; then
    printf 'A document indexed, model %s:\n\n' "${model##*/}" >>"$table"
    columns device tokens 'prefill s' 'clustering s' 'all s'
    index_row cuda || status=1
    index_row cpu || status=1
    printf '\nQuestions to it:\n\n' >>"$table"
    columns device memory tokens budget 'question ms' 'token ms'
    for tokens in 16384 131072; do
      if ! within 300 "$build/tests/bench/ask_bench" index "$model" "$work/store-ask" stored "$tokens" \
        1024 >/dev/null; then
        echo "| not indexed | | $tokens | | | |" | tee -a "$table"
        status=1
        continue
      fi
      for budget in 0.1 1; do
        for device in cuda ""; do ask_row "$tokens" "$budget" "$device" || status=1; done
      done
    done
    for memory in ${DEVICE_MEMORY_MIB:-}; do ask_row 131072 0.1 cuda "$memory" || status=1; done
  else
    echo "No model." | tee -a "$table"
  fi
  rm -rf "$work"
  return $status
}

# sanitize_row TOOL PROGRAM FILTER: 2 when the tool does not take this machine. The API's errors are
# part of some tests. cuBLAS's kernels are not ours to check; but initcheck must see what they write.
sanitize_row() {
  local start=$SECONDS status=0 only=(--kernel-regex kns=lectern) found
  if [ "$1" = initcheck ]; then only=(); fi
  run_tests "$2" "$3" 200 "$sanitizer" --tool "$1" --report-api-errors no \
    --error-exitcode "$found_something" "${only[@]}"
  if grep -qi 'device not supported' "$printed"; then status=2; fi
  found=$(sed -n 's/^=* \(ERROR\|RACECHECK\) SUMMARY: \([0-9]*\) .*/\2/p' "$printed" | tail -1)
  if [ $status -eq 0 ] && { [ "${found:-1}" -ne 0 ] || [ "$failed" -gt 0 ] || [ "$skipped" -gt 0 ]; }; then
    status=1
  fi
  printf '| %s ' "${2##*/}" "$3" "${found:-unknown}" "$passed" "$failed" "$skipped" \
    $((SECONDS - start)) "$note" >>"$table"
  echo '|' >>"$table"
  return $status
}

# Runs the kernels' tests under a sanitizer, and under memcheck a few of the engine's, which run the
# same kernels.
sanitize() {
  local tool=$1 status=0 program suite sanitizer
  sanitizer=$(command -v compute-sanitizer || ls /usr/local/cuda*/bin/compute-sanitizer 2>/dev/null |
    head -1)
  if [ -z "$sanitizer" ]; then
    echo "Not run: there is no compute-sanitizer." | tee -a "$table"
    return 1
  fi
  columns program tests found passed failed skipped s ''
  for program in "${tests[@]:0:2}"; do
    for suite in $(suites "$program" "$of_gpu"); do printf '%s %s\n' "$program" "$suite.$of_gpu"; done
  done >"$printed.suites"
  if [ "$tool" = memcheck ]; then
    printf '%s Machines/%s/gpu\n' \
      "${tests[2]}" DeviceStepTest.ATokenReadsWhatTheHostDrivenOneReads \
      "${tests[2]}" DeviceLookupTest.ReadsTheBestRowsThatTheBudgetAllows \
      "${tests[2]}" DevicePrefillTest.WeightsOfBf16HaveTheCpusKeysAndValues >>"$printed.suites"
  fi
  if [ ! -s "$printed.suites" ]; then echo "no tests listed" | tee -a "$table"; status=1; fi
  while read -r program suite; do
    sanitize_row "$tool" "$program" "$suite"
    case $? in
      0) ;;
      2) printf '\nNot run: compute-sanitizer does not support this device.\n' | tee -a "$table"
        return 1 ;;
      *) status=1 ;;
    esac
  done <"$printed.suites"
  return $status
}

report() {
  local results=tests/bench/RESULTS-GPU.md part missing=()
  {
    printf '# On a GPU\n\nWritten by %s.\n' "\`tests/device.sh report\`"
    for part in smoke tests benches cluster engine "${sanitizer_tools[@]}"; do
      if [ -s "$out/$part.md" ]; then
        printf '\n## %s\n\n' "$part"
        cat "$out/$part.md"
      else
        missing+=("$part")
      fi
    done
    if [ ${#missing[@]} -gt 0 ]; then printf '\nNot run: %s.\n' "${missing[*]}"; fi
  } >"$results"
  echo "wrote $results"
}

run_part() {  # PART
  local status=0 command=("$1")
  table=$out/$1.md
  case " ${sanitizer_tools[*]} " in *" $1 "*) command=(sanitize "$1") ;; esac
  printf 'Commit %s, %s, %s.\n\n' "$(cat "$build/commit")" "$(date -u +%Y-%m-%d)" "$(gpu)" >"$table"
  "${command[@]}" 2>&1 | tee "$out/$1.log"
  status=${PIPESTATUS[0]}
  if [ "$status" -ne 0 ]; then printf '\nFAILED.\n' >>"$table"; fi
  summary+=$(printf '%-10s %4d s  %s' "$1" $((SECONDS - part_start)) \
    "$([ "$status" -eq 0 ] && echo passed || echo FAILED)")$'\n'
  return "$status"
}

usage() {
  sed -n '2,/^set/{/^set/!s/^# \?//p}' "$0"
  exit 2
}

parts=() tool='' with_report=false limit=${DEVICE_SECONDS:-570}
if [ $# -eq 0 ]; then
  if is_bare; then usage; fi
  set -- all
fi
for word; do
  case $word in
    smoke | tests | benches | cluster | engine) parts+=("$word") ;;
    sanitize) tool=wanted ;;
    memcheck | racecheck | synccheck | initcheck)
      [ -n "$tool" ] || usage
      tool=given
      parts+=("$word") ;;
    all)
      parts=(smoke tests benches cluster engine "${sanitizer_tools[@]}")
      limit=${DEVICE_SECONDS:-86400} with_report=true ;;
    pack | report) [ $# -eq 1 ] || usage ;;
    *) usage ;;
  esac
done
[ "$tool" != wanted ] || usage
case $1 in
  pack) pack; exit ;;
  report) report; exit ;;
esac

prepare
mkdir -p "$out"
printed=$(mktemp)
trap 'rm -f "$printed" "$printed.suites"' EXIT
set +e  # from here on failures are counted
find_libraries
status=0 summary=''
for i in "${!parts[@]}"; do
  part_start=$SECONDS
  part_end=$((SECONDS + (limit - SECONDS) / (${#parts[@]} - i)))
  echo "== ${parts[i]}"
  run_part "${parts[i]}" || status=1
done
if $with_report; then report; fi
printf '\n%s' "$summary"
exit $status
