#include "engine/model/tokenizer/charsmap.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "engine/model/formats/text.h"

namespace lectern {
namespace {

constexpr size_t kMaxUnits = 1u << 20;  // the largest published table has about 60,000
constexpr size_t kMaxKey = 128;         // bytes
constexpr int kMaxMatches = 32;         // Normalizer::kMaxTrieResultsSize

// How the library reads a unit (DoubleArrayUnit in darts.h).
struct Unit {
  uint32_t bits;
  bool has_leaf() const { return ((bits >> 8) & 1u) != 0; }
  uint32_t value() const { return bits & 0x7FFFFFFFu; }
  uint32_t label() const { return bits & 0x800000FFu; }  // a value unit has no byte label
  uint32_t offset() const { return (bits >> 10) << ((bits & 0x200u) >> 6); }
};

// Little-endian on every machine.
uint32_t ReadU32(std::string_view bytes) {
  uint32_t value = 0;
  for (size_t b = 0; b < 4; ++b) {
    value |= static_cast<uint32_t>(static_cast<uint8_t>(bytes[b])) << (8 * b);
  }
  return value;
}

// The unit `i` of the array.
Unit UnitAt(std::string_view units, size_t i) { return {ReadU32(units.substr(4 * i, 4))}; }

// Continuation bytes that valid UTF-8 still owes after `byte`, or -1 when `byte` cannot come.
int Owed(int owed, uint32_t byte) {
  if (owed > 0) return byte >= 0x80 && byte < 0xC0 ? owed - 1 : -1;
  if (byte < 0x80) return 0;
  if (byte < 0xC2 || byte > 0xF4) return -1;
  return byte < 0xE0 ? 1 : byte < 0xF0 ? 2 : 3;
}

// Walks every path that valid UTF-8 can take through the array, once, so that later searches need
// no checks. Subtrees may be shared (the array is a DAWG), so the result below a place is
// remembered for each number of owed bytes; without that a small file could have exponentially many
// paths.
class Walker {
 public:
  Walker(std::string_view units, std::string_view replacements)
      : units_(units), num_units_(units.size() / 4), replacements_(replacements) {}

  // Walks from the root. The array must have whole units, and few enough for the walk's memory.
  std::optional<std::string> FindFault() {
    if (num_units_ == 0 || num_units_ > kMaxUnits || units_.size() % 4 != 0) {
      return "the size of its table is wrong";
    }
    matches_below_.assign(num_units_ * 4, kUnvisited);
    Visit(At(0).offset(), 0, 0);
    return fault_;
  }

 private:
  static constexpr int8_t kUnvisited = -1, kOnPath = -2;

  Unit At(size_t i) const { return UnitAt(units_, i); }

  int Fail(const char* what) {
    if (!fault_) fault_ = what;
    return 0;
  }

  // Visits the node whose children are at base ^ byte. `owed`: bytes that the current character
  // still needs; `depth`: bytes of the key so far. Returns the most keys that end below the node on
  // one path.
  int Visit(size_t base, int owed, size_t depth) {
    if ((base | 0xFFu) >= num_units_) return Fail("a transition leaves the table");
    if (depth > kMaxKey) return Fail("a key is too long");
    int8_t& known = matches_below_[base * 4 + static_cast<size_t>(owed)];
    if (known == kOnPath) return Fail("its table has a cycle");
    if (known != kUnvisited) return known;
    known = kOnPath;
    int most = 0;
    for (uint32_t byte = 0; byte < 256 && !fault_; ++byte) {
      const int next_owed = Owed(owed, byte);
      const size_t child = base ^ byte;
      const Unit unit = At(child);
      if (next_owed < 0 || unit.label() != byte) continue;
      const size_t next_base = child ^ unit.offset();
      int matches = Visit(next_base, next_owed, depth + 1);
      if (unit.has_leaf() && !fault_) {
        if (next_owed != 0) return Fail("a key ends inside a character");
        CheckReplacement(At(next_base).value());
        ++matches;
      }
      most = std::max(most, matches);
    }
    if (most > kMaxMatches) return Fail("too many keys begin alike");
    matches_below_[base * 4 + static_cast<size_t>(owed)] = static_cast<int8_t>(most);
    return most;
  }

  // Checks the replacement at this offset.
  void CheckReplacement(size_t begin) {
    if (begin >= replacements_.size()) {
      Fail("a replacement lies outside the table");
      return;
    }
    std::string_view text = replacements_.substr(begin, kMaxReplacement + 1);
    const size_t end = text.find('\0');
    if (end == std::string_view::npos) {
      Fail("a replacement is too long or has no end");
      return;
    }
    if (!IsValidUtf8(text.substr(0, end))) Fail("a replacement is not valid UTF-8");
  }

  std::string_view units_;
  size_t num_units_;
  std::string_view replacements_;
  std::vector<int8_t> matches_below_;  // [unit][owed bytes]
  std::optional<std::string> fault_;
};

}  // namespace

std::optional<std::string> FindCharsmapFault(std::string_view charsmap) {
  if (charsmap.size() < 4) return "it is too short";
  const uint32_t units_bytes = ReadU32(charsmap);
  charsmap.remove_prefix(4);
  if (units_bytes >= charsmap.size()) return "its table is cut short";
  return Walker(charsmap.substr(0, units_bytes), charsmap.substr(units_bytes)).FindFault();
}

Charsmap::Charsmap(std::string_view charsmap) {
  if (charsmap.empty()) return;
  const uint32_t units_bytes = ReadU32(charsmap);
  units_ = charsmap.substr(4, units_bytes);
  replacements_ = charsmap.substr(4 + size_t{units_bytes});
}

std::optional<Charsmap::Replacement> Charsmap::Longest(std::string_view text) const {
  return Find(text, true);
}

std::optional<Charsmap::Replacement> Charsmap::Shortest(std::string_view text) const {
  return Find(text, false);
}

// Follows the text byte by byte: a child is at base ^ byte, and is there if its label is the byte.
std::optional<Charsmap::Replacement> Charsmap::Find(std::string_view text, bool longest) const {
  std::optional<Replacement> found;
  if (units_.empty()) return found;
  size_t base = UnitAt(units_, 0).offset();
  for (size_t i = 0; i < text.size(); ++i) {
    const uint8_t byte = static_cast<uint8_t>(text[i]);
    if (byte == 0) break;  // the library's keys end there
    const size_t child = base ^ byte;
    const Unit unit = UnitAt(units_, child);
    if (unit.label() != byte) break;
    base = child ^ unit.offset();
    if (!unit.has_leaf()) continue;
    const std::string_view rest = replacements_.substr(UnitAt(units_, base).value());
    found = {i + 1, rest.substr(0, rest.find('\0'))};
    if (!longest) break;
  }
  return found;
}

}  // namespace lectern
