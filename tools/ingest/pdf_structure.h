// Reads the structure that a PDF states about itself: the labels that its pages are printed with
// ("xii", "A-3") and its outline (bookmarks). The program lectern-pdf-structure reads them with
// poppler, in a process of its own (limited_child.h), and hands them over in the form below.
#ifndef LECTERN_TOOLS_INGEST_PDF_STRUCTURE_H_
#define LECTERN_TOOLS_INGEST_PDF_STRUCTURE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lectern::tools {

// Limits of both sides; more than these are left out.
inline constexpr size_t kMaxOutlineItems = 20'000;
inline constexpr uint32_t kMaxOutlineLevel = 32;
inline constexpr size_t kMaxOutlineTitle = 500;  // bytes; longer titles are left out
inline constexpr size_t kMaxPageLabel = 32;      // bytes; longer labels are left out

struct PageLabel {
  uint64_t page = 0;  // from 1
  std::string text;   // UTF-8 of one line, not empty
};

// A bookmark.
struct OutlineItem {
  uint32_t level = 1;  // from 1, the outermost, to kMaxOutlineLevel
  uint64_t page = 0;   // that it points to, from 1; 0: to none
  std::string title;   // UTF-8 of one line, not empty
};

struct PdfStructure {
  uint64_t num_pages = 0;            // 0: not known
  std::vector<PageLabel> labels;     // of pages whose label is not their number; ascending
  std::vector<OutlineItem> outline;  // in its order, each item before those inside of it
};

// Writes a structure as lines of text that ParsePdfStructure reads. Control characters of labels
// and titles become spaces; empty and too long ones are left out.
std::string WritePdfStructure(const PdfStructure& structure);

// Reads those lines; nothing where they are any others, or an end is missing. Any bytes will do.
std::optional<PdfStructure> ParsePdfStructure(std::string_view bytes);

struct PdfStructureOptions {
  std::function<bool()> is_cancelled = {};  // asked about every 50 ms; may be empty
  std::string program = {};                 // empty: lectern-pdf-structure, by LibexecProgram
  uint64_t cpu_seconds = 20;
};

// Returns the structure of a PDF; an empty one where the program is missing, fails, takes too long
// or is cancelled: text can do without. Any thread.
PdfStructure ReadPdfStructure(std::string_view pdf, const PdfStructureOptions& options = {});

}  // namespace lectern::tools

#endif  // LECTERN_TOOLS_INGEST_PDF_STRUCTURE_H_
