// Writes compound files (MS-CFB, "OLE") for tests. Header only.
#ifndef LECTERN_TESTS_TOOLS_COMPOUND_WRITER_H_
#define LECTERN_TESTS_TOOLS_COMPOUND_WRITER_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lectern::tools {

// A number as the lowest `size` bytes, the lowest first.
inline std::string Little(uint64_t number, int size) {
  std::string bytes;
  for (int i = 0; i < size; ++i, number >>= 8) bytes += static_cast<char>(number);
  return bytes;
}

// ASCII as UTF-16.
inline std::string Wide(std::string_view text) {
  std::string wide;
  for (const char c : text) wide += {c, '\0'};
  return wide;
}

// A compound file of streams: names and contents. A name "a/b" is the stream b in the storage a;
// the streams of a storage stand together.
class CompoundWriter {
 public:
  static std::string Write(const std::vector<std::pair<std::string, std::string>>& streams) {
    return CompoundWriter().All(streams);
  }

 private:
  static constexpr uint32_t kEnd = 0xFFFFFFFE, kFree = 0xFFFFFFFF, kTable = 0xFFFFFFFD;
  static constexpr size_t kSector = 512, kMini = 64, kCutoff = 4096;
  struct Item {
    std::string name;
    uint8_t type;
    uint32_t right = kFree, child = kFree, first = 0;
    uint64_t size = 0;
  };

  std::string All(const std::vector<std::pair<std::string, std::string>>& streams) {
    items_.push_back({"Root Entry", 5});
    for (const auto& [path, content] : streams) {
      uint32_t storage = 0;
      std::string_view rest = path;
      for (size_t slash; (slash = rest.find('/')) != rest.npos; rest.remove_prefix(slash + 1))
        storage = Add(storage, rest.substr(0, slash), 1);
      Item& item = items_[Add(storage, rest, 2)];
      item.size = content.size();
      item.first = content.size() < kCutoff ? PutMini(content) : Put(content);
    }
    items_[0].size = mini_.size();
    items_[0].first = mini_.empty() ? kEnd : Put(mini_);
    std::string mini_table;
    for (const uint32_t next : mini_next_) mini_table += Little(next, 4);
    const uint32_t first_mini = mini_table.empty() ? kEnd : Put(mini_table);
    std::string directory;
    for (const Item& item : items_) directory += Entry(item);
    const uint32_t first_entry = Put(directory);
    const size_t per_sector = kSector / 4;
    size_t num_tables = 1;
    while (num_tables * per_sector < next_.size() + num_tables) ++num_tables;
    const auto first_table = static_cast<uint32_t>(next_.size());
    next_.resize(first_table + num_tables, kTable);
    std::string table;
    for (const uint32_t next : next_) table += Little(next, 4);
    table.resize(num_tables * kSector, '\xFF');
    std::string header = "\xD0\xCF\x11\xE0\xA1\xB1\x1A\xE1" + std::string(16, '\0') +
                         Little(0x3E, 2) + Little(3, 2) + Little(0xFFFE, 2) + Little(9, 2) +
                         Little(6, 2) + std::string(10, '\0') + Little(num_tables, 4) +
                         Little(first_entry, 4) + Little(0, 4) + Little(kCutoff, 4) +
                         Little(first_mini, 4) + Little((mini_table.size() + 511) / kSector, 4) +
                         Little(kEnd, 4) + Little(0, 4);
    for (size_t i = 0; i < num_tables && i < 109; ++i) header += Little(first_table + i, 4);
    header.resize(kSector, '\xFF');
    return header + sectors_ + table;
  }

  // The entry of a name in a storage, a new one if there is none.
  uint32_t Add(uint32_t storage, std::string_view name, uint8_t type) {
    uint32_t last = kFree;
    for (uint32_t i = items_[storage].child; i != kFree; last = i, i = items_[i].right) {
      if (items_[i].name == name) return i;
    }
    const auto added = static_cast<uint32_t>(items_.size());
    items_.push_back({std::string(name), type});
    (last == kFree ? items_[storage].child : items_[last].right) = added;
    return added;
  }

  uint32_t Put(std::string_view content) {
    const auto first = static_cast<uint32_t>(next_.size());
    for (size_t at = 0; at < content.size(); at += kSector) {
      std::string sector(content.substr(at, kSector));
      sector.resize(kSector, '\0');
      sectors_ += sector;
      next_.push_back(static_cast<uint32_t>(next_.size() + 1));
    }
    if (next_.size() == first) return kEnd;
    next_.back() = kEnd;
    return first;
  }

  uint32_t PutMini(std::string_view content) {
    const auto first = static_cast<uint32_t>(mini_next_.size());
    for (size_t at = 0; at < content.size(); at += kMini) {
      std::string sector(content.substr(at, kMini));
      sector.resize(kMini, '\0');
      mini_ += sector;
      mini_next_.push_back(static_cast<uint32_t>(mini_next_.size() + 1));
    }
    if (mini_next_.size() == first) return kEnd;
    mini_next_.back() = kEnd;
    return first;
  }

  static std::string Entry(const Item& item) {
    std::string name = Wide(item.name.substr(0, 31));
    const size_t size = name.size() + 2;
    name.resize(64, '\0');
    return name + Little(size, 2) + Little(item.type, 1) + Little(1, 1) + Little(kFree, 4) +
           Little(item.right, 4) + Little(item.child, 4) + std::string(36, '\0') +
           Little(item.first, 4) + Little(item.size, 8);
  }

  std::vector<Item> items_;
  std::string sectors_, mini_;
  std::vector<uint32_t> next_, mini_next_;
};

}  // namespace lectern::tools

#endif  // LECTERN_TESTS_TOOLS_COMPOUND_WRITER_H_
