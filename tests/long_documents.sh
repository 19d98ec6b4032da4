#!/usr/bin/env bash
# Indexes every text (*.txt, *.md) of a folder in a store of its own, asks each one question, and
# prints what that took as a Markdown table: tests/long_documents.sh DIR [KV_BUDGET]
set -euo pipefail
if [ $# -lt 1 ] || [ $# -gt 2 ] || [ ! -d "$1" ]; then
  echo "usage: $0 DIR [KV_BUDGET]" >&2
  exit 2
fi
folder=$(realpath "$1")
cd "$(dirname "$0")/.."
. tools/packages.sh
install_packages "${product_packages[@]}" python3

cmake --preset release -DLECTERN_TESTS=OFF -B build-demo >/dev/null
cmake --build build-demo >&2
store=$(mktemp -d)
trap 'rm -rf "$store"' EXIT
export LECTERN_STORE=$store
unset LECTERN_MODEL

python3 - "$folder" "${2-}" <<'PYTHON'
import json, pathlib, subprocess, sys

QUESTION = "Who is named first?"
STAGES = ["read", "prefill", "cluster", "calibrate", "write", "total"]
COLUMNS = (["file", "bytes", "tokens"] + [f"{stage} s" for stage in STAGES] +
           ["on disk, bytes", "question ms", "first token ms", "read, question", "read, per token"])

def run(tool, *arguments):
    """The tool's JSON, or its error as text."""
    done = subprocess.run([f"build-demo/tools/{tool}", "--json", *arguments],
                          capture_output=True, text=True)
    if done.returncode == 0:
        return json.loads(done.stdout), None
    last = (done.stderr.strip() or f"exit status {done.returncode}").splitlines()[-1]
    try:
        return None, json.loads(last)["error"]["message"]
    except (ValueError, KeyError):
        return None, last

def figures(path, budget):
    index, error = run("index-document", "--progress", "none", "--name", path.name, str(path))
    if error:
        return [error]
    row = [f"{index['tokens']:,}"] + [f"{index['seconds'][stage]:.2f}" for stage in STAGES]
    row.append(f"{index['bytes_on_disk']:,}")
    answer, error = run("ask-document", "--document", index["document"], *budget, QUESTION)
    if error:
        return row + [error]
    times, kv = answer["timings_ms"], answer["kv"]
    decode = kv["read_fraction_decode"]
    return row + [f"{times['prefill']:.1f}", f"{times['first_token']:.1f}",
                  f"{kv['read_fraction_prefill']:.4f}", "" if decode is None else f"{decode:.4f}"]

folder, budget = pathlib.Path(sys.argv[1]), sys.argv[2]
files = sorted(p for p in folder.iterdir() if p.is_file() and p.suffix in (".txt", ".md"))
if not files:
    sys.exit(f"no *.txt or *.md in {folder}")
print("| " + " | ".join(COLUMNS) + " |\n|" + "---|" * len(COLUMNS))
for path in sorted(files, key=lambda p: p.stat().st_size):
    row = [path.name, f"{path.stat().st_size:,}"]
    row += figures(path, ["--kv-budget", budget] if budget else [])
    row += [""] * (len(COLUMNS) - len(row))
    print("| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |", flush=True)
PYTHON
