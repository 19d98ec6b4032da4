#include "tools/ingest/extract/compressed_rtf.h"

#include <algorithm>
#include <array>
#include <cstdint>

#include "tools/ingest/compound_file.h"

namespace lectern::tools {
namespace {

// The dictionary before the first byte.
constexpr std::string_view kFirstWords =
    "{\\rtf1\\ansi\\mac\\deff0\\deftab720{\\fonttbl;}{\\f0\\fnil \\froman \\fswiss \\fmodern "
    "\\fscript \\fdecor MS Sans SerifSymbolArialTimes New RomanCourier{\\colortbl\\red0\\green0"
    "\\blue0\r\n\\par \\pard\\plain\\f0\\fs20\\b\\i\\u\\tab\\tx";

}  // namespace

std::string DecompressRtf(std::string_view bytes) {
  constexpr size_t kHead = 16, kKind = 8, kDictionary = 4096;
  constexpr uint32_t kCompressed = 0x75465A4C, kPlain = 0x414C454D;
  const uint32_t kind = Uint32At(bytes, kKind), size = Uint32At(bytes, 4);
  std::string_view rest = bytes.substr(std::min(kHead, bytes.size()));
  if (kind == kPlain) return std::string(rest.substr(0, size));
  if (kind != kCompressed) return "";
  std::array<char, kDictionary> dictionary{};
  std::ranges::copy(kFirstWords, dictionary.begin());
  size_t write = kFirstWords.size();
  std::string rtf;
  const auto add = [&](char c) {
    rtf += c;
    dictionary[write] = c;
    write = (write + 1) % kDictionary;
  };
  while (!rest.empty() && rtf.size() < size) {
    const auto flags = static_cast<uint8_t>(rest[0]);
    rest.remove_prefix(1);
    for (int bit = 0; bit < 8 && !rest.empty() && rtf.size() < size; ++bit) {
      if (!(flags >> bit & 1)) {
        add(rest[0]);
        rest.remove_prefix(1);
        continue;
      }
      if (rest.size() < 2) return rtf;
      const size_t token =
          size_t{static_cast<uint8_t>(rest[0])} << 8 | static_cast<uint8_t>(rest[1]);
      rest.remove_prefix(2);
      const size_t from = token >> 4, length = (token & 0xF) + 2;
      if (from == write) return rtf;  // the end
      for (size_t i = 0; i < length && rtf.size() < size; ++i)
        add(dictionary[(from + i) % kDictionary]);
    }
  }
  return rtf;
}

api::Result<std::string> ReadMsgRtf(std::string_view bytes) {
  auto file = CompoundFile::Open(bytes);
  if (!file.ok()) return file.error();
  const auto entry = file->Find(CompoundFile::kRoot, "__substg1.0_10090102");
  if (!entry) return std::string();
  auto stream = file->Read(*entry);
  if (!stream.ok()) return stream.error();
  return DecompressRtf(*stream);
}

}  // namespace lectern::tools
