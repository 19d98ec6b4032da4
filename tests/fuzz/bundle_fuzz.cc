// Bundles that are damaged but whose checksums fit, taken into a store: imported whole or refused
// with a typed error, after which the store holds what it held.
//
// The input: how many bytes are cut off the end (u16, little endian), then a head, which is filled
// up to whole 4096s; the shards behind it are those of a sample document. Unless bit 0 of the
// head's checksum is set, magic, version, size and the checksums of head and files are made to fit.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>

#include "store/bundle.h"
#include "store/crc32c.h"
#include "store/shard_layout.h"
#include "store/store.h"
#include "tests/store/sample_store.h"
#include "tests/store/simulated_disk.h"

namespace lectern {
namespace {

const std::string kStore = std::string(kSimulatedRoot) + "/store";
const std::string kBundle = std::string(kSimulatedRoot) + "/bundle";

enum Flag : uint32_t { kLeaveAll = 1, kLeaveMajor = 2, kLeaveSize = 4, kLeaveFiles = 8 };

void Check(bool claim) {
  if (!claim) std::abort();
}

void RepairEntries(std::string& bytes, const BundleHeader& header) {
  for (uint64_t i = 0; i < header.num_files && i < 64; ++i) {
    const uint64_t at = sizeof header + i * sizeof(BundleEntry);
    if (at + sizeof(BundleEntry) > std::min<uint64_t>(bytes.size(), header.head_bytes)) return;
    BundleEntry entry;
    std::memcpy(&entry, bytes.data() + at, sizeof entry);
    const uint64_t padded =
        AlignUp(std::min<uint64_t>(entry.bytes, bytes.size()), kBundleAlignment);
    if (entry.offset > bytes.size() || padded > bytes.size() - entry.offset) continue;
    entry.crc = Crc32c(0, bytes.data() + entry.offset, padded);
    std::memcpy(bytes.data() + at, &entry, sizeof entry);
  }
}

void Repair(std::string& bytes) {
  BundleHeader header;
  if (bytes.size() < sizeof header) return;
  std::memcpy(&header, bytes.data(), sizeof header);
  const uint32_t flags = header.head_crc;
  if ((flags & kLeaveAll) != 0) return;
  std::memcpy(header.magic, kBundleMagic, sizeof header.magic);
  if ((flags & kLeaveMajor) == 0) header.major = kBundleMajor;
  if ((flags & kLeaveSize) == 0) header.file_bytes = bytes.size();
  header.head_crc = 0;
  std::memcpy(bytes.data(), &header, sizeof header);
  if ((flags & kLeaveFiles) == 0) RepairEntries(bytes, header);
  if (header.head_bytes > bytes.size()) return;
  header.head_crc = Crc32c(0, bytes.data(), header.head_bytes);
  std::memcpy(bytes.data(), &header, sizeof header);
}

struct Samples {
  DiskImage empty;     // a store without documents
  std::string shards;  // of a bundle, what follows its head
};

Samples MakeSamples() {
  SimulatedDisk disk;
  {
    const auto lock = LockStore(disk, kStore);
    Check(lock.ok());
    Check(Catalog::Open(disk, CatalogPath(kStore), Catalog::Mode::kReadWrite).ok());
  }
  Samples samples = {disk.image(), ""};
  const auto added = AddSampleDocument(disk, kStore, SampleId(1), "one", "text");
  Check(added.ok() && ExportDocument(disk, kStore, added->row, kBundle).ok());
  const auto bundle = disk.Map(kBundle);
  Check(bundle.ok());
  samples.shards.assign(reinterpret_cast<const char*>((*bundle)->data()) + kBundleAlignment,
                        (*bundle)->size() - kBundleAlignment);
  return samples;
}

std::string MakeBundle(const uint8_t* data, size_t size, const std::string& shards) {
  const size_t cut = size < 2 ? 0 : data[0] | data[1] << 8;
  std::string bytes(reinterpret_cast<const char*>(data) + std::min<size_t>(size, 2),
                    size - std::min<size_t>(size, 2));
  bytes.resize(std::max<uint64_t>(AlignUp(bytes.size(), kBundleAlignment), kBundleAlignment));
  bytes += shards;
  bytes.resize(bytes.size() - cut);
  Repair(bytes);
  return bytes;
}

void CheckImported(Env& env, const Catalog& catalog, const DocumentRow& row) {
  const auto found = catalog.FindReady(row.id);
  Check(found.ok() && *found && (*found)->generation == row.generation);
  const std::string directory = DocumentDirectory(kStore, row.id, row.generation);
  Check(ReadGeneration(env, directory, row.id, row.generation).ok());
}

}  // namespace
}  // namespace lectern

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lectern;
  static const Samples samples = MakeSamples();
  const std::string bytes = MakeBundle(data, size, samples.shards);
  SimulatedDisk disk(samples.empty);
  {
    const auto file = disk.OpenWritable(kBundle, /*exclusive=*/true);
    Check(file.ok() && (*file)->WriteAt(0, bytes.data(), bytes.size()).ok());
  }
  const auto catalog = Catalog::Open(disk, CatalogPath(kStore), Catalog::Mode::kReadWrite);
  Check(catalog.ok());
  const auto imported = ImportDocument(disk, kStore, **catalog, kBundle, KeepName());
  if (imported.ok()) {
    CheckImported(disk, **catalog, imported->row);
    const auto again = ImportDocument(disk, kStore, **catalog, kBundle, KeepName("another name"));
    Check(again.ok() && again->existed && again->row.name == "another name");
  } else {
    Check(imported.status().code() != Code::kInternal && !imported.status().message().empty());
    Check((*catalog)->List()->empty());
  }
  return 0;
}
