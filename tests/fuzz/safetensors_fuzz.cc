// Every tensor of an accepted file lies in the file, and together they cover its data once.
#include <cstdlib>

#include "engine/safetensors.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::span<const std::byte> file(reinterpret_cast<const std::byte*>(data), size);
  const auto table = lectern::ParseSafetensors(file, "model.safetensors");
  if (table.ok()) {
    uint64_t covered = 8;
    for (size_t i = 0; i < 8; ++i) covered += static_cast<uint64_t>(data[i]) << (8 * i);
    for (const auto& [name, entry] : *table) {
      if (entry.begin > entry.end || entry.end > size) std::abort();
      covered += entry.end - entry.begin;
    }
    if (covered != size) std::abort();
  }

  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto index = lectern::ParseSafetensorsIndex(text, "model.safetensors.index.json");
  if (!index.ok()) return 0;
  for (const auto& [tensor, name] : *index) {
    if (name.find('/') != std::string::npos || name.starts_with(".")) std::abort();
  }
  return 0;
}
