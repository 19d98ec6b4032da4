#!/usr/bin/env bash
# The checks that take too long for tests/run.sh, by hand: tests/full.sh PART…
#
#   fuzz          60 s of libFuzzer on each target of tests/fuzz (FUZZ_SECONDS, or FUZZ_RUNS of
#                 each; FUZZ_TARGETS: only these; new inputs and crashes stay in build-fuzz/). What
#                 was run, all in all, and how much of each parser (90 % of its lines at least):
#                 build-checked/trust/fuzz.md, which tests/trust.sh takes into tests/TRUST.md
#   corpus        500 real documents of Debian packages through lectern-batch: four workers that are killed at
#                 random, PostgreSQL, and two S3 servers, OpenStack Swift and PyPI's moto, which is
#                 fetched into build-corpus (CORPUS_DOCUMENTS, CORPUS_SERVERS); the tables of
#                 tools/batch/README.md
#   coverage      branches of the parsers and the store that their tests take; the table goes where
#                 that of `fuzz` does
#   bench         Google Benchmarks of the kernels
#   compare       Lectern beside llama.cpp (PYTHON with numpy, gguf and llama-cpp-python): questions
#                 and tokens, whole prefills, cold starts and memory; the tables of
#                 tests/bench/RESULTS.md
#   compare-real  the same for questions and tokens of released models on a text of Debian's, with one
#                 and two threads, beside llama.cpp's prompt lookup too (after tests/real.sh models)
#   evaluate      the lookup, its parts, an oracle and the paper's lookup against exact attention:
#                 1,000 questions on 20 documents each of 8K and 32K tokens; goes on from what
#                 build-release/evaluate holds
#   evaluate-real SmolLM2 and Gemma 3 on ten texts of Debian packages and those of DOCUMENTS: errors,
#                 teacher-forced answers, automatic budgets and perplexity; hours (after
#                 tests/real.sh models, which fetches the models; DOCUMENTS: a folder with NAME.txt and
#                 questions in NAME.jsonl)
#   files         the text of 99 real files (Debian packages) and over 100 made ones, of 20 kinds: words,
#                 order, rows of tables, seconds and memory beside sources and other programs, and
#                 whether a question finds the same passage in PDF, DOCX, HTML and text; the tables of
#                 tools/ingest/RESULTS.md (fetches packages, also pandoc, LibreOffice and PyMuPDF)
#   tables        rows of nine tables with wrapped cells, which LaTeX, LibreOffice and groff typeset in 15
#                 ways, in the text of their PDFs (fetches TeX Live, pandoc and LibreOffice)
#   policies      all pairs of budget policies, as above: 300 questions on 20 documents of 8K tokens,
#                 the three best on five of 32K
#   memory        peak memory of indexing and asking a document of 32K tokens under --max-ram
#   missed        estimates and bounds of missed attention against the truth: a million rows
#   quantized     what q8 keys and values, and q8 and q4 weights, change: 200 questions
#   quantized-gguf  logits of GGUF files of every type, quantised by llama.cpp: ours and llama.cpp's
#                 against a float64 forward (PYTHON with numpy, gguf, sentencepiece and
#                 llama-cpp-python)
#   sparse        answers, keys and values of documents of 32K tokens by a sparse prefill against an
#                 exact one: 150 questions
#   ranks         processes of an MPI job on this machine: index, ask, serve, with ranks that are killed
#                 (LECTERN_KILLS), and threads in their place under ThreadSanitizer; then how evenly
#                 ranks share measured selections, and what they read and send for a document of a
#                 million tokens, the tables of engine/SCALE.md (PYTHON with numpy; fetches Open MPI)
#   recall        attention mass recalled by the cluster tree against flat K-means
#   neon          the kernels and their tests for aarch64, run by qemu
#   avx512        those of AVX-512 with VNNI, on a machine of their own that Bochs plays
#   clients       programs and libraries of the field ask the server, stream, cancel and read errors:
#                 curl, wget, Java, Go, Node, Chromium, nginx, haproxy, and those of PyPI in a virtual
#                 environment in build-clients; the table goes where that of `fuzz` does
#   openai        the server through OpenAI's Python client, every field of its types, and through
#                 frameworks over it, with a table (PYTHON with openai; langchain-openai,
#                 pydantic-ai-slim, openai-agents, haystack-ai, smolagents and dspy as far as they are
#                 installed)
#   misuse        100,000 random calls of the C API, right and wrong, by eight threads, under ASan and
#                 UBSan, then under ThreadSanitizer (MISUSE_CALLS, MISUSE_SEED); what came of them
#                 goes where that of `fuzz` does
#   long          the tests that tests/run.sh leaves out: emulated GPUs that fail at every call, most of
#                 what they compute, pairs of architectures and block types, more documents beside the
#                 float64 oracle, more queries of a lookup's bound, sparse prefills, budgets of
#                 hard heads; four minutes of one core
#   races         the CUDA kernels, and what the engine makes of them, on the emulated device under
#                 ThreadSanitizer, which finds missing barriers and fences (tests/kernels/cuda_emulation);
#                 an hour of one core (GTEST_FILTER: only these)
#   clang         everything compiled by clang 14, warnings are errors, and tests/run.sh's tests with it
#   packaging     what is installed and the Debian packages, used by a project outside of the tree in
#                 four ways, beside another protobuf, by the samples, and as engine/EMBEDDING.md says
#   page          the server's page in Chromium
#   python        the Python wheels in fresh virtual environments: the page of documentation, all tests of
#                 the package with each of PYTHONS, types by mypy, licences, 10,000 questions (ASKS) with
#                 flat memory; the MCP server, LangChain, LlamaIndex, llm, and the samples, with the oldest and the
#                 newest versions of each; then the package upon a library under ASan and UBSan (PyPI)
#   serve         the server under load: 500 clients at once, 64 questions, 1,000 who leave, 10 minutes
#                 of asking (SOAK_SECONDS); the table of tools/server/RESULTS.md
#   schemathesis  5,000 cases against the description of the server (PYTHON with schemathesis)
#   schemas       other people's suites of JSON schemas against the grammar that answers are held to: the
#                 table of tools/server/RESULTS.md (PYTHON with jsonschema and pydantic; PyPI)
#   reader        the trainings of the reader and of adapters, and what they export (PYTHON with torch,
#                 sentencepiece, transformers and safetensors; peft if it is there)
#   tokenizers    byte-level BPE against PyPI's tokenizers, SentencePiece against its sentencepiece:
#                 110,000 strings in each family, ids and byte ranges (PYTHON with tokenizers,
#                 sentencepiece and protobuf; TOKENIZER_STRINGS, TOKENIZER_SEED); the table goes where
#                 that of `fuzz` does
#   sanitize-all  every test under ASan and UBSan, then under ThreadSanitizer
#   windows       the library, tools and server for Windows, cross-built, and their tests under Wine, with
#                 200 kills and 1,500 calls that fail (WINDOWS_TESTS: only the programs that match):
#                 tests/WINDOWS.md; two hours of two cores
set -euo pipefail
cd "$(dirname "$0")/.."
. tools/packages.sh

build() {  # PRESET TARGET…
  cmake --preset "$1" >/dev/null
  cmake --build "build-$1" --target "${@:2}"
}

# The files that each target must cover; the rest of the library is covered by others.
declare -A parsers=(
  [bbox_text]=tools/ingest/bbox_text.cc [html]='tools/ingest/html.cc tools/ingest/html_charset.cc'
  [bundle]=store/bundle.cc [checkpoint]=engine/document/kv_spill.cc
  [catalog]='store/catalog.cc store/catalog_rows.cc store/sqlite.cc'
  [config]='engine/model/weights/config.cc engine/model/weights/config_rope.cc' [gguf]='engine/model/formats/gguf.cc engine/model/gguf_tokenizer.cc' [json]=engine/model/formats/json.cc
  [jinja]="$(echo engine/model/template/jinja_*.cc)" [chunked_body]=tools/server/chunked_body.cc
  [request_head]='tools/server/access_rules.cc tools/server/request_head.cc'
  [safetensors]=engine/model/formats/safetensors.cc
  [shard_reader]='store/shard_reader.cc store/shard_layout.cc' [text]=engine/model/formats/text.cc
  [tokenizer_json]='engine/model/tokenizer/tokenizer_json.cc engine/model/tokenizer/tokenizer_json_rules.cc engine/model/tokenizer/bpe_model.cc'
  [tokenizer_model]='engine/model/tokenizer/tokenizer_model.cc engine/model/tokenizer/charsmap.cc')

# fuzz_one NAME: runs it, adds to what was executed before, fails when it found something.
fuzz_one() {
  local name=$1 work=build-fuzz/$1 status=0 limit=(-max_total_time="${FUZZ_SECONDS:-60}") before
  mkdir -p "$work/new"
  [ -z "${FUZZ_RUNS:-}" ] || limit=(-runs="$FUZZ_RUNS")
  LLVM_PROFILE_FILE=$work/%p.profraw "build-fuzz/tests/fuzz/${name}_fuzz" "${limit[@]}" -timeout=20 \
    -print_final_stats=1 -artifact_prefix="$work/" "$work/new" "tests/fuzz/${name}_corpus" \
    >"$work/log" 2>&1 || status=$?
  grep -E 'ERROR|SUMMARY|Test unit written' "$work/log" || true
  before=$(cat "$work/executions" 2>/dev/null || echo 0)
  echo $((before + $(sed -n 's/.*number_of_executed_units: *//p' "$work/log" | tail -1))) \
    >"$work/executions"
  llvm-profdata-14 merge -sparse "$work"/*.profraw -o "$work/profile"
  return $status
}

fuzz() {
  local name status=0 names
  install_packages "${fuzz_packages[@]}"
  names=${FUZZ_TARGETS:-$(cd tests/fuzz && ls ./*_fuzz.cc | sed 's|^./||; s/_fuzz.cc//')}
  # shellcheck disable=SC2046
  build fuzz $(printf '%s_fuzz ' $names)
  for name in $names; do
    echo "== $name"
    fuzz_one "$name" || status=1
  done
  mkdir -p build-checked/trust
  fuzz_table | tee build-checked/trust/fuzz.md || status=1
  return $status
}

# A table of every target that was run in this folder; fails where one covers too little.
fuzz_table() {
  local work name executions found total=0 status=0
  echo "**fuzz, commit $(git rev-parse --short HEAD), $(date -u +%Y-%m-%d)**: libFuzzer, ASan and UBSan;"
  echo "executions in all runs, of earlier versions of a target too, and what the last ones cover"
  echo
  echo '| target | executions | found | of | lines | branches |'
  echo '|---|---:|---:|---|---|---|'
  for work in build-fuzz/*/executions; do
    name=$(basename "$(dirname "$work")") executions=$(cat "$work")
    total=$((total + executions))
    found=$(ls "build-fuzz/$name" | grep -cE '^(crash|leak|timeout|oom)-' || true)
    if [ -z "${parsers[$name]:-}" ]; then  # what it covers was not measured
      echo "| $name | $executions | $found | | | |"
      continue
    fi
    # shellcheck disable=SC2086
    python3 tests/coverage.py --at-least 90 0 "build-fuzz/$name/profile" \
      "build-fuzz/tests/fuzz/${name}_fuzz" ${parsers[$name]} |
      sed "s/^|/| $name | $executions | $found |/" ||
      status=1
  done
  echo
  echo "$total executions."
  return $status
}

coverage() {
  local work=$PWD/build-coverage/run binaries=() name binary targets status=0
  local tests=(store_test store_catalog_test store_damage_test store_system_calls_test
    store_every_call_test store_env_errors_test kv_spill_test model_test
    ingest_test request_head_test)
  install_packages "${fuzz_packages[@]}"
  targets=$(cd tests/fuzz && ls ./*_fuzz.cc | sed 's|^./||; s/_fuzz.cc//')
  # shellcheck disable=SC2046,SC2086
  build coverage "${tests[@]}" $(printf '%s_fuzz_replay ' $targets)
  rm -rf "$work"
  for name in "${tests[@]}"; do
    binary=$(find build-coverage/tests -name "$name" -type f)
    binaries+=("$binary")
    LECTERN_CALL_STRIDE=1 LLVM_PROFILE_FILE=$work/$name-%p.profraw "$binary" --gtest_brief=1
  done
  for name in $targets; do
    binary=build-coverage/tests/fuzz/${name}_fuzz_replay
    binaries+=("$binary")
    LLVM_PROFILE_FILE=$work/$name-%p.profraw "$binary" --mutations 300 --seed 1 \
      "tests/fuzz/${name}_corpus"
  done
  find "$work" -name '*.profraw' -size -1 -delete  # of processes that were killed
  llvm-profdata-14 merge -sparse "$work"/*.profraw -o build-coverage/profile
  mkdir -p build-checked/trust
  coverage_table "$(IFS=,; echo "${binaries[*]}")" >build-checked/trust/coverage.md || status=1
  cat build-checked/trust/coverage.md
  return $status
}

# coverage_table BINARIES: fails where it is too low.
coverage_table() {
  echo "**coverage, commit $(git rev-parse --short HEAD), $(date -u +%Y-%m-%d)**: what the tests of"
  echo "parsers and store, and the fuzz targets' corpora with 300 mutations of each file, run"
  echo
  echo '| of | lines | branches |'
  echo '|---|---|---|'
  # shellcheck disable=SC2046,SC2086
  python3 tests/coverage.py --at-least 0 95 build-coverage/profile "$1" \
    $(printf '%s\n' ${parsers[*]} store/crc32c.cc store/env_posix.cc store/shard_writer.cc \
      store/status.cc store/store.cc | sort)
}

bench() {
  build release kernels_bench
  build-release/tests/bench/kernels_bench
}

compare() {
  local bench=("${PYTHON:-python3}" tests/bench/compare_llama_cpp.py
    --bin build-release/tests/bench/ask_bench --work build-release/compare)
  build release ask_bench
  "${bench[@]}" --depth 1024 2048 4096 16384 65536 131072 --longest-512 131072 --pairs 3
  "${bench[@]}" --depth 262144 --pairs 3
  "${bench[@]}" --model M --depth 2048 4096 16384 32768 --longest-512 32768 --pairs 3
  "${bench[@]}" --model M --depth 65536 131072 --longest-512 131072 --pairs 1
  "${bench[@]}" --prefill --depth 4096 --pairs 3
  "${bench[@]}" --prefill --depth 16384 32768 --stride 2048 --pairs 1
  "${bench[@]}" --prefill --depth 65536 131072 --stride 16384 --pairs 1
  "${bench[@]}" --prefill --model M --depth 4096 --pairs 1
  "${bench[@]}" --prefill --model M --depth 16384 32768 --stride 8192 --pairs 1
  "${bench[@]}" --prefill --model M --depth 65536 131072 --stride 32768 --pairs 1
  if [ "$(id -u)" != 0 ]; then
    echo "compare: cold starts need root, which drops page caches" >&2
    return
  fi
  "${bench[@]}" --cold --depth 1024 2048 4096 16384 65536 131072 262144 --pairs 3
  "${bench[@]}" --cold --model M --depth 2048 4096 16384 32768 65536 131072 --pairs 3 --answer 0
}

# SmolLM2 and Gemma 3 as `tests/real.sh models` fetches them, and a text of Debian's.
compare-real() {
  local models=${LECTERN_REAL_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/lectern-real} threads
  local work=build-release/compare faq=/usr/share/doc/debian/FAQ/debian-faq.en.txt.gz
  install_packages debian-faq
  build release ask_bench
  mkdir -p "$work"
  zcat "$faq" >"$work/faq.txt"
  local bench=("${PYTHON:-python3}" tests/bench/compare_llama_cpp.py --text "$work/faq.txt"
    --bin build-release/tests/bench/ask_bench --work "$work" --longest-512 8192)
  for threads in ${COMPARE_THREADS:-1 2}; do
    "${bench[@]}" --threads "$threads" --gguf "$models/SmolLM2-135M-Instruct.Q4_1.gguf" --depth 2048 7000
    "${bench[@]}" --threads "$threads" --gguf "$models/gemma-3-270m-q4_k_m.gguf" --depth 7000 28000
  done
}

evaluate() {
  build release lectern-evaluate
  tools/evaluate/run.sh build-release/evaluate
}

# SmolLM2 and Gemma 3 as `tests/real.sh models` fetches them.
evaluate-real() {
  local models=${LECTERN_REAL_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/lectern-real}
  build release lectern-evaluate
  tools/evaluate/real.sh build-release/evaluate-real "$models/SmolLM2-135M-Instruct.Q4_1.gguf" \
    "$models/gemma-3-270m-q4_k_m.gguf" "${DOCUMENTS:-}"
}

files() {
  install_packages apt chromium culmus dpkg-dev fonts-dejavu-core fonts-hosny-amiri fonts-ipafont-gothic \
    fonts-lohit-deva fonts-nanum fonts-thai-tlwg-ttf fonts-wqy-microhei ghostscript groff pandoc \
    python3-pip time
  # Without windows, unless there is one with them: the two kinds exclude each other.
  local program
  for program in sc sd sw; do  # Calc, Impress, Writer: one of them alone makes too few files
    [ -e /usr/lib/libreoffice/program/lib${program}lo.so ] && continue
    install_packages libreoffice-calc-nogui libreoffice-impress-nogui libreoffice-writer-nogui
  done
  build release ingested_text lectern-extract index-document ask-document
  "${PYTHON:-python3}" tests/evaluation/files_corpus.py build-release build-release/files \
    --results tools/ingest/RESULTS.md
}

tables() {
  install_packages groff pandoc texlive-latex-recommended texlive-fonts-recommended
  [ -x "$(command -v soffice)" ] || install_packages libreoffice-writer-nogui
  build release ingested_text
  python3 tests/evaluation/wrapped_tables.py build-release build-release/tables
}

policies() {
  build release lectern-evaluate
  tools/evaluate/policies.sh build-release/evaluate
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

quantized() {
  local work=build-release/quantized
  build release quantized_error
  python3 tools/evaluate/make_documents.py "$work" --lengths 8192 --documents 4 --questions 50
  build-release/tests/evaluation/quantized_error tools/reader/model 50 "$work"/*.jsonl
}

quantized-gguf() {
  build release gguf_logits
  "${PYTHON:-python3}" tests/evaluation/quantized_gguf.py \
    --logits build-release/tests/evaluation/gguf_logits --work build-release/quantized-gguf
}

sparse() {
  local work=build-release/sparse
  build release sparse_prefill
  python3 tools/evaluate/make_documents.py "$work" --lengths 32768 --documents 3 --questions 50
  build-release/tests/evaluation/sparse_prefill tools/reader/model "$work/store" 50 0.2,0.1 \
    "$work"/*.jsonl
}

memory() {
  local work=build-release/memory
  build release ask-document index-document
  python3 tools/evaluate/make_documents.py "$work" --lengths 32768 --documents 1 --questions 1
  tests/memory.py "$work"/*.txt
}

# Debian's arm64 packages are unpacked, not installed.
# kernel_objects FOLDER COMPILER…: of the kernels and their tests.
kernel_objects() {
  local targets
  targets=$(sed -n 's/^set(disabled_targets \(.*\))/\1/p' kernels/CMakeLists.txt)
  printf '%s\n' kernels/*.cc tests/kernels/*.cc | xargs -P "$(nproc)" -I{} sh -c \
    'file=$1 folder=$2; shift 2; "$@" -std=c++20 -O2 -I. -c "$file" -o "$folder/${file##*/}.o"' \
    sh {} "$1" "${@:2}" "-DHWY_DISABLED_TARGETS=($targets)" -DHWY_WANT_AVX3_DL \
    "-DLECTERN_SOURCE_DIR=\"$PWD\""
}

neon() {
  local work=$PWD/build-neon apt package
  install_packages g++-aarch64-linux-gnu qemu-user
  mkdir -p "$work"/{lists/partial,cache/archives/partial,root,objects}
  if [ ! -e "$work/root/usr" ]; then
    apt=(apt-get -q -o APT::Architectures::=amd64 -o APT::Architectures::=arm64
      -o Dir::State::Lists="$work/lists" -o Dir::Cache="$work/cache")
    "${apt[@]}" update
    (cd "$work/cache" && "${apt[@]}" download {libhwy1,libhwy-dev,libgtest-dev}:arm64)
    for package in "$work"/cache/*.deb; do dpkg -x "$package" "$work/root"; done
  fi
  kernel_objects "$work/objects" aarch64-linux-gnu-g++ -Wall -Wextra -Werror \
    -isystem "$work/root/usr/include"
  aarch64-linux-gnu-g++ "$work"/objects/*.o -L"$work/root/usr/lib/aarch64-linux-gnu" \
    -lgtest -lgtest_main -lhwy -pthread -o "$work/kernels_test"
  qemu-aarch64 -L /usr/aarch64-linux-gnu \
    -E LD_LIBRARY_PATH="$work/root/usr/lib/aarch64-linux-gnu" "$work/kernels_test" --gtest_brief=1
}

# Debian's qemu has no AVX-512, and its Linux does not start with it on Bochs: tests/kernels/bochs is
# as much of a machine as the test needs.
avx512() {
  local work=$PWD/build-avx512 of=tests/kernels/bochs
  install_packages bochs bochs-term bochsbios vgabios grub-common grub-pc-bin mtools xorriso
  mkdir -p "$work"/{objects,iso/boot/grub}
  kernel_objects "$work/objects" g++
  rm "$work/objects/thread_pool_test.cc.o"  # the machine has one thread
  g++ -std=c++20 -O2 -c $of/targets.cc -o "$work/objects/targets.cc.o"
  g++ -static -s -Wl,-Ttext-segment=0x10000000 "$work"/objects/*.o -lgtest -lgtest_main \
    -o "$work/iso/kernels_test" 2>"$work/link.log" || { cat "$work/link.log"; return 1; }
  gcc -O2 -Wall -Wextra -Werror -ffreestanding -mgeneral-regs-only -mno-red-zone -fno-pie -no-pie \
    -fno-stack-protector -fno-asynchronous-unwind-tables -nostdlib -static -Wl,--build-id=none \
    -T $of/machine.ld $of/machine.S $of/machine.c -o "$work/iso/machine"
  cp $of/grub.cfg "$work/iso/boot/grub/"
  cp $of/bochsrc "$work/"
  (cd "$work" && grub-mkrescue -o boot.iso iso 2>grub.log && echo c >commands && rm -f serial.txt &&
    TERM=xterm timeout -s KILL 7200 bochs -q -f bochsrc -rc commands >bochs.out 2>&1 </dev/null) ||
    true  # it never ends with 0
  grep -aE '^\[  (PASSED|FAILED)|^exit status|^signal|Failure' "$work/serial.txt"
  grep -qa '^exit status 0' "$work/serial.txt"
}

corpus() {
  local venv=$PWD/build-corpus/venv
  install_packages "${cluster_packages[@]}"
  if [ ! -e "$venv/ready" ]; then
    python3 -m venv "$venv"
    "$venv/bin/pip" install -q 'moto[server]==5.2.5'
    touch "$venv/ready"
  fi
  build release index-document lectern-batch lectern-server lectern-store
  LECTERN_BIN=$PWD/build-release/tools LECTERN_TEST_MODEL=$PWD/tools/reader/model PYTHON=$venv/bin/python \
    python3 tests/tools/batch_test.py --verbose
  LECTERN_BIN=$PWD/build-release/tools LECTERN_TEST_MODEL=$PWD/tools/reader/model PYTHON=$venv/bin/python \
    python3 tests/tools/corpus_test.py --verbose
}

clients() {
  local venv=$PWD/build-clients/venv
  install_packages curl wget default-jdk-headless golang-go nodejs chromium nginx-light \
    haproxy python3-venv
  if [ ! -e "$venv/ready" ]; then
    python3 -m venv "$venv"
    "$venv/bin/pip" install -q openai litellm langchain-openai llama-index-llms-openai-like llm \
      requests httpx aiohttp
    touch "$venv/ready"
  fi
  build release lectern-server index-document
  mkdir -p build-checked/trust
  {
    echo "**clients, commit $(git rev-parse --short HEAD), $(date -u +%Y-%m-%d)**: each asks, streams, cancels and reads an error"
    CLIENTS=all LECTERN_BIN=$PWD/build-release/tools LECTERN_TEST_MODEL=$PWD/tools/reader/model \
      "$venv/bin/python" -W ignore::ResourceWarning tests/tools/clients_test.py
  } | tee build-checked/trust/clients.md
}

openai() {
  build release lectern-server index-document
  LECTERN_BIN=build-release/tools LECTERN_TEST_MODEL=$PWD/tools/reader/model \
    "${PYTHON:-python3}" tests/tools/openai_test.py --verbose
  LECTERN_BIN=build-release/tools LECTERN_TEST_MODEL=$PWD/tools/reader/model \
    "${PYTHON:-python3}" -W ignore tests/tools/openai_clients_test.py --verbose
}

misuse() {
  local preset fixed_addresses=()
  if setarch -R true 2>/dev/null; then fixed_addresses=(setarch -R); fi  # as for sanitize-all
  for preset in asan tsan; do
    build $preset misuse_test
    echo "== $preset"
    TSAN_OPTIONS="halt_on_error=1 suppressions=$PWD/tests/tsan.supp" "${fixed_addresses[@]}" \
      "build-$preset/tests/engine/misuse_test" tests/golden/tiny engine/lectern_c.h \
      "${MISUSE_CALLS:-100000}" 8 "${MISUSE_SEED:-1}" | tee "build-$preset/misuse.log"
  done
  mkdir -p build-checked/trust
  {
    echo "**misuse, commit $(git rev-parse --short HEAD), $(date -u +%Y-%m-%d)**: random calls of the C API by eight"
    echo "threads, with wrong options, freed and foreign handles; nothing died or was left over, the stores are whole"
    echo
    for preset in asan tsan; do
      echo "- $preset: $(grep ' calls of ' "build-$preset/misuse.log"); seed ${MISUSE_SEED:-1}"
    done
  } | tee build-checked/trust/misuse.md
}

long() {
  build checked all
  ctest --preset checked -j2 -L long
}

races() {
  local fixed_addresses=() program shard shards failed=0
  if setarch -R true 2>/dev/null; then fixed_addresses=(setarch -R); fi  # as for sanitize-all
  build tsan kernels_cuda_test device_test
  for program in kernels/kernels_cuda_test engine/device_test; do
    shards=()
    for ((shard = 0; shard < $(nproc); ++shard)); do
      GTEST_TOTAL_SHARDS=$(nproc) GTEST_SHARD_INDEX=$shard \
        GTEST_FILTER=${GTEST_FILTER:-*/emulated*:*Order*} \
        TSAN_OPTIONS="halt_on_error=1 suppressions=$PWD/tests/tsan.supp" "${fixed_addresses[@]}" \
        "build-tsan/tests/$program" --gtest_brief=1 &
      shards+=($!)
    done
    for shard in "${shards[@]}"; do wait "$shard" || failed=1; done
  done
  return $failed
}

ranks() {
  local work=build-checked/ranks
  install_packages "${product_packages[@]}" "${test_packages[@]}" "${mpi_packages[@]}"
  build checked all rank_balance ask_bench
  python3 tests/tools/mpi_test.py build-checked --verbose
  build-checked/tests/engine/ranks_test --gtest_brief=1
  build tsan ranks_test
  # Two ranks, ten minutes: with more, threads wait for each other most of the time.
  TSAN_OPTIONS="halt_on_error=1 suppressions=$PWD/tests/tsan.supp" \
    setarch -R build-tsan/tests/engine/ranks_test --gtest_brief=1 --gtest_filter='*/0'
  "${PYTHON:-python3}" tests/bench/rank_scaling.py --bin build-checked --work "$work"
  build-checked/tests/evaluation/rank_balance "$work/1000000" "$work/model" 1000000 0.1 8 \
    2 4 8 16 32 64 128 256 512 <tests/bench/rank_questions.txt
}

clang() {
  install_packages clang-14 libomp-14-dev
  build clang all
  ctest --preset clang -j2
}

packaging() {
  install_packages curl libprotobuf-dev lintian man-db protobuf-compiler systemd
  # The samples: Node has N-API's headers where it does not come from Debian.
  install_packages python3-pil python3-yaml qt6-base-dev xauth xvfb
  [ -e /usr/include/node/node_api.h ] || install_packages libnode-dev nodejs
  tools/packaging/build.sh
  tests/packaging/packaging_test.py build-packaging --verbose
}

python() {
  local preload tests=tests/python
  tools/python/build_wheel.sh
  python3 $tests/wheel_test.py build-wheel/dist --asks "${ASKS:-10000}" --verbose
  $tests/integrations.sh build-wheel/dist
  build asan lectern
  build release lectern-server ask-document index-document lectern-doctor lectern-extract lectern-store
  preload="$(gcc -print-file-name=libasan.so) $(gcc -print-file-name=libstdc++.so)"
  echo "== the package upon a library under ASan and UBSan"
  LECTERN_LIBRARY=$PWD/build-asan/engine/liblectern.so.1 LECTERN_BIN=$PWD/build-release/tools \
    LECTERN_TEST_MODEL=$PWD/tools/reader/model LECTERN_PRELOAD=$preload \
    python3 $tests/under_sanitizers.py "${ASAN_ASKS:-300}"
}

page() {
  install_packages chromium chromium-driver python3-selenium
  build release lectern-server
  LECTERN_BIN=build-release/tools LECTERN_TEST_MODEL=$PWD/tools/reader/model \
    /usr/bin/python3 tests/tools/page_test.py --verbose
}

serve() {
  build release lectern-server index-document fake_generator
  LECTERN_BIN=build-release/tools LECTERN_TEST_MODEL=$PWD/tools/reader/model \
    LECTERN_FAKE_GENERATOR=build-release/tests/tools/fake_generator \
    tests/tools/server_load.py --soak "${SOAK_SECONDS:-600}"
}

schemas() {
  build checked schema_texts
  "${PYTHON:-python3}" tests/evaluation/schema_suites.py build-checked/tests/evaluation/schema_texts \
    --sources build-checked/schema-suites
}
schemathesis() {
  build release lectern-server index-document
  LECTERN_BIN=build-release/tools LECTERN_TEST_MODEL=$PWD/tools/reader/model \
    "${PYTHON:-python3}" tests/tools/schemathesis_test.py
}

reader() {
  "${PYTHON:-python3}" tests/reader/train_test.py --verbose
  "${PYTHON:-python3}" tests/reader/adapter_test.py --verbose
}

tokenizers() {
  local work=build-release/tokenizers families
  build release tokenizer_compare
  "${PYTHON:-python3}" tests/golden/make_bpe_golden.py "$work" --pieces 8000 \
    --strings "${TOKENIZER_STRINGS:-110000}" --seed "${TOKENIZER_SEED:-2}" | tail -1
  "${PYTHON:-python3}" tests/golden/make_json_golden.py "$work" --pieces 4000 \
    --strings "$((${TOKENIZER_STRINGS:-110000} / 5))" --seed "${TOKENIZER_SEED:-2}" | tail -1
  "${PYTHON:-python3}" tests/golden/make_sentencepiece_cases.py "$work" --pieces 8000 \
    --strings "${TOKENIZER_STRINGS:-110000}" --seed "${TOKENIZER_SEED:-2}"
  read -ra families < <(cd "$work" && printf '%s ' *.cases | sed 's/\.cases//g')
  mkdir -p build-checked/trust
  {
    echo "**tokenizers, commit $(git rev-parse --short HEAD), $(date -u +%Y-%m-%d)**: ids and byte ranges of"
    echo "random and fuzzed texts in many scripts, against PyPI's tokenizers and (spm) sentencepiece"
    echo
    build-release/tests/evaluation/tokenizer_compare "$work" "${families[@]}"
  } | tee build-checked/trust/tokenizers.md
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

# WINEPATH has unrtf.exe, which a test of extraction looks for.
windows() {
  local dependencies status=0 wine=(env WINEDEBUG=-all)
  install_packages "${windows_packages[@]}" googletest
  tools/packaging/windows.sh build-windows
  dependencies=$(tools/packaging/windows/dependencies.sh)
  cmake -S . -B build-windows-tests -G Ninja -D CMAKE_BUILD_TYPE=Release -D CMAKE_UNITY_BUILD=ON \
    -D CMAKE_TOOLCHAIN_FILE="$PWD/tools/packaging/windows/toolchain.cmake" -D CMAKE_CROSSCOMPILING_EMULATOR=wine \
    -D LECTERN_WINDOWS_DEPENDENCIES="$dependencies" -D LECTERN_CUDA=OFF -D LECTERN_TESTS=ON >/dev/null
  cmake --build build-windows-tests
  cmake --preset checked -D CMAKE_UNITY_BUILD=ON >/dev/null
  cmake --build build-checked
  # Starts Wine's own programs. If the first test started them, they would keep its pipe open, and ctest would wait.
  wineserver -p
  "${wine[@]}" wineboot -i >/dev/null 2>&1 </dev/null
  "${wine[@]}" WINEPATH="Z:${dependencies//\//\\}\\bin" LECTERN_KILLS=200 LECTERN_CALL_STRIDE=61 \
    ctest --test-dir build-windows-tests -j2 -LE long --output-on-failure -R "${WINDOWS_TESTS:-.}" || status=1
  "${wine[@]}" python3 tests/packaging/windows_test.py build-windows build-checked || status=1
  wineserver -k
  return $status
}

if [ $# -eq 0 ]; then
  sed -n '2,/^set/s/^# \?//p' "$0"
  exit 2
fi
for part; do
  case $part in
    avx512 | clang | clients | corpus | fuzz | coverage | bench | compare | compare-real | evaluate | evaluate-real | files | long | policies | memory | missed | misuse | neon | openai | packaging | page | python | quantized | quantized-gguf | races | ranks | recall | reader | sanitize-all | schemas | schemathesis | serve | sparse | tables | tokenizers | windows) ;;
    *) echo "$0: no part \"$part\"; without an argument it lists them" >&2; exit 2 ;;
  esac
done
install_packages "${product_packages[@]}" "${batch_packages[@]}" "${test_packages[@]}"
for part; do "$part"; done
