// Translates expressions and runs them. This is the only file that includes PCRE2.
#include "engine/model/tokenizer/regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <algorithm>
#include <cstdint>
#include <optional>

#include "engine/model/formats/json.h"
#include "engine/model/formats/text.h"

namespace lectern {
namespace {

constexpr size_t kMaxPattern = size_t{1} << 16;  // bytes; four times as many after translation
constexpr uint32_t kMaxHeapKib = 256 << 10;  // memory of one search: 256 MiB

// White space as Oniguruma has it: Unicode's White_Space. PCRE2's \s has U+180E, too.
constexpr std::string_view kWhiteSpace =
    R"(\t-\r \x{85}\x{A0}\x{1680}\x{2000}-\x{200A}\x{2028}\x{2029}\x{202F}\x{205F}\x{3000})";
// Word characters as Oniguruma has them: Unicode's Alphabetic, marks, digits, connectors, and the
// fractions and superscripts of Latin-1.
#define LECTERN_ALPHABETIC                                              \
  R"(\p{L}\p{M}\p{Nl}\p{Nd}\p{Pc}\x{24B6}-\x{24E9}\x{1F130}-\x{1F149})" \
  R"(\x{1F150}-\x{1F169}\x{1F170}-\x{1F189})"
#define LECTERN_WORD_CHAR LECTERN_ALPHABETIC R"(\x{B2}\x{B3}\x{B9}\x{BC}-\x{BE})"
constexpr std::string_view kWordChars = LECTERN_WORD_CHAR;
// \b and \B by these word characters: PCRE2's own have others.
constexpr std::string_view kWordEdge =
    "(?:(?<=[" LECTERN_WORD_CHAR "])(?![" LECTERN_WORD_CHAR "])|(?<![" LECTERN_WORD_CHAR
    "])(?=[" LECTERN_WORD_CHAR "]))";
constexpr std::string_view kNoWordEdge =
    "(?:(?<=[" LECTERN_WORD_CHAR "])(?=[" LECTERN_WORD_CHAR "])|(?<![" LECTERN_WORD_CHAR
    "])(?![" LECTERN_WORD_CHAR "]))";

bool IsHex(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

// Rewrites an expression of Oniguruma for PCRE2. A construct that it does not know is left to
// PCRE2's compiler to judge.
class Translator {
 public:
  explicit Translator(std::string_view pattern) : rest_(pattern) {}

  // nullopt: Oniguruma's meaning cannot be written down.
  std::optional<std::string> Translate() {
    while (!rest_.empty() && !failed_) {
      if (depth_ > 0) {
        InBrackets();
      } else {
        Outside();
      }
    }
    if (failed_ || depth_ > 0) return std::nullopt;
    return std::move(out_);
  }

 private:
  // Translates the next thing outside of brackets. atom_ and groups_ remember where a thing begins
  // that a count may follow.
  void Outside() {
    const char c = rest_.front();
    switch (c) {
      case '\\':
        atom_ = out_.size();
        return Escape();
      case '[':
        atom_ = out_.size();
        return Open();
      case '(':
        if (rest_.starts_with("(*")) failed_ = true;  // a verb of PCRE2
        groups_.push_back(out_.size());
        return Copy(1);
      case ')':
        atom_ = groups_.empty() ? out_.size() : groups_.back();
        if (!groups_.empty()) groups_.pop_back();
        return Copy(1);
      case '{':
        return Count();
      case '?':
      case '*':
      case '+':
      case '|':
        return Copy(1);
      default:
        atom_ = out_.size();
        return Copy(static_cast<size_t>(std::max(1, Utf8CharLength(rest_))));
    }
  }

  // In PCRE2 "x{1,3}+" is possessive; in Oniguruma it repeats "x{1,3}".
  void Count() {
    const size_t end = rest_.find('}');
    if (end == std::string_view::npos) return Copy(1);
    Copy(end + 1);
    if (!rest_.starts_with('+')) return;
    out_.insert(atom_, "(?:");
    out_ += ')';
  }

  // Copies the beginning of a set. A ']' right behind it is a member.
  void Open() {
    ++depth_;
    Copy(rest_.starts_with("[^") ? 2 : 1);
    if (rest_.starts_with(']')) out_ += '\\', Copy(1);
  }

  // Sets in a set are one with it; what excludes or intersects cannot be written down.
  void InBrackets() {
    const char c = rest_.front();
    if (rest_.starts_with("&&")) {
      failed_ = true;
    } else if (c == '\\') {
      Escape();
    } else if (rest_.starts_with("[:")) {
      const size_t end = rest_.find(":]");
      if (end == std::string_view::npos) failed_ = true;
      Copy(failed_ ? 1 : end + 2);
    } else if (c == '[') {
      failed_ = rest_.starts_with("[^");
      ++depth_;
      rest_.remove_prefix(1);
    } else if (c == ']') {
      if (--depth_ == 0) return Copy(1);
      rest_.remove_prefix(1);
    } else {
      Copy(static_cast<size_t>(std::max(1, Utf8CharLength(rest_))));
    }
  }

  // Rewrites an escape whose meaning differs between Oniguruma and PCRE2, and copies every other.
  // Inside brackets (depth_ > 0) a complement cannot be written as a set: \S and \W keep PCRE2's
  // meaning there, and \H makes the expression unusable.
  void Escape() {
    if (rest_.size() < 2) return Copy(1);
    const char kind = rest_[1];
    switch (kind) {
      case 's':
        return Set(kWhiteSpace, false);
      case 'S':
        return depth_ > 0 ? Copy(2) : Set(kWhiteSpace, true);
      case 'w':
        return Set(kWordChars, false);
      case 'W':
        return depth_ > 0 ? Copy(2) : Set(kWordChars, true);
      case 'b':
        return depth_ > 0 ? Copy(2) : Replace(2, kWordEdge);
      case 'B':
        return depth_ > 0 ? Copy(2) : Replace(2, kNoWordEdge);
      case 'h':
        return Set("0-9A-Fa-f", false);
      case 'H':
        failed_ = depth_ > 0;
        return Set("0-9A-Fa-f", true);
      case 'd':
        return Replace(2, R"(\p{Nd})");
      case 'D':
        return Replace(2, R"(\P{Nd})");
      case 'u':
        return Unicode();
      case 'p':
      case 'P':
        return Property();
      default:
        Copy(1);
        return Copy(static_cast<size_t>(std::max(1, Utf8CharLength(rest_))));
    }
  }

  // \u0041
  void Unicode() {
    const bool is_hex = rest_.size() >= 6 && IsHex(rest_[2]) && IsHex(rest_[3]) &&
                        IsHex(rest_[4]) && IsHex(rest_[5]);
    if (!is_hex) return Copy(2);
    Replace(6, "\\x{" + std::string(rest_.substr(2, 4)) + "}");
  }

  // \p{Han} is a script; PCRE2 would take it for script extensions.
  void Property() {
    const size_t end = rest_.find('}');
    if (!rest_.substr(2).starts_with('{') || end == std::string_view::npos) return Copy(2);
    const std::string_view name = rest_.substr(3, end - 3);
    constexpr std::string_view kScripts =
        " Arabic Armenian Bengali Cyrillic Devanagari Georgian Greek Gujarati Gurmukhi Han Hangul "
        "Hebrew Hiragana Kannada Katakana Khmer Lao Latin Malayalam Myanmar Sinhala Tamil Telugu "
        "Thai Tibetan ";
    const bool is_script = kScripts.find(' ' + std::string(name) + ' ') != std::string_view::npos;
    if (!is_script) return Copy(end + 1);
    Replace(end + 1, "\\" + std::string(1, rest_[1]) + "{sc:" + std::string(name) + "}");
  }

  // Writes a set of characters: with brackets, or as members of the set around it.
  void Set(std::string_view members, bool is_excluded) {
    const bool alone = depth_ == 0;
    const std::string set = std::string(alone ? is_excluded ? "[^" : "[" : "") +
                            std::string(members) + (alone ? "]" : "");
    Replace(2, set);
  }

  // Passes `bytes` of the expression and writes `by` in their place.
  void Replace(size_t bytes, std::string_view by) {
    out_ += by;
    rest_.remove_prefix(bytes);
  }
  // Passes bytes of the expression and writes them as they are.
  void Copy(size_t bytes) {
    const std::string_view text = rest_.substr(0, bytes);
    out_ += text;
    rest_.remove_prefix(text.size());
  }

  std::string_view rest_;
  std::string out_;
  std::vector<size_t> groups_;  // where the open groups begin in out_
  size_t atom_ = 0;             // where the last thing that can be counted begins
  size_t depth_ = 0;            // of brackets
  bool failed_ = false;
};

// PCRE2's message for an error.
std::string ErrorText(int error) {
  PCRE2_UCHAR text[128] = {};
  pcre2_get_error_message(error, text, sizeof text);
  return reinterpret_cast<const char*>(text);
}

// Frees a PCRE2 object with the function of its kind.
template <auto kFree>
struct Free {
  template <typename T>
  void operator()(T* object) const {
    kFree(object);
  }
};
using CompiledCode = std::unique_ptr<pcre2_code, Free<pcre2_code_free>>;
using CompileContext = std::unique_ptr<pcre2_compile_context, Free<pcre2_compile_context_free>>;
using MatchData = std::unique_ptr<pcre2_match_data, Free<pcre2_match_data_free>>;
using MatchContext = std::unique_ptr<pcre2_match_context, Free<pcre2_match_context_free>>;

}  // namespace

struct Regex::Compiled {
  CompiledCode code;
  Origin origin;
};

Regex::Regex(std::unique_ptr<Compiled> compiled) : compiled_(std::move(compiled)) {}
Regex::Regex(Regex&&) noexcept = default;
Regex& Regex::operator=(Regex&&) noexcept = default;
Regex::~Regex() = default;

Result<Regex> Regex::Make(std::string_view pattern, Origin origin) {
  const auto unsupported = [&](const std::string& why) {
    return Status(Code::kUnsupportedModel, "the expression " + Json(pattern.substr(0, 300)).Dump() +
                                               " cannot be used: " + why);
  };
  if (!IsValidUtf8(pattern)) return unsupported("it is not valid UTF-8");
  if (pattern.size() > kMaxPattern) return unsupported("it is too long");
  const std::optional<std::string> translated = Translator(pattern).Translate();
  if (!translated) return unsupported("sets are combined in a way that is not supported");
  const CompileContext context(pcre2_compile_context_create(nullptr));
  if (context == nullptr) return Status(Code::kOutOfMemory, "tokenizer: not enough memory");
  pcre2_set_max_pattern_length(context.get(), 4 * kMaxPattern);
  // As in Ruby's syntax, ^ and $ are the ends of a line.
  constexpr uint32_t kOptions =
      PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C | PCRE2_NO_AUTO_CAPTURE;
  int error = 0;
  size_t offset = 0;
  auto compiled = std::make_unique<Compiled>();
  compiled->origin = origin;
  compiled->code.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(translated->data()),
                                     translated->size(), kOptions, &error, &offset, context.get()));
  if (compiled->code == nullptr) return unsupported(ErrorText(error));
  // Where there is no just-in-time compiler, or no memory may be executed, PCRE2 interprets.
  (void)pcre2_jit_compile(compiled->code.get(), PCRE2_JIT_COMPLETE);
  return Regex(std::move(compiled));
}

struct RegexMatcher::State {
  MatchContext context{pcre2_match_context_create(nullptr)};
  MatchData match{pcre2_match_data_create(1, nullptr)};
};

RegexMatcher::RegexMatcher(const Regex& regex)
    : regex_(&regex), state_(std::make_unique<State>()) {}
RegexMatcher::~RegexMatcher() = default;

int RegexMatcher::Search(std::string_view text, size_t from) {
  const auto search = [&](uint32_t options) {
    return pcre2_match(regex_->compiled_->code.get(), reinterpret_cast<PCRE2_SPTR>(text.data()),
                       text.size(), from, PCRE2_NO_UTF_CHECK | options, state_->match.get(),
                       state_->context.get());
  };
  const int matched = search(0);
  // The compiled code has a small stack; the interpreter keeps its own in the heap.
  return matched == PCRE2_ERROR_JIT_STACKLIMIT ? search(PCRE2_NO_JIT) : matched;
}

Status RegexMatcher::FindAll(std::string_view text, std::vector<Match>* matches) {
  matches->clear();
  if (state_->context == nullptr || state_->match == nullptr) {
    return Status(Code::kOutOfMemory, "tokenizer: not enough memory to cut text into words");
  }
  // A run of one kind of character is walked back at most once by our expressions, but counts for
  // each of its characters; others may walk back over and over.
  const uint64_t limit = (uint64_t{1} << 20) + 64 * uint64_t{text.size()};
  const bool is_ours = regex_->compiled_->origin == Regex::Origin::kOurs;
  pcre2_set_match_limit(
      state_->context.get(),
      is_ours ? UINT32_MAX : static_cast<uint32_t>(std::min<uint64_t>(limit, UINT32_MAX)));
  pcre2_set_heap_limit(state_->context.get(), kMaxHeapKib);
  size_t from = 0;
  std::optional<size_t> last_end;
  while (from <= text.size()) {
    const int matched = Search(text, from);
    if (matched == PCRE2_ERROR_NOMATCH) break;
    if (matched == PCRE2_ERROR_NOMEMORY) {
      return Status(Code::kOutOfMemory, "tokenizer: not enough memory to cut text into words");
    }
    if (matched == PCRE2_ERROR_MATCHLIMIT || matched == PCRE2_ERROR_HEAPLIMIT ||
        matched == PCRE2_ERROR_DEPTHLIMIT) {
      return Status(Code::kLimitExceeded,
                    "tokenizer: an expression of the vocabulary takes too long on this text");
    }
    if (matched < 0) {
      return Status(Code::kInternal, "tokenizer: no words found: " + ErrorText(matched));
    }
    const size_t* ends = pcre2_get_ovector_pointer(state_->match.get());
    const Match match = {ends[0], ends[1]};
    // \K and lookarounds can give ends that are no stretch of the text.
    if (match.begin < from || match.end < match.begin) {
      return Status(Code::kUnsupportedModel,
                    "tokenizer: an expression of the vocabulary matches before its place");
    }
    if (match.begin == match.end && last_end == match.end) {  // where the last one ended
      if (from == text.size()) break;
      from += static_cast<size_t>(std::max(1, Utf8CharLength(text.substr(from))));
      continue;
    }
    matches->push_back(match);
    from = match.end;
    last_end = match.end;
  }
  return Status();
}

}  // namespace lectern
