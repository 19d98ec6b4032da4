# shellcheck shell=bash
# The Debian 12 packages that Lectern needs. Sourced by tools/demo.sh and by the scripts of tests/.

# shellcheck disable=SC2034  # used where this file is sourced
product_packages=(
  antiword              # old Word documents, run as a process of its own
  g++ cmake ninja-build pkg-config
  libarchive-dev        # zip files: office files, books
  libcli11-dev          # command lines
  libcpp-httplib-dev    # asks a server whether it is ready
  libfaiss-dev          # K-means; a static library that leaves BLAS and LAPACK to its user
  libfribidi-dev        # right-to-left text of PDFs
  libgmime-3.0-dev      # mails
  libgumbo-dev          # HTML
  libhwy-dev            # SIMD
  libopenblas-serial-dev  # BLAS and LAPACK; the one with threads starts them with the process
  libpcre2-dev          # word patterns of tokenizers
  libpoppler-cpp-dev    # ligatures of Arabic fonts in PDFs
  libpoppler-glib-dev   # page labels and outlines of PDFs
  libsentencepiece-dev  # tokenizer
  libsqlite3-dev        # catalog
  libssl-dev            # SHA-256
  libuchardet-dev       # encodings of texts
  libutf8proc-dev       # NFC, ligatures
  libxml2-dev           # XML of office files and books
  nlohmann-json3-dev
  poppler-data          # Chinese, Japanese and Korean characters of PDFs
  poppler-utils         # pdftotext, run as a process of its own
  unrtf)                # RTF, likewise
# shellcheck disable=SC2034  # lectern-batch, and with it the tests of its parts
batch_packages=(libcurl4-openssl-dev libpq-dev)
# shellcheck disable=SC2034  # servers for tests/full.sh corpus
cluster_packages=(
  memcached postgresql python3-venv swift-account swift-container swift-object swift-proxy)
# shellcheck disable=SC2034
test_packages=(
  abigail-tools libbenchmark-dev libboost-context-dev libgtest-dev
  libopenblas0-pthread  # of a host that embeds Lectern: hosts_test
  python3 python3-jsonschema)
# shellcheck disable=SC2034  # sources of SentencePiece, manual pages
packaging_packages=(dpkg-dev file help2man patch)
# shellcheck disable=SC2034  # cross-compiler for Windows, what its packages' sources ask for, Wine
windows_packages=(binutils-mingw-w64-x86-64 cmake dpkg-dev g++-mingw-w64-x86-64-posix gcc libz-mingw-w64-dev make meson
  ninja-build patch pkg-config tcl wine wine64 zip)
# shellcheck disable=SC2034  # ranks of an MPI job
mpi_packages=(libopenmpi-dev openmpi-bin)
# shellcheck disable=SC2034  # clang's OpenMP runtime: FAISS's CMake files ask for one
fuzz_packages=(clang-14 llvm-14 libclang-rt-14-dev libomp-14-dev)

# install_packages NAME…: those that are missing. With none missing it needs neither root nor network.
install_packages() {
  local missing=() package status as_root=()
  if [ ! -x "$(command -v apt-get)" ]; then
    echo "not a Debian system: expecting what these packages hold: $*"
    return 0
  fi
  for package; do
    status=$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null) || true
    [ "$status" = installed ] || missing+=("$package")
  done
  [ ${#missing[@]} -gt 0 ] || return 0
  echo "installing ${missing[*]}"
  [ "$(id -u)" -eq 0 ] || as_root=(sudo)
  # Another program may be installing, such as a desktop's updater: wait for it, ten minutes at most.
  "${as_root[@]}" apt-get -q -o DPkg::Lock::Timeout=600 update
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
    apt-get -qy -o DPkg::Lock::Timeout=600 -o Dpkg::Use-Pty=0 install --no-install-recommends "${missing[@]}"
}
