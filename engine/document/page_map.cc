#include "engine/document/page_map.h"

#include <algorithm>

#include "engine/model/formats/text.h"

namespace lectern {
namespace {

using PageMap = std::span<const PageMapEntry>;

// The first entry that begins behind `offset`.
PageMap::iterator NextPage(PageMap pages, uint64_t offset) {
  return std::upper_bound(
      pages.begin(), pages.end(), offset,
      [](uint64_t at, const PageMapEntry& entry) { return at < entry.text_begin; });
}

}  // namespace

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
  const auto next = NextPage(pages, offset);
  if (next == pages.begin()) return std::nullopt;
  return std::prev(next)->page;
}

bool ArePageLabels(std::string_view labels, size_t num_pages) {
  if (labels.empty()) return true;
  const bool has_control = std::any_of(labels.begin(), labels.end(), [](char c) {
    return (static_cast<uint8_t>(c) < 0x20 && c != '\n') || c == 0x7F;
  });
  return labels.ends_with('\n') && !has_control && IsValidUtf8(labels) &&
         std::count(labels.begin(), labels.end(), '\n') == static_cast<ptrdiff_t>(num_pages);
}

std::string_view PageLabelAt(std::span<const PageMapEntry> pages, std::string_view labels,
                             uint64_t offset) {
  const auto next = NextPage(pages, offset);
  if (labels.empty() || next == pages.begin()) return {};
  for (auto page = pages.begin(); page != std::prev(next); ++page) {
    labels.remove_prefix(labels.find('\n') + 1);
  }
  return labels.substr(0, labels.find('\n'));
}

}  // namespace lectern
