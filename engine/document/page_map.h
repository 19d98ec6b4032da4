// Maps places of a text to pages of its source, for documents that came from pages.
#ifndef LECTERN_ENGINE_DOCUMENT_PAGE_MAP_H_
#define LECTERN_ENGINE_DOCUMENT_PAGE_MAP_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "store/shard_format.h"

namespace lectern {

// Whether the entries are a valid page map: both numbers ascend strictly, pages count from 1, every
// page begins inside the text, and `reserved` is 0. A page without text has no entry; no entries
// are a valid map.
bool IsPageMap(std::span<const PageMapEntry> pages, uint64_t text_bytes);

// The page of the byte at `offset`; nothing without a map, or before its first page. Past the text
// it is the last page. `pages`: as IsPageMap has them; not checked.
std::optional<uint32_t> PageAt(std::span<const PageMapEntry> pages, uint64_t offset);

// Whether `labels` are the labels of so many pages: valid UTF-8 of one line for each page of the
// map, with a newline behind each, without control characters; an empty line: the page's number is
// its label. Empty labels are valid for any pages.
bool ArePageLabels(std::string_view labels, size_t num_pages);

// The label of the page of the byte at `offset`; empty: it is the page's number, or PageAt has
// none. `pages` and `labels`: as IsPageMap and ArePageLabels have them; not checked.
std::string_view PageLabelAt(std::span<const PageMapEntry> pages, std::string_view labels,
                             uint64_t offset);

}  // namespace lectern

#endif  // LECTERN_ENGINE_DOCUMENT_PAGE_MAP_H_
