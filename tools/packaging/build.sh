#!/usr/bin/env bash
# Builds what is installed, and the Debian packages, in build-packaging (or the folder given).
# Needs Debian 12 with its source packages within reach, and root or sudo where packages are missing.
set -euo pipefail
cd "$(dirname "$0")/../.."
. tools/packages.sh

build=${1:-build-packaging}
install_packages "${product_packages[@]}" "${packaging_packages[@]}"
tools/packaging/private_sentencepiece.sh "$build/sentencepiece"
cmake --preset release -B "$build" -D LECTERN_TESTS=OFF -D CMAKE_UNITY_BUILD=ON \
  -D CMAKE_INSTALL_PREFIX=/usr -D CMAKE_PREFIX_PATH="$PWD/$build/sentencepiece" >/dev/null
cmake --build "$build"
rm -f "$build"/*.deb
(cd "$build" && cpack)
