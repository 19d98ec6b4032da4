// Prepares an RTF file for unrtf, which prints hidden and deleted text, comments, and notes in the
// middle of their sentence, and headings like other paragraphs.
#ifndef LECTERN_TOOLS_INGEST_RTF_FILTER_H_
#define LECTERN_TOOLS_INGEST_RTF_FILTER_H_

#include <cstdint>
#include <string>
#include <string_view>

namespace lectern::tools {

struct FilteredRtf {
  std::string rtf;
  uint64_t num_comments = 0;  // that were left out
};

// The file without text that is hidden (\v) or deleted (\deleted) and without comments; with
// footnotes and endnotes as paragraphs of their own, "[1] …" behind the one that refers to them,
// and so the text of boxes; with bytes outside of ASCII as escapes;
// with "# " to "###### " before headings: paragraphs with an outline level, of their own or of
// their style, and those of a style named "heading 1" or "title", outside of tables. Any bytes;
// linear time. Any thread. Source: Rich Text Format Specification 1.9.1.
FilteredRtf FilterRtf(std::string_view rtf);

}  // namespace lectern::tools

#endif  // LECTERN_TOOLS_INGEST_RTF_FILTER_H_
