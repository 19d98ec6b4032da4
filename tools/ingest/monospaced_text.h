// Tells program text in a page of other text by its font: one width for all characters.
// table_layout.h uses it.
#ifndef LECTERN_TOOLS_INGEST_MONOSPACED_TEXT_H_
#define LECTERN_TOOLS_INGEST_MONOSPACED_TEXT_H_

#include <vector>

#include "tools/ingest/table_layout.h"

namespace lectern::tools {

// The widths of the characters of one page, which must outlive this. Any thread.
class MonospacedText {
 public:
  explicit MonospacedText(const PdfPage& page);
  // Whether all words of the rows have characters of one width, at least six of them have letters,
  // and most words of the page that have letters have not: a page in one monospaced font may have
  // tables.
  bool Holds(const std::vector<std::vector<TableCell>>& rows) const;

 private:
  const PdfPage& page_;
  std::vector<double> widths_;  // of a character, of each word with letters, ascending
};

}  // namespace lectern::tools

#endif  // LECTERN_TOOLS_INGEST_MONOSPACED_TEXT_H_
