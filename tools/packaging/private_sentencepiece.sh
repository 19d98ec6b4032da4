#!/usr/bin/env bash
# Builds Debian's SentencePiece as a static library whose symbols are hidden, for a liblectern that
# shares no protobuf with the program it is loaded into:
#
#   tools/packaging/private_sentencepiece.sh DIR   # then, in a new build: cmake -D CMAKE_PREFIX_PATH=DIR …
#
# DIR gets the library, its header, a file for pkg-config and the copyright file, in the folders lib,
# include and share/doc. Does nothing where they are. Needs dpkg-dev and Debian's source packages
# within reach.
set -euo pipefail

if [ $# -ne 1 ]; then
  sed -n '2,/^set/s/^# \?//p' "$0"
  exit 2
fi
mkdir -p "$1"
dir=$(cd "$1" && pwd)
pc=$dir/lib/pkgconfig/sentencepiece.pc
[ ! -e "$pc" ] || exit 0

# The source packages beside the machine's binary ones; nothing of the machine is changed.
work=$dir/work
rm -rf "$work"
mkdir -p "$work"/{lists/partial,cache/archives/partial}
# shellcheck disable=SC2016  # apt's, not the shell's
apt-get indextargets --format 'deb-src $(REPO_URI) $(RELEASE) $(COMPONENT)' \
  'Created-By: Packages' | sort -u >"$work/sources.list"
apt=(apt-get -q -o Dir::Etc::SourceList="$work/sources.list" -o Dir::Etc::SourceParts=/dev/null
  -o Dir::State::Lists="$work/lists" -o Dir::Cache="$work/cache" -o APT::Sandbox::User=root)
"${apt[@]}" update
(cd "$work" && "${apt[@]}" source --download-only sentencepiece)
dpkg-source --no-check --skip-patches -x "$work"/sentencepiece_*.dsc "$work/source"
# All of Debian's patches but the one that takes the static library out.
while read -r patch; do
  [ "$patch" = disable-static-library.patch ] ||
    patch --silent -d "$work/source" -p1 <"$work/source/debian/patches/$patch"
done <"$work/source/debian/patches/series"

cmake -G Ninja -S "$work/source" -B "$work/build" -DCMAKE_BUILD_TYPE=Release \
  -DSPM_ENABLE_SHARED=OFF -DSPM_ENABLE_TCMALLOC=OFF -DCMAKE_CXX_FLAGS=-fno-gnu-unique \
  -DCMAKE_CXX_VISIBILITY_PRESET=hidden -DCMAKE_VISIBILITY_INLINES_HIDDEN=ON >/dev/null
cmake --build "$work/build" --target sentencepiece-static
mkdir -p "$dir"/{include,lib/pkgconfig,share/doc/sentencepiece}
cp "$work/build/src/libsentencepiece.a" "$dir/lib"
cp "$work/source/src/sentencepiece_processor.h" "$dir/include"
cp "$work/source/debian/copyright" "$dir/share/doc/sentencepiece"
version=$(dpkg-parsechangelog -l "$work/source/debian/changelog" -S Version)
# Written last: the script looks for it to tell whether there is anything to do.
cat >"$work/sentencepiece.pc" <<EOF
prefix=$dir
Name: sentencepiece
Description: SentencePiece as a static library whose symbols are hidden
Version: ${version%%-*}
Cflags: -I\${prefix}/include
Libs: -L\${prefix}/lib -lsentencepiece
EOF
mv "$work/sentencepiece.pc" "$pc"
rm -rf "$work"
