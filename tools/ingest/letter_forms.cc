#include "tools/ingest/letter_forms.h"

#include <utf8proc.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "engine/model/tokenizer/compose.h"
#include "tools/ingest/characters.h"

namespace lectern::tools {
namespace {

struct Range {
  uint32_t first, last;
};
// Ascending. Characters with a compatibility mapping (Unicode's NFKC) that is a matter of looks.
constexpr Range kFormRanges[] = {
    {0x0132, 0x0133},    // ij
    {0x0149, 0x0149},    // 'n
    {0x017F, 0x017F},    // long s
    {0x01C4, 0x01CC},    // DŽ to nj
    {0x01F1, 0x01F3},    // DZ
    {0x2E9F, 0x2E9F},    // a CJK radical that is a letter
    {0x2EF3, 0x2EF3},    // likewise
    {0x2F00, 0x2FD5},    // Kangxi radicals
    {0xF900, 0xFAFF},    // CJK compatibility ideographs
    {0xFB00, 0xFDFB},    // Latin, Armenian, Hebrew and Arabic ligatures and forms
    {0xFE70, 0xFEFC},    // Arabic forms
    {0xFF10, 0xFF19},    // full-width digits
    {0xFF21, 0xFF3A},    // full-width letters
    {0xFF41, 0xFF5A},    // likewise
    {0xFF66, 0xFF9F},    // half-width katakana
    {0x1D400, 0x1D7FF},  // mathematical alphabets
    {0x1EE00, 0x1EEFF},  // Arabic ones
    {0x2F800, 0x2FA1D},  // more CJK compatibility ideographs
};
constexpr uint32_t kNoBreakSpace = 0xA0;
constexpr uint32_t kNarrowNoBreakSpace = 0x202F;
constexpr int kMaxMapped = 32;  // code points; the longest mapping has 18

bool IsForm(uint32_t character) {
  const auto* const range =
      std::find_if(std::begin(kFormRanges), std::end(kFormRanges),
                   [&](const Range& candidate) { return character <= candidate.last; });
  return range != std::end(kFormRanges) && character >= range->first;
}

constexpr std::string_view kLigatures[] = {"ff", "fi", "fl", "fj",  "ft",  "fh", "fk",
                                           "fb", "tt", "ti", "tf",  "Th",  "ct", "st",
                                           "sp", "ch", "ck", "ffi", "ffl", "ffj"};

// The ligature whose values stand at `at`, with their bytes swapped; empty: none.
std::string_view SwappedLigature(const std::vector<uint32_t>& word, size_t at) {
  if (at + 1 >= word.size()) return "";
  for (const std::string_view ligature : kLigatures) {
    const auto sum = static_cast<uint32_t>(ligature[1] + (ligature.size() > 2 ? ligature[2] : 0));
    if (word[at] == static_cast<uint32_t>(ligature[0]) << 8 && word[at + 1] == sum << 8)
      return ligature;
  }
  return "";
}

// Thai and Lao fonts draw the vowel AM as a ring above the letter and AA behind it, with a tone
// mark between them or not, and so do PDFs spell it. Puts the vowel that is typed in their place,
// behind the tone mark.
void ComposeAm(std::vector<uint32_t>& characters) {
  constexpr struct {
    uint32_t ring, first_tone, last_tone, aa, am;
  } kScripts[] = {{0x0E4D, 0x0E48, 0x0E4B, 0x0E32, 0x0E33},
                  {0x0ECD, 0x0EC8, 0x0ECB, 0x0EB2, 0x0EB3}};
  for (const auto& script : kScripts) {
    for (size_t ring = 0; ring + 1 < characters.size(); ++ring) {
      if (characters[ring] != script.ring) continue;
      const uint32_t tone = characters[ring + 1];
      const bool has_tone = tone >= script.first_tone && tone <= script.last_tone;
      const size_t aa = ring + (has_tone ? 2 : 1);
      if (aa >= characters.size() || characters[aa] != script.aa) continue;
      characters[ring] = has_tone ? tone : script.am;
      if (has_tone) characters[ring + 1] = script.am;
      characters[aa] = 0;
    }
  }
  std::erase(characters, 0);
}

}  // namespace

void MendSwappedLigatures(std::vector<uint32_t>& word) {
  constexpr uint32_t kFirstFullWidth = 0x2E80;  // Han, kana, Hangul and their signs
  std::vector<uint32_t> mended;
  bool has_latin = false, has_ligature = false;
  for (size_t i = 0; i < word.size(); ++i) {
    const std::string_view ligature = SwappedLigature(word, i);
    if (ligature.empty()) {
      if (word[i] >= kFirstFullWidth) return;
      has_latin = has_latin || (word[i] < 0x80 && IsAsciiLetter(static_cast<char>(word[i])));
      mended.push_back(word[i]);
    } else {
      mended.insert(mended.end(), ligature.begin(), ligature.end());
      has_ligature = true;
      ++i;
    }
  }
  if (has_ligature && has_latin) word = std::move(mended);
}

std::vector<uint32_t> CodePoints(std::string_view text) {
  std::vector<uint32_t> characters;
  characters.reserve(text.size());
  const auto* bytes = reinterpret_cast<const utf8proc_uint8_t*>(text.data());
  for (size_t at = 0; at < text.size();) {
    utf8proc_int32_t character = 0;
    const auto length =
        utf8proc_iterate(bytes + at, static_cast<utf8proc_ssize_t>(text.size() - at), &character);
    characters.push_back(length > 0 ? static_cast<uint32_t>(character) : 0xFFFD);
    at += length > 0 ? static_cast<size_t>(length) : 1;
  }
  return characters;
}

void AppendPlainLetters(uint32_t character, std::vector<uint32_t>& out) {
  if (character == kNoBreakSpace || character == kNarrowNoBreakSpace) return out.push_back(' ');
  if (!IsForm(character)) return out.push_back(character);
  utf8proc_int32_t mapped[kMaxMapped];
  int boundary = 0;
  const auto count = utf8proc_decompose_char(
      static_cast<utf8proc_int32_t>(character), mapped, kMaxMapped,
      static_cast<utf8proc_option_t>(UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT), &boundary);
  if (count <= 0 || count > kMaxMapped) return out.push_back(character);
  // A form of a mark alone begins with a space to stand on; the letter before it carries the mark.
  const bool is_mark = count > 1 && mapped[0] == ' ' && character >= 0xFB50;
  for (int i = is_mark ? 1 : 0; i < count; ++i) out.push_back(static_cast<uint32_t>(mapped[i]));
}

std::string PlainLetters(const std::vector<uint32_t>& characters) {
  std::vector<uint32_t> plain;
  plain.reserve(characters.size());
  for (const uint32_t character : characters) AppendPlainLetters(character, plain);
  ComposeAm(plain);
  std::string text;
  text.reserve(plain.size());
  for (const uint32_t character : plain) AppendUtf8(character, text);
  // Orders marks, and joins those to letters that have a character with the mark (a kana's).
  return std::string(ComposedText(text).text());
}

}  // namespace lectern::tools
