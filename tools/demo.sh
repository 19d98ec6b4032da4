#!/usr/bin/env bash
# Builds the tools, indexes a document and asks eight questions about it, each again in exact mode,
# with all of the document's keys and values in view: tools/demo.sh [--small]
#
# The document is the member handbook tools/demo/handbook.txt, the model SmolLM2-135M-Instruct with
# tools/reader/adapter. The model is fetched once, 90 MB, and stays in the folder "lectern" of the user's
# cache. Where it cannot be had, or with --small, the bundled model reads tools/demo/document.txt.
# Needs Debian 12, and root or sudo where packages are missing.
set -euo pipefail
cd "$(dirname "$0")/.."
. tools/packages.sh
. tools/fetch.sh

is_small=
case "$*" in
  '') ;;
  --small) is_small=1 ;;
  *) sed -n '2,/^set/s/^# \?//p' "$0"; exit 2 ;;
esac

install_packages "${product_packages[@]}" python3

start=$SECONDS
echo "building the tools in build-demo"
cmake -G Ninja -S . -B build-demo -DCMAKE_BUILD_TYPE=Release -DCMAKE_UNITY_BUILD=ON \
  -DLECTERN_TESTS=OFF >/dev/null
cmake --build build-demo
build_seconds=$((SECONDS - start))

cache=${XDG_CACHE_HOME:-$HOME/.cache}/lectern why_not=
if [ -z "$is_small" ]; then
  if ! is_whole "$cache/$smollm2" "$smollm2_sha256"; then echo "fetching $smollm2 into $cache"; fi
  if ! fetch_smollm2 "$cache"; then
    echo "NO MODEL, SO THIS IS THE SMALL DEMO. No network? $why_not"
    is_small=1
  fi
fi

# Without --model, index-document takes the model that was fetched; the small demo names the bundled one.
index=(build-demo/tools/index-document) ask=(build-demo/tools/ask-document)
document=tools/demo/handbook.txt questions=tools/demo/handbook.jsonl
if [ -n "$is_small" ]; then
  document=tools/demo/document.txt questions=tools/demo/questions.jsonl
  index+=(--model tools/reader/model)
fi
rm -rf build-demo/store
start=$SECONDS
echo
(
  export LECTERN_STORE=build-demo/store
  unset LECTERN_MODEL LECTERN_ADAPTER LECTERN_CHAT_TEMPLATE
  "${index[@]}" --progress none $document 2>build-demo/log || { cat build-demo/log >&2; exit 1; }
  tools/demo/ask.py $questions "${ask[@]}"
)
echo "built in $build_seconds s, indexed and asked twice in $((SECONDS - start)) s"

echo
echo "The same with a file of yours, as text, HTML, PDF, office file or book:"
printf '    %s\n' "${index[0]} FILE" "${ask[0]} --document FILE \"…\"" \
  "${ask[0]} --exact --document FILE \"…\""
