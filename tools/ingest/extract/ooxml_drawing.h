// The text of graphics in office files: descriptions of images, diagrams (SmartArt), and the
// numbers of charts, which are parts of their own (ECMA-376 part 1, DrawingML).
#ifndef LECTERN_TOOLS_INGEST_EXTRACT_OOXML_DRAWING_H_
#define LECTERN_TOOLS_INGEST_EXTRACT_OOXML_DRAWING_H_

#include <string>
#include <vector>

#include "tools/ingest/extract/ooxml_package.h"
#include "tools/ingest/extract/text_builder.h"

namespace lectern::tools {

// The text that stands for a graphic (ImageText), by its properties (wp:docPr, p:cNvPr); empty: it
// is an ornament, or says nothing.
std::string DrawingText(XmlNode properties);

// Writes the texts of a diagram or the numbers of a chart that `data` (a:graphicData) refers to, by
// the relationships of the part that it stands in: a diagram as a list, a chart as a table with a
// row for each category. Nothing where the part is missing, damaged or of another kind.
void WriteGraphic(XmlNode data, const std::vector<OoxmlPackage::Relationship>& relationships,
                  const OoxmlPackage& package, TextBuilder& writer);

// Writes the text boxes and the descriptions of images that lie over a sheet. `drawing`: the root
// of the part that a sheet names as its drawing (spreadsheetDrawing), or an element inside. Charts
// are left out: their numbers are the sheet's.
void WriteSheetDrawing(XmlNode drawing, TextBuilder& writer);

}  // namespace lectern::tools

#endif  // LECTERN_TOOLS_INGEST_EXTRACT_OOXML_DRAWING_H_
