#!/usr/bin/env bash
# The integrations of the Python package with the real frameworks from PyPI: integrations.sh DIST [SET…]
# DIST: the folder of the wheels (tools/python/build_wheel.sh). SET: "oldest", the versions of
# integrations_oldest.txt, which are the oldest that the package allows, or "newest", what PyPI has;
# each in a virtual environment of its own below build-integrations, kept for the next time. Prints a
# table of versions and tests. Without a network nothing is tested, and the last line says so.
set -euo pipefail
cd "$(dirname "$0")/../.."

dist=$(cd "$1" && pwd)
shift
[ $# -gt 0 ] || set -- oldest newest
python=${PYTHON:-python3} here=$PWD/tests/python failed=0 table=''
wheel=$(ls "$dist"/lectern-*.whl)
unset LECTERN_LIBRARY LECTERN_BIN PYTHONPATH

for versions; do
  venv=$PWD/build-integrations/$versions
  [ -e "$venv/bin/pip" ] || "$python" -m venv "$venv"
  if ! "$venv/bin/pip" download -q --no-deps --no-cache-dir -d "$venv/reached" mcp==2.0.0; then
    echo "integrations: SKIPPED: PyPI cannot be reached" >&2
    exit 0
  fi
  if [ "$versions" = oldest ]; then
    "$venv/bin/pip" install -q -r "$here/integrations_oldest.txt"
  else
    "$venv/bin/pip" install -q --upgrade fastapi httpx ipykernel ipython mypy nbclient uvicorn
  fi
  # The wheel has the same version each time: what is installed may be another one.
  "$venv/bin/pip" install -q --force-reinstall --no-deps "$wheel"
  upgrade=()
  [ "$versions" = oldest ] || upgrade=(--upgrade)
  "$venv/bin/pip" install -q "${upgrade[@]}" "${wheel}[mcp,langchain,llama-index,llm]"
  # The folder of the package, wherever this Python has it.
  package=$("$venv/bin/python" -c 'import lectern; print(lectern.__path__[0])')
  export LECTERN_TEST_MODEL=$package/share/lectern/reader
  table+="== $versions: $("$venv/bin/python" --version)$(
    "$venv/bin/pip" list --format freeze 2>/dev/null | tr "[:upper:]" "[:lower:]" |
      grep -E '^(mcp|langchain-core|llama-index-core|llm|ipython|nbclient|fastapi|uvicorn)==' |
      sed 's/^/, /' | tr -d '\n')"$'\n'
  for name in display mcp frameworks samples documents; do
    echo "== $versions: $name"
    log=$venv/$name.log
    "$venv/bin/python" -W ignore "$here/${name}_test.py" --verbose 2>&1 | tee "$log" || failed=1
    table+=$(printf '%-12s %s' "$name" "$(tail -3 "$log" | tr -s '\n' ' ')")$'\n'
  done
  if [ "$versions" = newest ]; then
    echo "== types"
    (cd "$venv" && bin/mypy --strict --python-executable bin/python -p lectern.integrations) || failed=1
  fi
done
printf '%s' "$table"
exit $failed
