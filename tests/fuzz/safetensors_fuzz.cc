// Every tensor of an accepted file lies in the file, and together they cover its data once.
//
// The input is read as it is, as a file whose header ends with the input's last '}' whatever its
// first 8 bytes say (a changed header has another length, and would hardly ever be read), and as an
// index.
#include <cstdlib>
#include <string>

#include "engine/model/formats/safetensors.h"

namespace lectern {
namespace {

constexpr size_t kLengthBytes = 8;

void TryFile(std::string_view bytes) {
  const auto table =
      ParseSafetensors(std::as_bytes(std::span(bytes.data(), bytes.size())), "model.safetensors");
  if (!table.ok()) return;
  uint64_t covered = kLengthBytes;
  for (size_t i = 0; i < kLengthBytes; ++i) {
    covered += static_cast<uint64_t>(static_cast<uint8_t>(bytes[i])) << (8 * i);
  }
  for (const auto& [name, entry] : *table) {
    if (entry.begin > entry.end || entry.end > bytes.size()) std::abort();
    covered += entry.end - entry.begin;
  }
  if (covered != bytes.size()) std::abort();
}

void TryWithFittingLength(std::string bytes) {
  const size_t end = bytes.rfind('}');
  if (end == std::string::npos || end < kLengthBytes) return;
  for (size_t i = 0; i < kLengthBytes; ++i) {
    bytes[i] = static_cast<char>(uint64_t{end + 1 - kLengthBytes} >> (8 * i));
  }
  TryFile(bytes);
}

void TryIndex(std::string_view text) {
  const auto index = ParseSafetensorsIndex(text, "model.safetensors.index.json");
  if (!index.ok()) return;
  for (const auto& [tensor, name] : *index) {
    if (name.find('/') != std::string::npos || name.starts_with(".")) std::abort();
  }
}

}  // namespace
}  // namespace lectern

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  lectern::TryFile(bytes);
  lectern::TryWithFittingLength(std::string(bytes));
  lectern::TryIndex(bytes);
  return 0;
}
