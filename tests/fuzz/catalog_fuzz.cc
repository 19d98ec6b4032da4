// Catalog over damaged database files: typed errors, never a crash, and no write that succeeds
// leaves something that cannot be read. Seeds: any catalog.db.
#include <fcntl.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "store/catalog.h"

namespace lectern {
namespace {

constexpr const char* kSuffixes[] = {"-journal", "-wal", "-shm", ""};

// A path of our own, in memory where there is such a thing: SQLite wants a file.
struct ScratchFile {
  ScratchFile() {
    const bool has_memory = ::access("/dev/shm", W_OK) == 0;
    directory = has_memory ? "/dev/shm" : std::filesystem::temp_directory_path().string();
    directory += "/lectern-XXXXXX";
    if (::mkdtemp(directory.data()) == nullptr) std::abort();
    path = directory + "/catalog.db";
  }
  ~ScratchFile() {
    Clear();
    ::rmdir(directory.c_str());
  }
  void Clear() const {
    for (const char* suffix : kSuffixes) ::unlink((path + suffix).c_str());
  }
  std::string directory, path;
};

void WriteFile(const std::string& path, const uint8_t* data, size_t size) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (fd < 0 || ::write(fd, data, size) != static_cast<ssize_t>(size)) std::abort();
  ::close(fd);
}

void ReadEverything(const Catalog& catalog) {
  const auto rows = catalog.List();
  if (!rows.ok()) return;
  for (const DocumentRow& row : *rows) {
    (void)catalog.FindReady(row.id).ok();
    (void)catalog.FindReadyByName(row.name).ok();
    (void)catalog.Shards(row.generation).ok();
  }
}

void WriteSomething(Catalog& catalog) {
  DocumentRow row;
  row.id[0] = 1;
  row.name = "fuzz";
  const auto generation = catalog.BeginDocument(row);
  if (!generation.ok()) return;
  row.generation = *generation;
  if (!catalog.CommitDocument(row, {{"document.shard", 1, 2, 3}}).ok()) return;
  const auto found = catalog.FindReadyByName("fuzz");
  if (found.ok() && (!*found || (*found)->generation != row.generation)) std::abort();
}

}  // namespace
}  // namespace lectern

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lectern;
  static const ScratchFile scratch;
  const std::string& path = scratch.path;
  scratch.Clear();
  WriteFile(path, data, size);
  {
    const auto reader = Catalog::Open(Env::Default(), path, Catalog::Mode::kReadOnly);
    if (reader.ok()) ReadEverything(**reader);
  }
  auto writer = Catalog::Open(Env::Default(), path, Catalog::Mode::kReadWrite);
  if (writer.ok()) WriteSomething(**writer);
  return 0;
}
