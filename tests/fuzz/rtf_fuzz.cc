// Whatever an RTF file is: the filter ends, and its result is not much longer than the file.
#include <cstdlib>
#include <string_view>

#include "tools/ingest/rtf_filter.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view rtf(reinterpret_cast<const char*>(data), size);
  const auto filtered = lectern::tools::FilterRtf(rtf);
  // A note of nine bytes becomes a reference and a paragraph, each with a number.
  if (filtered.rtf.size() > 6 * size) std::abort();
  if (filtered.num_comments > size) std::abort();
  return 0;
}
