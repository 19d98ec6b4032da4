// From which page of its source a place of the text is: documents that came from pages have a map.
#ifndef LECTERN_ENGINE_DOCUMENT_PAGE_MAP_H_
#define LECTERN_ENGINE_DOCUMENT_PAGE_MAP_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "store/shard_format.h"

namespace lectern {

// Where pages begin: both numbers ascend strictly, pages count from 1, every page begins inside the
// text. A page without text has no entry.
bool IsPageMap(std::span<const PageMapEntry> pages, uint64_t text_bytes);

// The page of the byte at `offset`; none where there is no map, or before its first page.
std::optional<uint32_t> PageAt(std::span<const PageMapEntry> pages, uint64_t offset);

}  // namespace lectern

#endif  // LECTERN_ENGINE_DOCUMENT_PAGE_MAP_H_
