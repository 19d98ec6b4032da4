// FictionBook 2: one XML file of nested sections, with its notes in a body of their own.
#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tools/ingest/alt_text.h"
#include "tools/ingest/extract/readers.h"
#include "tools/ingest/extract/xml_tree.h"

namespace lectern::tools {
namespace {

class FictionBookReader {
 public:
  Extracted Read(XmlNode book) {
    for (const XmlNode part : book) {
      if (part.name() == "body" && !part.Attribute("name").empty()) CollectNotes(part);
    }
    Description(book.Child("description").Child("title-info"));
    for (const XmlNode part : book) {
      if (part.name() == "body" && part.Attribute("name").empty()) Section(part, 1, true);
    }
    return writer_.Finish(0, "");
  }

 private:
  void CollectNotes(XmlNode body) {
    for (const XmlNode section : body) {
      const std::string id(section.Attribute("id"));
      if (section.name() != "section" || id.empty()) continue;
      std::string text;
      for (const XmlNode part : section) {
        if (part.name() == "title") continue;  // its number
        if (!text.empty()) text += ' ';
        AppendAllText(part, text);
      }
      notes_[id] = CollapseSpace(text, false);
    }
  }

  void Description(XmlNode info) {
    if (!info) return;
    const auto text_of = [](XmlNode node) {
      std::string text;
      if (node) AppendAllText(node, text);
      return CollapseSpace(text, false);
    };
    writer_.Heading(1, text_of(info.Child("book-title")));
    std::string authors;
    for (const XmlNode author : info) {
      if (author.name() != "author") continue;
      std::string name;
      for (const char* part : {"first-name", "middle-name", "last-name", "nickname"}) {
        const std::string text = text_of(author.Child(part));
        if (!text.empty() && (name.empty() || std::string_view(part) != "nickname"))
          name += (name.empty() ? "" : " ") + text;
      }
      if (!name.empty()) authors += (authors.empty() ? "" : ", ") + name;
    }
    writer_.Paragraph(authors);
    if (const XmlNode annotation = info.Child("annotation")) Blocks(annotation, 2);
  }

  // `is_body`: its sections are the chapters, which are pages.
  void Section(XmlNode section, int level, bool is_body) {
    for (const XmlNode part : section) {
      if (part.name() == "section") {
        if (is_body) writer_.BeginPage(++num_chapters_);
        Section(part, level + 1, false);
      } else {
        Block(part, level);
      }
    }
  }

  void Blocks(XmlNode parent, int level) {
    for (const XmlNode part : parent) Block(part, level);
  }

  void Block(XmlNode part, int level) {
    const std::string_view name = part.name();
    if (name == "title" || name == "subtitle") {
      std::string title;
      if (name == "subtitle") Inline(part, title);
      for (const XmlNode line : part) {
        if (line.name() != "p" || name == "subtitle") continue;
        if (!title.empty()) title += title.ends_with('.') ? " " : ". ";
        Inline(line, title);
      }
      if (CollapseSpace(title, false).find_first_not_of("*–—• ") == std::string::npos) return;
      writer_.Heading(level + (name == "subtitle" ? 1 : 0), title);
    } else if (name == "p" || name == "text-author" || name == "date") {
      std::string text;
      Inline(part, text);
      writer_.Paragraph(text);
    } else if (name == "stanza") {
      writer_.Gap();
      for (const XmlNode verse : part) {
        if (verse.name() != "v") {
          Block(verse, level + 1);
          continue;
        }
        std::string text;
        Inline(verse, text);
        writer_.Line(CollapseSpace(text, false));
      }
      writer_.Gap();
    } else if (name == "table") {
      writer_.Gap();
      for (const XmlNode row : part) {
        if (row.name() == "tr") Row(row);
      }
      writer_.Gap();
    } else if (name == "image") {
      writer_.Paragraph(ImageText(part.Attribute("title"), part.Attribute("alt")));
    } else if (name == "epigraph" || name == "poem" || name == "cite" || name == "annotation") {
      Blocks(part, level);
    }
    for (const std::string& note : std::exchange(waiting_notes_, {})) writer_.Paragraph(note);
  }

  void Row(XmlNode row) {
    std::vector<std::string> cells;
    std::vector<int> widths;
    for (const XmlNode cell : row) {
      if (cell.name() != "td" && cell.name() != "th") continue;
      cells.emplace_back();
      Inline(cell, cells.back());
      widths.push_back(std::clamp(cell.Number("colspan", 1), 1, 1000));
    }
    writer_.Row(cells, widths);
  }

  // Appends the text of a paragraph. Notes wait until it ends.
  void Inline(XmlNode parent, std::string& out) {
    for (const XmlNode part : parent) {
      if (part.is_text()) {
        AppendInline(part.text(), out);
      } else if (part.name() == "image") {
        AppendInline(ImageText(part.Attribute("title"), part.Attribute("alt")), out);
      } else if (part.name() == "a" && Note(part, out)) {
        continue;
      } else if (part.name() == "sup") {
        std::string raised;
        Inline(part, raised);
        AppendSuperscript(raised, out);
      } else {
        Inline(part, out);
      }
    }
  }

  // Writes the mark of a note, "[1]", where a link leads to one.
  bool Note(XmlNode link, std::string& out) {
    const std::string_view target = link.Attribute("href");
    if (!target.starts_with('#')) return false;
    const auto note = notes_.find(std::string(target.substr(1)));
    if (note == notes_.end()) return false;
    const std::string mark = "[" + std::to_string(++num_notes_) + "]";
    out += mark;
    if (written_bytes_ < kMostNoteBytes) waiting_notes_.push_back(mark + " " + note->second);
    written_bytes_ += note->second.size();
    return true;
  }

  // A book may refer to a note any number of times; beyond this its text is left out.
  static constexpr size_t kMostNoteBytes = size_t{16} << 20;

  TextBuilder writer_;
  std::map<std::string, std::string> notes_;  // by id
  std::vector<std::string> waiting_notes_;
  uint64_t num_chapters_ = 0, num_notes_ = 0;
  size_t written_bytes_ = 0;
};

}  // namespace

api::Result<Extracted> ReadFictionBook(std::string_view bytes) {
  bool is_damaged = false;
  auto tree = XmlTree::Parse(bytes, "text", &is_damaged);
  if (!tree.ok()) return tree.error();
  if (tree->root().name() != "FictionBook") {
    return api::Error{LECTERN_INVALID_ARGUMENT, "is damaged: it is no FictionBook", "file"};
  }
  Extracted extracted = FictionBookReader().Read(tree->root());
  if (is_damaged) {
    AddNote("the file is not well-formed XML, so that parts of it may be missing", extracted.note);
  }
  return extracted;
}

}  // namespace lectern::tools
