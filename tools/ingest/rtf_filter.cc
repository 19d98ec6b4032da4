#include "tools/ingest/rtf_filter.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "engine/model/formats/text.h"
#include "tools/ingest/characters.h"
#include "tools/ingest/charset_conversion.h"

namespace lectern::tools {
namespace {

constexpr int kMostFallbacks = 8;  // for a character; encodings need four at most

// One token of RTF: a brace, a control word with its number, or a character.
struct RtfToken {
  enum class Kind { kOpen, kClose, kWord, kText, kOther };
  Kind kind = Kind::kText;
  std::string_view bytes;      // as they stand, with the space behind a control word
  std::string_view word = {};  // of a control word, without its number
  std::optional<int> number = {};
};

// How many bytes a character has whose first byte is `lead`, in valid UTF-8.
size_t Utf8Bytes(uint8_t lead) { return lead < 0x80 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4; }

// Takes the next token off the front of `rtf`, which is not empty. `is_utf8`: all of it is.
RtfToken TakeRtfToken(std::string_view& rtf, bool is_utf8) {
  using Kind = RtfToken::Kind;
  RtfToken token;
  size_t size = 1;
  const char first = rtf.front();
  if (first == '{' || first == '}') {
    token.kind = first == '{' ? Kind::kOpen : Kind::kClose;
  } else if (first == '\n' || first == '\r') {
    token.kind = Kind::kOther;
  } else if (first == '\\' && rtf.size() > 1 && IsAsciiLetter(rtf[1])) {
    token.kind = Kind::kWord;
    while (size < rtf.size() && IsAsciiLetter(rtf[size])) ++size;
    token.word = rtf.substr(1, size - 1);
    int number = 0;
    const auto read = std::from_chars(rtf.data() + size, rtf.data() + rtf.size(), number);
    if (read.ec == std::errc()) {
      token.number = number;
      size = static_cast<size_t>(read.ptr - rtf.data());
    }
    if (size < rtf.size() && rtf[size] == ' ') ++size;
    // Raw bytes follow, which may be braces.
    if (token.word == "bin" && number > 0)
      size = std::min(rtf.size(), size + static_cast<size_t>(number));
  } else if (first == '\\') {
    const bool is_hex = rtf.size() > 1 && rtf[1] == '\'';
    size = std::min(rtf.size(), is_hex ? size_t{4} : size_t{2});
    if (rtf.size() > 1 && rtf[1] == '*') token.kind = Kind::kOther;
  } else if (is_utf8) {
    size = std::min(rtf.size(), Utf8Bytes(static_cast<uint8_t>(first)));
  }
  token.bytes = rtf.substr(0, size);
  rtf.remove_prefix(size);
  return token;
}

// The styles of paragraphs that a file declares, and which of them are headings.
class RtfStyles {
 public:
  void Begin() { open_ = Style(); }
  void Word(const RtfToken& token) {
    if (token.word == "s") open_.id = token.number.value_or(0);
    if (token.word == "sbasedon") open_.base = token.number.value_or(-1);
    if (token.word == "outlinelevel") open_.outline = token.number.value_or(-1);
  }
  void Text(std::string_view text) {
    constexpr size_t kMostNameBytes = 40;  // no name of a heading is longer
    if (open_.name.size() < kMostNameBytes) open_.name += text;
  }
  void End() {
    if (open_.id) styles_.emplace(*open_.id, open_);
    open_ = Style();
  }

  // The level of a heading of this style, from 1; 0: the style is none.
  int LevelOf(int id) const {
    constexpr int kMostBases = 20;  // styles may be based on each other in a circle
    for (int i = 0; i < kMostBases; ++i) {
      const auto found = styles_.find(id);
      if (found == styles_.end()) return 0;
      const Style& style = found->second;
      if (style.outline >= 0) return style.outline < 9 ? style.outline + 1 : 0;
      const std::string name = Lower(style.name);
      if (i == 0 && (name == "title" || name == "title;")) return 1;
      constexpr std::string_view kHeading = "heading ";
      if (name.starts_with(kHeading) && name.size() > kHeading.size()) {
        const char digit = name[kHeading.size()];
        if (digit >= '1' && digit <= '9') return digit - '0';
      }
      id = style.base;
    }
    return 0;
  }

 private:
  struct Style {
    std::optional<int> id;  // styles of characters have none
    int base = -1, outline = -1;
    std::string name;
  };
  Style open_;
  std::map<int, Style> styles_;
};

// Whether a word begins text that is no part of the document's.
bool IsRtfDestination(std::string_view word) {
  constexpr std::string_view kWords[] = {"pict", "colortbl", "info",   "fldinst", "xe",
                                         "tc",   "fonttbl",  "header", "footer",  "object"};
  return std::find(std::begin(kWords), std::end(kWords), word) != std::end(kWords) ||
         (word.size() == 7 && (word.starts_with("header") || word.starts_with("footer")));
}

// Character sets that unrtf does not read well. iconv, which it calls for each byte, holds Hebrew
// and Vietnamese letters back in case that a mark follows, so that they stand behind the next
// space; unrtf drops the spaces of Vietnamese, and characters of two bytes whose second one is a
// letter.
struct Decoded {
  int charset, code_page;
  std::string_view label;
};
constexpr Decoded kDecoded[] = {{177, 1255, "windows-1255"}, {163, 1258, "windows-1258"},
                                {128, 932, "shift_jis"},     {129, 949, "euc-kr"},
                                {134, 936, "gbk"},           {136, 950, "big5"}};

// The fonts that a file declares, for their character sets.
class RtfFonts {
 public:
  // A word of the list of fonts.
  void Declare(const RtfToken& token) {
    if (token.word == "f") open_ = token.number.value_or(0);
    if (token.word == "fcharset") charsets_[open_] = token.number.value_or(0);
  }
  // A word outside of it.
  void Word(const RtfToken& token) {
    if (token.word == "deff") default_ = token.number.value_or(0);
    if (token.word == "ansicpg") code_page_ = token.number.value_or(0);
  }

  // The label of a font's encoding if its text is decoded here, else empty. -1: the file's font.
  std::string_view DecodedEncoding(int font) const {
    constexpr int kByCodePage = 1;
    const auto found = charsets_.find(font < 0 ? default_ : font);
    const int charset = found == charsets_.end() ? kByCodePage : found->second;
    for (const Decoded& decoded : kDecoded) {
      const bool is_page = charset == kByCodePage && code_page_ == decoded.code_page;
      if (is_page || charset == decoded.charset) return decoded.label;
    }
    return "";
  }
  // Whether a word names a character set or a code page whose text is decoded here.
  static bool IsDecoded(const RtfToken& token) {
    const int number = token.number.value_or(0);
    return std::any_of(std::begin(kDecoded), std::end(kDecoded), [&](const Decoded& decoded) {
      return (token.word == "fcharset" && number == decoded.charset) ||
             (token.word == "ansicpg" && number == decoded.code_page);
    });
  }

 private:
  std::map<int, int> charsets_;  // by the font's number
  int open_ = 0, default_ = 0, code_page_ = 0;
};

// The byte that a token stands for, written as itself or with \'; -1: it is another token.
int ByteOf(const RtfToken& token) {
  if (token.kind != RtfToken::Kind::kText) return -1;
  if (token.bytes.size() == 1) return static_cast<uint8_t>(token.bytes[0]);
  int byte = -1;
  if (token.bytes.size() == 4 && token.bytes.starts_with("\\'"))
    std::from_chars(token.bytes.data() + 2, token.bytes.data() + 4, byte, 16);
  return byte;
}

class RtfFilter {
 public:
  FilteredRtf Run(std::string_view rtf) {
    const bool is_utf8 = IsValidUtf8(rtf);
    while (!rtf.empty()) Take(TakeRtfToken(rtf, is_utf8));
    WriteDecoded();
    WriteNotes();
    return std::move(filtered_);
  }

 private:
  struct Group {
    bool is_hidden = false, is_deleted = false;
    bool is_left_out = false;  // a comment
    bool is_note = false;      // the group of a footnote itself
    bool is_font_table = false, is_font = false;  // the list of fonts; one of them
    bool is_stylesheet = false, is_style = false;  // the list of styles; one of them
    bool is_aside = false;                         // no part of the document's text
    bool is_list_text = false;  // the number of a paragraph, which stands before its properties
    int font = -1;             // -1: the file's
    int num_fallbacks = 1;     // characters behind each \\u, for readers that know no Unicode
    // The paragraph: its style, its own outline level, and whether it stands in a table.
    int style = 0, outline = -1;
    bool is_in_table = false;
  };

  std::string& out() { return note_depth_ > 0 ? notes_.back() : filtered_.rtf; }

  void Take(const RtfToken& token) {
    using Kind = RtfToken::Kind;
    Group& group = groups_.back();
    // The lines of a file may end between the two bytes of a character.
    if (ByteOf(token) < 0 && token.kind != Kind::kOther) WriteDecoded();
    if (IsFallback(token)) return;
    // unrtf ends its list of fonts, and with it their character sets, at a space between two.
    const bool is_behind_group = std::exchange(is_behind_group_, token.kind == Kind::kClose);
    const bool is_space = token.bytes == " ";
    if (group.is_font_table && is_behind_group && (is_space || token.bytes == "\n")) {
      is_behind_group_ = true;
      if (is_space) return;
    }
    // "\\*" marks destinations that old readers skip; unrtf would skip the reference to a note.
    if (std::exchange(has_star_, token.bytes == "\\*") && token.word != "footnote" &&
        !group.is_left_out) {
      out() += "\\*";
      group.is_aside = true;
    }
    if (has_star_) return;
    if (group.is_style) Style(token);
    BeginHeading(token, group);
    if (token.kind == Kind::kOpen) {
      Group inner = group;
      inner.is_note = inner.is_font_table = inner.is_stylesheet = false;
      inner.is_style = group.is_stylesheet || group.is_style;
      inner.is_font = group.is_font_table || group.is_font;
      if (group.is_stylesheet) styles_.Begin();
      if (!group.is_left_out) out() += '{';
      groups_.push_back(inner);
    } else if (token.kind == Kind::kClose) {
      Close();
    } else if (token.kind == Kind::kWord && token.word == "u" && token.number) {
      num_to_skip_ = group.num_fallbacks;
      if (!IsDropped(token, group)) WriteCharacter(*token.number);
    } else if (token.kind == Kind::kWord && Word(token, group)) {
      return;
    } else if (!IsDropped(token, group)) {
      Write(token);
    }
  }

  // unrtf drops bytes outside of ASCII, which stand for themselves in the files of many programs
  // (statements of banks, reports): they are written with \'. Where all of a file is UTF-8, which
  // the format does not know, they were meant as that.
  void Write(const RtfToken& token) {
    const auto first = static_cast<uint8_t>(token.bytes.front());
    const Group& group = groups_.back();
    const std::string_view encoding = group.is_font ? "" : fonts_.DecodedEncoding(group.font);
    if (const int byte = ByteOf(token); byte >= 0 && !encoding.empty()) {
      undecoded_ += static_cast<char>(byte);
      decoded_encoding_ = encoding;
    } else if (token.kind != RtfToken::Kind::kText || first < 0x80) {
      out() += token.bytes;
    } else if (token.bytes.size() == 1) {
      constexpr char kHex[] = "0123456789abcdef";
      out() += {'\\', '\'', kHex[first >> 4], kHex[first & 0xF]};
    } else {
      WriteUtf8(token.bytes);
    }
  }

  void WriteDecoded() {
    if (undecoded_.empty()) return;
    const std::string decoded = ConvertToUtf8(undecoded_, EncodingOfLabel(decoded_encoding_)).text;
    undecoded_.clear();
    for (std::string_view text = decoded; !text.empty();) {
      const size_t size = std::min(text.size(), Utf8Bytes(static_cast<uint8_t>(text[0])));
      if (size > 1) {
        WriteUtf8(text.substr(0, size));
      } else {
        const bool is_special = text[0] == '\\' || text[0] == '{' || text[0] == '}';
        out() += (is_special ? "\\" : "") + std::string(1, text[0]);
      }
      text.remove_prefix(size);
    }
  }

  void WriteUtf8(std::string_view bytes) {
    int character = static_cast<uint8_t>(bytes[0]) & (0xFF >> (bytes.size() + 1));
    for (const char byte : bytes.substr(1)) {
      character = character << 6 | (static_cast<uint8_t>(byte) & 0x3F);
    }
    WriteCharacter(character);
  }

  // The number of \u has 16 bits and may be negative. Word writes a character behind U+FFFF as two
  // surrogates, of which unrtf would make two characters.
  void WriteCharacter(int number) {
    if (number < 0) number += 0x10000;
    const int high = std::exchange(high_surrogate_, 0);
    if (number >= 0xD800 && number < 0xDC00) {
      high_surrogate_ = number;
      return;
    }
    if (high > 0 && number >= 0xDC00 && number < 0xE000)
      number = 0x10000 + ((high - 0xD800) << 10) + (number - 0xDC00);
    out() += "\\u" + std::to_string(number) + "\\'3f";
  }

  // Whether a token is a character that stands behind \u for other readers. unrtf skips one
  // character behind each \u, however many there are, and with one that is no \' the next one too:
  // it gets one \' always.
  bool IsFallback(const RtfToken& token) {
    if (num_to_skip_ == 0 || token.kind == RtfToken::Kind::kOther) return false;
    const bool is_character = token.kind == RtfToken::Kind::kText;
    num_to_skip_ = is_character ? num_to_skip_ - 1 : 0;
    return is_character;
  }

  void Style(const RtfToken& token) {
    if (token.kind == RtfToken::Kind::kWord) styles_.Word(token);
    if (token.kind == RtfToken::Kind::kText) styles_.Text(token.bytes);
  }

  // Puts the mark of Markdown before the first text of a paragraph that is a heading. Cells of
  // tables, notes and what is no part of the text have none.
  void BeginHeading(const RtfToken& token, const Group& group) {
    using Kind = RtfToken::Kind;
    const bool is_shown = !group.is_aside && !group.is_style && !group.is_stylesheet &&
                          note_depth_ == 0 && !IsDropped(token, group);
    const bool is_text =
        token.kind == Kind::kText || (token.kind == Kind::kWord && token.word == "u");
    if (!is_shown || !is_text || token.bytes == " " || !is_paragraph_start_) return;
    if (group.is_list_text) {
      if (number_at_ == std::string::npos) number_at_ = out().size();
      return;
    }
    is_paragraph_start_ = false;
    int level = group.outline >= 0 && group.outline < 9 ? group.outline + 1 : 0;
    if (group.outline < 0) level = styles_.LevelOf(group.style);
    if (level == 0 || group.is_in_table) return;
    out().insert(std::min(number_at_, out().size()),
                 std::string(static_cast<size_t>(std::min(level, 6)), '#') + " ");
    is_in_heading_ = true;
  }

  // Notes the properties of the paragraph, and where it ends.
  void NoteParagraph(const RtfToken& token, Group& group) {
    if (token.word == "pard") {
      group.style = 0;
      group.outline = -1;
      group.is_in_table = false;
    } else if (token.word == "s") {
      group.style = token.number.value_or(0);
    } else if (token.word == "outlinelevel") {
      group.outline = token.number.value_or(-1);
    } else if (token.word == "intbl") {
      group.is_in_table = true;
    } else if (token.word == "stylesheet") {
      group.is_stylesheet = true;
    } else if (token.word == "listtext" || token.word == "pntext") {
      group.is_list_text = true;
    } else if (IsRtfDestination(token.word)) {
      group.is_aside = true;
    } else if (token.word == "par" || token.word == "sect" || token.word == "cell" ||
               token.word == "row") {
      if (group.is_aside || note_depth_ > 0) return;
      is_paragraph_start_ = true;
      is_in_heading_ = false;
      number_at_ = std::string::npos;
    }
  }

  // A word that changes what is shown; false: another one.
  bool Word(const RtfToken& token, Group& group) {
    const bool is_decoded = RtfFonts::IsDecoded(token);
    if (is_decoded) out() += token.word == "fcharset" ? "\\fcharset0 " : "\\ansicpg1252 ";
    if (group.is_font_table || group.is_font) {
      fonts_.Declare(token);
    } else if (token.word == "f" || token.word == "plain") {
      group.font = token.word == "f" ? token.number.value_or(0) : -1;
    } else {
      fonts_.Word(token);
    }
    if (is_decoded) return true;
    if (!group.is_style) NoteParagraph(token, group);
    if (token.word == "line" && is_in_heading_ && !IsDropped(token, group)) {
      out() += ' ';
      return true;
    }
    const bool is_on = token.number.value_or(1) != 0;
    if (token.word == "v") {
      group.is_hidden = is_on;
    } else if (token.word == "deleted") {
      group.is_deleted = is_on;
    } else if (token.word == "plain") {
      group.is_hidden = group.is_deleted = false;
      return false;
    } else if (token.word == "uc") {
      group.num_fallbacks = std::clamp(token.number.value_or(1), 0, kMostFallbacks);
    } else if (token.word == "fonttbl") {
      group.is_font_table = true;
      return false;
    } else if (token.word == "annotation") {
      filtered_.num_comments += !group.is_left_out;
      group.is_left_out = true;
    } else if (token.word == "atnid" || token.word == "atnauthor") {
      group.is_left_out = true;
    } else if (token.word == "footnote" && note_depth_ == 0 && groups_.size() > 1 &&
               !group.is_left_out) {
      BeginNote(group);
    } else if ((token.word == "shptxt" || token.word == "dptxbxtext") && note_depth_ == 0 &&
               groups_.size() > 1 && !group.is_left_out) {
      BeginBox(group);
    } else if (token.word == "shp") {
      has_box_ = false;
      return false;
    } else if (token.word == "shprslt" && has_box_) {
      group.is_left_out = true;  // the same box for old readers
    } else if (token.word == "par" && note_depth_ == 0 && !notes_.empty() && !group.is_left_out) {
      WriteNotes();
      return false;
    } else {
      return token.word == "chftn" || (token.word == "ftnalt" && note_depth_ > 0);
    }
    return true;
  }

  // The reference takes the place of the note, whose text is kept for the paragraph's end.
  void BeginNote(Group& group) {
    out() += "[" + std::to_string(++num_notes_) + "]";
    group.is_note = true;
    notes_.push_back("[" + std::to_string(num_notes_) + "] {");
    note_depth_ = groups_.size();
  }

  // The text of a box stands behind the paragraph that holds the box. unrtf would not print it,
  // because it stands in a group that old readers skip.
  void BeginBox(Group& group) {
    group.is_note = true;
    group.is_aside = false;
    has_box_ = true;
    notes_.push_back("{");
    note_depth_ = groups_.size();
  }

  void Close() {
    if (groups_.size() == 1) return;  // one brace too many
    if (groups_.back().is_note) {
      out() += '}';
      note_depth_ = 0;
    }
    if (groups_.size() == 2 && note_depth_ == 0) WriteNotes();
    const bool was_style = groups_.back().is_style;
    groups_.pop_back();
    if (was_style && groups_.back().is_stylesheet) styles_.End();
    if (!groups_.back().is_left_out) out() += '}';
  }

  void WriteNotes() {
    for (const std::string& note : notes_) filtered_.rtf += "\\par " + note;
    notes_.clear();
  }

  // Text, and words that print some, in a part that is not shown; all of a comment.
  static bool IsDropped(const RtfToken& token, const Group& group) {
    constexpr std::string_view kPrinted[] = {
        "u",      "tab", "line",      "emdash",    "endash",  "bullet",  "lquote",
        "rquote", "par", "ldblquote", "rdblquote", "emspace", "enspace", "sect"};
    if (group.is_left_out) return true;
    if (!group.is_hidden && !group.is_deleted) return false;
    if (token.kind == RtfToken::Kind::kText) return true;
    return token.kind == RtfToken::Kind::kWord &&
           std::find(std::begin(kPrinted), std::end(kPrinted), token.word) != std::end(kPrinted);
  }

  FilteredRtf filtered_;
  std::vector<Group> groups_ = {Group()};
  std::vector<std::string> notes_;  // of the paragraph, and its boxes
  size_t note_depth_ = 0;           // of groups around the note or box that is read; 0: none
  bool has_box_ = false;            // the shape that is read
  uint64_t num_notes_ = 0;
  RtfStyles styles_;
  RtfFonts fonts_;
  std::string undecoded_, decoded_encoding_;  // text that is decoded here, and the label
  bool is_paragraph_start_ = true, is_in_heading_ = false;
  size_t number_at_ = std::string::npos;  // where the number of the paragraph is printed
  bool has_star_ = false;
  bool is_behind_group_ = false;  // right behind its closing brace
  int num_to_skip_ = 0;     // fallbacks of the last \u
  int high_surrogate_ = 0;  // of the last \u; 0: it was none
};

}  // namespace

FilteredRtf FilterRtf(std::string_view rtf) { return RtfFilter().Run(rtf); }

}  // namespace lectern::tools
