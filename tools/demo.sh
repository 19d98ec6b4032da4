#!/usr/bin/env bash
# Builds the tools, indexes a document and asks eight questions about it, each again in exact mode,
# with all of the document's keys and values in view: tools/demo.sh [--real]
#
# The document is tools/demo/document.txt, the model the bundled one. With --real it is the member
# handbook tools/demo/handbook.txt and SmolLM2-135M-Instruct with tools/reader/adapter, which is fetched
# once, 90 MB, and stays in the folder "lectern" of the user's cache; where it cannot be had, the script
# says so and goes on without --real.
# Needs Debian 12, and root or sudo where packages are missing.
set -euo pipefail
cd "$(dirname "$0")/.."
. tools/packages.sh
. tools/fetch.sh

is_small=1
case "$*" in
  '') ;;
  --real) is_small= ;;
  *) sed -n '2,/^set/s/^# \?//p' "$0"; exit 2 ;;
esac

install_packages "${product_packages[@]}" python3

start=$SECONDS
echo "building the tools in build-demo"
cmake -G Ninja -S . -B build-demo -DCMAKE_BUILD_TYPE=Release -DLECTERN_TESTS=OFF >/dev/null
cmake --build build-demo
build_seconds=$((SECONDS - start))

# find_model: the path in $model, from the cache or fetched. Returns 3 where it cannot be had: $why_not.
find_model() {
  local cache=${XDG_CACHE_HOME:-$HOME/.cache} folder
  for folder in "${LECTERN_REAL_DIR:-$cache/lectern-real}" "$cache/lectern"; do  # the first: the tests'
    model=$folder/$smollm2
    if is_whole "$model" "$smollm2_sha256"; then return; fi
  done
  echo "fetching $smollm2 into $folder"
  fetch_smollm2 "$folder"
}

why_not=
if [ -z "$is_small" ] && ! find_model; then
  echo "NO MODEL, SO THIS IS THE SMALL DEMO. No network? $why_not"
  is_small=1
fi

index=(build-demo/tools/index-document) ask=(build-demo/tools/ask-document)
if [ -n "$is_small" ]; then
  document=tools/demo/document.txt questions=tools/demo/questions.jsonl
else
  document=tools/demo/handbook.txt questions=tools/demo/handbook.jsonl
  index+=(--model "$model" --adapter tools/reader/adapter)
  ask+=(--focus only)
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
echo "The same with a file of yours, as text, HTML or PDF:"
printf '    %sFILE\n    %s --document FILE "…"\n    %s --exact --document FILE "…"\n' \
  "$(printf '%q ' "${index[@]}")" "${ask[*]}" "${ask[0]}"
