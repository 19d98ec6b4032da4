// Fields and defaults: the serialisation of huggingface/tokenizers, which nothing but its code
// describes.
#include "engine/model/tokenizer/tokenizer_json_rules.h"

#include <algorithm>

#include "engine/model/formats/excerpt.h"
#include "engine/model/formats/text.h"
#include "engine/model/tokenizer/charsmap.h"
#include "engine/model/tokenizer/unicode_classes.h"
#include "engine/model/tokenizer/word_patterns.h"

namespace lectern {
namespace {

// The characters that \w means in Rust's expressions, in which "Whitespace" is written.
constexpr std::string_view kRustWordChars =
    R"(\p{L}\p{M}\p{Nl}\p{Nd}\p{Pc}\x{24B6}-\x{24E9}\x{1F130}-\x{1F149}\x{1F150}-\x{1F169})"
    R"(\x{1F170}-\x{1F189}\x{200C}\x{200D})";
// Punctuation as the library has it: Unicode's category P, and all signs of ASCII.
constexpr std::string_view kPunctuation = R"([\p{P}!-/:-@\[-`{-~])";

const Json kNull;

// Reads a bool that counts as true where it is missing, as the library takes it.
bool IsTrueByDefault(const Json& value) { return value.boolean() == nullptr || *value.boolean(); }

Status Malformed(const std::string& path, const std::string& what) {
  return Status(Code::kMalformedModel, path + ": " + what);
}

// Decodes base64. False: a character that base64 does not have.
bool DecodeBase64(std::string_view text, std::string* out) {
  constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  uint32_t bits = 0;
  int count = 0;
  while (text.ends_with('=')) text.remove_suffix(1);
  for (const char c : text) {
    const size_t digit = kDigits.find(c);
    if (digit == std::string_view::npos) return false;
    bits = bits << 6 | static_cast<uint32_t>(digit);
    count += 6;
    if (count < 8) continue;
    count -= 8;
    out->push_back(static_cast<char>(bits >> count));
  }
  return true;
}

// A pattern of a file: a text, or an expression.
struct Pattern {
  std::string text;
  bool is_literal;
};

// Reads a pattern: {"String": …} or {"Regex": …}; an old file has the text itself.
Result<Pattern> ReadPattern(const Json& value, const std::string& path) {
  if (const std::string* text = value.string()) return Pattern{*text, true};
  if (const std::string* text = JsonMember(value, "String").string()) return Pattern{*text, true};
  if (const std::string* text = JsonMember(value, "Regex").string()) return Pattern{*text, false};
  return Malformed(path, "the pattern " + JsonExcerpt(value) + " is no text and no expression");
}

// Reads {"type": "Replace", "pattern", "content"}.
Result<NormalizerStep> ReadReplace(const Json& part, const std::string& path) {
  LECTERN_ASSIGN(Pattern pattern, ReadPattern(JsonMember(part, "pattern"), path));
  const std::string* content = JsonMember(part, "content").string();
  if (content == nullptr) return Malformed(path, "a Replace has no \"content\"");
  return NormalizerStep{.kind = NormalizerStep::Kind::kReplace,
                        .pattern = std::move(pattern.text),
                        .content = *content,
                        .is_literal = pattern.is_literal};
}

// Reads {"type": "Precompiled"}: a charsmap of SentencePiece in base64.
Result<NormalizerStep> ReadPrecompiled(const Json& part, const std::string& path) {
  const std::string* text = JsonMember(part, "precompiled_charsmap").string();
  NormalizerStep step = {.kind = NormalizerStep::Kind::kCharsmap};
  if (text == nullptr || !DecodeBase64(*text, &step.charsmap)) {
    return Malformed(path, "precompiled_charsmap is no base64");
  }
  if (step.charsmap.empty()) return step;
  if (const auto fault = FindCharsmapFault(step.charsmap)) {
    return Malformed(path, "precompiled_charsmap: " + *fault);
  }
  return step;
}

// Reads one normalizer of tokenizer.json as a step.
Result<NormalizerStep> ReadNormalizerPart(const Json& part, const std::string& path) {
  const std::string_view type = JsonType(part);
  constexpr std::pair<std::string_view, UnicodeForm> kForms[] = {{"NFC", UnicodeForm::kNfc},
                                                                 {"NFD", UnicodeForm::kNfd},
                                                                 {"NFKC", UnicodeForm::kNfkc},
                                                                 {"NFKD", UnicodeForm::kNfkd}};
  for (const auto& [name, form] : kForms) {
    if (type == name) return NormalizerStep{.kind = NormalizerStep::Kind::kForm, .form = form};
  }
  if (type == "Lowercase") return NormalizerStep{.kind = NormalizerStep::Kind::kLowerCase};
  if (type == "StripAccents") return NormalizerStep{.kind = NormalizerStep::Kind::kStripMarks};
  if (type == "Strip") {
    return NormalizerStep{.kind = NormalizerStep::Kind::kStrip,
                          .left = IsTrueByDefault(JsonMember(part, "strip_left")),
                          .right = IsTrueByDefault(JsonMember(part, "strip_right"))};
  }
  if (type == "Replace") return ReadReplace(part, path);
  if (type == "Precompiled") return ReadPrecompiled(part, path);
  if (type == "Prepend") {
    const std::string* content = JsonMember(part, "prepend").string();
    if (content == nullptr) return Malformed(path, "a Prepend has no \"prepend\"");
    return NormalizerStep{.kind = NormalizerStep::Kind::kPrepend, .content = *content};
  }
  return Status(Code::kUnsupportedModel,
                path + ": normalizer " + JsonExcerpt(part) +
                    "; supported: NFC, NFD, NFKC, NFKD, Lowercase, StripAccents, Strip, Replace, "
                    "Prepend, Precompiled; a tokenizer.model or a GGUF file of the model can be "
                    "used in its place");
}

// Reads the pre_tokenizer part by part.
class PreTokenizerReader {
 public:
  explicit PreTokenizerReader(const std::string& path) : path_(path) {}

  Result<JsonPreTokenizer> Read(const Json& pre_tokenizer) {
    for (const Json* part : Flat(pre_tokenizer)) {
      LECTERN_RETURN_IF_ERROR(ReadPart(*part));
    }
    return std::move(made_);
  }

 private:
  // Sequences may hold sequences; the depth of the JSON is limited.
  static std::vector<const Json*> Flat(const Json& value) {
    std::vector<const Json*> flat;
    for (const Json* part : JsonParts(value, "pretokenizers")) {
      if (JsonType(*part) != "Sequence") {
        flat.push_back(part);
        continue;
      }
      for (const Json* inner : Flat(*part)) flat.push_back(inner);
    }
    return flat;
  }

  // Adds the steps of one part. Behind ByteLevel the text is in GPT-2's alphabet, where most
  // expressions would mean something else: only a few are accepted there.
  Status ReadPart(const Json& part) {
    const std::string_view type = JsonType(part);
    if (type == "Split") return ReadSplit(part);
    if (type == "Digits") {
      const bool single = JsonIsTrue(JsonMember(part, "individual_digits"));
      // Behind ByteLevel the other digits are bytes.
      const std::string digit = made_.is_byte_level ? "[0-9]" : R"(\p{N})";
      return AddSplit(single ? digit : digit + "+", SplitBehavior::kIsolated);
    }
    if (made_.is_byte_level) return Unsupported(part, " behind ByteLevel");
    if (type == "ByteLevel") return ReadByteLevel(part);
    if (type == "Metaspace") return ReadMetaspace(part);
    if (type == "WhitespaceSplit") return AddSplit(R"(\s)", SplitBehavior::kRemoved);
    if (type == "Whitespace") {
      return AddSplit(
          "[" + std::string(kRustWordChars) + "]+|[^\\s" + std::string(kRustWordChars) + "]+",
          SplitBehavior::kRemoved, /*inverts=*/true);
    }
    if (type == "Punctuation") {
      const Json& name = JsonMember(part, "behavior");
      LECTERN_ASSIGN(const SplitBehavior behavior,
                     name.is_null() ? SplitBehavior::kIsolated : ReadBehavior(name));
      return AddSplit(std::string(kPunctuation), behavior);
    }
    return Unsupported(part, "");
  }

  // Adds a Split: an expression or a text, and what becomes of its matches.
  Status ReadSplit(const Json& part) {
    LECTERN_ASSIGN(Pattern pattern, ReadPattern(JsonMember(part, "pattern"), path_));
    LECTERN_ASSIGN(const SplitBehavior behavior, ReadBehavior(JsonMember(part, "behavior")));
    // Behind ByteLevel the text is in its alphabet, where only ASCII's letters and digits are
    // what they were.
    const bool is_plain = std::all_of(pattern.text.begin(), pattern.text.end(), [](char c) {
      return static_cast<uint8_t>(c) < 0x80 && c != '\\' && c != '.' && c != '^';
    });
    if (made_.is_byte_level && !is_plain) return Unsupported(part, " behind ByteLevel");
    // Groups of three digits from the right; as an expression they take quadratic time.
    const bool groups = pattern.text == R"(\d{1,3}(?=(?:\d{3})*\b))" && !pattern.is_literal;
    if (groups && behavior == SplitBehavior::kIsolated) {
      made_.steps.push_back({.kind = PreTokenizerStep::Kind::kDigitGroups,
                             .pattern = R"((?<!\d)\d++(?!\w))",
                             .origin = Regex::Origin::kOurs});
      return Status();
    }
    made_.steps.push_back({.kind = PreTokenizerStep::Kind::kSplit,
                           .pattern = std::move(pattern.text),
                           .is_literal = pattern.is_literal,
                           .behavior = behavior,
                           .inverts = JsonIsTrue(JsonMember(part, "invert"))});
    return Status();
  }

  // Adds what ByteLevel does before it changes the alphabet: a space in front, and GPT-2's
  // expression.
  Status ReadByteLevel(const Json& part) {
    made_.is_byte_level = true;
    if (IsTrueByDefault(JsonMember(part, "add_prefix_space"))) {
      made_.steps.push_back({.kind = PreTokenizerStep::Kind::kPrefix, .pattern = " "});
    }
    if (!IsTrueByDefault(JsonMember(part, "use_regex"))) return Status();
    return AddSplit(std::string(Gpt2Expression()), SplitBehavior::kIsolated);
  }

  // Adds Metaspace: spaces become marks, a mark is put in front, and words begin at marks.
  Status ReadMetaspace(const Json& part) {
    const Json& given = JsonMember(part, "replacement");
    const std::string mark = given.string() != nullptr ? *given.string() : std::string(kSpaceMark);
    if (Utf8CharLength(mark) != static_cast<int>(mark.size())) {
      return Malformed(path_, "Metaspace: \"replacement\" is " + JsonExcerpt(given));
    }
    made_.steps.push_back(
        {.kind = PreTokenizerStep::Kind::kReplace, .pattern = " ", .content = mark});
    const std::string* scheme = JsonMember(part, "prepend_scheme").string();
    const bool adds = scheme != nullptr ? *scheme != "never"
                                        : IsTrueByDefault(JsonMember(part, "add_prefix_space"));
    if (adds) {
      const bool only_first = scheme != nullptr && *scheme == "first";
      made_.steps.push_back(
          {.kind = PreTokenizerStep::Kind::kPrefix, .pattern = mark, .only_first = only_first});
    }
    if (!IsTrueByDefault(JsonMember(part, "split"))) return Status();
    made_.steps.push_back({.kind = PreTokenizerStep::Kind::kSplit,
                           .pattern = mark,
                           .is_literal = true,
                           .behavior = SplitBehavior::kMergedWithNext});
    return Status();
  }

  // Adds a split by an expression of this file, which needs no limit of steps.
  Status AddSplit(std::string pattern, SplitBehavior behavior, bool inverts = false) {
    made_.steps.push_back({.kind = PreTokenizerStep::Kind::kSplit,
                           .pattern = std::move(pattern),
                           .behavior = behavior,
                           .inverts = inverts,
                           .origin = Regex::Origin::kOurs});
    return Status();
  }

  // Reads the name of a behaviour.
  Result<SplitBehavior> ReadBehavior(const Json& value) const {
    constexpr std::pair<std::string_view, SplitBehavior> kNames[] = {
        {"Isolated", SplitBehavior::kIsolated},
        {"Removed", SplitBehavior::kRemoved},
        {"MergedWithPrevious", SplitBehavior::kMergedWithPrevious},
        {"MergedWithNext", SplitBehavior::kMergedWithNext},
        {"Contiguous", SplitBehavior::kContiguous}};
    for (const auto& [name, behavior] : kNames) {
      if (value.string() != nullptr && *value.string() == name) return behavior;
    }
    return Malformed(path_, "the behavior " + JsonExcerpt(value) + " does not exist");
  }

  Status Unsupported(const Json& part, const std::string& where) const {
    return Status(
        Code::kUnsupportedModel,
        path_ + ": pre_tokenizer " + JsonExcerpt(part) + where +
            "; supported: Split, Digits, Punctuation, Whitespace, WhitespaceSplit, Metaspace, "
            "ByteLevel; a tokenizer.model or a GGUF file of the model can be used in its place");
  }

  const std::string& path_;
  JsonPreTokenizer made_;
};

}  // namespace

const Json& JsonMember(const Json& object, std::string_view key) {
  const Json* member = object.Find(key);
  return member == nullptr ? kNull : *member;
}

std::string_view JsonType(const Json& object) {
  const std::string* type = JsonMember(object, "type").string();
  return type == nullptr ? std::string_view("?") : std::string_view(*type);
}

bool JsonIsTrue(const Json& value) { return value.boolean() != nullptr && *value.boolean(); }

std::string JsonExcerpt(const Json& value) { return Excerpt(value.Dump(), 300); }

std::vector<const Json*> JsonParts(const Json& value, std::string_view key) {
  if (value.is_null()) return {};
  if (JsonType(value) != "Sequence") return {&value};
  std::vector<const Json*> parts;
  if (const Json::Array* items = JsonMember(value, key).array()) {
    for (const Json& item : *items) parts.push_back(&item);
  }
  return parts;
}

Result<std::vector<NormalizerStep>> ReadJsonNormalizer(const Json& normalizer,
                                                       const std::string& path) {
  std::vector<NormalizerStep> steps;
  for (const Json* part : JsonParts(normalizer, "normalizers")) {
    if (JsonType(*part) == "Sequence") {
      LECTERN_ASSIGN(std::vector<NormalizerStep> inner, ReadJsonNormalizer(*part, path));
      for (NormalizerStep& step : inner) steps.push_back(std::move(step));
      continue;
    }
    LECTERN_ASSIGN(NormalizerStep step, ReadNormalizerPart(*part, path));
    steps.push_back(std::move(step));
  }
  return steps;
}

Result<JsonPreTokenizer> ReadJsonPreTokenizer(const Json& pre_tokenizer, const std::string& path) {
  return PreTokenizerReader(path).Read(pre_tokenizer);
}

}  // namespace lectern
