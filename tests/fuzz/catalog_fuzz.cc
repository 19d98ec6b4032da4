// Catalog over damaged database files: typed errors, never a crash, and no write that succeeds
// leaves something that cannot be read. Seeds: any catalog.db.
#include <cstdint>
#include <cstdlib>
#include <set>
#include <string>

#include "store/catalog.h"
#include "tests/store/simulated_disk.h"

namespace lectern {
namespace {

const std::string kPath = std::string(kSimulatedRoot) + "/catalog.db";

// The medium of a sealed store.
class ReadOnlyDisk : public SimulatedDisk {
 public:
  using SimulatedDisk::SimulatedDisk;
  Access AccessTo(const std::string&) override { return Access::kReadOnlyMedia; }
};

void ReadEverything(const Catalog& catalog) {
  (void)catalog.Salvage().ok();
  const auto rows = catalog.List();
  if (!rows.ok()) return;
  for (const DocumentRow& row : *rows) {
    (void)catalog.FindReady(row.id).ok();
    if (ParseDocumentId(ToHex(row.id)) != row.id) std::abort();
    (void)catalog.FindReadyByName(row.name).ok();
    (void)catalog.Shards(row.generation).ok();
  }
}

NameChange Points(const char* name) {
  NameChange change;
  change.names.push_back({name, "/source"});
  return change;
}

void WriteSomething(Catalog& catalog) {
  DocumentRow row;
  row.id[0] = 1;
  row.name = "fuzz";
  const auto generation = catalog.BeginDocument(row);
  if (!generation.ok()) return;
  row.generation = *generation;
  if (!catalog.CommitDocument(row, {{"document.shard", 1, 2, 3}}, Points("fuzz")).ok()) return;
  const auto found = catalog.FindReadyByName("fuzz");
  if (found.ok() && (!*found || (*found)->generation != row.generation)) std::abort();
  if (!catalog.ChangeNames(row.id, Points("moved")).ok()) return;
  if (!catalog.FindReadyByName("moved").ok()) std::abort();
  const auto removed = catalog.RemoveName("moved");
  if (removed.ok() && *removed) std::abort();  // it has another name
}

void RemoveEverything(Catalog& catalog) {
  const auto rows = catalog.List();
  if (!rows.ok()) return;
  std::set<uint64_t> forgotten;
  for (const DocumentRow& row : *rows) {
    (void)catalog.MarkDead(row.id).ok();
    if (!catalog.Forget(row.generation).ok()) continue;
    forgotten.insert(row.generation);
    if (catalog.Shards(row.generation).ok()) std::abort();
  }
  const auto left = catalog.List();
  if (!left.ok()) return;
  for (const DocumentRow& row : *left) {
    if (forgotten.contains(row.generation)) std::abort();
  }
}

void AdoptSomething(Catalog& catalog) {
  CatalogEntry entry;
  entry.row.id[0] = 2;
  entry.row.generation = 1000;
  entry.row.state = DocumentState::kReady;
  entry.row.names = {{"adopted", "/source"}};
  entry.shards = {{"document.shard", 1, 2, 3}};
  if (catalog.Adopt({entry}).ok() && !catalog.Shards(1000).ok()) std::abort();
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
    ReadOnlyDisk sealed(disk.image());
    const auto reader = Catalog::Open(sealed, kPath, Catalog::Mode::kReadOnly);
    if (reader.ok()) ReadEverything(**reader);
  }
  auto writer = Catalog::Open(disk, kPath, Catalog::Mode::kReadWrite);
  if (!writer.ok()) return 0;
  ReadEverything(**writer);
  WriteSomething(**writer);
  AdoptSomething(**writer);
  RemoveEverything(**writer);
  return 0;
}
