// Catalog over damaged database files: typed errors, never a crash, and no write that succeeds
// leaves something that cannot be read. Seeds: any catalog.db.
#include <cstdint>
#include <cstdlib>
#include <string>

#include "store/catalog.h"
#include "tests/store/simulated_disk.h"

namespace lectern {
namespace {

const std::string kPath = std::string(kSimulatedRoot) + "/catalog.db";

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
  SimulatedDisk disk;
  if (!disk.MakeDirectory(kSimulatedRoot).ok()) std::abort();
  {
    const auto file = disk.OpenWritable(kPath, /*exclusive=*/true);
    if (!file.ok() || !(*file)->WriteAt(0, data, size).ok()) std::abort();
  }
  {
    const auto reader = Catalog::Open(disk, kPath, Catalog::Mode::kReadOnly);
    if (reader.ok()) ReadEverything(**reader);
  }
  auto writer = Catalog::Open(disk, kPath, Catalog::Mode::kReadWrite);
  if (writer.ok()) WriteSomething(**writer);
  return 0;
}
