#!/usr/bin/env bash
# Real models on real documents, against exact attention and the paper's lookup:
#
#     tools/evaluate/real.sh DIR SMOLLM2.gguf GEMMA3.gguf [FOLDER]
#
# Documents: ten whole texts of Debian packages (real_documents.py), and those of FOLDER, each a
# NAME.txt with questions in NAME.jsonl. SmolLM2 has 8,192 positions: its texts are cut at 26,000
# bytes. Prints the tables of real_table.py. Run again, it goes on where it stopped; delete DIR after a
# change of the index. Two processes of one thread each, one a model.
#
#   BIN              folder of the built tools (build-release/tools)
#   QUESTIONS        per document, whose answers are compared (8)
#   ERROR_QUESTIONS  per document, whose attention errors are measured (1)
#   CONTINUATION     tokens of a document's end that are predicted (512)
#   POLICIES         names of documents on which budget policies are compared
set -euo pipefail
if [ $# -lt 3 ]; then
  sed -n '2,/^set/s/^# \?//p' "$0"
  exit 2
fi
here=$(cd "$(dirname "$0")" && pwd)
folder=$1
bin=${BIN:-$here/../../build-release/tools}
mkdir -p "$folder"
export MALLOC_TOP_PAD_=100000000

# Prints the names of all documents; KIND is "cut" or "whole".
documents() {  # KIND MOST
  "$here/real_documents.py" "$folder/$1" --most "$2" >&2
  [ -z "${more:-}" ] || "$here/real_documents.py" "$folder/$1" --most "$2" --from "$more" >&2
}

# The policies for layers and for heads that lose least on the bundled reader, beside the default; on the
# documents of POLICIES alone, as they take as long as everything else.
policies=uniform+uniform,uniform+kv-compress,kv-compress+global,pyramid+uniform

evaluate() {  # NAME MODEL KIND
  local file modes
  for file in "$folder/$3"/*.jsonl; do
    [ -s "$file" ] || continue
    modes=default,oracle,oracle-equal,paper-2
    case " ${POLICIES:-chrony--faq-sync mdadm--faq valgrind--faq} " in
      *" $(basename "$file" .jsonl) "*) modes+=,$policies ;;
    esac
    "$bin/lectern-evaluate" --store "$folder/store-$1" --model "$2" --threads 1 \
      --raw "$folder/$1.jsonl" --budgets 0.1,0.05 --auto --limit "${QUESTIONS:-8}" \
      --modes "$modes" --error-questions "${ERROR_QUESTIONS:-1}" --answers default \
      --paper-seeds 1 --calibration 4 --continuation "${CONTINUATION:-512}" \
      "$file" 2>>"$folder/log-$1.txt" || { echo "$1 $file failed:"; tail -n 1 "$folder/log-$1.txt"; } >&2
  done
}

more=${4:-}
documents cut 26000
documents whole 0
evaluate SmolLM2 "$2" cut &
first=$!
evaluate Gemma-3 "$3" whole
wait $first
"$here/real_table.py" "$folder/SmolLM2.jsonl" "$folder/Gemma-3.jsonl"
