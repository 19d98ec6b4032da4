#include "tools/doctor/self_test.h"

#include <algorithm>

namespace lectern::doctor {
namespace {

// Kinds of text that tokenizers get wrong: white space, letters beyond ASCII, code and markup, and
// the control tokens of several chat formats.
constexpr std::string_view kTexts[] = {
    "The bridge over the Aven was built in 1843.",
    "Two  spaces, a tab\tand\n\nline breaks\r\n",
    "naïve café, größer, Ελλάδα, Привет, 日本語, 한국어, 😀",
    "x = f(a[0], -3.14) // <b>markup</b> & \"quotes\"",
    "<s>[INST]<|im_start|>user<start_of_turn><|end|></s>",
};

// The text in quotes, escaped.
std::string Excerpt(std::string_view text) { return Json(text).Dump(); }

// Says what is wrong with the tokens of a text; empty: nothing. Ranges may overlap or be empty
// (characters of several tokens), but may leave no byte out and end at the text's end.
std::string FaultOf(const TokenizedText& tokens, std::string_view text,
                    const Tokenizer& tokenizer) {
  if (tokens.ids.size() != tokens.ranges.size() || tokens.ids.empty()) {
    return "a token has no place in the text";
  }
  uint64_t covered = 0;
  for (size_t i = 0; i < tokens.ids.size(); ++i) {
    const auto& [begin, end] = tokens.ranges[i];
    if (begin > end || begin > covered || end > text.size()) return "a token's place is wrong";
    covered = std::max(covered, end);
    if (tokenizer.TokenBytes(tokens.ids[i]).empty()) return "it became a control token";
  }
  return covered == text.size() ? "" : "its last bytes are in no token";
}

// The bytes of the tokens, one after the other.
std::string TextOf(const TokenizedText& tokens, const Tokenizer& tokenizer) {
  std::string text;
  for (const int32_t id : tokens.ids) text += tokenizer.TokenBytes(id);
  return text;
}

}  // namespace

Finding TestTokenizer(const Tokenizer& tokenizer) {
  Finding finding{
      .name = "tokenizer test",
      .text = std::to_string(std::size(kTexts)) +
              " test texts were cut into tokens and put together again without a change"};
  std::string faults, changed;
  for (const std::string_view text : kTexts) {
    const auto tokens = tokenizer.Encode(text);
    const std::string fault =
        tokens.ok() ? FaultOf(*tokens, text, tokenizer) : tokens.status().message();
    if (!fault.empty()) {
      faults += (faults.empty() ? "" : "; ") + Excerpt(text) + ": " + fault;
      continue;
    }
    const std::string back = TextOf(*tokens, tokenizer);
    const bool is_same =
        back == text || (tokenizer.has_dummy_prefix() && back == " " + std::string(text));
    if (!is_same) changed += (changed.empty() ? "" : ", ") + Excerpt(text);
  }
  finding.values = {{"texts", uint64_t{std::size(kTexts)}},
                    {"is_placed", faults.empty()},
                    {"is_reversible", changed.empty()}};
  if (!faults.empty()) {
    finding.text = faults;
    return finding.Worsen(Verdict::kFail, "do not index with this model; please report this");
  }
  if (!changed.empty()) {
    finding.text = "text is normalised or has characters that the vocabulary lacks: " + changed;
    finding.Worsen(Verdict::kWarn, "such characters are not told apart by this model");
  }
  return finding;
}

}  // namespace lectern::doctor
