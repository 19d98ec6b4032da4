#include "tools/ingest/bbox_text.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <iterator>
#include <optional>

#include "engine/model/formats/text.h"
#include "tools/ingest/characters.h"

namespace lectern::tools {
namespace {

// Limits that no PDF of words reaches; they bound the memory that hostile output can take.
constexpr size_t kMaxToken = size_t{1} << 20;  // bytes of a tag, of a word, of what is before <doc>
constexpr uint64_t kMaxPages = uint64_t{1} << 24;
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
// number. That is good enough: places only decide between a space and a newline.
double Attribute(std::string_view tag, std::string_view name_and_quote) {
  const size_t found = tag.find(name_and_quote);
  if (found == std::string_view::npos) return 0;
  tag.remove_prefix(found + name_and_quote.size());
  double value = 0;
  const auto parsed = std::from_chars(tag.data(), tag.data() + tag.size(), value);
  return parsed.ec == std::errc() && std::isfinite(value) ? value : 0;
}

// For hyphens: a-z, and any byte of a character beyond ASCII, without a table of which are small.
bool IsSmallLetter(char c) { return (c >= 'a' && c <= 'z') || static_cast<uint8_t>(c) >= 0x80; }

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
  if (level_ == kPage) {
    ++paged_.num_pages;
    is_page_begun_ = false;
  }
  if (level_ == kPage || level_ == kBlock) gap_ = Gap::kBlock;
  if (level_ == kLine) gap_ = std::max(gap_, Gap::kLine);
  const Span span = {Attribute(tag, " xMin=\""), Attribute(tag, " xMax=\"")};
  if (level_ == kBlock) block_ = span;
  if (level_ == kLine) line_ = span;
  if (level_ == kWord) span_ = span;
  return paged_.num_pages <= kMaxPages;
}

// Characters outside of words may only be white space.
bool BboxText::TakeCharacters(std::string_view characters) {
  if (level_ == kWord) return Decode(characters, word_);
  return std::all_of(characters.begin(), characters.end(), IsXmlSpace);
}

// Appends the word that has ended to the text, with the gap that goes before it. Control characters
// and words of white space alone are left out.
void BboxText::EndWord() {
  std::string word;
  for (const char c : CleanUtf8(word_).text) {
    if (static_cast<uint8_t>(c) >= 0x20 && c != 0x7F) word += c;
  }
  word_.clear();
  std::string& text = paged_.text;
  // A byte order mark at the very start would not be text for the engine.
  while (text.empty() && word.starts_with(kByteOrderMark)) word.erase(0, kByteOrderMark.size());
  if (std::all_of(word.begin(), word.end(), IsXmlSpace)) return;
  if (gap_ == Gap::kLine) {  // behind another line of this block
    JoinLines(word);
  } else if (!text.empty()) {
    text += gap_ == Gap::kSpace ? " " : "\n\n";
  }
  // The page begins where its first word does, behind the gap; pages are numbered from 1.
  if (!is_page_begun_) paged_.pages.push_back({text.size(), paged_.num_pages});
  is_page_begun_ = true;
  gap_ = Gap::kSpace;
  line_end_ = line_.end;
  text += word;
}

// Ends the last line of the text before `word` of the next line in the same block: with nothing for
// a hyphen that goes, else with a space or a newline (PagedText).
void BboxText::JoinLines(std::string_view word) {
  std::string& text = paged_.text;
  const bool is_hyphenated = text.size() >= 2 && text.back() == '-' &&
                             IsSmallLetter(text[text.size() - 2]) && IsSmallLetter(word.front());
  if (is_hyphenated) return text.pop_back();
  // The word's width with a space before it, which is about as wide as one of the word's
  // characters. Bytes are counted as characters, which is near enough.
  const auto num_characters = static_cast<double>(word.size());
  const double width = (span_.end - span_.begin) * (num_characters + 1) / num_characters;
  const bool would_fit = width > 0 && block_.end - line_end_ > width;
  text += would_fit ? '\n' : ' ';
}

bool BboxText::Finish(PagedText& out) {
  if (has_failed_ || level_ != kAfter) return false;
  if (!paged_.text.empty()) paged_.text += '\n';
  out = std::move(paged_);
  has_failed_ = true;
  return true;
}

}  // namespace lectern::tools
