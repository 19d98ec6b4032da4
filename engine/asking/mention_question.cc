#include "engine/asking/mention_question.h"

#include <algorithm>
#include <array>
#include <initializer_list>

namespace lectern {
namespace {

constexpr std::string_view kSpaces = " \t\r\n";

// Reads a question from its beginning, word by word, without telling capitals from small letters.
class Reader {
 public:
  explicit Reader(std::string_view text) : rest_(text) { SkipSpaces(); }

  // Takes one of the phrases, the longest first; false, and nothing is taken, if there is none.
  bool Take(std::initializer_list<std::string_view> phrases) {
    std::string_view taken;
    for (const std::string_view phrase : phrases) {
      if (phrase.size() > taken.size() && Begins(phrase)) taken = phrase;
    }
    if (taken.empty()) return false;
    rest_.remove_prefix(taken.size());
    SkipSpaces();
    return true;
  }
  std::string_view rest() const { return rest_; }

 private:
  // Whether the phrase comes next, and then no further letter.
  bool Begins(std::string_view phrase) const {
    const auto is_same = [](char a, char b) { return a == Lower(b); };
    if (rest_.size() < phrase.size() ||
        !std::equal(phrase.begin(), phrase.end(), rest_.begin(), is_same)) {
      return false;
    }
    if (rest_.size() == phrase.size()) return true;
    const char next = Lower(rest_[phrase.size()]);
    return !(next >= 'a' && next <= 'z');
  }
  static char Lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; }
  void SkipSpaces() {
    rest_.remove_prefix(std::min(rest_.find_first_not_of(kSpaces), rest_.size()));
  }

  std::string_view rest_;
};

bool TakeDocuments(Reader& reader) {
  reader.Take({"of the", "of these", "other", "man", "manual"});
  return reader.Take({"documents", "document", "files", "file", "texts", "text", "pages", "page",
                      "papers", "paper", "books", "book", "reports", "report", "manuals", "notes",
                      "articles", "ones", "one"});
}

// Without quotes, end marks and words such as "the word" around what is asked for.
std::string Bare(std::string_view text) {
  Reader reader(text);
  reader.Take({"the word", "the words", "the term", "the name", "the phrase", "anything about"});
  std::string_view bare = reader.rest();
  constexpr std::array<std::string_view, 12> kAround = {"?", ".", "!", " ", "\"", "'",
                                                        "“", "”", "‘", "’", "„",  "\n"};
  for (bool is_cut = true; is_cut;) {
    is_cut = false;
    for (const std::string_view mark : kAround) {
      if (bare.ends_with(mark)) bare.remove_suffix(mark.size()), is_cut = true;
      if (bare.starts_with(mark) && mark != ".") bare.remove_prefix(mark.size()), is_cut = true;
    }
  }
  return std::string(bare);
}

// "is Ian Murdock mentioned": the words between; nothing if it does not end so.
std::optional<std::string> Between(std::string_view rest) {
  Reader reader(rest);
  if (!reader.Take({"is", "are", "was", "were", "does", "do"})) return std::nullopt;
  std::string words = Bare(reader.rest());
  for (const std::string_view end :
       {" mentioned", " named", " discussed", " described", " referred to", " talked about",
        " cited", " appear", " occur", " come up", " found", " used"}) {
    if (words.size() <= end.size() || !std::string_view(words).ends_with(end)) continue;
    words = Bare(std::string_view(words).substr(0, words.size() - end.size()));
    return words.empty() ? std::nullopt : std::optional(words);
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::string> MentionedWords(std::string_view question) {
  Reader reader(question);
  const bool is_in = reader.Take({"in"});
  const bool is_list = reader.Take({"list", "name", "show me", "show", "find", "give me"});
  const bool is_which = reader.Take({"which", "what", "all the", "all", "the"});
  if (!is_list && !is_which) return std::nullopt;
  if (!TakeDocuments(reader)) return std::nullopt;
  if (is_in) return Between(reader.rest());
  reader.Take({"that", "which", "do", "does"});
  const bool is_mention = reader.Take({"mention",
                                       "mentions",
                                       "mentioned",
                                       "mentioning",
                                       "contain",
                                       "contains",
                                       "containing",
                                       "discuss",
                                       "discusses",
                                       "refer to",
                                       "refers to",
                                       "talk about",
                                       "talks about",
                                       "speak of",
                                       "speaks of",
                                       "are about",
                                       "is about",
                                       "deal with",
                                       "deals with",
                                       "say anything about",
                                       "say something about",
                                       "have the word",
                                       "have the words",
                                       "has the word",
                                       "cite",
                                       "cites"});
  if (!is_mention) return std::nullopt;
  std::string words = Bare(reader.rest());
  if (words.empty()) return std::nullopt;
  return words;
}

}  // namespace lectern
