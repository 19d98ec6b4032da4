#include "tools/ingest/compound_file.h"

#include <algorithm>
#include <utility>

#include "tools/ingest/characters.h"

namespace lectern::tools {
namespace {

constexpr std::string_view kCompoundMagic = "\xD0\xCF\x11\xE0\xA1\xB1\x1A\xE1";
constexpr uint32_t kMostSector = 0xFFFFFFFA;  // numbers above it are marks: free, the end
constexpr uint32_t kNoEntry = 0xFFFFFFFF;
constexpr size_t kEntryBytes = 128, kMiniSectorBytes = 64, kHeaderBytes = 512;
constexpr size_t kMiniCutoff = 4096;  // smaller streams lie in the mini stream

uint64_t NumberAt(std::string_view bytes, size_t at, size_t size) {
  if (at > bytes.size() || bytes.size() - at < size) return 0;
  uint64_t number = 0;
  for (size_t i = size; i-- > 0;) number = number << 8 | static_cast<uint8_t>(bytes[at + i]);
  return number;
}

api::Error DamagedCompound(const char* how) {
  return {LECTERN_INVALID_ARGUMENT, std::string("is damaged: ") + how, "file"};
}

// The name of an entry in UTF-16, of which no more than ASCII and Latin-1 occur in the names that
// are looked for; other characters become '?'.
std::string EntryName(std::string_view entry) {
  constexpr size_t kMostBytes = 64;
  const size_t size = std::min<size_t>(Uint16At(entry, kMostBytes), kMostBytes);
  std::string name;
  for (size_t i = 0; i + 2 < size; i += 2) {  // the last one is 0
    const uint16_t unit = Uint16At(entry, i);
    name += unit > 0 && unit < 0x80 ? static_cast<char>(unit) : '?';
  }
  return name;
}

bool IsSameName(std::string_view a, std::string_view b) {
  return std::ranges::equal(a, b, [](char x, char y) { return Lower(x) == Lower(y); });
}

}  // namespace

uint16_t Uint16At(std::string_view bytes, size_t at) {
  return static_cast<uint16_t>(NumberAt(bytes, at, 2));
}
uint32_t Uint32At(std::string_view bytes, size_t at) {
  return static_cast<uint32_t>(NumberAt(bytes, at, 4));
}
uint64_t Uint64At(std::string_view bytes, size_t at) { return NumberAt(bytes, at, 8); }

bool CompoundFile::IsOne(std::string_view bytes) { return bytes.starts_with(kCompoundMagic); }

// The bytes of a sector, fewer at the file's end.
std::string_view CompoundFile::Sector(uint32_t sector) const {
  const uint64_t at = (uint64_t{sector} + 1) * sector_bytes_;
  return at < bytes_.size() ? bytes_.substr(at, sector_bytes_) : std::string_view();
}

// Reads the table of sectors (FAT), whose own sectors the header and a chain of further sectors
// (DIFAT) list.
bool CompoundFile::ReadTables() {
  constexpr size_t kShift = 30, kFirstList = 68, kList = 76, kNumListed = 109;
  sector_bytes_ = Uint16At(bytes_, kShift) == 12 ? 4096 : 512;
  const size_t num_sectors = bytes_.size() / sector_bytes_, per_sector = sector_bytes_ / 4;
  const auto add = [&](uint32_t sector) {
    if (sector > kMostSector || next_.size() >= num_sectors) return;
    const std::string_view table = Sector(sector);
    for (size_t i = 0; i < per_sector; ++i)
      next_.push_back(4 * i + 4 <= table.size() ? Uint32At(table, 4 * i) : kNoEntry);
  };
  for (size_t i = 0; i < kNumListed; ++i) add(Uint32At(bytes_, kList + 4 * i));
  uint32_t list = Uint32At(bytes_, kFirstList);
  for (size_t steps = 0; list <= kMostSector && !Sector(list).empty(); ++steps) {
    if (steps > num_sectors) return false;
    for (size_t i = 0; i + 1 < per_sector; ++i) add(Uint32At(Sector(list), 4 * i));
    list = Uint32At(Sector(list), sector_bytes_ - 4);
  }
  return true;
}

// Reads the directory, whose entries are a binary tree within each storage.
bool CompoundFile::ReadDirectory() {
  constexpr size_t kFirst = 48, kType = 66, kLeft = 68, kRight = 72, kChild = 76, kSector = 116,
                   kSize = 120;
  constexpr uint8_t kStorage = 1, kRootStorage = 5;
  const auto directory =
      ReadChain(Uint32At(bytes_, kFirst), bytes_.size(), next_, /*is_mini=*/false);
  if (!directory || directory->size() < kEntryBytes) return false;
  const auto at = [&](uint32_t number) {
    return std::string_view(*directory).substr(number * kEntryBytes, kEntryBytes);
  };
  const auto num_entries = static_cast<uint32_t>(directory->size() / kEntryBytes);
  for (uint32_t i = 0; i < num_entries; ++i) {
    const auto type = static_cast<uint8_t>(at(i)[kType]);
    // Files with small sectors may have anything in the upper half of a size.
    const uint64_t size = sector_bytes_ == 512 ? Uint32At(at(i), kSize) : Uint64At(at(i), kSize);
    entries_.push_back({EntryName(at(i)),
                        type == kStorage || type == kRootStorage,
                        {},
                        Uint32At(at(i), kSector),
                        size});
  }
  std::vector<bool> is_seen(num_entries);
  is_seen[kRoot] = true;
  std::vector<uint32_t> storages = {kRoot};
  while (!storages.empty()) {
    const uint32_t storage = storages.back();
    storages.pop_back();
    // In order: all to the left of an entry, the entry, then all to the right of it.
    std::vector<uint32_t> path;
    uint32_t entry = Uint32At(at(storage), kChild);
    while (entry < num_entries || !path.empty()) {
      while (entry < num_entries) {
        if (is_seen[entry]) return false;
        is_seen[entry] = true;
        path.push_back(entry);
        entry = Uint32At(at(entry), kLeft);
      }
      const uint32_t next = path.back();
      path.pop_back();
      entries_[storage].children.push_back(next);
      if (entries_[next].is_storage) storages.push_back(next);
      entry = Uint32At(at(next), kRight);
    }
  }
  return true;
}

// The bytes of a chain of sectors, no more than `size`; nothing: the chain is a circle.
std::optional<std::string> CompoundFile::ReadChain(uint32_t first, uint64_t size,
                                                   const std::vector<uint32_t>& next,
                                                   bool is_mini) const {
  const std::string_view mini(mini_stream_);
  std::string read;
  // Brent's algorithm: a circle comes back to the sector that was kept last.
  uint32_t kept = kNoEntry;
  uint64_t steps = 0, keep_at = 1;
  for (uint32_t sector = first; sector <= kMostSector && read.size() < size;
       sector = next[sector]) {
    if (sector == kept) return std::nullopt;
    if (++steps == keep_at) {
      kept = sector;
      keep_at *= 2;
    }
    const uint64_t at = uint64_t{sector} * kMiniSectorBytes;
    const std::string_view bytes = !is_mini           ? Sector(sector)
                                   : at < mini.size() ? mini.substr(at, kMiniSectorBytes)
                                                      : std::string_view();
    if (bytes.empty()) break;
    read += bytes.substr(0, size - read.size());
    // Behind a table that is cut off nobody knows which sectors follow.
    if (sector >= next.size()) break;
  }
  return read;
}

api::Result<CompoundFile> CompoundFile::Open(std::string_view bytes) {
  constexpr size_t kFirstMini = 60;
  if (!IsOne(bytes) || bytes.size() < kHeaderBytes)
    return api::Error{LECTERN_INVALID_ARGUMENT, "is no compound file (OLE)", "file"};
  CompoundFile file(bytes);
  if (!file.ReadTables() || !file.ReadDirectory())
    return DamagedCompound("its directory (OLE) is missing, or goes round in a circle");
  const Entry& root = file.entries_[kRoot];
  auto mini = file.ReadChain(root.first_sector, root.size, file.next_, false);
  const auto table = file.ReadChain(Uint32At(bytes, kFirstMini), bytes.size(), file.next_, false);
  if (!mini || !table) return DamagedCompound("its chain of small streams (OLE) is a circle");
  file.mini_stream_ = std::move(*mini);
  for (size_t i = 0; i + 4 <= table->size(); i += 4) file.next_mini_.push_back(Uint32At(*table, i));
  return file;
}

std::optional<uint32_t> CompoundFile::Find(uint32_t storage, std::string_view name) const {
  for (const uint32_t child : entries_[storage].children) {
    if (IsSameName(entries_[child].name, name)) return child;
  }
  return std::nullopt;
}

api::Result<std::string> CompoundFile::Read(uint32_t stream) {
  const Entry& entry = entries_[stream];
  const bool is_mini = entry.size < kMiniCutoff;
  auto read = ReadChain(entry.first_sector, entry.size, is_mini ? next_mini_ : next_, is_mini);
  if (!read) return DamagedCompound("a stream in it (OLE) goes round in a circle");
  // Streams of a sound file share nothing, and a reader may read one of them twice.
  num_read_ += read->size() + kMiniSectorBytes;
  if (num_read_ > 4 * uint64_t{bytes_.size()})
    return DamagedCompound("streams in it (OLE) share their bytes");
  is_cut_off_ |= read->size() < entry.size;
  return std::move(*read);
}

}  // namespace lectern::tools
