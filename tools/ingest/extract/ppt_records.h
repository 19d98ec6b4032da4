// Records of PowerPoint's old presentations (MS-PPT): a kind, a size, and bytes, which are records
// themselves or a value; and the texts that they hold.
#ifndef LECTERN_TOOLS_INGEST_EXTRACT_PPT_RECORDS_H_
#define LECTERN_TOOLS_INGEST_EXTRACT_PPT_RECORDS_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lectern::tools {

// Numbers of kinds of records; those from 0xF000 on are of drawings (MS-ODRAW).
struct PptId {
  static constexpr uint16_t kDocument = 0x03E8, kEnvironment = 0x03F2, kMaster = 0x03F8,
                            kMasterStyle = 0x0FA3, kSlide = 0x03EE, kSlideAtom = 0x03EF,
                            kNotes = 0x03F0, kSlidePlace = 0x03F3, kSlideShow = 0x03F9,
                            kDrawing = 0x040C, kPlaceholder = 0x0BC3, kOutlineText = 0x0F9E,
                            kTextKind = 0x0F9F, kWideText = 0x0FA0, kTextStyle = 0x0FA1,
                            kNarrowText = 0x0FA8, kSlideNumber = 0x0FD8, kSlideList = 0x0FF0,
                            kEdit = 0x0FF5, kCurrentUser = 0x0FF6, kDate = 0x0FF7,
                            kAnyDate = 0x0FF8, kHeader = 0x0FF9, kFooter = 0x0FFA,
                            kWordDate = 0x1015, kDocumentInfo = 0x07D0, kNumberStyle = 0x0FAC,
                            kOutlineStyles = 0x0FAE, kOutlineStyleHead = 0x0FAF, kTagName = 0x0FBA,
                            kTags = 0x1388, kTag = 0x138A, kTagData = 0x138B, kPlaces = 0x1772,
                            kDrawingOfSlide = 0xF002, kGroup = 0xF003, kShape = 0xF004,
                            kShapeAtom = 0xF00A, kOptions = 0xF00B, kTextBox = 0xF00D,
                            kChildAnchor = 0xF00F, kAnchor = 0xF010, kClientData = 0xF011,
                            kMoreOptions = 0xF122;
};

struct PptRecord {
  uint16_t kind = 0;
  uint16_t instance = 0;
  std::string_view data;
};

class PptRecords {
 public:
  // `records` must outlive it.
  explicit PptRecords(std::string_view records) : rest_(records) {}
  // False: there is no further record; the last one may be cut off.
  bool Next(PptRecord& record);

 private:
  std::string_view rest_;
};

// The first record of a kind; one without bytes: there is none.
PptRecord FindRecord(std::string_view records, uint16_t kind);

// How a paragraph of a list is numbered (PowerPoint 2000 and later).
struct PptNumbering {
  bool is_numbered = false;
  uint16_t scheme = 3;  // of TextAutoNumberSchemeEnum; 3: "1."
  int first = 1;
};

// "1. ", "(b) ", "iv) " of a number in a scheme.
std::string NumberInScheme(int number, uint16_t scheme);

struct PptParagraph {
  std::string text;  // lines end with '\n'
  int level = 0;
  std::optional<bool> has_bullet;  // nothing: its master tells
  PptNumbering numbering;
};

// A text with its paragraphs' levels and bullets, as it stands in a shape or in the outline.
struct PptText {
  enum Kind {
    kNone = -1,
    kTitle = 0,
    kBody = 1,
    kNotes = 2,
    kOther = 4,
    kCentredBody = 5,
    kCentredTitle = 6,
    kHalfBody = 7,
    kQuarterBody = 8
  };
  int kind = kNone;
  std::vector<PptParagraph> paragraphs;
  int largest_letters = 0;         // in points; 0: no size is told
  bool has_usual_letters = false;  // some letters have the size that the master tells

  bool is_title() const { return kind == kTitle || kind == kCentredTitle; }
  // All lines with a space between them.
  std::string AllLines() const;
};

// How a slide's master shows texts that do not tell it, by their kind and level.
class PptMasterStyle {
 public:
  // Adds the styles among the records of a master or of a document's environment; those that are
  // there already stay.
  void Add(std::string_view records);
  void Add(const PptMasterStyle& usual) {
    levels_.insert(usual.levels_.begin(), usual.levels_.end());
  }
  // Fills in bullets and the size of letters.
  void ApplyTo(PptText& text) const;

 private:
  struct Level {
    std::optional<bool> has_bullet;
    int size = 0;
  };
  const Level* Find(int kind, int level) const;
  std::map<std::pair<int, int>, Level> levels_;
};

// The records that PowerPoint 2000 added to a shape or a document; empty: there are none.
std::string_view AddedRecords(std::string_view records);

// Where the styles of numbered lists of one text stand, by the text's kind.
struct PptNumberStyle {
  int kind = PptText::kNone;
  std::string_view data;
};

// Reads the texts that stand in records, each behind a record of its kind. `styles`: of their
// lists, in the order of the texts of a kind.
std::vector<PptText> ReadPptTexts(std::string_view records, std::vector<PptNumberStyle> styles);

}  // namespace lectern::tools

#endif  // LECTERN_TOOLS_INGEST_EXTRACT_PPT_RECORDS_H_
