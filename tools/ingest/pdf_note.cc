#include <algorithm>
#include <utility>

#include "tools/find_program.h"
#include "tools/ingest/document_text.h"

namespace lectern::tools {
namespace {

constexpr size_t kMaxRanges = 8;  // of pages in a message
constexpr size_t kMaxHeads = 3;   // running heads in a message
constexpr size_t kMaxBytes = 60;  // of a running head in a message

// "page 2", "pages 3 to 7 and 9", "pages 1, 3, 5 and 12 more".
std::string PageNames(const std::vector<uint64_t>& pages) {
  std::vector<std::string> ranges;
  size_t num_more = 0;
  for (size_t begin = 0, end = 0; begin < pages.size(); begin = end) {
    for (end = begin + 1; end < pages.size() && pages[end] == pages[end - 1] + 1;) ++end;
    if (ranges.size() == kMaxRanges) {
      num_more += end - begin;
      continue;
    }
    std::string range = std::to_string(pages[begin]);
    if (end - begin > 1)
      range += (end - begin > 2 ? " to " : " and ") + std::to_string(pages[end - 1]);
    ranges.push_back(std::move(range));
  }
  std::string names = pages.size() == 1 ? "page " : "pages ";
  for (size_t i = 0; i < ranges.size(); ++i) names += (i == 0 ? "" : ", ") + ranges[i];
  if (num_more > 0) names += " and " + std::to_string(num_more) + " more";
  return names;
}

std::string Shortened(const std::string& text) {
  if (text.size() <= kMaxBytes) return text;
  size_t end = kMaxBytes;
  while (end > 0 && (static_cast<uint8_t>(text[end]) & 0xC0) == 0x80) --end;
  return text.substr(0, end) + "…";
}

void Append(const std::string& sentence, std::string& note) {
  if (!note.empty()) note += "; ";
  note += sentence;
}

// "left out: the running head "…" (41 pages) …".
std::string LeftOut(const std::vector<RecurringLine>& recurring) {
  std::string names;
  size_t num_named = 0;
  for (const RecurringLine& line : recurring) {
    if (num_named++ == kMaxHeads) break;
    const bool is_number = line.text.find_first_not_of("0123456789ivxlc") == std::string::npos;
    const std::string name = is_number ? "page numbers" : "\"" + Shortened(line.text) + "\"";
    names += (names.empty() ? "" : ", ") + name + " (" + std::to_string(line.num_pages) + " pages)";
  }
  if (recurring.size() > kMaxHeads) {
    names += " and " + std::to_string(recurring.size() - kMaxHeads) + " more";
  }
  return "lines that recur from page to page are left out of the text: " + names;
}

}  // namespace

std::string NoteOf(const PagedText& paged) {
  std::string note;
  if (!paged.recognised_pages.empty()) {
    Append("the text of " + PageNames(paged.recognised_pages) + " was recognised from images (" +
               paged.recogniser + ") and may have errors",
           note);
  }
  if (!paged.recognition_failure.empty()) Append(paged.recognition_failure, note);
  if (!paged.pages_without_text.empty()) {
    const bool is_one = paged.pages_without_text.size() == 1;
    Append(PageNames(paged.pages_without_text) + (is_one ? " has" : " have") +
               " no text (scans, pictures or empty pages)" +
               (paged.recogniser.empty() && paged.recognition_failure.empty()
                    ? "; for scans run ocrmypdf in.pdf out.pdf first, or index with --ocr"
                    : ""),
           note);
  }
  if (paged.lacks_cjk_tables) {
    Append(
        "text in Chinese, Japanese or Korean may be missing: poppler's tables of their "
        "characters are not installed (" +
            HowToInstall("poppler-data") + ")",
        note);
  }
  if (!paged.unmapped_pages.empty()) {
    Append(PageNames(paged.unmapped_pages) +
               ": most characters have no Unicode value, so the text is not readable; run ocrmypdf "
               "--force-ocr in.pdf out.pdf first, or index with --ocr",
           note);
  }
  if (!paged.partly_unmapped_pages.empty()) {
    const bool is_one = paged.num_unmapped == 1;
    Append(std::to_string(paged.num_unmapped) + (is_one ? " character" : " characters") + " of " +
               PageNames(paged.partly_unmapped_pages) + (is_one ? " has" : " have") +
               " no Unicode value in the PDF's fonts, such as ligatures, signs and symbols, and " +
               (is_one ? "is" : "are") +
               " missing or wrong in the text; if that matters, run ocrmypdf --force-ocr in.pdf "
               "out.pdf first",
           note);
  }
  if (!paged.recurring.empty()) Append(LeftOut(paged.recurring), note);
  return note;
}

}  // namespace lectern::tools
