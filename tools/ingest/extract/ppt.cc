// PowerPoint's old presentations (.ppt, .pps, PowerPoint 97 to 2003): MS-PPT, with drawings of
// MS-ODRAW. The text is that of the same presentation as .pptx.
#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tools/ingest/alt_text.h"
#include "tools/ingest/compound_file.h"
#include "tools/ingest/extract/code_page.h"
#include "tools/ingest/extract/ppt_records.h"
#include "tools/ingest/extract/readers.h"

namespace lectern::tools {
namespace {

// Places of a shape on a slide, in any unit.
struct PptBox {
  int64_t left = 0, top = 0, right = 0, bottom = 0;
};

struct PptShape {
  int placeholder = 0;  // OEPlaceholderAtom; 0: it is none
  bool is_hidden = false, is_group = false, is_table = false;
  PptBox box;
  PptText text;
  std::string description;
  std::vector<PptShape> children;

  // Its own text, or whether one of its children has some.
  bool HasText() const {
    return !text.AllLines().empty() ||
           std::ranges::any_of(children, [](const PptShape& child) { return child.HasText(); });
  }
  // Whether it stands on each slide: the date, the number, a foot or head.
  bool IsOfFrame() const {
    constexpr int kDate = 7, kHead = 10;
    return placeholder >= kDate && placeholder <= kHead;
  }
  bool IsTitle() const {
    constexpr int kTitle = 13, kCentredTitle = 15, kVerticalTitle = 17;
    return text.is_title() || placeholder == kTitle || placeholder == kCentredTitle ||
           placeholder == kVerticalTitle;
  }
};

// The shapes of a slide's drawing. `outline`: the slide's texts that stand apart; each is taken by
// the first shape that refers to it.
class DrawingReader {
 public:
  DrawingReader(std::vector<PptText> outline, const PptMasterStyle& master)
      : outline_(std::move(outline)), master_(master) {}

  std::vector<PptShape> Read(std::string_view slide) {
    const std::string_view drawing =
        FindRecord(FindRecord(slide, PptId::kDrawing).data, PptId::kDrawingOfSlide).data;
    const PptRecord group = FindRecord(drawing, PptId::kGroup);
    return Group(group.data, 0).children;
  }

 private:
  static constexpr int kMostGroups = 30;  // in each other: LibreOffice reads 127, people make 3

  // The first shape of a group is the group itself.
  PptShape Group(std::string_view records, int depth) {
    PptShape group;
    bool is_first = true;
    PptRecords all(records);
    for (PptRecord record; all.Next(record);) {
      if (record.kind == PptId::kShape && is_first) {
        group = Shape(record.data);
        group.is_group = true;
      } else if (record.kind == PptId::kShape) {
        group.children.push_back(Shape(record.data));
      } else if (record.kind == PptId::kGroup && depth < kMostGroups) {
        group.children.push_back(Group(record.data, depth + 1));
      }
      is_first = false;
    }
    return group;
  }

  PptShape Shape(std::string_view records) {
    PptShape shape;
    std::string_view text, added;
    PptRecords all(records);
    for (PptRecord record; all.Next(record);) {
      const std::string_view data = record.data;
      switch (record.kind) {
        case PptId::kShapeAtom: {
          constexpr uint32_t kDeleted = 8;
          shape.is_hidden |= (Uint32At(data, 4) & kDeleted) != 0;
          break;
        }
        case PptId::kChildAnchor:
          shape.box = {Int(data, 0), Int(data, 4), Int(data, 8), Int(data, 12)};
          break;
        case PptId::kAnchor:
          shape.box = Anchor(data);
          break;
        case PptId::kOptions:
        case PptId::kMoreOptions:
          Options(record, shape);
          break;
        case PptId::kClientData: {
          constexpr size_t kKind = 4;
          const PptRecord placeholder = FindRecord(data, PptId::kPlaceholder);
          if (placeholder.data.size() > kKind)
            shape.placeholder = static_cast<uint8_t>(placeholder.data[kKind]);
          added = AddedRecords(data);
          break;
        }
        case PptId::kTextBox:
          text = data;
          break;
        default:
          break;
      }
    }
    if (!text.empty()) shape.text = Text(text, added);
    master_.ApplyTo(shape.text);
    return shape;
  }

  static int Int(std::string_view data, size_t at) {
    return static_cast<int32_t>(Uint32At(data, at));
  }
  // The top first, in numbers of 2 bytes or of 4.
  static PptBox Anchor(std::string_view data) {
    if (data.size() >= 16) return {Int(data, 4), Int(data, 0), Int(data, 8), Int(data, 12)};
    const auto number = [data](size_t at) { return static_cast<int16_t>(Uint16At(data, at)); };
    return {number(2), number(0), number(4), number(6)};
  }

  // A table of numbers and values, then the texts of those that have one, in the same order.
  static void Options(const PptRecord& record, PptShape& shape) {
    constexpr size_t kEach = 6;
    constexpr uint16_t kNumber = 0x3FFF, kHasText = 0x8000;
    constexpr uint16_t kDescription = 0x0381, kTable = 0x039F, kFlags = 0x03BF;
    constexpr uint32_t kIsTable = 1, kIsHidden = 2, kSaysHidden = 2 << 16;
    size_t texts = record.instance * kEach;
    for (size_t at = 0; at < record.instance * kEach; at += kEach) {
      const uint16_t id = Uint16At(record.data, at);
      const uint32_t value = Uint32At(record.data, at + 2);
      if ((id & kNumber) == kTable) shape.is_table |= (value & kIsTable) != 0;
      if ((id & kNumber) == kFlags && (value & kSaysHidden))
        shape.is_hidden |= (value & kIsHidden) != 0;
      if (!(id & kHasText)) continue;
      if (texts > record.data.size()) return;
      if ((id & kNumber) == kDescription)
        shape.description = Utf16Text(record.data.substr(texts, value));
      texts += value;
    }
  }

  PptText Text(std::string_view records, std::string_view added) {
    const PptRecord reference = FindRecord(records, PptId::kOutlineText);
    if (reference.data.size() < 4) {
      const auto kind = static_cast<int>(Uint32At(FindRecord(records, PptId::kTextKind).data, 0));
      std::vector<PptText> texts =
          ReadPptTexts(records, {{kind, FindRecord(added, PptId::kNumberStyle).data}});
      return texts.empty() ? PptText() : std::move(texts[0]);
    }
    const uint32_t index = Uint32At(reference.data, 0);
    return index < outline_.size() ? std::exchange(outline_[index], {}) : PptText();
  }

  std::vector<PptText> outline_;
  const PptMasterStyle& master_;
};

class SlideWriter {
 public:
  explicit SlideWriter(TextBuilder& writer) : writer_(writer) {}

  void Write(const std::vector<PptShape>& shapes) {
    top_line_ = nullptr;
    if (!Titles(shapes)) {
      top_line_ = TopLine(shapes);
      if (top_line_) writer_.Heading(1, top_line_->text.AllLines());
    }
    Shapes(shapes);
  }

  // The notes page: the text of its body alone.
  void WriteNotes(const std::vector<PptShape>& shapes) {
    constexpr int kNotesBody = 12;
    for (const PptShape& shape : shapes) {
      if (shape.placeholder == kNotesBody || shape.text.kind == PptText::kNotes)
        Paragraphs(shape.text, false);
    }
  }

 private:
  // Whether there are any.
  bool Titles(const std::vector<PptShape>& shapes) {
    bool has_title = false;
    for (const PptShape& shape : shapes) {
      if (shape.IsTitle()) {
        const std::string title = shape.text.AllLines();
        writer_.Heading(1, title);
        has_title |= !title.empty();
      }
      if (shape.is_group && !shape.is_table) has_title |= Titles(shape.children);
    }
    return has_title;
  }

  // The shape whose text is the title of a slide that fills no placeholder for one: a short line
  // above all tables and other texts, in letters as large as any of it. Null: there is none.
  static const PptShape* TopLine(const std::vector<PptShape>& shapes) {
    constexpr size_t kMostTitleBytes = 100;  // as of .pptx
    const PptShape* best = nullptr;
    std::vector<const PptShape*> others;
    for (const PptShape& shape : shapes) {
      if (shape.is_hidden || shape.IsOfFrame() || !shape.HasText()) continue;
      if (!best || shape.box.top < best->box.top) {
        if (best) others.push_back(best);
        best = &shape;
      } else {
        others.push_back(&shape);
      }
    }
    if (!best || best->is_group || others.empty()) return nullptr;
    const int64_t middle = best->box.top + (best->box.bottom - best->box.top) / 2;
    for (const PptShape* const other : others) {
      if (other->box.top < middle || other->text.largest_letters > best->text.largest_letters)
        return nullptr;
    }
    const auto num_lines = std::ranges::count_if(best->text.paragraphs, [](const auto& paragraph) {
      return !CollapseSpace(paragraph.text, false).empty();
    });
    return num_lines == 1 && best->text.AllLines().size() <= kMostTitleBytes ? best : nullptr;
  }

  void Shapes(const std::vector<PptShape>& shapes) {
    for (const PptShape& shape : shapes) {
      if (shape.is_hidden || &shape == top_line_) continue;
      writer_.Paragraph(ImageText("", shape.description));
      if (shape.is_table) {
        Table(shape.children);
      } else if (shape.is_group) {
        Shapes(shape.children);
      } else if (!shape.IsTitle() && !shape.IsOfFrame()) {
        const int kind = shape.text.kind;
        Paragraphs(shape.text, kind == PptText::kBody || kind == PptText::kHalfBody ||
                                   kind == PptText::kQuarterBody);
      }
    }
  }

  // `has_bullets`: where the paragraphs do not tell.
  void Paragraphs(const PptText& text, bool has_bullets) {
    writer_.Gap();
    std::array<int, 9> numbers{};  // of the last items, by level
    for (const PptParagraph& paragraph : text.paragraphs) {
      const PptNumbering& numbering = paragraph.numbering;
      const bool is_item = paragraph.has_bullet.value_or(has_bullets);
      const bool is_numbered = is_item && numbering.is_numbered;
      int& number = numbers[static_cast<size_t>(paragraph.level)];
      number = !is_numbered ? 0 : number == 0 ? numbering.first : number + 1;
      std::fill(numbers.begin() + paragraph.level + 1, numbers.end(), 0);
      if (is_item) {
        writer_.Item(paragraph.level, is_numbered ? NumberInScheme(number, numbering.scheme) : "- ",
                     paragraph.text);
      } else {
        writer_.Paragraph(paragraph.text);
      }
    }
    writer_.Gap();
  }

  // A table is a group of boxes, whose edges tell the rows and columns. A cell that goes on
  // downwards is said in each of its rows.
  void Table(const std::vector<PptShape>& cells) {
    constexpr size_t kMostSides = 100;  // PowerPoint makes tables of up to 75 rows and columns
    std::vector<int64_t> rows, columns;
    for (const PptShape& cell : cells) {
      if (cell.text.kind == PptText::kNone) continue;  // a line
      rows.push_back(cell.box.top);
      columns.push_back(cell.box.left);
    }
    for (std::vector<int64_t>* const edges : {&rows, &columns}) {
      std::ranges::sort(*edges);
      edges->erase(std::unique(edges->begin(), edges->end()), edges->end());
      if (edges->size() > kMostSides) return Shapes(cells);
    }
    writer_.Gap();
    for (const int64_t row : rows) {
      std::map<int64_t, const PptShape*> in_row;  // by the left edge
      for (const PptShape& cell : cells) {
        if (cell.text.kind != PptText::kNone && cell.box.top <= row &&
            (cell.box.top == row || cell.box.bottom > row))
          in_row[cell.box.left] = &cell;
      }
      std::vector<std::string> texts;
      std::vector<int> widths;
      for (const auto& [left, cell] : in_row) {
        texts.push_back(cell->text.AllLines());
        const auto width = std::ranges::lower_bound(columns, cell->box.right) -
                           std::ranges::lower_bound(columns, left);
        widths.push_back(std::max(1, static_cast<int>(width)));
      }
      writer_.Row(texts, widths);
    }
    writer_.Gap();
  }

  TextBuilder& writer_;
  const PptShape* top_line_ = nullptr;
};

// A slide or a page of notes in the list of the document.
struct PptSlide {
  uint32_t place = 0, id = 0;  // place: a number of the presentation's parts
  std::vector<PptText> outline;
};

// The stream of a presentation, whose parts are found by their numbers in the newest version.
class Presentation {
 public:
  explicit Presentation(std::string stream) : stream_(std::move(stream)) {}

  // `newest`: where the last edit's record stands. False: nothing can be found.
  bool ReadPlaces(uint32_t newest) {
    constexpr size_t kLastEdit = 8, kPlaces = 12, kDocument = 16;
    uint64_t before = uint64_t{1} << 32;
    for (uint32_t at = newest; at > 0 && at < before;) {  // older ones stand before
      const PptRecord edit = RecordAt(at);
      if (edit.kind != PptId::kEdit) break;
      if (before > UINT32_MAX) document_ = Uint32At(edit.data, kDocument);
      AddPlaces(RecordAt(Uint32At(edit.data, kPlaces)));
      before = at;
      at = Uint32At(edit.data, kLastEdit);
    }
    return !places_.empty();
  }
  // A part of a kind; without bytes: there is none, or parts that share their bytes were read.
  PptRecord Part(uint32_t number, uint16_t kind) {
    const auto place = places_.find(number);
    if (place == places_.end()) return {};
    const PptRecord record = RecordAt(place->second);
    num_walked_ += record.data.size();
    return record.kind == kind && num_walked_ <= 4 * uint64_t{stream_.size()} ? record
                                                                              : PptRecord();
  }
  PptRecord Document() { return Part(document_, PptId::kDocument); }

 private:
  PptRecord RecordAt(uint32_t at) const {
    PptRecord record;
    if (at < stream_.size()) PptRecords(std::string_view(stream_).substr(at)).Next(record);
    return record;
  }
  // Runs of parts: the number of the first one and their count, then where each stands.
  void AddPlaces(const PptRecord& list) {
    if (list.kind != PptId::kPlaces) return;
    constexpr uint32_t kCountShift = 20;
    for (size_t at = 0; at + 4 <= list.data.size();) {
      const uint32_t head = Uint32At(list.data, at);
      const uint32_t first = head & ((1u << kCountShift) - 1), count = head >> kCountShift;
      at += 4;
      for (uint32_t i = 0; i < count && at + 4 <= list.data.size(); ++i, at += 4)
        places_.try_emplace(first + i, Uint32At(list.data, at));
    }
  }

  std::string stream_;
  std::map<uint32_t, uint32_t> places_;
  uint32_t document_ = 0;
  uint64_t num_walked_ = 0;
};

// The styles of numbered lists in the outline, by the numbers of the slides.
std::map<uint32_t, std::vector<PptNumberStyle>> OutlineStyles(std::string_view document) {
  constexpr size_t kMostStyles = 100;  // of a slide: one for each of its texts
  std::map<uint32_t, std::vector<PptNumberStyle>> styles;
  PptRecords added(AddedRecords(FindRecord(document, PptId::kDocumentInfo).data));
  for (PptRecord list; added.Next(list);) {
    if (list.kind != PptId::kOutlineStyles) continue;
    PptRecords entries(list.data);
    uint32_t slide = 0;
    int kind = PptText::kNone;
    for (PptRecord entry; entries.Next(entry);) {
      if (entry.kind == PptId::kOutlineStyleHead) {
        slide = Uint32At(entry.data, 0);
        kind = static_cast<int>(Uint32At(entry.data, 4) & 0xF);
      } else if (entry.kind == PptId::kNumberStyle && styles[slide].size() < kMostStyles) {
        styles[slide].push_back({kind, entry.data});
      }
    }
  }
  return styles;
}

// `list`: 0 for slides, 2 for pages of notes.
std::vector<PptSlide> SlidesOf(std::string_view document, uint16_t list) {
  constexpr size_t kId = 12;
  std::vector<PptSlide> slides;
  const auto styles = OutlineStyles(document);
  PptRecords records(document);
  for (PptRecord record; records.Next(record);) {
    if (record.kind != PptId::kSlideList || record.instance != list) continue;
    std::string_view rest = record.data;
    PptRecords entries(rest);
    size_t begin = 0, at = 0;  // of the texts behind the last slide's entry
    const auto end_texts = [&] {
      if (slides.empty()) return;
      const auto own = styles.find(slides.back().id);
      slides.back().outline =
          ReadPptTexts(rest.substr(begin, at - begin),
                       own == styles.end() ? std::vector<PptNumberStyle>() : own->second);
    };
    for (PptRecord entry; entries.Next(entry);) {
      const auto next = static_cast<size_t>(entry.data.data() - rest.data()) + entry.data.size();
      if (entry.kind == PptId::kSlidePlace) {
        end_texts();
        slides.push_back({Uint32At(entry.data, 0), Uint32At(entry.data, kId), {}});
        begin = next;
      }
      at = next;
    }
    end_texts();
  }
  return slides;
}

// The styles of masters, by the number by which slides refer to them.
class Masters {
 public:
  Masters(std::string_view document, Presentation& presentation) : presentation_(presentation) {
    constexpr uint16_t kMasters = 1;
    for (const PptSlide& master : SlidesOf(document, kMasters)) places_[master.id] = master.place;
    usual_.Add(FindRecord(document, PptId::kEnvironment).data);
  }
  // The style of a slide's master, or of the master that the master of titles refers to.
  const PptMasterStyle& Of(std::string_view slide) {
    constexpr size_t kMaster = 12;
    uint32_t id = Uint32At(FindRecord(slide, PptId::kSlideAtom).data, kMaster);
    for (int step = 0; step < 2; ++step) {
      if (const auto known = styles_.find(id); known != styles_.end()) return known->second;
      const auto place = places_.find(id);
      if (place == places_.end()) break;
      const PptRecord master = presentation_.Part(place->second, PptId::kMaster);
      if (!master.data.empty()) {
        PptMasterStyle& style = styles_[id];
        style.Add(master.data);
        style.Add(usual_);
        return style;
      }
      const PptRecord titles = presentation_.Part(place->second, PptId::kSlide);
      id = Uint32At(FindRecord(titles.data, PptId::kSlideAtom).data, kMaster);
    }
    return usual_;
  }

 private:
  Presentation& presentation_;
  std::map<uint32_t, uint32_t> places_;
  std::map<uint32_t, PptMasterStyle> styles_;
  PptMasterStyle usual_;
};

}  // namespace

api::Result<Extracted> ReadPpt(std::string_view bytes) {
  constexpr uint32_t kEncrypted = 0xF3D1C4DF;
  auto file = CompoundFile::Open(bytes);
  if (!file.ok()) return file.error();
  // A file for PowerPoint 95, too, has the newer version apart.
  const uint32_t root =
      file->Find(CompoundFile::kRoot, "PP97_DUALSTORAGE").value_or(CompoundFile::kRoot);
  const auto user = file->Find(root, "Current User");
  const auto document = file->Find(root, "PowerPoint Document");
  if (!document) {
    return api::Error{LECTERN_INVALID_ARGUMENT,
                      "has no presentation of PowerPoint 97 to 2003 in it: save it as pptx, odp or "
                      "PDF",
                      "file"};
  }
  auto stream = file->Read(*document);
  if (!stream.ok()) return stream.error();
  std::string current;
  if (user) {
    auto read = file->Read(*user);
    if (read.ok()) current = std::move(*read);
  }
  const PptRecord atom = FindRecord(current, PptId::kCurrentUser);
  if (Uint32At(atom.data, 4) == kEncrypted || file->Find(root, "EncryptedSummary"))
    return api::Error{LECTERN_INVALID_ARGUMENT, "asks for a password; save it without one", "file"};
  Presentation presentation(std::move(*stream));
  const bool has_places = presentation.ReadPlaces(Uint32At(atom.data, 8));
  const PptRecord main = presentation.Document();
  if (!has_places || main.data.empty()) {
    return api::Error{LECTERN_INVALID_ARGUMENT,
                      "is damaged, or of an older PowerPoint than 97: save it as pptx, odp or PDF",
                      "file"};
  }
  std::map<uint32_t, uint32_t> notes;  // the places of pages, by their number
  for (const PptSlide& page : SlidesOf(main.data, 2)) notes[page.id] = page.place;
  Masters masters(main.data, presentation);
  TextBuilder writer;
  SlideWriter slides(writer);
  uint64_t num_slides = 0, num_hidden = 0, num_damaged = 0;
  for (PptSlide& slide : SlidesOf(main.data, 0)) {
    constexpr size_t kShowFlags = 10, kNotes = 16;
    constexpr uint16_t kIsHidden = 4;
    writer.BeginPage(++num_slides);
    const PptRecord part = presentation.Part(slide.place, PptId::kSlide);
    if (part.data.empty()) {
      ++num_damaged;
      continue;
    }
    if (Uint16At(FindRecord(part.data, PptId::kSlideShow).data, kShowFlags) & kIsHidden) {
      ++num_hidden;
      continue;
    }
    slides.Write(DrawingReader(std::move(slide.outline), masters.Of(part.data)).Read(part.data));
    const auto page = notes.find(Uint32At(FindRecord(part.data, PptId::kSlideAtom).data, kNotes));
    if (page == notes.end()) continue;
    slides.WriteNotes(
        DrawingReader({}, {}).Read(presentation.Part(page->second, PptId::kNotes).data));
  }
  std::string note = CountedNote(num_hidden, "hidden slide", "left out");
  AddNote(CountedNote(num_damaged, "slide", "damaged and left out"), note);
  if (file->is_cut_off()) AddNote("the file is cut off, so that parts of it may be missing", note);
  return writer.Finish(num_slides, note);
}

}  // namespace lectern::tools
