#!/bin/sh
# Writes the documents and questions that answers are measured on:
#
#     tools/reader/make_evaluation_set.sh DIR
#
# DIR/8k_1.txt with DIR/8k_1.jsonl, and so on: two documents each of about 8192, 16384 and 32768
# tokens of the reader's tokenizer, with 48 facts and 40 questions each, always the same bytes.
# generate.py says what the files hold.
set -eu

if [ $# -ne 1 ]; then
  echo "usage: $0 DIR" >&2
  exit 2
fi
here=$(cd "$(dirname "$0")" && pwd)

# document NAME TOKENS SEED; such text has 3.9 bytes per token.
document() {
  python3 "$here/generate.py" --bytes $(($2 * 39 / 10)) --facts 48 --questions 40 \
    --seed "$3" --out "$out" --name "$1"
}

out=$1
document 8k_1 8192 8001
document 8k_2 8192 8002
document 16k_1 16384 16001
document 16k_2 16384 16002
document 32k_1 32768 32001
document 32k_2 32768 32002
