// Finds the fields of forms and invoices: labels with values beside them that are in no table.
// table_layout.cc alone uses it.
#ifndef LECTERN_TOOLS_INGEST_TABLE_LABELS_H_
#define LECTERN_TOOLS_INGEST_TABLE_LABELS_H_

#include <span>
#include <vector>

#include "tools/ingest/pdf_page.h"
#include "tools/ingest/table_layout.h"
#include "tools/ingest/table_region.h"

namespace lectern::tools {

// Appends tables of two columns, labels and values, that stand in these rows, from the top.
// pdftotext has both in blocks of their own, and reads all labels before all values. A label ends
// in a colon, or the value is an amount of money or the like. A value behind a colon may have six
// lines, as an address has, if nothing stands before the others. Blocks that hold anything else
// stay as they are. Time is proportional to the number of lines of the page. Any thread.
void AppendLabelTables(const PdfPage& page, std::span<const VisualRow> rows,
                       std::vector<PdfTable>& tables);

}  // namespace lectern::tools

#endif  // LECTERN_TOOLS_INGEST_TABLE_LABELS_H_
