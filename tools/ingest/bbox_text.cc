#include "tools/ingest/bbox_text.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <iterator>
#include <optional>
#include <utility>

#include "engine/model/formats/text.h"
#include "tools/ingest/characters.h"
#include "tools/ingest/letter_forms.h"
#include "tools/ingest/letter_spacing.h"
#include "tools/ingest/raised_numbers.h"
#include "tools/ingest/small_capitals.h"

namespace lectern::tools {
namespace {

// Limits that no PDF of words reaches; they bound the memory that hostile output can take.
constexpr size_t kMaxToken = size_t{1} << 20;  // bytes of a tag, of a word, of what is before <doc>
constexpr uint64_t kMaxPages = uint64_t{1} << 24;
constexpr size_t kMaxPageWords = size_t{1} << 17;  // laid out at once
constexpr double kMaxPlace = 1e6;                  // points; pages have at most 14,400
constexpr uint32_t kByteOrderMarkCharacter = 0xFEFF;
constexpr std::string_view kDocumentTag = "<doc>";
// Names of the elements, by Level; kBefore has none, and kAfter is never looked up.
constexpr std::string_view kNames[] = {"", "doc", "page", "flow", "block", "line", "word"};

bool IsXmlSpace(char c) { return c == ' ' || c == '\n' || c == '\r' || c == '\t'; }

// The character that an entity stands for, by the text between & and ;: "amp", "#38" or "#x26".
// Nothing: it is none, or beyond Unicode. A surrogate's bytes are replaced later, by CleanUtf8.
std::optional<uint32_t> Entity(std::string_view name) {
  constexpr std::pair<std::string_view, char> kNamed[] = {
      {"amp", '&'}, {"lt", '<'}, {"gt", '>'}, {"quot", '"'}, {"apos", '\''}};
  for (const auto& [known, character] : kNamed) {
    if (name == known) return static_cast<uint8_t>(character);
  }
  if (!name.starts_with('#')) return std::nullopt;
  const int base = name.starts_with("#x") ? 16 : 10;
  name.remove_prefix(base == 16 ? 2 : 1);
  uint32_t value = 0;
  const auto [end, error] = std::from_chars(name.begin(), name.end(), value, base);
  if (error != std::errc() || end != name.end() || value > 0x10FFFF) return std::nullopt;
  return value;
}

// The value of an attribute, which is found by ` name="`; 0 where it is missing or no finite
// number. That is good enough: places decide how words are arranged, not which words there are.
double Attribute(std::string_view tag, std::string_view name_and_quote) {
  const size_t found = tag.find(name_and_quote);
  if (found == std::string_view::npos) return 0;
  tag.remove_prefix(found + name_and_quote.size());
  double value = 0;
  const auto parsed = std::from_chars(tag.data(), tag.data() + tag.size(), value);
  return parsed.ec == std::errc() && std::abs(value) <= kMaxPlace ? value : 0;
}

PdfBox BoxOf(std::string_view tag) {
  return {Attribute(tag, " xMin=\""), Attribute(tag, " yMin=\""), Attribute(tag, " xMax=\""),
          Attribute(tag, " yMax=\"")};
}

// Whether a PDF's program gave the character no meaning: pdftotext prints U+FFFD, a control
// character, or one for private use.
bool IsUnmapped(uint32_t character) {
  return character == 0xFFFD || character < 0x20 || (character >= 0xE000 && character <= 0xF8FF) ||
         character >= 0xF0000;
}

// ASCII signs that are few in any text. Those of rules, leaders, dates and paths are none of them.
bool IsRareSign(uint32_t character) {
  constexpr std::string_view kRareSigns = "!\"#$%&'();<>?@[\\]^`{}";
  return character < 0x80 &&
         kRareSigns.find(static_cast<char>(character)) != std::string_view::npos;
}

// The sign that a bullet or an arrow of Symbol or Wingdings stands for, which text processors leave
// in the range for private use; others are returned as they are.
uint32_t WithoutPrivateBullet(uint32_t character) {
  constexpr std::pair<uint32_t, uint32_t> kBullets[] = {
      {0xF0B7, 0x2022}, {0xF0A7, 0x25AA}, {0xF0D8, 0x27A2}, {0xF076, 0x2756}, {0xF0FC, 0x2713},
      {0xF0FB, 0x2717}, {0xF06F, 0x25A1}, {0xF0A8, 0x25FB}, {0xF0E0, 0x2192}, {0xF0E8, 0x2794}};
  for (const auto& [private_use, sign] : kBullets) {
    if (character == private_use) return sign;
  }
  return character;
}

// Whether a word is likely to be the numbers of glyphs, counted from 33 ("!"), in the place of
// letters: signs and digits alone, at least four different signs that texts have few of.
bool IsOfGlyphNumbers(const std::vector<uint32_t>& word) {
  constexpr size_t kDifferentSigns = 4;
  std::vector<uint32_t> signs;
  for (const uint32_t character : word) {
    if (character < 0x21 || character > 0x40) return false;
    const bool is_new = std::find(signs.begin(), signs.end(), character) == signs.end();
    if (IsRareSign(character) && is_new) signs.push_back(character);
  }
  return signs.size() >= kDifferentSigns;
}

// Appends characters with their entities decoded. False: an "&" begins no entity.
bool Decode(std::string_view characters, std::string& out) {
  while (!characters.empty()) {
    const size_t mark = std::min(characters.find('&'), characters.size());
    out.append(characters.substr(0, mark));
    characters.remove_prefix(mark);
    if (characters.empty()) return true;
    const size_t end = characters.find(';');
    if (end == std::string_view::npos) return false;
    const auto character = Entity(characters.substr(1, end - 1));
    if (!character) return false;
    AppendUtf8(*character, out);
    characters.remove_prefix(end + 1);
  }
  return true;
}

}  // namespace

bool BboxText::Take(std::string_view bytes) {
  if (has_failed_) return false;
  if (level_ == kAfter) return true;
  pending_.append(bytes);
  has_failed_ = true;  // so that each return of false below is remembered
  if (level_ == kBefore && !TakeHead()) return false;
  size_t begin = 0;
  while (level_ != kBefore && level_ != kAfter && begin < pending_.size()) {
    const bool is_tag = pending_[begin] == '<';
    const size_t end = pending_.find(is_tag ? '>' : '<', begin);
    if (end == std::string::npos) break;
    const auto token = std::string_view(pending_).substr(begin, end - begin);
    if (token.size() > kMaxToken) return false;
    if (!(is_tag ? TakeTag(token.substr(1)) : TakeCharacters(token))) return false;
    begin = is_tag ? end + 1 : end;
  }
  pending_.erase(0, begin);
  has_failed_ = pending_.size() > kMaxToken + kDocumentTag.size();
  return !has_failed_;
}

// Skips everything up to <doc>: the XML declaration, a title and the like. Without a <doc> yet, it
// keeps the last bytes, which may be the beginning of one. False: too much came before it.
bool BboxText::TakeHead() {
  const size_t found = pending_.find(kDocumentTag);
  const size_t skipped = found != std::string::npos
                             ? found
                             : pending_.size() - std::min(pending_.size(), kDocumentTag.size() - 1);
  head_bytes_ += skipped;
  pending_.erase(0, skipped);
  if (found != std::string::npos) {
    pending_.erase(0, kDocumentTag.size());
    level_ = kDocument;
  }
  return head_bytes_ <= kMaxToken;
}

// Takes a tag, without its brackets. False: the element may not stand here. An end tag closes one
// level; an opening tag opens exactly the next one, which bounds the depth.
bool BboxText::TakeTag(std::string_view tag) {
  if (tag.starts_with('/')) {
    if (tag.substr(1) != kNames[level_]) return false;
    if (level_ == kWord) EndWord();
    if (level_ == kLine) EndLine();
    if (level_ == kPage) EndPage();
    if (level_ == kDocument) {
      level_ = kAfter;
    } else {
      level_ = static_cast<Level>(level_ - 1);
    }
    return true;
  }
  const std::string_view name = tag.substr(0, tag.find(' '));
  if (level_ == kWord || name != kNames[level_ + 1] || tag.ends_with('/')) return false;
  level_ = static_cast<Level>(level_ + 1);
  BeginElement(tag);
  return num_pages_ <= kMaxPages;
}

void BboxText::BeginElement(std::string_view tag) {
  if (level_ == kPage) {
    page_ = PdfPage();
    page_.number = ++num_pages_;
    page_.width = Attribute(tag, " width=\"");
    page_.height = Attribute(tag, " height=\"");
    const auto [begin, end] = std::equal_range(
        ligatures_.begin(), ligatures_.end(), PdfLigature{.page = page_.number},
        [](const PdfLigature& a, const PdfLigature& b) { return a.page < b.page; });
    page_ligatures_ = {begin, end};
  }
  if (level_ == kBlock) page_.blocks.push_back(BoxOf(tag));
  if (level_ == kLine) line_.box = BoxOf(tag);
  if (level_ == kWord) word_box_ = BoxOf(tag);
}

// Characters outside of words may only be white space.
bool BboxText::TakeCharacters(std::string_view characters) {
  if (level_ == kWord) return Decode(characters, word_);
  return std::all_of(characters.begin(), characters.end(), IsXmlSpace);
}

// Appends the word that has ended to the line. Control characters, byte order marks and words of
// white space alone are left out.
void BboxText::EndWord() {
  std::string text;
  std::vector<uint32_t> characters = CodePoints(CleanUtf8(word_).text);
  MendSwappedLigatures(characters);
  if (IsOfGlyphNumbers(characters)) page_.num_sign_words += characters.size();
  for (const uint32_t private_use : characters) {
    const uint32_t character = WithoutPrivateBullet(private_use);
    ++page_.num_characters;
    if (IsUnmapped(character)) ++page_.num_unmapped;
    if (character < 0x20) ++page_.num_controls;
    if (IsRareSign(character)) ++page_.num_rare_signs;
    if (character >= 0x20 && character != 0x7F && character != kByteOrderMarkCharacter) {
      AppendUtf8(character, text);
    }
  }
  word_.clear();
  if (std::all_of(text.begin(), text.end(), IsXmlSpace)) return;
  may_have_ligatures_ = may_have_ligatures_ || MayHaveLigature(text);
  TurnLigatures(page_ligatures_, word_box_.x_min, word_box_.y_min, text);
  line_.words.push_back({std::move(text), word_box_});
  ++page_.num_words;
}

void BboxText::EndLine() {
  line_.block = page_.blocks.size() - 1;
  if (!line_.words.empty()) page_.lines.push_back(std::move(line_));
  line_ = PdfLine();
  if (page_.num_words >= kMaxPageWords) EndPage();
}

void BboxText::EndPage() {
  // When a page is laid out in parts, the rest of the same block still has its place.
  PdfPage rest;
  rest.number = page_.number;
  rest.width = page_.width;
  rest.height = page_.height;
  rest.blocks.push_back(page_.blocks.empty() ? PdfBox() : page_.blocks.back());
  const auto replacement =
      std::lower_bound(replacements_.begin(), replacements_.end(), page_.number,
                       [](const PdfPage& page, uint64_t number) { return page.number < number; });
  const bool is_replaced =
      replacement != replacements_.end() && replacement->number == page_.number;
  if (!is_replaced) {
    JoinSmallCapitals(page_);
    JoinRaisedNumbers(page_);
    JoinLetters(page_);
  }
  document_.Add(is_replaced ? std::move(*replacement) : std::move(page_));
  if (is_replaced) *replacement = rest;
  page_ = std::move(rest);
}

bool BboxText::Finish(PagedText& out, const PdfStructure& structure) {
  if (has_failed_ || level_ != kAfter) return false;
  out = document_.Finish(num_pages_, structure);
  has_failed_ = true;
  return true;
}

}  // namespace lectern::tools
