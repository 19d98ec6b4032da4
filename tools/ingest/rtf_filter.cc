#include "tools/ingest/rtf_filter.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <utility>
#include <vector>

#include "tools/ingest/characters.h"

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

// Takes the next token off the front of `rtf`, which is not empty.
RtfToken TakeRtfToken(std::string_view& rtf) {
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
  }
  token.bytes = rtf.substr(0, size);
  rtf.remove_prefix(size);
  return token;
}

class RtfFilter {
 public:
  FilteredRtf Run(std::string_view rtf) {
    while (!rtf.empty()) Take(TakeRtfToken(rtf));
    WriteNotes();
    return std::move(filtered_);
  }

 private:
  struct Group {
    bool is_hidden = false, is_deleted = false;
    bool is_left_out = false;  // a comment
    bool is_note = false;      // the group of a footnote itself
    bool is_font_table = false;
    int num_fallbacks = 1;     // characters behind each \\u, for readers that know no Unicode
  };

  std::string& out() { return note_depth_ > 0 ? notes_.back() : filtered_.rtf; }

  void Take(const RtfToken& token) {
    using Kind = RtfToken::Kind;
    Group& group = groups_.back();
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
        !group.is_left_out)
      out() += "\\*";
    if (has_star_) return;
    if (token.kind == Kind::kOpen) {
      Group inner = group;
      inner.is_note = inner.is_font_table = false;
      if (!group.is_left_out) out() += '{';
      groups_.push_back(inner);
    } else if (token.kind == Kind::kClose) {
      Close();
    } else if (token.kind == Kind::kWord && token.word == "u" && token.number) {
      num_to_skip_ = group.num_fallbacks;
      if (!IsDropped(token, group)) out() += "\\u" + std::to_string(*token.number) + "\\'3f";
    } else if (token.kind == Kind::kWord && Word(token, group)) {
      return;
    } else if (!IsDropped(token, group)) {
      out() += token.bytes;
    }
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

  // A word that changes what is shown; false: another one.
  bool Word(const RtfToken& token, Group& group) {
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
    } else if (token.word == "par" && note_depth_ == 0 && !notes_.empty()) {
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

  void Close() {
    if (groups_.size() == 1) return;  // one brace too many
    if (groups_.back().is_note) {
      out() += '}';
      note_depth_ = 0;
    }
    if (groups_.size() == 2 && note_depth_ == 0) WriteNotes();
    groups_.pop_back();
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
  std::vector<std::string> notes_;  // of the paragraph
  size_t note_depth_ = 0;           // of groups around the note that is read; 0: none
  uint64_t num_notes_ = 0;
  bool has_star_ = false;
  bool is_behind_group_ = false;  // right behind its closing brace
  int num_to_skip_ = 0;  // fallbacks of the last \u
};

}  // namespace

FilteredRtf FilterRtf(std::string_view rtf) { return RtfFilter().Run(rtf); }

}  // namespace lectern::tools
