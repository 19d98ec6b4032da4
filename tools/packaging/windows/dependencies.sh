#!/usr/bin/env bash
# Cross-builds the packages that Lectern needs on Windows as static libraries, from Debian's sources:
#
#   tools/packaging/windows/dependencies.sh   # prints the folder that has lib, include and share
#
# The folder lies in ${XDG_CACHE_HOME:-~/.cache}/lectern-windows under a name made of the versions and
# of this script, so that a change of either makes another one; where it is there, nothing is done.
# Needs Debian 12 with its source packages within reach, and root or sudo where packages are missing.
# apt checks the hash of each file.
set -euo pipefail
cd "$(dirname "$0")/../../.."
. tools/packages.sh

install_packages "${windows_packages[@]}" >&2

# Versions of Debian 12. OpenSSL is not among them, since Windows hashes by itself
# (engine/model/formats/sha256_windows.cc), nor BLAS (see FAISS below). zlib is Debian's own build for
# Windows, libz-mingw-w64-dev.
sources=(
  cli11=2.1.2+ds-1 cpp-httplib=0.11.4+ds-1+deb12u1 faiss=1.7.3-2 freetype=2.12.1+dfsg-5+deb12u4 fribidi=1.0.8-2.1
  glib2.0=2.74.6-2+deb12u9 gmime=3.2.13+dfsg-2 highway=1.0.3-3+deb12u1 libarchive=3.6.2-1+deb12u5
  libffi=3.4.4-1 libxml2=2.9.14+dfsg-1.3~deb12u6 newlib=3.3.0-1.3+deb12u1 nlohmann-json3=3.11.2-2 pcre2=10.42-1
  poppler=22.12.0-2+deb12u3 ruby-nokogiri=1.13.10+dfsg-2 sentencepiece=0.1.97-3 sqlite3=3.40.1-2+deb12u2
  uchardet=0.0.7-1 unrtf=0.21.10-clean-1 utf8proc=2.8.0-1)
host=x86_64-w64-mingw32
# GCC aligns the stack to 16 bytes on Windows, and moves vectors of 32 and 64 bytes to it as if it
# were aligned to their size; the assembler turns such moves into ones that need no alignment.
flags="-O2 -DNDEBUG -Wa,-muse-unaligned-vector-move"
key=$({ printf '%s\n' "${sources[@]}" "$flags"; $host-g++-posix --version
  cat tools/packaging/windows/{dependencies.sh,toolchain.cmake,faiss_absent.c,gumbo_allocator.patch,iconv.h,iconv_names.c} \
    tools/packaging/windows/{libintl.c,libintl.h,math_dispatch.c,math_names.h,unrtf_start_windows.c,unrtf_windows.h}; } |
  sha256sum | cut -c1-16)
cache=${XDG_CACHE_HOME:-$HOME/.cache}/lectern-windows
dir=$cache/$key
if [ -e "$dir/complete" ]; then
  echo "$dir"
  exit 0
fi

exec 3>&1 >&2
work=$cache/work-$key toolchain=$PWD/tools/packaging/windows/toolchain.cmake
rm -rf "$work" "$dir"
mkdir -p "$work"/{lists/partial,cache/archives/partial} "$dir"/{include,lib/pkgconfig,share/doc}
# The source packages beside the machine's binary ones; nothing of the machine is changed.
# shellcheck disable=SC2016  # apt's, not the shell's
apt-get indextargets --format 'deb-src $(REPO_URI) $(RELEASE) $(COMPONENT)' \
  'Created-By: Packages' | sort -u >"$work/sources.list"
apt=(apt-get -q -o Dir::Etc::SourceList="$work/sources.list" -o Dir::Etc::SourceParts=/dev/null
  -o Dir::State::Lists="$work/lists" -o Dir::Cache="$work/cache" -o APT::Sandbox::User=root)
"${apt[@]}" update
(cd "$work" && "${apt[@]}" source --download-only "${sources[@]}")

# unpack NAME: the source with Debian's patches, in a folder of that name, and its copyright file.
unpack() {
  dpkg-source --no-check -x "$work/${1}_"*.dsc "$work/$1" >/dev/null
  mkdir -p "$dir/share/doc/$1"
  cp "$work/$1/debian/copyright" "$dir/share/doc/$1"
}
# by_cmake FOLDER OPTION…: a static library, installed.
by_cmake() {
  local source=$work/$1
  shift
  cmake -G Ninja -S "$source" -B "$source/build" -D CMAKE_TOOLCHAIN_FILE="$toolchain" \
    -D CMAKE_BUILD_TYPE=Release -D CMAKE_C_FLAGS_RELEASE="$flags" \
    -D CMAKE_CXX_FLAGS_RELEASE="$flags" -D CMAKE_INSTALL_PREFIX="$dir" \
    -D CMAKE_INSTALL_LIBDIR=lib -D BUILD_SHARED_LIBS=OFF -D BUILD_TESTING=OFF "$@" >/dev/null
  cmake --build "$source/build"
  cmake --install "$source/build" >/dev/null
}
# archive NAME FLAGS FILE…: a static library of these files.
archive() {
  local name=$1 file object objects=() its_flags
  read -rd '' -a its_flags <<<"$flags $2" || true  # to the end of the text, of several lines
  shift 2
  for file; do
    object=$work/objects/$name/$(basename "$file").o
    mkdir -p "${object%/*}"
    if [[ $file = *.c ]]; then
      $host-gcc-posix "${its_flags[@]}" -c "$file" -o "$object"
    else
      $host-g++-posix -std=c++17 "${its_flags[@]}" -c "$file" -o "$object"
    fi
    objects+=("$object")
  done
  $host-ar rcs "$dir/lib/lib$name.a" "${objects[@]}"
}
# pc NAME VERSION CFLAGS LIBS: a file for pkg-config, for packages that install none.
pc() {
  cat >"$dir/lib/pkgconfig/$1.pc" <<END
prefix=$dir
Name: $1
Description: $1, static, for Windows
Version: $2
Cflags: -I\${prefix}/include $3
Libs: -L\${prefix}/lib $4
END
}

unpack utf8proc
by_cmake utf8proc -D CMAKE_C_FLAGS=-DUTF8PROC_STATIC
pc libutf8proc 2.8.0 -DUTF8PROC_STATIC -lutf8proc

unpack pcre2
by_cmake pcre2 -D PCRE2_BUILD_PCRE2GREP=OFF -D PCRE2_BUILD_TESTS=OFF -D PCRE2_SUPPORT_JIT=ON
pc libpcre2-8 10.42 -DPCRE2_STATIC -lpcre2-8

unpack highway
by_cmake highway -D HWY_ENABLE_CONTRIB=OFF -D HWY_ENABLE_EXAMPLES=OFF -D HWY_ENABLE_TESTS=OFF
# A header alone; the library of contrib is a sort that takes minutes to compile.
mkdir -p "$dir/include/hwy/contrib/math"
cp "$work/highway/hwy/contrib/math/math-inl.h" "$dir/include/hwy/contrib/math"

unpack nlohmann-json3
by_cmake nlohmann-json3 -D JSON_BuildTests=OFF

unpack cli11
by_cmake cli11 -D CLI11_BUILD_EXAMPLES=OFF -D CLI11_BUILD_TESTS=OFF -D CLI11_BUILD_DOCS=OFF

unpack uchardet
by_cmake uchardet -D BUILD_BINARY=OFF

# A header.
unpack cpp-httplib
cp "$work/cpp-httplib/httplib.h" "$dir/include"
pc cpp-httplib 0.11.4 "" -lws2_32

unpack fribidi
(cd "$work/fribidi" && ./configure --host=$host CC=$host-gcc-posix CFLAGS="$flags" --disable-shared \
  --prefix="$dir" >/dev/null && make -C lib install >/dev/null)
pc fribidi 1.0.8 "-I\${prefix}/include/fribidi -DFRIBIDI_LIB_STATIC" -lfribidi

# Gumbo as Nokogiri keeps it, with the memory of the caller as gumbo 0.10 takes it.
unpack ruby-nokogiri
gumbo=$work/ruby-nokogiri/gumbo-parser/src
patch --silent -d "$gumbo" -p1 <tools/packaging/windows/gumbo_allocator.patch
archive gumbo "" "$gumbo"/*.c
cp "$gumbo/gumbo.h" "$dir/include"
pc gumbo 0.10.1 "" -lgumbo

# pdftotext.exe and pdftoppm.exe, programs of their own, and the library for lectern-pdf-structure.exe.
# FreeType is the one library that they need: images are decoded by poppler itself.
unpack freetype
by_cmake freetype -D FT_DISABLE_ZLIB=ON -D FT_DISABLE_BZIP2=ON -D FT_DISABLE_PNG=ON \
  -D FT_DISABLE_HARFBUZZ=ON -D FT_DISABLE_BROTLI=ON
unpack poppler
cmake -G Ninja -S "$work/poppler" -B "$work/poppler/build" -D CMAKE_TOOLCHAIN_FILE="$toolchain" \
  -D CMAKE_BUILD_TYPE=Release -D CMAKE_CXX_FLAGS_RELEASE="$flags" -D CMAKE_C_FLAGS_RELEASE="$flags" \
  -D CMAKE_EXE_LINKER_FLAGS="-static $($host-gcc-posix -print-file-name=binmode.o)" \
  -D FREETYPE_INCLUDE_DIRS="$dir/include/freetype2" -D FREETYPE_LIBRARY="$dir/lib/libfreetype.a" \
  -D BUILD_SHARED_LIBS=OFF -D FONT_CONFIGURATION=win32 -D HAVE_GMTIME_R=1 -D HAVE_LOCALTIME_R=1 \
  -D ENABLE_CPP=OFF -D ENABLE_GLIB=OFF -D ENABLE_QT5=OFF -D ENABLE_QT6=OFF -D ENABLE_BOOST=OFF \
  -D ENABLE_LIBOPENJPEG=unmaintained -D ENABLE_CMS=none -D ENABLE_DCTDECODER=unmaintained -D ENABLE_LIBCURL=OFF \
  -D ENABLE_ZLIB=OFF -D WITH_NSS3=OFF -D WITH_JPEG=OFF -D WITH_PNG=OFF -D WITH_TIFF=OFF \
  -D RUN_GPERF_IF_PRESENT=OFF >/dev/null
cmake --build "$work/poppler/build" --target pdftotext pdftoppm
mkdir -p "$dir/bin" "$dir/include/poppler"
for program in pdftotext pdftoppm; do
  $host-strip -o "$dir/bin/$program.exe" "$work/poppler/build/utils/$program.exe"
done
cp "$work/poppler/build/libpoppler.a" "$dir/lib"
(cd "$work/poppler" && find poppler goo fofi -name '*.h' -exec cp --parents -t "$dir/include/poppler" {} +)
cp "$work"/poppler/build/{poppler/poppler-config,poppler_private_export}.h "$dir/include/poppler/poppler"
pc poppler 22.12.0 "-I\${prefix}/include/poppler -I\${prefix}/include/poppler/poppler" \
  "-lpoppler -lfreetype -lgdi32"

# iconv by Windows' own tables, for libxml2 and unrtf: one file of GLib's.
unpack glib2.0
cp tools/packaging/windows/iconv.h "$dir/include"
archive iconv "-I$dir/include -Diconv_open=OpenByWindowsName" "$work/glib2.0/glib/win_iconv.c"
archive iconv "-I$dir/include" tools/packaging/windows/iconv_names.c

# Libraries that read office files and books. CMake itself crashes on libarchive's test of zlib, so configure
# does it; with newer files of Debian's patches, make would have automake write that again.
unpack libxml2
by_cmake libxml2 -DLIBXML2_WITH_{C14N,CATALOG,DEBUG,DOCB,FTP,HTML,HTTP,LEGACY,LZMA,MODULES}=OFF \
  -DLIBXML2_WITH_{PROGRAMS,PYTHON,REGEXPS,SCHEMAS,SCHEMATRON,TESTS,VALID,WRITER,XINCLUDE,XPATH,XPTR,ZLIB}=OFF \
  -D Iconv_INCLUDE_DIR="$dir/include" -D Iconv_LIBRARY="$dir/lib/libiconv.a"
pc libxml-2.0 2.9.14 "-I\${prefix}/include/libxml2 -DLIBXML_STATIC" "-lxml2 -liconv -lws2_32"
unpack libarchive
(cd "$work/libarchive" && touch aclocal.m4 && touch configure config.h.in Makefile.in &&
  ./configure --host=$host CC=$host-gcc-posix CFLAGS="$flags" --disable-shared --prefix="$dir" \
    --disable-{acl,bsdcat,bsdcpio,bsdtar,xattr} \
    --without-{bz2lib,cng,expat,iconv,libb2,lz4,lzma,lzo2,nettle,openssl,xml2,zstd} >/dev/null &&
  make libarchive.la >/dev/null &&
  make install-libLTLIBRARIES install-includeHEADERS >/dev/null)
pc libarchive 3.6.2 -DLIBARCHIVE_STATIC "-larchive -lz"

# GMime, which reads mails, and GLib's libraries that it needs (GLib and GObject). GLib asks for gettext,
# for which libintl.c stands, and has an iconv of its own, whose names are changed so that libxml2 gets the
# one above. GMime's streams of GIO, a third library of GLib's, are left out.
unpack libffi
(cd "$work/libffi" && ./configure --host=$host CC=$host-gcc-posix CFLAGS="$flags" --disable-shared \
  --disable-docs --disable-multi-os-directory --prefix="$dir" >/dev/null && make >/dev/null && make install >/dev/null)
cp tools/packaging/windows/libintl.h "$dir/include"
archive intl "-I$dir/include" tools/packaging/windows/libintl.c
arguments="'-I$dir/include'"
for flag in $flags -DPCRE2_STATIC -Diconv=g_own_iconv -Diconv_open=g_own_iconv_open -Diconv_close=g_own_iconv_close; do
  arguments+=", '$flag'"
done
cat >"$work/meson.ini" <<END
[binaries]
c = '$host-gcc-posix'
cpp = '$host-g++-posix'
ar = '$host-ar'
strip = '$host-strip'
windres = '$host-windres'
pkgconfig = 'pkg-config'
[properties]
pkg_config_libdir = ['$dir/lib/pkgconfig', '/usr/$host/lib/pkgconfig']
[built-in options]
c_args = [$arguments]
c_link_args = ['-L$dir/lib', '-static']
cpp_args = ['-I$dir/include']
cpp_link_args = ['-L$dir/lib', '-static']
[host_machine]
system = 'windows'
cpu_family = 'x86_64'
cpu = 'x86_64'
endian = 'little'
END
glib=$work/glib2.0
meson setup "$glib/build" "$glib" --cross-file "$work/meson.ini" --prefix "$dir" --default-library static \
  --buildtype plain -D tests=false -D nls=disabled -D glib_assert=false >/dev/null
ninja -C "$glib/build" glib/libglib-2.0.a gobject/libgobject-2.0.a
for library in glib gobject; do cp "$glib/build/$library/lib$library-2.0.a" "$dir/lib"; done
mkdir -p "$dir"/include/{glib-2.0,gmime-3.0/gmime}
for folder in "$glib" "$glib/build"; do
  (cd "$folder" && find glib gobject -name '*.h' -exec cp --parents -t "$dir/include/glib-2.0" {} +)
done
unpack gmime
gmime=$work/gmime
sed 's/@GMIME_MAJOR_VERSION@/3/; s/@GMIME_MINOR_VERSION@/2/; s/@GMIME_MICRO_VERSION@/13/
  s/@GMIME_BINARY_AGE@/213/; s/@GMIME_INTERFACE_AGE@/0/' \
  "$gmime/gmime/gmime-version.h.in" >"$gmime/gmime/gmime-version.h"
sed -i '/stream.gio/d' "$gmime"/gmime/gmime.[ch]
rm "$gmime"/gmime/{charset-map,gen-table,gmime-stream-gio}.c
cp "$gmime"/gmime/*.h "$dir/include/gmime-3.0/gmime"
pc gmime-3.0 3.2.13 "-I\${prefix}/include/gmime-3.0 -I\${prefix}/include/glib-2.0 -I\${prefix}/include/glib-2.0/glib \
  -DGLIB_STATIC_COMPILATION -DGOBJECT_STATIC_COMPILATION" "-lgmime-3.0 -lgobject-2.0 -lglib-2.0 -lpcre2-8 \
  -lffi -lintl -lz -lws2_32 -lole32 -lwinmm -lshlwapi -luuid"
archive gmime-3.0 "-w -I$gmime -I$gmime/util $(PKG_CONFIG_LIBDIR=$dir/lib/pkgconfig pkg-config --cflags gmime-3.0)
  -DG_LOG_DOMAIN=\"gmime\" -DGMIME_VERSION=\"3.2.13\" -DHAVE_STDLIB_H -DHAVE_STRING_H -DHAVE_TIME_H
  -DHAVE_WINSOCK2_H" "$gmime"/gmime/*.c "$gmime"/util/{gtrie,packed,url-scanner}.c

# unrtf.exe, a program of its own, with the files that it reads to write HTML.
unpack unrtf
# shellcheck disable=SC2086  # several flags
$host-gcc-posix $flags -w -Werror=implicit-function-declaration -static -s -I"$dir/include" \
  -include tools/packaging/windows/unrtf_windows.h -D__USE_MINGW_ACCESS -DPACKAGE_VERSION='"0.21.10"' \
  -DPKGDATADIR='"../share/unrtf"' -DHAVE_{CTYPE,INTTYPES,STDINT,STDIO,STDLIB,STRING,UNISTD}_H \
  "$work"/unrtf/src/*.c tools/packaging/windows/unrtf_start_windows.c -L"$dir/lib" -liconv -o "$dir/bin/unrtf.exe"
mkdir -p "$dir/share/unrtf"
cp "$work"/unrtf/{outputs/html.conf,charmaps/SYMBOL.charmap} "$dir/share/unrtf"

# The amalgamation, made by SQLite's own scripts. Options that Debian sets and Lectern uses.
unpack sqlite3
(cd "$work/sqlite3" && ./configure >/dev/null &&
  make sqlite3.c sqlite3.h >/dev/null)
archive sqlite3 "-DSQLITE_THREADSAFE=1 -DSQLITE_ENABLE_FTS5 -DSQLITE_ENABLE_COLUMN_METADATA -DSQLITE_SECURE_DELETE
  -DSQLITE_ENABLE_UNLOCK_NOTIFY -DSQLITE_OMIT_LOAD_EXTENSION" "$work/sqlite3/sqlite3.c"
cp "$work/sqlite3/sqlite3.h" "$dir/include"

# Lectern uses FAISS for K-means alone, with an assignment step of its own (index/kmeans.cc). These
# files are K-means and its base classes; what else they call, BLAS included, faiss_absent.c replaces
# by functions that end the program. Debian's libfaiss has no SIMD beyond SSE2
# either, so that clusters get the same bits there and here. Without -fopenmp: its regions have one
# thread here (index/kmeans.cc), and each would make and close semaphores of the system, 55,000 for a
# text of 3,000 tokens, which took longer than all else of clustering.
unpack faiss
faiss=$work/faiss/faiss
archive faiss "-I$work/faiss -DFINTEGER=int" \
  "$faiss"/{Clustering,Index,IndexFlat,IndexFlatCodes,VectorTransform}.cpp \
  "$faiss"/impl/{AuxIndexStructures,FaissException,IDSelector,kmeans1d}.cpp \
  "$faiss"/utils/{Heap,distances,distances_simd,extra_distances,random,utils}.cpp \
  tools/packaging/windows/faiss_absent.c
(cd "$work/faiss" && find faiss -name '*.h' -exec cp --parents -t "$dir/include" {} +)
mkdir -p "$dir/lib/cmake/faiss"
cat >"$dir/lib/cmake/faiss/faiss-config.cmake" <<'END'
set(faiss_VERSION 1.7.3)
if(TARGET faiss)
  return()
endif()
add_library(faiss STATIC IMPORTED GLOBAL)
get_filename_component(prefix ${CMAKE_CURRENT_LIST_DIR}/../../.. ABSOLUTE)
set_target_properties(faiss PROPERTIES IMPORTED_LOCATION ${prefix}/lib/libfaiss.a
  INTERFACE_INCLUDE_DIRECTORIES ${prefix}/include
  INTERFACE_LINK_LIBRARIES OpenMP::OpenMP_CXX)
END

# math_dispatch.c says what for. Twice, with and without fused multiply-add.
unpack newlib
math=$work/math
mkdir -p "$math"
cp "$work"/newlib/newlib/libm/common/{exp,exp_data,log,log_data,pow,pow_log_data,sf_exp,sf_exp2_data,sf_log,sf_log_data,sincosf,sincosf_data,math_err,math_errf}.c \
  "$work"/newlib/newlib/libm/common/{math_config,sincosf}.h "$math"
cp tools/packaging/windows/math_names.h "$math/fdlibm.h"
objects=()
# math_object NAME PREFIX [FLAG…]: compiles one file, and adds it to `objects`.
math_object() {
  local file=$1 prefix=$2 object=$work/objects/math/$2$1.o
  shift 2
  mkdir -p "${object%/*}"
  # shellcheck disable=SC2086  # several flags
  $host-gcc-posix $flags "$@" -I"$math" -include "$math/fdlibm.h" -DPREFIX="$prefix" -fno-builtin \
    -c "$math/$file.c" -o "$object"
  objects+=("$object")
}
for file in exp log pow sf_exp sf_log sincosf; do
  math_object $file base_
  math_object $file fma_ -DHAVE_FAST_FMA=1 -mfma -mavx2
done
for file in exp_data log_data pow_log_data sf_exp2_data sf_log_data sincosf_data math_err math_errf; do
  math_object $file base_
done
$host-gcc-posix -O2 -fno-builtin -c tools/packaging/windows/math_dispatch.c \
  -o "$work/objects/math/dispatch.o"
$host-ar rcs "$dir/lib/liblectern-math.a" "$work/objects/math/dispatch.o" "${objects[@]}"

# With the protobuf that comes with it, as private_sentencepiece.sh says.
dpkg-source --no-check --skip-patches -x "$work"/sentencepiece_*.dsc "$work/sentencepiece" >/dev/null
mkdir -p "$dir/share/doc/sentencepiece"
cp "$work/sentencepiece/debian/copyright" "$dir/share/doc/sentencepiece"
while read -r patch; do
  [ "$patch" = disable-static-library.patch ] ||
    patch --silent -d "$work/sentencepiece" -p1 <"$work/sentencepiece/debian/patches/$patch"
done <"$work/sentencepiece/debian/patches/series"
cmake -G Ninja -S "$work/sentencepiece" -B "$work/sentencepiece/build" \
  -D CMAKE_TOOLCHAIN_FILE="$toolchain" -D CMAKE_BUILD_TYPE=Release \
  -D CMAKE_CXX_FLAGS_RELEASE="$flags" -D SPM_ENABLE_SHARED=OFF -D SPM_ENABLE_TCMALLOC=OFF >/dev/null
cmake --build "$work/sentencepiece/build" --target sentencepiece-static
cp "$work/sentencepiece/build/src/libsentencepiece.a" "$dir/lib"
cp "$work/sentencepiece/src/sentencepiece_processor.h" "$dir/include"
pc sentencepiece 0.1.97 "" -lsentencepiece

rm -rf "$work"
touch "$dir/complete"
echo "$dir" >&3
