#include "tools/ingest/extract/unpack.h"

#include <archive.h>

#include <cerrno>
#include <cstdint>
#include <memory>
#include <new>

#include "tools/ingest/file_kind.h"

namespace lectern::tools {
namespace {

constexpr uint64_t kMostUnpacked = uint64_t{128} << 20;

struct FreeUnpacker {
  void operator()(archive* handle) const { archive_read_free(handle); }
};

// The methods that libarchive has by itself. Where it was built without a library it would start
// the program of the same name, which is not for a process with limits to do; it then says
// ARCHIVE_WARN.
constexpr int (*kMethods[])(archive*) = {
    archive_read_support_filter_gzip, archive_read_support_filter_bzip2,
    archive_read_support_filter_xz,   archive_read_support_filter_lzma,
    archive_read_support_filter_lzip, archive_read_support_filter_zstd,
    archive_read_support_filter_lz4,  archive_read_support_filter_compress};

// Whether libarchive has the method by itself.
bool IsBuiltIn(int (*method)(archive*)) {
  const std::unique_ptr<archive, FreeUnpacker> trial(archive_read_new());
  return method(trial.get()) == ARCHIVE_OK;
}

}  // namespace

api::Result<std::string> Unpack(std::string_view bytes) {
  const std::unique_ptr<archive, FreeUnpacker> handle(archive_read_new());
  if (!handle) throw std::bad_alloc();
  for (const auto method : kMethods) {
    if (IsBuiltIn(method)) method(handle.get());
  }
  archive_read_support_format_raw(handle.get());
  archive_read_support_format_empty(handle.get());
  const auto fail = [&](lectern_code code, const std::string& message) {
    if (archive_errno(handle.get()) == ENOMEM) throw std::bad_alloc();
    return api::Error{code, message, "file"};
  };
  const std::string damaged = "is damaged: it cannot be decompressed";
  archive_entry* entry = nullptr;
  if (archive_read_open_memory(handle.get(), bytes.data(), bytes.size()) != ARCHIVE_OK)
    return fail(LECTERN_INVALID_ARGUMENT, damaged);
  const int begun = archive_read_next_header(handle.get(), &entry);
  if (begun == ARCHIVE_EOF) return std::string();  // an empty file, compressed
  if (begun != ARCHIVE_OK) return fail(LECTERN_INVALID_ARGUMENT, damaged);
  if (archive_filter_count(handle.get()) < 2)  // the last one is "none"
    return fail(LECTERN_INVALID_ARGUMENT,
                "cannot be decompressed by this build; decompress it, and index the file in it");
  std::string unpacked;
  char buffer[1 << 16];
  for (;;) {
    const la_ssize_t count = archive_read_data(handle.get(), buffer, sizeof buffer);
    if (count == 0) return unpacked;
    if (count < 0) return fail(LECTERN_INVALID_ARGUMENT, damaged);
    if (unpacked.empty() && IsTarArchive({buffer, static_cast<size_t>(count)}))
      return fail(LECTERN_INVALID_ARGUMENT,
                  "holds a tar archive and not text: unpack it, and index the files in it");
    if (unpacked.size() + static_cast<size_t>(count) > kMostUnpacked)
      return fail(LECTERN_LIMIT_EXCEEDED, "decompresses to more than 128 MiB; split it");
    unpacked.append(buffer, static_cast<size_t>(count));
  }
}

}  // namespace lectern::tools
