#include "tools/ingest/extract/ppt_records.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "tools/ingest/characters.h"
#include "tools/ingest/compound_file.h"
#include "tools/ingest/extract/code_page.h"
#include "tools/ingest/extract/text_builder.h"
#include "tools/ingest/list_numbers.h"

namespace lectern::tools {
namespace {

// A text with its records, before its style is applied.
struct RawText {
  int kind = PptText::kNone;
  std::vector<uint16_t> units;  // UTF-16
  std::string_view style;       // of paragraphs, then of characters
  std::string_view number_style;
  std::vector<uint32_t> fields;  // places of signs that stand for a number, a date or a head
};

// The style of a run of characters, or of paragraphs.
struct ParagraphRun {
  uint64_t end = 0;  // in characters
  int level = 0;
  std::optional<bool> has_bullet;
};
struct LetterRun {
  uint64_t end = 0;
  int size = 0;
  size_t numbering = 0;  // the number of its paragraph's numbering
  bool is_raised = false;
};

// The numberings of a text (StyleTextProp9Atom): fields that masks name, of the paragraph, of the
// characters, and of their language.
std::vector<PptNumbering> ReadNumberings(std::string_view data) {
  constexpr uint32_t kPicture = 1 << 23, kHasNumber = 1 << 25, kScheme = 1 << 24;
  constexpr uint32_t kCharacterExtension = 1 << 20;
  // Spelling, two languages, direction; the extension; then a list of tags.
  constexpr uint32_t kTwoBytes[] = {1, 1 << 1, 1 << 2, 1 << 6};
  constexpr uint32_t kLanguageExtension = 1 << 5, kTagList = 1 << 9;
  std::vector<PptNumbering> numberings;
  for (size_t at = 0; at < data.size();) {
    PptNumbering& numbering = numberings.emplace_back();
    const uint32_t paragraph = Uint32At(data, at);
    at += paragraph & kPicture ? 6 : 4;
    if (paragraph & kHasNumber) {
      numbering.is_numbered = Uint16At(data, at) == 1;
      at += 2;
    }
    if (paragraph & kScheme) {
      numbering.scheme = Uint16At(data, at);
      numbering.first = static_cast<int16_t>(Uint16At(data, at + 2));
      at += 4;
    }
    at += Uint32At(data, at) & kCharacterExtension ? 8 : 4;
    const uint32_t language = Uint32At(data, at);
    at += 4;
    for (const uint32_t bit : kTwoBytes) at += language & bit ? 2 : 0;
    at += language & kLanguageExtension ? 4 : 0;
    if (language & kTagList) at += 4 + 4 * size_t{Uint32At(data, at)};
  }
  return numberings;
}

class StyleReader {
 public:
  explicit StyleReader(std::string_view style) : style_(style) {}
  // Reads the runs of a text. `num_characters`: with the paragraph's end that stands behind it.
  void ReadRuns(uint64_t num_characters) {
    while (Has() && EndOf(paragraphs) < num_characters) {
      const uint64_t end = EndOf(paragraphs) + Take32();
      const int level = std::min<int>(Take16(), 8);
      paragraphs.push_back(TakeParagraph());
      paragraphs.back().end = end;
      paragraphs.back().level = level;
    }
    while (Has() && EndOf(letters) < num_characters) {
      const uint64_t end = EndOf(letters) + Take32();
      letters.push_back(TakeLetters());
      letters.back().end = end;
    }
  }
  std::vector<ParagraphRun> paragraphs;
  std::vector<LetterRun> letters;

  bool Has() const { return at_ < style_.size(); }

  uint16_t TakeNumber() { return Take16(); }

  // MS-PPT, 2.9.20: fields that the mask names, in this order.
  ParagraphRun TakeParagraph() {
    constexpr uint32_t kBulletFlags = 0xF, kHasBullet = 1, kColor = 1 << 5, kTabs = 1 << 20;
    constexpr uint32_t kWraps = 7 << 17;
    // A bullet's sign, font, size; behind them its colour.
    constexpr uint32_t kBefore[] = {1 << 7, 1 << 4, 1 << 6};
    // Alignment, spacing of lines, space before and behind, margin, indentation, width of tabs.
    constexpr uint32_t kBehind[] = {1 << 11, 1 << 12, 1 << 13, 1 << 14, 1 << 8, 1 << 10, 1 << 15};
    constexpr uint32_t kFontAlignment = 1 << 16, kDirection = 1 << 21;
    ParagraphRun run;
    const uint32_t mask = Take32();
    if (mask & kBulletFlags) {
      const uint16_t flags = Take16();
      if (mask & kHasBullet) run.has_bullet = (flags & kHasBullet) != 0;
    }
    for (const uint32_t bit : kBefore) at_ += mask & bit ? 2 : 0;
    at_ += mask & kColor ? 4 : 0;
    for (const uint32_t bit : kBehind) at_ += mask & bit ? 2 : 0;
    if (mask & kTabs) at_ += 4 * size_t{Take16()};
    at_ += mask & kFontAlignment ? 2 : 0;
    at_ += mask & kWraps ? 2 : 0;
    at_ += mask & kDirection ? 2 : 0;
    return run;
  }

  // MS-PPT, 2.9.14.
  LetterRun TakeLetters() {
    constexpr uint32_t kStyles = 0x3FFF, kSize = 1 << 17, kColor = 1 << 18, kRaised = 1 << 19;
    constexpr uint32_t kFonts[] = {1 << 16, 1 << 21, 1 << 22, 1 << 23};
    LetterRun run;
    const uint32_t mask = Take32();
    if (mask & kStyles) run.numbering = Take16() >> 10 & 0xF;
    for (const uint32_t bit : kFonts) at_ += mask & bit ? 2 : 0;
    if (mask & kSize) run.size = Take16();
    at_ += mask & kColor ? 4 : 0;
    if (mask & kRaised) run.is_raised = static_cast<int16_t>(Take16()) > 0;
    return run;
  }

 private:
  template <typename Run>
  static uint64_t EndOf(const std::vector<Run>& runs) {
    return runs.empty() ? 0 : runs.back().end;
  }
  uint16_t Take16() { return Uint16At(style_, (at_ += 2) - 2); }
  uint32_t Take32() { return Uint32At(style_, (at_ += 4) - 4); }

  std::string_view style_;
  size_t at_ = 0;
};

PptText WithStyle(const RawText& raw) {
  constexpr uint16_t kParagraphEnd = 0x0D, kLineEnd = 0x0B;
  PptText text;
  text.kind = raw.kind;
  StyleReader style(raw.style);
  style.ReadRuns(raw.units.size() + 1);
  const std::vector<PptNumbering> numberings = ReadNumberings(raw.number_style);
  size_t paragraph = 0, letters = 0;
  PptParagraph current;
  std::string run;  // letters of one style
  const auto end_run = [&](bool is_raised) {
    is_raised ? AppendSuperscript(run, current.text) : AppendInline(run, current.text);
    run.clear();
  };
  const auto end_paragraph = [&](size_t at) {
    while (paragraph < style.paragraphs.size() && style.paragraphs[paragraph].end <= at)
      ++paragraph;
    if (paragraph < style.paragraphs.size()) {
      current.level = style.paragraphs[paragraph].level;
      current.has_bullet = style.paragraphs[paragraph].has_bullet;
    }
    text.paragraphs.push_back(std::move(current));
    current = {};
  };
  for (size_t i = 0; i < raw.units.size(); ++i) {
    while (letters < style.letters.size() && style.letters[letters].end <= i) ++letters;
    const LetterRun* const letter =
        letters < style.letters.size() ? &style.letters[letters] : nullptr;
    const bool is_raised = letter && letter->is_raised;
    const bool is_first = i == 0 || raw.units[i - 1] == kParagraphEnd;
    if (is_first && letter && letter->numbering < numberings.size())
      current.numbering = numberings[letter->numbering];
    if (letter) text.largest_letters = std::max(text.largest_letters, letter->size);
    text.has_usual_letters |= !letter || letter->size == 0;
    uint32_t unit = raw.units[i];
    const bool is_field = std::ranges::binary_search(raw.fields, static_cast<uint32_t>(i));
    if (unit >= 0xD800 && unit < 0xDC00 && i + 1 < raw.units.size()) {
      unit = 0x10000 + ((unit - 0xD800) << 10) + (raw.units[++i] & 0x3FFu);
    }
    if (unit == kParagraphEnd || unit == kLineEnd) {
      end_run(is_raised);
      if (unit == kLineEnd) current.text += '\n';
      if (unit == kParagraphEnd) end_paragraph(i);
      continue;
    }
    if (!is_field) AppendUtf8(unit, run);
    if (!letter || letter->end <= i + 1) end_run(is_raised);
  }
  end_run(false);
  end_paragraph(raw.units.size());
  return text;
}

}  // namespace

bool PptRecords::Next(PptRecord& record) {
  constexpr size_t kHead = 8;
  if (rest_.size() < kHead) return false;
  record.instance = static_cast<uint16_t>(Uint16At(rest_, 0) >> 4);
  record.kind = Uint16At(rest_, 2);
  record.data = rest_.substr(kHead, Uint32At(rest_, 4));
  rest_.remove_prefix(kHead + record.data.size());
  return true;
}

PptRecord FindRecord(std::string_view records, uint16_t kind) {
  PptRecords all(records);
  for (PptRecord record; all.Next(record);) {
    if (record.kind == kind) return record;
  }
  return {};
}

std::string PptText::AllLines() const {
  std::string lines;
  for (const PptParagraph& paragraph : paragraphs)
    lines += (lines.empty() ? "" : " ") + paragraph.text;
  return CollapseSpace(lines, false);
}

std::string NumberInScheme(int number, uint16_t scheme) {
  struct Scheme {
    NumberStyle style;
    std::string_view begin, end;
  };
  constexpr Scheme kSchemes[] = {
      {NumberStyle::kLowerLetter, "", ". "},  {NumberStyle::kUpperLetter, "", ". "},
      {NumberStyle::kDecimal, "", ") "},      {NumberStyle::kDecimal, "", ". "},
      {NumberStyle::kLowerRoman, "(", ") "},  {NumberStyle::kLowerRoman, "", ") "},
      {NumberStyle::kLowerRoman, "", ". "},   {NumberStyle::kUpperRoman, "", ". "},
      {NumberStyle::kLowerLetter, "(", ") "}, {NumberStyle::kLowerLetter, "", ") "},
      {NumberStyle::kUpperLetter, "(", ") "}, {NumberStyle::kUpperLetter, "", ") "},
      {NumberStyle::kDecimal, "(", ") "},     {NumberStyle::kDecimal, "", " "},
      {NumberStyle::kUpperRoman, "(", ") "},  {NumberStyle::kUpperRoman, "", ") "}};
  constexpr size_t kUsual = 3;  // also for numbers of East Asia, of Hebrew and of Arabic
  const Scheme& found = kSchemes[scheme < std::size(kSchemes) ? scheme : kUsual];
  return std::string(found.begin) + NumberText(number, found.style) + std::string(found.end);
}

void PptMasterStyle::Add(std::string_view records) {
  constexpr int kNamesLevels = PptText::kCentredBody;  // kinds from this one on
  constexpr int kMostLevels = 5;
  PptRecords all(records);
  for (PptRecord record; all.Next(record);) {
    if (record.kind != PptId::kMasterStyle || record.instance > PptText::kQuarterBody) continue;
    StyleReader style(record.data);
    const int count = std::min<int>(style.TakeNumber(), kMostLevels);
    for (int i = 0; i < count && style.Has(); ++i) {
      const int level = record.instance >= kNamesLevels ? style.TakeNumber() : i;
      const std::optional<bool> has_bullet = style.TakeParagraph().has_bullet;
      if (level >= kMostLevels) break;
      levels_.try_emplace({record.instance, level}, Level{has_bullet, style.TakeLetters().size});
    }
  }
}

// The style of a kind, or of the kind that it is one of.
const PptMasterStyle::Level* PptMasterStyle::Find(int kind, int level) const {
  const bool is_body =
      kind == PptText::kCentredBody || kind == PptText::kHalfBody || kind == PptText::kQuarterBody;
  const int wider = is_body                          ? PptText::kBody
                    : kind == PptText::kCentredTitle ? PptText::kTitle
                                                     : kind;
  auto found = levels_.find({kind, level});
  if (found == levels_.end()) found = levels_.find({wider, level});
  return found == levels_.end() ? nullptr : &found->second;
}

void PptMasterStyle::ApplyTo(PptText& text) const {
  for (PptParagraph& paragraph : text.paragraphs) {
    const Level* const level = Find(text.kind, paragraph.level);
    if (!level) continue;
    if (!paragraph.has_bullet) paragraph.has_bullet = level->has_bullet;
    if (text.has_usual_letters) text.largest_letters = std::max(text.largest_letters, level->size);
  }
}

std::string_view AddedRecords(std::string_view records) {
  PptRecords tags(FindRecord(records, PptId::kTags).data);
  for (PptRecord tag; tags.Next(tag);) {
    if (tag.kind == PptId::kTag &&
        Utf16Text(FindRecord(tag.data, PptId::kTagName).data) == "___PPT9")
      return FindRecord(tag.data, PptId::kTagData).data;
  }
  return {};
}

std::vector<PptText> ReadPptTexts(std::string_view records, std::vector<PptNumberStyle> styles) {
  std::vector<PptText> texts;
  RawText raw;
  bool has_text = false;
  const auto end = [&] {
    std::ranges::sort(raw.fields);
    if (has_text) texts.push_back(WithStyle(raw));
    raw = {};
    has_text = false;
  };
  PptRecords all(records);
  for (PptRecord record; all.Next(record);) {
    switch (record.kind) {
      case PptId::kTextKind:
        end();
        raw.kind = static_cast<int>(Uint32At(record.data, 0) & 0xF);
        has_text = true;
        if (const auto own = std::ranges::find(styles, raw.kind, &PptNumberStyle::kind);
            own != styles.end()) {
          raw.number_style = own->data;
          styles.erase(own);
        }
        break;
      case PptId::kWideText:
        for (size_t i = 0; i + 2 <= record.data.size(); i += 2)
          raw.units.push_back(Uint16At(record.data, i));
        has_text = true;
        break;
      case PptId::kNarrowText:
        for (const char c : record.data) raw.units.push_back(static_cast<uint8_t>(c));
        has_text = true;
        break;
      case PptId::kTextStyle:
        raw.style = record.data;
        break;
      case PptId::kSlideNumber:
      case PptId::kDate:
      case PptId::kAnyDate:
      case PptId::kHeader:
      case PptId::kFooter:
      case PptId::kWordDate:
        raw.fields.push_back(Uint32At(record.data, 0));
        break;
      default:
        break;
    }
  }
  end();
  return texts;
}

}  // namespace lectern::tools
