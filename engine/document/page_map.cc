#include "engine/document/page_map.h"

#include <algorithm>

namespace lectern {

bool IsPageMap(std::span<const PageMapEntry> pages, uint64_t text_bytes) {
  const PageMapEntry* previous = nullptr;
  for (const PageMapEntry& entry : pages) {
    if (entry.page == 0 || entry.reserved != 0 || entry.text_begin >= text_bytes) return false;
    if (previous && (entry.text_begin <= previous->text_begin || entry.page <= previous->page)) {
      return false;
    }
    previous = &entry;
  }
  return true;
}

std::optional<uint32_t> PageAt(std::span<const PageMapEntry> pages, uint64_t offset) {
  const auto next = std::upper_bound(
      pages.begin(), pages.end(), offset,
      [](uint64_t at, const PageMapEntry& entry) { return at < entry.text_begin; });
  if (next == pages.begin()) return std::nullopt;
  return std::prev(next)->page;
}

}  // namespace lectern
