#!/usr/bin/env bash
# Builds Lectern for Windows on Debian 12, and packs it as a zip, in build-windows (or the folder
# given):
#
#   tools/packaging/windows.sh [FOLDER]     # FOLDER/lectern-VERSION-windows-x86_64.zip
#
# The zip has the headers, lectern.dll with its import libraries, index-document.exe,
# ask-document.exe, lectern-store.exe, lectern-server.exe, the programs that read documents for them
# (lectern-extract.exe, lectern-pdf-structure.exe, pdftotext.exe, pdftoppm.exe, unrtf.exe), the
# bundled reader, the examples and the licences. Needs Debian's source packages within reach, and root or sudo where
# packages are missing; the packages that Lectern uses are built once (windows/dependencies.sh).
set -euo pipefail
cd "$(dirname "$0")/../.."

build=${1:-build-windows}
dependencies=$(tools/packaging/windows/dependencies.sh)
cmake -S . -B "$build" -G Ninja -D CMAKE_BUILD_TYPE=Release -D CMAKE_UNITY_BUILD=ON \
  -D CMAKE_TOOLCHAIN_FILE="$PWD/tools/packaging/windows/toolchain.cmake" \
  -D LECTERN_WINDOWS_DEPENDENCIES="$dependencies" -D LECTERN_CUDA=OFF -D LECTERN_TESTS=OFF >/dev/null
names=(index-document ask-document lectern-store lectern-server lectern-extract lectern-pdf-structure)
cmake --build "$build" --target lectern "${names[@]}"
programs=("$build/engine/lectern.dll")
for program in "${names[@]}"; do programs+=("$build/tools/$program.exe"); done
tools/packaging/windows/check_stack_moves.py "${programs[@]}"

version=$(sed -n 's/^#define LECTERN_VERSION "\(.*\)"$/\1/p' engine/lectern_c.h)
name=lectern-$version-windows-x86_64
root=$build/$name
rm -rf "$root" "$root.zip"
mkdir -p "$root"/{bin,include/lectern,lib,licences,share/lectern,share/doc}
cp "${programs[@]}" "$root/bin"
x86_64-w64-mingw32-strip "$root"/bin/*
cp "$dependencies"/bin/{pdftotext,pdftoppm,unrtf}.exe "$root/bin"
cp -r "$dependencies/share/unrtf" "$root/share"
cp engine/{lectern.h,lectern_c.h,lectern_inline.h} "$root/include/lectern"
# For MinGW, and under the name that Microsoft's linker expects.
cp "$build/engine/liblectern.dll.a" "$root/lib"
x86_64-w64-mingw32-dlltool -d "$build/engine/lectern.def" -D lectern.dll -l "$root/lib/lectern.lib"
cp "$build/engine/lectern.def" "$root/lib"
cp -rL tools/reader/model "$root/share/lectern/reader"
cp -rL tools/reader/adapter "$root/share/lectern/adapter"
cp engine/EMBEDDING.md tools/packaging/windows/README.md tools/samples/ask.{c,cc} \
  tools/demo/document.txt "$root/share/doc"
cp LICENSE "$root/licences/lectern"
for package in "$dependencies"/share/doc/*/copyright; do
  cp "$package" "$root/licences/$(basename "$(dirname "$package")")"
done
# The parts of the compiler that are linked in: its libraries, those of OpenMP, and of threads.
cp /usr/share/doc/gcc-mingw-w64-base/copyright "$root/licences/gcc"
cp /usr/share/doc/mingw-w64-common/copyright "$root/licences/mingw-w64"
cp /usr/share/doc/libz-mingw-w64-dev/copyright "$root/licences/zlib"
(cd "$build" && zip -qr "$name.zip" "$name")
ls -l "$root.zip" "$root"/bin
