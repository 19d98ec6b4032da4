#include "tools/ingest/encoding_guess.h"

#include <uchardet.h>

#include <algorithm>
#include <array>
#include <limits>
#include <memory>
#include <span>
#include <vector>

#include "engine/model/formats/text.h"
#include "tools/ingest/charset_conversion.h"
#include "tools/ingest/letter_forms.h"
#include "tools/ingest/text_plausibility.h"

namespace lectern::tools {
namespace {

constexpr size_t kSampleBytes = size_t{64} << 10;  // uchardet's guesses change little past 5 KB
constexpr size_t kPieceBytes = 4096;               // of the sample

uint8_t Byte(std::string_view bytes, size_t at) { return static_cast<uint8_t>(bytes[at]); }

bool IsAscii(char c) { return static_cast<uint8_t>(c) < 0x80; }

// --- UTF-16 and UTF-32 --------------------------------------------------------------------------

// Whether text without NULs and control characters has the byte: all but C0 controls, of which it
// has white space, backspace (overstruck words of man pages) and escape (colours of terminals).
bool IsTextByte(uint8_t byte) {
  return byte >= 0x20 || (byte >= '\b' && byte <= '\r') || byte == 0x1B;
}

// Whether the character comes in running text of the languages that are written in UTF-16: scripts
// in use, their punctuation, common ideographs and syllables.
bool IsCommonCharacter(uint32_t c) {
  constexpr std::pair<uint32_t, uint32_t> kRanges[] = {
      {0x20, 0x7E},     {0xA0, 0x24F},      {0x2B0, 0x52F},    {0x531, 0x58F},   {0x591, 0x6FF},
      {0x901, 0xDF4},   {0xE01, 0xE5B},     {0x10A0, 0x10FF},  {0x1780, 0x17F9}, {0x1E00, 0x1FFF},
      {0x200B, 0x206F}, {0x20A0, 0x20BF},   {0x2100, 0x2312},  {0x2460, 0x27BF}, {0x3000, 0x30FF},
      {0x3105, 0x318E}, {0x4E00, 0x9FA5},   {0xAC00, 0xD7A3},  {0xFB1D, 0xFDFC}, {0xFE30, 0xFEFC},
      {0xFF01, 0xFFE6}, {0x1F300, 0x1FAFF}, {0x20000, 0x2A6DF}};
  if (c < 0x20) return c >= '\t' && c <= '\r';
  return std::any_of(std::begin(kRanges), std::end(kRanges),
                     [c](const auto& range) { return c >= range.first && c <= range.second; });
}

// A character of UTF-16 or UTF-32, whose units have `unit` bytes, at `at`, and its bytes in
// `length`. A surrogate without its other half is returned as it is.
uint32_t WideCharacter(std::string_view bytes, size_t at, size_t unit, bool is_big_endian,
                       size_t* length) {
  const auto read = [&](size_t from) {
    uint32_t value = 0;
    for (size_t i = 0; i < unit; ++i) {
      value = value << 8 | Byte(bytes, from + (is_big_endian ? i : unit - 1 - i));
    }
    return value;
  };
  *length = unit;
  const uint32_t first = read(at);
  if (unit == 4 || first < 0xD800 || first > 0xDBFF || at + 4 > bytes.size()) return first;
  const uint32_t second = read(at + 2);
  if (second < 0xDC00 || second > 0xDFFF) return first;
  *length = 4;
  return 0x10000 + ((first - 0xD800) << 10) + (second - 0xDC00);
}

// Share of common characters among those of the bytes read as UTF-16 or UTF-32. Those of ASCII
// count 1 % more, because they are ideographs in the other byte order.
double ShareOfCommon(std::string_view bytes, size_t unit, bool is_big_endian) {
  double common = 0, all = 0;
  for (size_t at = 0, length = 0; at + unit <= bytes.size(); at += length, ++all) {
    const uint32_t c = WideCharacter(bytes, at, unit, is_big_endian, &length);
    if (IsCommonCharacter(c)) common += c < 0x80 ? 1.01 : 1;
  }
  return all == 0 ? 0 : common / all;
}

// Whether the bytes are text of 8 bits with a few NULs or control characters in it: pairs of ASCII
// look like ideographs in UTF-16, too. UTF-16 of ASCII is one half NULs; of the ideographs of a
// text about a fifth are pairs of ASCII, in a short text of any share.
bool IsAsciiWithControls(std::string_view bytes) {
  uint64_t nuls = 0, ascii = 0, pairs = 0;
  for (size_t i = 0; i < bytes.size(); ++i) {
    const uint8_t byte = Byte(bytes, i);
    const bool is_ascii = byte < 0x7F && IsTextByte(byte);
    nuls += byte == 0;
    ascii += is_ascii;
    if (i % 2 == 1)
      pairs += is_ascii && Byte(bytes, i - 1) < 0x7F && IsTextByte(Byte(bytes, i - 1));
  }
  if (ascii + nuls == bytes.size() && nuls * 5 < bytes.size() * 2) return true;
  return pairs * 2 > bytes.size() / 2 && (bytes.size() >= 64 || pairs * 5 > bytes.size() / 2 * 4);
}

// --- encodings of 8 bits, and of several bytes --------------------------------------------------

// Pieces of the text that begin with a byte outside of ASCII behind one of ASCII, or where the text
// does, and end behind white space, so that no character is cut: at most kSampleBytes, from all
// over the text. A short text stays whole.
std::string Sample(std::string_view bytes) {
  if (bytes.size() <= kSampleBytes) return std::string(bytes);
  constexpr size_t kPieces = kSampleBytes / kPieceBytes;
  std::string sample;
  for (size_t i = 0; i < kPieces; ++i) {
    std::string_view part = bytes.substr(bytes.size() / kPieces * i, bytes.size() / kPieces);
    const size_t space = i == 0 ? 0 : part.find_first_of(" \t\r\n");
    if (space == std::string_view::npos) continue;
    part.remove_prefix(space);
    const auto* const other = std::find_if_not(part.begin(), part.end(), IsAscii);
    if (other == part.end()) continue;
    part.remove_prefix(static_cast<size_t>(other - part.begin()));
    part = part.substr(0, kPieceBytes);
    const size_t end = part.find_last_of(" \t\r\n");
    sample += part.substr(0, end == std::string_view::npos ? part.size() : end + 1);
    sample += '\n';
  }
  return sample.empty() ? std::string(bytes.substr(0, kSampleBytes)) : sample;
}

// uchardet's guess as a name for ConvertToUtf8; "" where it has none, one that nobody uses
// (EUC-TW), or one that cannot be: UTF-8 was ruled out before.
std::string AskUchardet(std::string_view bytes) {
  const std::unique_ptr<uchardet, decltype(&uchardet_delete)> detector(uchardet_new(),
                                                                       &uchardet_delete);
  if (!detector || uchardet_handle_data(detector.get(), bytes.data(), bytes.size()) != 0) return "";
  uchardet_data_end(detector.get());
  const std::string name = EncodingOfLabel(uchardet_get_charset(detector.get()));
  return name.starts_with("UTF-") ? "" : name;
}

// The text without the quotation marks and dashes that code pages of Windows have between 0x80 and
// 0x9F: uchardet does not know them in some languages and then guesses wrong.
std::string WithoutWindowsMarks(std::string bytes) {
  constexpr std::string_view kMarks = "\x80\x82\x84\x85\x8B\x91\x92\x93\x94\x95\x96\x97\x99\x9B";
  for (char& c : bytes) {
    if (kMarks.find(c) != std::string_view::npos) c = ' ';
  }
  return bytes;
}

// Encodings that are taken for each other, the most usual one first.
constexpr std::array<std::string_view, 9> kWestern = {
    "windows-1252", "windows-1250", "windows-1254", "windows-1257", "ISO-8859-2",
    "ISO-8859-15",  "ISO-8859-13",  "windows-1258", "ISO-8859-4"};
constexpr std::array<std::string_view, 3> kOldWestern = {"MACINTOSH", "CP850", "CP852"};
// Code pages of DOS for Greek, Turkish, Baltic, Canadian, Portuguese and Ukrainian, which uchardet
// does not know.
constexpr std::array<std::string_view, 7> kOfDos = {"CP737", "IBM869", "CP857", "CP775",
                                                    "CP863", "CP860",  "CP1125"};
constexpr std::array<std::string_view, 5> kCyrillic = {"windows-1251", "KOI8-R", "KOI8-U",
                                                       "ISO-8859-5", "CP866"};
constexpr std::array<std::string_view, 10> kOthers = {
    "windows-1253", "windows-1255", "windows-1256", "CP874", "GB18030",
    "BIG5-HKSCS",   "CP932",        "EUC-JP-MS",    "CP949", "JOHAB"};

// Encodings of which uchardet knows more than today's files have. Where it names one of them, a
// more usual one that fits as well is meant.
bool IsUnusual(std::string_view encoding) {
  constexpr std::string_view kUnusual[] = {
      "ISO-8859-3", "ISO-8859-4",        "ISO-8859-10",  "ISO-8859-13", "ISO-8859-16", "CP852",
      "VISCII",     "MAC-CENTRALEUROPE", "MAC-CYRILLIC", "IBM855",      "windows-1258"};
  return std::find(std::begin(kUnusual), std::end(kUnusual), encoding) != std::end(kUnusual);
}

// An encoding whose texts uchardet takes for those of `guess`. The handicap is small where this one
// is more usual than the guess.
struct Confusion {
  std::string_view guess, meant;
  double handicap;
};
constexpr Confusion kConfusions[] = {{"windows-1252", "ISO-8859-15", 1},
                                     {"windows-1250", "ISO-8859-2", 1},
                                     {"ISO-8859-2", "windows-1250", 0.25},
                                     {"ISO-8859-16", "windows-1250", 0.25},
                                     {"windows-1257", "ISO-8859-13", 1},
                                     {"ISO-8859-13", "windows-1257", 0.75},
                                     {"ISO-8859-7", "windows-1253", 0.25},
                                     {"ISO-8859-8", "windows-1255", 0.25},
                                     {"KOI8-R", "KOI8-U", 0.25},
                                     {"CP866", "CP1125", 0.25},
                                     {"MAC-CYRILLIC", "windows-1251", 0.25}};

// Where an encoding of two bytes a character has its common ideographs (the first level of its
// standard) or syllables, and its symbols and kana, by the first byte.
struct CommonRows {
  std::string_view encoding;
  uint8_t first, last;  // ideographs, syllables
  uint8_t first_symbol, last_symbol;
  uint8_t least_second;  // second bytes below belong to rare ones
};
constexpr CommonRows kCommonRows[] = {{"GB18030", 0xB0, 0xD7, 0xA1, 0xA3, 0xA1},
                                      {"BIG5-HKSCS", 0xA4, 0xC6, 0xA1, 0xA3, 0x40},
                                      {"CP932", 0x88, 0x97, 0x81, 0x83, 0x40},
                                      {"EUC-JP-MS", 0xB0, 0xCF, 0xA1, 0xA5, 0xA1},
                                      {"CP949", 0xB0, 0xC8, 0xA1, 0xA3, 0xA1}};

// Number of characters of two bytes outside of the common rows.
uint64_t NumRare(std::string_view bytes, const CommonRows& rows) {
  uint64_t rare = 0;
  for (size_t i = 0; i + 1 < bytes.size(); ++i) {
    const uint8_t first = Byte(bytes, i), second = Byte(bytes, i + 1);
    if (first < 0x80) continue;
    if (rows.encoding == "CP932" && first >= 0xA0 && first < 0xE0) continue;  // one byte
    const bool is_common = (first >= rows.first && first <= rows.last) ||
                           (first >= rows.first_symbol && first <= rows.last_symbol);
    if (!is_common || second < rows.least_second) ++rare;
    ++i;
  }
  return rare;
}

// Number of characters beside symbols that are not among the Hangul of KS X 1001. Johab has all
// 11,172 syllables, of which Korean texts use few but the 2,350 of that standard: text in other
// encodings, read as Johab, has many.
uint64_t NumRareSyllables(std::string_view text) {
  constexpr uint32_t kFirstSyllable = 0xAC00, kLastSyllable = 0xD7A3;
  static const std::vector<bool> is_common = [] {
    std::string bytes;
    for (int first = 0xB0; first <= 0xC8; ++first) {
      for (int second = 0xA1; second <= 0xFE; ++second)
        bytes += {static_cast<char>(first), static_cast<char>(second)};
    }
    std::vector<bool> common(kLastSyllable - kFirstSyllable + 1);
    for (const uint32_t c : CodePoints(ConvertToUtf8(bytes, "CP949").text)) {
      if (c >= kFirstSyllable && c <= kLastSyllable) common[c - kFirstSyllable] = true;
    }
    return common;
  }();
  uint64_t num_rare = 0;
  for (const uint32_t c : CodePoints(text)) {
    const bool is_symbol = c < 0x3400 || c >= 0xFF00;
    if (is_symbol) continue;
    num_rare += c < kFirstSyllable || c > kLastSyllable || !is_common[c - kFirstSyllable];
  }
  return num_rare;
}

// How odd the bytes are as a text in this encoding, per byte outside of ASCII in the other
// encodings: a character of two bytes counts twice.
double OddnessIn(std::string_view bytes, const std::string& encoding) {
  const std::string text = ConvertToUtf8(bytes, encoding).text;
  const double oddness = Oddness(text);
  if (encoding == "JOHAB") return 2 * (oddness + static_cast<double>(NumRareSyllables(text)));
  for (const CommonRows& rows : kCommonRows) {
    if (rows.encoding == encoding) {
      return 2 * (oddness + static_cast<double>(NumRare(bytes, rows)));
    }
  }
  return oddness;
}

struct Candidate {
  std::string encoding;
  double handicap;  // Oddness is added to it; the least sum wins
};

// Guesses first, in the order in which they win where nothing tells.
class Candidates {
 public:
  explicit Candidates(double num_other) : num_other_(num_other) {}

  void AddGuess(const std::string& guess) {
    if (guess.empty()) return;
    Add(guess, IsUnusual(guess) ? 1 : 0);
    for (const Confusion& confusion : kConfusions) {
      if (confusion.guess == guess) Add(std::string(confusion.meant), confusion.handicap);
    }
  }
  // Encodings that nobody guessed must be better by 5 % of the bytes outside of ASCII.
  void AddOthers(std::span<const std::string_view> encodings, double handicap) {
    for (const auto encoding : encodings) {
      Add(std::string(encoding), handicap + 0.05 * num_other_);
    }
  }
  void Add(const std::string& encoding, double handicap) {
    for (Candidate& candidate : candidates_) {
      if (candidate.encoding != encoding) continue;
      candidate.handicap = std::min(candidate.handicap, handicap);
      return;
    }
    candidates_.push_back({encoding, handicap});
  }
  std::string Best(std::string_view bytes) const {
    double least = std::numeric_limits<double>::max();
    std::string best;
    for (const Candidate& candidate : candidates_) {
      if (candidate.handicap >= least) continue;  // cannot win: spares a conversion
      const double sum = candidate.handicap + OddnessIn(bytes, candidate.encoding);
      if (sum >= least) continue;
      least = sum;
      best = candidate.encoding;
    }
    return best;
  }

 private:
  const double num_other_;
  std::vector<Candidate> candidates_;
};

}  // namespace

Utf8Counts CountUtf8(std::string_view bytes) {
  Utf8Counts counts;
  while (!bytes.empty()) {
    const auto* const other = std::find_if_not(bytes.begin(), bytes.end(), IsAscii);
    bytes.remove_prefix(static_cast<size_t>(other - bytes.begin()));
    if (bytes.empty()) break;
    const int length = Utf8CharLength(bytes);
    counts.multibyte += length > 0;
    counts.invalid += length <= 0;
    counts.is_cut_off = length == 0;
    if (length == 0) break;
    bytes.remove_prefix(static_cast<size_t>(length > 0 ? length : -length));
  }
  return counts;
}

bool IsMostlyUtf8(const Utf8Counts& counts) {
  if (counts.invalid == 1 && counts.is_cut_off && counts.multibyte > 0) return true;
  return counts.invalid == 0 || counts.multibyte >= 2 * counts.invalid + 2;
}

std::string WideEncoding(std::string_view bytes) {
  // Running text in UTF-16 has 99 % common characters, other bytes less than 90 %.
  constexpr double kLeastShare = 0.95;
  bytes = bytes.substr(0, kSampleBytes);
  const bool has_controls = std::any_of(
      bytes.begin(), bytes.end(), [](char c) { return !IsTextByte(static_cast<uint8_t>(c)); });
  if (!has_controls) return "";
  for (const size_t unit : {4, 2}) {
    if (unit == 2 && IsAsciiWithControls(bytes)) continue;
    const double little = ShareOfCommon(bytes, unit, false), big = ShareOfCommon(bytes, unit, true);
    if (std::max(little, big) < kLeastShare || little == big) continue;
    return std::string(unit == 4 ? "UTF-32" : "UTF-16") + (little > big ? "LE" : "BE");
  }
  return "";
}

std::string GuessEncoding(std::string_view bytes) {
  const std::string sample = Sample(bytes);
  const auto num_other =
      sample.size() - static_cast<size_t>(std::count_if(sample.begin(), sample.end(), IsAscii));
  Candidates candidates(static_cast<double>(num_other));
  const std::string guess = AskUchardet(sample);
  if (num_other == 0) return guess.empty() ? "windows-1252" : guess;  // ISO-2022-JP
  candidates.AddGuess(guess);
  candidates.Add("windows-1252", 0.5);
  candidates.AddGuess(AskUchardet(WithoutWindowsMarks(sample)));
  candidates.AddOthers(kWestern, 1);
  candidates.AddOthers(kOldWestern, 1.5);
  candidates.AddOthers(kOfDos, 2.5);
  candidates.AddOthers(kCyrillic, 1);
  candidates.AddOthers(kOthers, 2);
  // A few words of ideographs in UTF-16 may be without a NUL or a control character.
  for (const bool is_big_endian : {false, true}) {
    const bool is_wide =
        bytes.size() <= 128 && bytes.size() % 2 == 0 && ShareOfCommon(bytes, 2, is_big_endian) >= 1;
    if (is_wide) candidates.AddOthers({{is_big_endian ? "UTF-16BE" : "UTF-16LE"}}, 2.5);
  }
  const std::string best = candidates.Best(sample);
  const bool is_western =
      ConvertToUtf8(sample, best).text == ConvertToUtf8(sample, "windows-1252").text;
  return is_western ? "windows-1252" : best;
}

}  // namespace lectern::tools
