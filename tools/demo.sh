#!/usr/bin/env bash
# Builds the tools, indexes tools/demo/document.txt with the bundled model and asks the questions
# beside it, at the default budget and with all of the document's keys and values in view.
# Needs Debian 12, and root or sudo where packages are missing.
set -euo pipefail
cd "$(dirname "$0")/.."
. tools/packages.sh

install_packages "${product_packages[@]}"

start=$SECONDS
echo "building the tools in build-demo"
cmake -G Ninja -S . -B build-demo -DCMAKE_BUILD_TYPE=Release -DLECTERN_TESTS=OFF >/dev/null
cmake --build build-demo
build_seconds=$((SECONDS - start))

export LECTERN_STORE=build-demo/store
unset LECTERN_MODEL
rm -rf "$LECTERN_STORE"
start=$SECONDS
echo
build-demo/tools/index-document --progress none tools/demo/document.txt 2>/dev/null
ask=(build-demo/tools/ask-document --questions tools/demo/questions.jsonl)
"${ask[@]}" >build-demo/answers.txt
"${ask[@]}" --exact >build-demo/answers-exact.txt
ask_seconds=$((SECONDS - start))

# Reads both files, the exact answers first; a question's block is
#   ? question / answer / (empty line) / [1] passage … / expected: answer / read … / (empty line)
awk '
  function share(line, words) { sub(" % " words ".*", "", line); sub(".* ", "", line); return line }
  /^\? / { question = substr($0, 3); passage = ""; getline answer; next }
  /^\[1\] / { passage = substr($0, 5); next }
  /^expected: / { expected = substr($0, 11); next }
  /^read / && NR == FNR { exact[question] = answer; exact_right += answer == expected; next }
  /^read / {
    same = answer == exact[question]
    ++num_questions; num_right += answer == expected; num_same += same
    per_question += share($0, "of the document"); per_token += share($0, "per answer token")
    print "\nquestion  " question
    print "answer    " answer (answer == expected ? "" : "  (wrong: expected " expected ")")
    print "passage   " passage
    print "exact     " (same ? "the same" : exact[question])
  }
  END {
    if (!num_questions) exit 1
    printf "\n%d of %d right (exact mode: %d), %d the same as exact mode; read of the document: " \
           "%.1f %% of its keys and values per question, %.1f %% per answer token\n",
           num_right, num_questions, exact_right, num_same,
           per_question / num_questions, per_token / num_questions
  }' build-demo/answers-exact.txt build-demo/answers.txt
echo "built in $build_seconds s, indexed and asked twice in $ask_seconds s"
