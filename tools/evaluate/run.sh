#!/usr/bin/env bash
# The table of tools/evaluate: 1,000 questions on 20 documents of each length.
#
#     tools/evaluate/run.sh DIR [LENGTH…]        (tokens; 8192 32768 unless given)
#
# Writes documents, stores and raw results into DIR and prints the tables: Lectern's default on all
# questions; on the first of each document also its attention errors, those of its parts, of an
# oracle and of the paper's lookup, and answers of the paper's lookup. Two processes of one thread
# each share the documents. Run again, it goes on where it stopped; delete DIR after a change of what
# is measured. The stores take 40 MB for each document of 8192 tokens, 150 MB of 32768.
#
#   BIN              folder of the built tools (build-release/tools)
#   DOCUMENTS        per length (20)
#   QUESTIONS        per document (50)
#   ERROR_QUESTIONS  per document, whose attention errors are measured (4; at least 1)
#   PAPER_QUESTIONS  per document, that the paper's lookup answers (10)
set -euo pipefail
if [ $# -eq 0 ]; then
  sed -n '2,/^set/s/^# \?//p' "$0"
  exit 2
fi
here=$(cd "$(dirname "$0")" && pwd)
folder=$1
lengths=("${@:2}")
[ ${#lengths[@]} -gt 0 ] || lengths=(8192 32768)
bin=${BIN:-$here/../../build-release/tools}
errors=${ERROR_QUESTIONS:-4}
# Else glibc gives large buffers back to the system at every free: 40 % of the time of an answer.
export MALLOC_TOP_PAD_=100000000

python3 "$here/make_documents.py" "$folder" --lengths "${lengths[@]}" \
  --documents "${DOCUMENTS:-20}" --questions "${QUESTIONS:-50}"

evaluate() {  # PROCESS BUDGETS FILE.jsonl FLAG…
  "$bin/lectern-evaluate" --store "$folder/store-$1" --model "$here/../reader/model" --threads 1 \
    --raw "$folder/raw-$1.jsonl" --budgets "$2" --error-questions "$errors" \
    "${@:4}" "$3" 2>>"$folder/log-$1.txt"
}

run() {  # PROCESS, 0 or 1: the documents with odd or with even numbers
  local length file number budgets
  for length in "${lengths[@]}"; do
    budgets=0.2,0.125,0.1,0.05
    [ "$length" -lt 32768 ] || budgets+=,0.02
    for file in "$folder/$((length / 1024))k-"*.jsonl; do
      number=${file##*-}
      number=${number%.jsonl}
      [ $((10#$number % 2)) -eq "$1" ] || continue
      evaluate "$1" "$budgets" "$file" --modes default,no-tail,no-codes,first-order,oracle \
        --answers default || return
      evaluate "$1" "$budgets" "$file" --paper --limit "${PAPER_QUESTIONS:-10}" \
        --calibration "$errors" || return
    done
  done
}

set -m  # a process group of its own, to be ended as a whole
run 1 &
first=$!
set +m
trap 'kill -- -$first 2>/dev/null || true' EXIT
status=0
run 0 || status=1
wait $first || status=1
if [ $status -ne 0 ]; then
  tail -n 3 "$folder"/log-?.txt >&2
  exit 1
fi
python3 "$here/table.py" --json "$folder/table.json" "$folder"/raw-?.jsonl
