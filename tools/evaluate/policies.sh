#!/usr/bin/env bash
# The tables of budget policies (RESULTS.md, "Budget policies").
#
#     tools/evaluate/policies.sh DIR
#
# Every policy for layers with every one for heads on documents of 8192 tokens, the three best pairs
# on documents of 32768: answers and, on the first questions of each document, attention errors.
# Writes documents (those of run.sh), a store and raw results into DIR, and
# prints the tables. One process of one thread; run again, it goes on where it stopped.
#
#   BIN             folder of the built tools (build-release/tools)
#   DOCUMENTS       of 8192 tokens (20), LONG_DOCUMENTS of 32768 (5)
#   QUESTIONS       per document of 8192 (15), LONG_QUESTIONS of 32768 (25)
set -euo pipefail
if [ $# -ne 1 ]; then
  sed -n '2,/^set/s/^# \?//p' "$0"
  exit 2
fi
here=$(cd "$(dirname "$0")" && pwd)
folder=$1
bin=${BIN:-$here/../../build-release/tools}
# Else glibc gives large buffers back to the system at every free: 40 % of the time of an answer.
export MALLOC_TOP_PAD_=100000000

evaluate() {  # LENGTH DOCUMENTS QUESTIONS BUDGETS PAIRS
  local number
  python3 "$here/make_documents.py" "$folder" --lengths "$1" --documents "$2" --questions 50
  for number in $(seq 1 "$2"); do
    printf -v number %02d "$number"
    "$bin/lectern-evaluate" --store "$folder/policies-store" --model "$here/../reader/model" \
      --threads 1 --raw "$folder/policies.jsonl" --budgets "$4" --error-questions 2 --limit "$3" \
      --modes "$5" --answers "$5" "$folder/$(($1 / 1024))k-$number.jsonl"
  done
}

pairs=
for layers in uniform pyramid squeeze kv-compress; do
  for heads in global uniform kv-compress; do pairs+=,$layers+$heads; done
done
evaluate 8192 "${DOCUMENTS:-20}" "${QUESTIONS:-15}" 0.2,0.1,0.05 "${pairs#,}"
evaluate 32768 "${LONG_DOCUMENTS:-5}" "${LONG_QUESTIONS:-25}" 0.1,0.05,0.02 \
  uniform+global,kv-compress+global,kv-compress+uniform
python3 "$here/table.py" --common "$folder/policies.jsonl"
