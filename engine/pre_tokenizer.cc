// The only file that includes PCRE2.
#include "engine/pre_tokenizer.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <cstdint>

namespace lectern {
namespace {

// White space as Oniguruma, in which the patterns were written, has it: Unicode's White_Space.
// PCRE2's \s has U+180E, too.
constexpr std::string_view kWhiteSpace =
    R"(\t-\r \x{85}\x{A0}\x{1680}\x{2000}-\x{200A}\x{2028}\x{2029}\x{202F}\x{205F}\x{3000})";

// The end of most patterns: what is neither letter nor digit nor white space, then white space,
// of which a run before a word leaves its last character to that word.
#define LECTERN_CONTRACTIONS "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define LECTERN_UPPER R"([\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}])"
#define LECTERN_LOWER R"([\p{Ll}\p{Lm}\p{Lo}\p{M}])"
#define LECTERN_SPACES R"(|\s*[\r\n]+|\s+(?!\S)|\s+)"

constexpr WordPattern kPatterns[] = {
    {"gpt2", " gpt-2 gpt2 ",
     R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)",
     /*ignore_merges=*/false, /*composes=*/false, /*adds_bos=*/false},
    {"llama3", " llama-bpe llama3 llama-v3 ",
     LECTERN_CONTRACTIONS
     R"(|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*)" LECTERN_SPACES,
     /*ignore_merges=*/true, /*composes=*/false, /*adds_bos=*/true},
    {"qwen2", " qwen2 ",
     LECTERN_CONTRACTIONS
     R"(|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*)" LECTERN_SPACES,
     /*ignore_merges=*/false, /*composes=*/true, /*adds_bos=*/false},
    {"tekken", " tekken ",
     R"([^\r\n\p{L}\p{N}]?)" LECTERN_UPPER "*" LECTERN_LOWER R"(+|[^\r\n\p{L}\p{N}]?)" LECTERN_UPPER
     "+" LECTERN_LOWER R"(*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*)" LECTERN_SPACES,
     /*ignore_merges=*/true, /*composes=*/false, /*adds_bos=*/true},
    // Two steps in tokenizer.json: every digit is a word of its own, and what is between them goes
    // through gpt2's pattern, for which a digit is the end of the text.
    {"smollm", " smollm ",
     R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+|\s+(?![^\s\p{N}])|\s+)",
     /*ignore_merges=*/false, /*composes=*/false, /*adds_bos=*/false},
    {"gpt-4o", " gpt-4o llama4 ",
     R"([^\r\n\p{L}\p{N}]?)" LECTERN_UPPER "*" LECTERN_LOWER "+" LECTERN_CONTRACTIONS
     R"(?|[^\r\n\p{L}\p{N}]?)" LECTERN_UPPER "+" LECTERN_LOWER "*" LECTERN_CONTRACTIONS
     R"(?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*)" LECTERN_SPACES,
     /*ignore_merges=*/false, /*composes=*/false, /*adds_bos=*/false},
};

// The same expression with Oniguruma's \s and \S. A \S in brackets is in none of the patterns.
std::string WithWhiteSpace(std::string_view regex) {
  std::string out;
  bool in_brackets = false;
  for (size_t at = 0; at < regex.size(); ++at) {
    const char c = regex[at];
    if (c == '[') in_brackets = true;
    if (c == ']') in_brackets = false;
    if (c != '\\') {
      out += c;
      continue;
    }
    const char escaped = regex[++at];
    if (escaped == 's' || escaped == 'S') {
      const std::string opening = escaped == 'S' ? "[^" : "[";
      out.append(in_brackets ? "" : opening).append(kWhiteSpace).append(in_brackets ? "" : "]");
    } else {
      out.append({c, escaped});
    }
  }
  return out;
}

std::string ErrorText(int error) {
  PCRE2_UCHAR text[128] = {};
  pcre2_get_error_message(error, text, sizeof text);
  return reinterpret_cast<const char*>(text);
}

// A PCRE2 object, which knows how to free itself.
template <auto kFree>
struct Free {
  template <typename T>
  void operator()(T* object) const {
    kFree(object);
  }
};
using CompiledCode = std::unique_ptr<pcre2_code, Free<pcre2_code_free>>;
using MatchData = std::unique_ptr<pcre2_match_data, Free<pcre2_match_data_free>>;
using MatchContext = std::unique_ptr<pcre2_match_context, Free<pcre2_match_context_free>>;

}  // namespace

const WordPattern* FindWordPatternByGgufName(std::string_view name) {
  if (name.empty() || name.find(' ') != std::string_view::npos) return nullptr;
  const std::string between_spaces = " " + std::string(name) + " ";
  for (const WordPattern& pattern : kPatterns) {
    if (pattern.gguf_names.find(between_spaces) != std::string_view::npos) return &pattern;
  }
  return nullptr;
}

const WordPattern* FindWordPatternByRegex(std::string_view regex) {
  for (const WordPattern& pattern : kPatterns) {
    if (pattern.regex == regex) return &pattern;
  }
  return nullptr;
}

const WordPattern& WordPatternNamed(std::string_view name) {
  const WordPattern* pattern = kPatterns;
  while (pattern->name != name) ++pattern;
  return *pattern;
}

std::string KnownWordPatterns() {
  std::string names;
  for (const WordPattern& pattern : kPatterns) {
    names.append(names.empty() ? "" : ", ").append(pattern.name);
  }
  return names;
}

struct PreTokenizer::Compiled {
  CompiledCode code;
};

PreTokenizer::PreTokenizer(std::unique_ptr<Compiled> compiled) : compiled_(std::move(compiled)) {}
PreTokenizer::PreTokenizer(PreTokenizer&&) noexcept = default;
PreTokenizer& PreTokenizer::operator=(PreTokenizer&&) noexcept = default;
PreTokenizer::~PreTokenizer() = default;

Result<PreTokenizer> PreTokenizer::Make(const WordPattern& pattern) {
  const std::string regex = WithWhiteSpace(pattern.regex);
  int error = 0;
  size_t offset = 0;
  auto compiled = std::make_unique<Compiled>();
  compiled->code.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(regex.data()), regex.size(),
                                     PCRE2_UTF | PCRE2_UCP | PCRE2_ANCHORED, &error, &offset,
                                     nullptr));
  if (compiled->code == nullptr) {
    return Status(Code::kInternal, "the word pattern \"" + std::string(pattern.name) +
                                       "\" does not compile at " + std::to_string(offset) + ": " +
                                       ErrorText(error));
  }
  // Where there is no just-in-time compiler, or no memory may be executed, PCRE2 interprets.
  (void)pcre2_jit_compile(compiled->code.get(), PCRE2_JIT_COMPLETE);
  return PreTokenizer(std::move(compiled));
}

struct WordReader::State {
  MatchContext context{pcre2_match_context_create(nullptr)};
  MatchData match{pcre2_match_data_create(1, nullptr)};
};

WordReader::WordReader(const PreTokenizer& pre_tokenizer, std::string_view text)
    : pre_tokenizer_(pre_tokenizer), text_(text), state_(std::make_unique<State>()) {
  // A run of one kind of character is walked back at most once, but counts for each of its
  // characters: the limit is for patterns that somebody else wrote.
  if (state_->context != nullptr) pcre2_set_match_limit(state_->context.get(), UINT32_MAX);
}

WordReader::~WordReader() = default;

Result<std::string_view> WordReader::Next() {
  if (state_->context == nullptr || state_->match == nullptr) {
    return Status(Code::kOutOfMemory, "tokenizer: not enough memory to cut text into words");
  }
  const int matched = pcre2_match(pre_tokenizer_.compiled_->code.get(),
                                  reinterpret_cast<PCRE2_SPTR>(text_.data()), text_.size(), at_,
                                  PCRE2_NO_UTF_CHECK, state_->match.get(), state_->context.get());
  const size_t end = matched == 1 ? pcre2_get_ovector_pointer(state_->match.get())[1] : at_;
  if (matched == PCRE2_ERROR_NOMEMORY) {
    return Status(Code::kOutOfMemory, "tokenizer: not enough memory to cut text into words");
  }
  if (end <= at_) {
    return Status(Code::kInternal, "tokenizer: no word at byte " + std::to_string(at_) + ": " +
                                       (matched < 0 ? ErrorText(matched) : "it is empty"));
  }
  const std::string_view word = text_.substr(at_, end - at_);
  at_ = end;
  return word;
}

}  // namespace lectern
