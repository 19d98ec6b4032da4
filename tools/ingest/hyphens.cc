#include "tools/ingest/hyphens.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "tools/ingest/characters.h"
namespace lectern::tools {
namespace {

// Times that each part of a compound must be a word of its own. With 2, of 565 line ends in 60
// manuals whose word was nowhere else, 64 kept their hyphen, 60 of them rightly.
constexpr uint32_t kMinCount = 2;
constexpr size_t kMaxPart = 64;  // bytes of a part of a word; longer ones are no words

// Letters: of ASCII, and any byte of a character beyond it.
bool IsLetter(char c) {
  return IsAsciiUpper(c) || IsAsciiLower(c) || static_cast<uint8_t>(c) >= 0x80;
}
bool IsWordByte(char c) { return IsLetter(c) || IsAsciiDigit(c) || c == '-' || c == '\''; }

std::string InSmallLetters(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) c = static_cast<char>(IsAsciiUpper(c) ? c - 'A' + 'a' : c);
  return lower;
}

// A divided word: what stands before the hyphen, and behind it at the start of the next line.
struct Parts {
  std::string_view left, right;
};

Parts PartsOf(std::string_view line, std::string_view next) {
  line.remove_suffix(EndingHyphen(line));
  size_t begin = line.size();
  while (begin > 0 && IsWordByte(line[begin - 1])) --begin;
  size_t end = 0;
  while (end < next.size() && (IsLetter(next[end]) || IsAsciiDigit(next[end]))) ++end;
  return {line.substr(begin), next.substr(0, end)};
}

// Words that join the parts of "pre- and post-war", in languages that do so.
bool IsConjunction(std::string_view word) {
  constexpr std::string_view kWords[] = {"and", "or", "to", "und", "oder", "bis",
                                         "et",  "ou", "en", "och", "og",   "eller"};
  return std::find(std::begin(kWords), std::end(kWords), word) != std::end(kWords);
}

// The number of characters: bytes that continue one are not counted.
size_t NumCharacters(std::string_view text) {
  return static_cast<size_t>(std::count_if(
      text.begin(), text.end(), [](char c) { return (static_cast<uint8_t>(c) & 0xC0) != 0x80; }));
}

bool IsCapital(std::string_view part) {
  return !part.empty() && std::all_of(part.begin(), part.end(), IsAsciiUpper);
}

template <size_t kCount>
bool IsAmong(std::string_view word, const std::string_view (&words)[kCount]) {
  return std::find(std::begin(words), std::end(words), word) != std::end(words);
}

// First parts of English compounds that keep their hyphen ("self-contained", "non-zero"). None of
// them begins many undivided words but by an ending.
bool IsFirstPart(std::string_view left) {
  constexpr std::string_view kFirst[] = {
      "client", "context", "cross", "decision", "device", "domain", "double",  "early",  "eight",
      "eighty", "energy",  "error", "fifty",    "first",  "five",   "forty",   "four",   "full",
      "half",   "heavy",   "high",  "higher",   "hour",   "large",  "last",    "least",  "left",
      "long",   "low",     "lower", "machine",  "most",   "much",   "network", "nine",   "ninety",
      "non",    "one",     "open",  "quasi",    "second", "self",   "semi",    "server", "seven",
      "single", "six",     "small", "source",   "third",  "thirty", "three",   "twenty", "two",
      "upper",  "user",    "very",  "well",     "wide",   "world",  "zero"};
  return IsAmong(left, kFirst);
}

// Texts that make one word with a first part: endings ("seven" "teen", "open" "ing"), and second
// parts of words that are written without a hyphen ("high" "light", "non" "sense").
bool IsJoinedToFirstPart(std::string_view right) {
  constexpr std::string_view kJoined[] = {
      "able",    "ably",     "aries",   "arily",  "ary",    "bar",       "bars",       "case",
      "chalant", "circle",   "circles", "colon",  "colons", "conductor", "conductors", "descript",
      "down",    "entities", "entity",  "ercase", "ered",   "etheless",  "evity",      "final",
      "finals",  "fold",     "hand",    "horn",   "horns",  "ings",      "ists",       "itude",
      "itudes",  "itudinal", "jack",    "jacked", "jacks",  "land",      "lands",      "lier",
      "liest",   "light",    "lighted", "lights", "ment",   "ments",     "most",       "name",
      "names",   "nars",     "nary",    "ness",   "over",   "overs",     "pence",      "penny",
      "road",    "roads",    "same",    "score",  "screen", "screens",   "sense",      "some",
      "spread",  "stop",     "teen",    "teens",  "teenth", "teenths",   "ties",       "tieth",
      "tieths",  "time",     "times",   "wards",  "way",    "ways",      "weight",     "wide",
      "wise",    "word",     "words"};
  return right.size() <= 3 || IsAmong(right, kJoined) || right.ends_with("ing");
}

// Second parts of compounds that are hardly ever the end of an undivided word.
bool IsSecondPart(std::string_view left, std::string_view right) {
  constexpr std::string_view kSecond[] = {"based",  "specific", "compliant", "oriented", "valued",
                                          "shaped", "driven",   "friendly",  "sized",    "style",
                                          "making", "minded",   "sensitive", "aware"};
  constexpr std::string_view kPrefixes[] = {"over", "under", "inter", "hyper", "super"};
  return left.size() >= 4 &&
         std::find(std::begin(kSecond), std::end(kSecond), right) != std::end(kSecond) &&
         std::find(std::begin(kPrefixes), std::end(kPrefixes), left) == std::end(kPrefixes);
}

// Endings that are words too, but hardly ever a compound's second part.
bool IsEnding(std::string_view right) {
  constexpr std::string_view kEndings[] = {"able", "ably",  "fully", "ness", "ship",
                                           "ward", "wards", "wise",  "ment", "less"};
  return std::find(std::begin(kEndings), std::end(kEndings), right) != std::end(kEndings);
}

// Without a word in the document that tells. `left` and `right` are in small letters.
bool IsCompound(std::string_view left, std::string_view right) {
  return IsSecondPart(left, right) || (IsFirstPart(left) && !IsJoinedToFirstPart(right));
}

}  // namespace

size_t EndingHyphen(std::string_view line) {
  for (const std::string_view hyphen :
       {std::string_view("-"), kSoftHyphen, std::string_view("\xE2\x80\x90")}) {
    if (line.ends_with(hyphen) && line.size() > hyphen.size() &&
        line[line.size() - hyphen.size() - 1] != ' ' &&
        line[line.size() - hyphen.size() - 1] != '-') {
      return hyphen.size();
    }
  }
  return 0;
}

void HyphenJudge::Want(std::string_view line, std::string_view next) {
  const Parts parts = PartsOf(line, next);
  if (parts.left.empty() || parts.right.empty() || parts.left.size() > kMaxPart ||
      parts.right.size() > kMaxPart) {
    return;
  }
  const std::string left = InSmallLetters(parts.left), right = InSmallLetters(parts.right);
  counts_.try_emplace(left, 0);
  counts_.try_emplace(right, 0);
  counts_.try_emplace(left + right, 0);
  counts_.try_emplace(left + "-" + right, 0);
}

void HyphenJudge::Count(std::string_view line) {
  if (counts_.empty()) return;
  for (size_t begin = 0; begin < line.size();) {
    if (!IsWordByte(line[begin])) {
      ++begin;
      continue;
    }
    size_t end = begin;
    while (end < line.size() && IsWordByte(line[end])) ++end;
    if (end - begin <= 2 * kMaxPart + 1) {
      const auto found = counts_.find(InSmallLetters(line.substr(begin, end - begin)));
      if (found != counts_.end()) ++found->second;
    }
    begin = end;
  }
}

uint32_t HyphenJudge::CountOf(const std::string& word) const {
  const auto found = counts_.find(word);
  return found == counts_.end() ? 0 : found->second;
}

HyphenEnd HyphenJudge::Decide(std::string_view line, std::string_view next) const {
  const Parts parts = PartsOf(line, next);
  const bool is_soft = line.ends_with(kSoftHyphen);
  if (parts.right.empty()) return HyphenEnd::kKeep;
  if (parts.left.empty() || !IsLetter(parts.left.back()) || IsAsciiDigit(parts.right.front())) {
    return HyphenEnd::kKeep;
  }
  const std::string left = InSmallLetters(parts.left), right = InSmallLetters(parts.right);
  const uint32_t joined = CountOf(left + right), hyphenated = CountOf(left + "-" + right);
  if (joined != hyphenated) return joined > hyphenated ? HyphenEnd::kDrop : HyphenEnd::kKeep;
  if (is_soft) return HyphenEnd::kDrop;
  // A capital begins a name, but for German nouns: "Hard- und Software".
  const bool is_german = right == "und" || right == "oder";
  if (IsConjunction(right) && (is_german || !IsAsciiUpper(parts.left.front()))) {
    return HyphenEnd::kKeepSpace;
  }
  const size_t inner = parts.left.rfind('-');
  const std::string_view last =
      inner == std::string_view::npos ? parts.left : parts.left.substr(inner + 1);
  if (inner != std::string_view::npos && inner > 0) {
    // "mother-in-" "law", "SmolLM2-135M-" "Instruct"; but "two-dimen-" "sional" divides its last part.
    const bool is_part = last.size() <= 3 || IsAsciiUpper(parts.right.front()) ||
                         IsCompound(InSmallLetters(last), right);
    return is_part ? HyphenEnd::kKeep : HyphenEnd::kDrop;
  }
  if (NumCharacters(last) == 1) return HyphenEnd::kKeep;
  if (IsAsciiUpper(parts.right.front())) {
    const bool all_capital = IsCapital(last) && IsCapital(parts.right) && last.size() > 1;
    return all_capital ? HyphenEnd::kDrop : HyphenEnd::kKeep;
  }
  // "USB-" "based": an abbreviation is not divided.
  if (IsCapital(last)) return HyphenEnd::kKeep;
  // Two words of the document; "exam" "ple" are not.
  const bool are_words = left.size() >= 3 && right.size() >= 4 && !IsEnding(right) &&
                         CountOf(left) >= kMinCount && CountOf(right) >= kMinCount;
  return are_words || IsCompound(left, right) ? HyphenEnd::kKeep : HyphenEnd::kDrop;
}

}  // namespace lectern::tools
