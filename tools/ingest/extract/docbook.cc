// DocBook 4 and 5 (tdg.docbook.org): books, articles and manual pages in XML.
#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tools/ingest/alt_text.h"
#include "tools/ingest/extract/docbook_entities.h"
#include "tools/ingest/extract/docbook_text.h"
#include "tools/ingest/extract/readers.h"
#include "tools/ingest/extract/xml_tree.h"
#include "tools/ingest/list_numbers.h"

namespace lectern::tools {
namespace {

using NameSet = std::set<std::string_view>;

bool IsDocBookSection(std::string_view name) {
  static const NameSet kSections = {
      "set",      "book",     "part",      "reference",       "preface",   "chapter",
      "article",  "appendix", "glossary",  "bibliography",    "colophon",  "dedication",
      "section",  "sect1",    "sect2",     "sect3",           "sect4",     "sect5",
      "refsect1", "refsect2", "refsect3",  "refsection",      "refentry",  "refsynopsisdiv",
      "glossdiv", "topic",    "bibliodiv", "simplesect",      "partintro", "qandaset",
      "qandadiv", "task",     "sidebar",   "acknowledgements"};
  return kSections.contains(name);
}

// Who wrote a section, and when.
bool IsDocBookInfo(std::string_view name) {
  static const NameSet kInfos = {
      "info",        "setinfo",      "bookinfo",         "partinfo",     "referenceinfo",
      "prefaceinfo", "chapterinfo",  "articleinfo",      "appendixinfo", "glossaryinfo",
      "sectioninfo", "sect1info",    "sect2info",        "sect3info",    "sect4info",
      "sect5info",   "refentryinfo", "refsect1info",     "refsect2info", "refsect3info",
      "docinfo",     "artheader",    "bibliographyinfo", "sidebarinfo",  "refsynopsisdivinfo",
      "objectinfo",  "blockinfo"};
  return kInfos.contains(name);
}

// Elements that are left out: a manual prints them at its end or nowhere.
bool IsNotPrinted(std::string_view name) {
  static const NameSet kNotPrinted = {
      "index",      "setindex", "toc",      "lot",      "titleabbrev", "keywordset", "subjectset",
      "revhistory", "colspec",  "spanspec", "areaspec", "title",       "subtitle",   "refmeta"};
  return kNotPrinted.contains(name);
}

// "Note: " before the text of a note; empty: the element is none.
std::string AdmonitionMark(std::string_view name) {
  for (const auto& [element, mark] : {std::pair<std::string_view, const char*>{"note", "Note: "},
                                      {"tip", "Tip: "},
                                      {"warning", "Warning: "},
                                      {"caution", "Caution: "},
                                      {"important", "Important: "},
                                      {"danger", "Danger: "}}) {
    if (name == element) return mark;
  }
  return "";
}

class DocBookReader {
 public:
  explicit DocBookReader(XmlNode root) : inlines_(root), root_(root) {}

  Extracted Read() {
    if (IsDocBookSection(root_.name())) {
      Section(root_, 1);
    } else {
      Blocks(root_, 1);
    }
    return writer_.Finish(0, "");
  }
  uint64_t num_included() const { return num_included_; }

 private:
  void Section(XmlNode section, int level) {
    const std::string title = inlines_.TitleOf(section);
    writer_.Heading(level,
                    title.empty() && section.name() == "refsynopsisdiv" ? "Synopsis" : title);
    WriteNotes();
    Subtitle(section);
    Blocks(section, title.empty() && section.name() != "refsynopsisdiv" ? level : level + 1);
  }

  void Subtitle(XmlNode node) {
    if (const XmlNode subtitle = node.Child("subtitle")) Flush(inlines_.TextOf(subtitle));
  }

  // Who wrote the book, when, what it is about, and its licence.
  void Info(XmlNode info) {
    Subtitle(info);
    std::string authors;
    const auto add_author = [&](XmlNode author) {
      const std::string name = PersonName(author);
      if (!name.empty()) authors += (authors.empty() ? "" : ", ") + name;
    };
    for (const XmlNode part : info) {
      const std::string_view name = part.name();
      if (name == "authorgroup") {
        for (const XmlNode author : part) {
          if (!author.is_text()) add_author(author);
        }
      } else if (name == "author" || name == "corpauthor" || name == "editor" ||
                 name == "othercredit") {
        add_author(part);
      }
    }
    Flush(authors);
    for (const XmlNode part : info) {
      const std::string_view name = part.name();
      if (name == "pubdate" || name == "date" || name == "releaseinfo" || name == "copyright") {
        Flush((name == "copyright" ? "Copyright " : "") + inlines_.TextOf(part, " "));
      } else if (name == "abstract" || name == "legalnotice" || name == "mediaobject") {
        Block(part, 2);
      }
    }
  }

  std::string PersonName(XmlNode person) {
    const XmlNode parts = person.Child("personname") ? person.Child("personname") : person;
    std::string name;
    for (const char* const part : {"honorific", "firstname", "givenname", "othername", "surname",
                                   "orgname", "collabname", "lineage"}) {
      const std::string text = parts.Child(part) ? inlines_.TextOf(parts.Child(part)) : "";
      if (!text.empty()) name += (name.empty() ? "" : " ") + text;
    }
    // A name without parts: "<author>Ada Brok</author>".
    return !name.empty() || parts.Child("affiliation") ? name : inlines_.TextOf(parts, " ");
  }

  void Blocks(XmlNode parent, int level) {
    std::string text;  // that stands between the blocks
    for (const XmlNode part : parent) {
      if (part.is_text() || !IsBlock(part.name())) {
        if (part.name() == "include") ++num_included_;
        inlines_.Append(part, text);
      } else {
        Flush(std::exchange(text, ""));
        Block(part, level);
      }
    }
    Flush(text);
  }

  static bool IsBlock(std::string_view name) {
    return IsDocBookBlock(name) || IsDocBookSection(name) || IsNotPrinted(name) ||
           IsDocBookInfo(name);
  }

  // Writes a paragraph, or a part of an item, and the footnotes that it refers to.
  void Flush(const std::string& text) {
    if (text.find_first_not_of(" \n") != text.npos) {
      const std::string marked = std::exchange(prefix_, "") + text;
      if (depth_ < 0) {
        writer_.Paragraph(marked);
      } else {
        writer_.Item(depth_, marker_, marked);
        marker_ = std::string(marker_.size(), ' ');
      }
    }
    WriteNotes();
  }
  // Writes a term or mark whose text is no paragraph.
  void FlushPrefix() {
    if (prefix_.empty()) return;
    if (depth_ < 0) {
      writer_.Paragraph(std::exchange(prefix_, ""));
    } else {
      writer_.Item(depth_, marker_, std::exchange(prefix_, ""));
      marker_ = std::string(marker_.size(), ' ');
    }
  }
  void WriteNotes() {
    for (const std::string& note : inlines_.TakeNotes()) writer_.Paragraph(note);
  }

  void Block(XmlNode part, int level) {
    const std::string_view name = part.name();
    if (IsDocBookSection(name)) {
      FlushPrefix();
      const int depth = std::exchange(depth_, -1);
      Section(part, level);
      depth_ = depth;
    } else if (IsDocBookInfo(name)) {
      Info(part);
    } else if (IsNotPrinted(name)) {
      return;
    } else if (name == "bridgehead") {
      FlushPrefix();
      writer_.Heading(level, inlines_.TextOf(part));
    } else if (name == "formalpara") {
      prefix_ += inlines_.TitleOf(part) + ". ";
      Blocks(part, level);
    } else if (name == "itemizedlist" || name == "orderedlist" || name == "procedure" ||
               name == "substeps" || name == "stepalternatives" || name == "calloutlist" ||
               name == "simplelist") {
      List(part, level);
    } else if (name == "variablelist" || name == "glosslist") {
      Title(part);
      Terms(part, level);
    } else if (name == "glossentry" || name == "varlistentry") {
      Term(part, level);
    } else if (name == "qandaentry") {
      Question(part, level);
    } else if (name == "programlisting" || name == "screen" || name == "synopsis" ||
               name == "classsynopsis" || name == "classsynopsisinfo" ||
               name == "funcsynopsisinfo" ||
               (name == "literallayout" && part.Attribute("class") == "monospaced")) {
      Code(part);
    } else if (name == "literallayout" || name == "address") {
      Lines(part);
    } else if (name == "table" || name == "informaltable") {
      Table(part);
    } else if (name == "mediaobject" || name == "graphic" || name == "screenshot") {
      Media(part, level);
    } else if (name == "cmdsynopsis") {
      Flush(inlines_.CommandOf(part));
    } else if (name == "refnamediv") {
      Flush(inlines_.NamesOf(part));
    } else if (name == "segmentedlist") {
      SegmentedList(part);
    } else if (name == "biblioentry" || name == "biblioset") {
      Flush(inlines_.TextOf(part, ". "));
    } else {
      const std::string mark = AdmonitionMark(name);
      const std::string title = inlines_.TitleOf(part);
      prefix_ += mark;
      if (!title.empty()) Flush(title);
      Blocks(part, level);
      FlushPrefix();
      if (const XmlNode from = part.Child("attribution"); from && name != "attribution")
        Flush("— " + inlines_.TextOf(from, " "));
    }
  }

  void Title(XmlNode node) { Flush(inlines_.TitleOf(node)); }

  // Reads what is in an item behind its marker; `read` writes it.
  template <typename Read>
  void Item(const std::string& marker, Read read) {
    const std::string outer = std::exchange(marker_, marker);
    ++depth_;
    read();
    --depth_;
    marker_ = outer;
  }

  void List(XmlNode list, int level) {
    FlushPrefix();
    const std::string_view name = list.name();
    const bool is_numbered = name == "orderedlist" || name == "procedure" || name == "substeps";
    const std::string_view numeration = list.Attribute("numeration");
    const NumberStyle style = numeration == "loweralpha"   ? NumberStyle::kLowerLetter
                              : numeration == "upperalpha" ? NumberStyle::kUpperLetter
                              : numeration == "lowerroman" ? NumberStyle::kLowerRoman
                              : numeration == "upperroman" ? NumberStyle::kUpperRoman
                                                           : NumberStyle::kDecimal;
    int number = list.Number("startingnumber", 1);
    bool is_first = true;
    if (depth_ < 0) writer_.Gap();
    Title(list);
    for (const XmlNode item : list) {
      const std::string_view kind = item.name();
      const bool is_item =
          kind == "listitem" || kind == "step" || kind == "member" || kind == "callout";
      if (!is_item) {
        if (!item.is_text() && !IsNotPrinted(kind) && kind != "info") Block(item, level);
        continue;
      }
      // A list goes on with the numbers of the one before.
      if (is_first && list.Attribute("continuation") == "continues") number = last_number_ + 1;
      is_first = false;
      number = item.Number("override", number);
      Item(is_numbered ? NumberText(number, style) + ". " : "- ", [&] {
        Title(item);
        Blocks(item, level);
      });
      last_number_ = number;
      if (number < 1'000'000) ++number;
    }
    if (depth_ < 0) writer_.Gap();
  }

  void Terms(XmlNode list, int level) {
    FlushPrefix();
    if (depth_ < 0) writer_.Gap();
    for (const XmlNode entry : list) {
      if (entry.name() == "varlistentry" || entry.name() == "glossentry") Term(entry, level);
    }
    if (depth_ < 0) writer_.Gap();
  }

  // A term and its explanation, "- term: text".
  void Term(XmlNode entry, int level) {
    std::string terms;
    for (const XmlNode term : entry) {
      if (term.name() != "term" && term.name() != "glossterm") continue;
      terms += (terms.empty() ? "" : ", ") + inlines_.TextOf(term);
    }
    Item("- ", [&] {
      prefix_ = terms.empty() ? "" : terms + (terms.ends_with(':') ? " " : ": ");
      for (const XmlNode part : entry) {
        if (part.name() == "listitem" || part.name() == "glossdef") Blocks(part, level);
        if (part.name() == "glosssee") Flush("see " + inlines_.TextOf(part));
      }
      FlushPrefix();
    });
  }

  void Question(XmlNode entry, int level) {
    for (const XmlNode part : entry) {
      if (part.name() == "question") writer_.Heading(level, inlines_.TextOf(part, " "));
      if (part.name() == "answer") Blocks(part, level + 1);
    }
    WriteNotes();
  }

  void Code(XmlNode part) {
    FlushPrefix();
    std::string code;
    inlines_.AppendCode(part, code);
    writer_.Code(code.substr(std::min(code.find_first_not_of('\n'), code.size())));
    WriteNotes();
  }

  void Lines(XmlNode part) {
    FlushPrefix();
    std::string text;
    inlines_.AppendCode(part, text);
    writer_.Gap();
    for (size_t begin = 0; begin < text.size();) {
      const size_t end = std::min(text.find('\n', begin), text.size());
      writer_.Line(text.substr(begin, end - begin));
      begin = end + 1;
    }
    writer_.Gap();
    WriteNotes();
  }

  void SegmentedList(XmlNode list) {
    FlushPrefix();
    Title(list);
    writer_.Gap();
    std::vector<std::string> titles;
    for (const XmlNode part : list) {
      if (part.name() == "segtitle") titles.push_back(inlines_.TextOf(part));
    }
    writer_.Row(titles);
    for (const XmlNode item : list) {
      if (item.name() != "seglistitem") continue;
      std::vector<std::string> cells;
      for (const XmlNode part : item) {
        if (part.name() == "seg") cells.push_back(inlines_.TextOf(part));
      }
      writer_.Row(cells);
    }
    writer_.Gap();
    WriteNotes();
  }

  void Media(XmlNode part, int level) {
    FlushPrefix();
    std::string description;
    for (const XmlNode node : part) {
      if (node.name() == "alt" || node.name() == "textobject")
        description = inlines_.TextOf(node, " ");
    }
    Flush(ImageText("", description));
    for (const XmlNode node : part) {
      if (node.name() == "caption" || node.name() == "mediaobject") Block(node, level);
    }
  }

  void Table(XmlNode table) {
    FlushPrefix();
    Title(table);
    writer_.Gap();
    DocBookTable rows(inlines_, writer_);
    rows.Read(table);
    writer_.Gap();
    for (const XmlNode part : table) {
      if (part.name() == "textobject" || part.name() == "caption") Block(part, 6);
      if (part.name() == "mediaobject") Media(part, 6);
    }
    WriteNotes();
  }

  DocBookText inlines_;
  const XmlNode root_;
  TextBuilder writer_;
  std::string prefix_;         // before the next text
  std::string marker_;         // of the item that is read
  int depth_ = -1;             // of lists, from 0; -1: outside of them
  int last_number_ = 0;        // of the last list with numbers
  uint64_t num_included_ = 0;  // references to other files by XInclude
};

}  // namespace

api::Result<Extracted> ReadDocBook(std::string_view bytes) {
  const ExpandedXml expanded = ExpandEntities(bytes);
  if (expanded.is_too_large) {
    return api::Error{LECTERN_LIMIT_EXCEEDED, "declares entities that expand to too much text",
                      "file"};
  }
  bool is_damaged = false;
  auto tree = XmlTree::Parse(expanded.xml, "text", &is_damaged);
  if (!tree.ok()) return tree.error();
  DocBookReader reader(tree->root());
  Extracted extracted = reader.Read();
  const uint64_t num_outside = expanded.num_outside + reader.num_included();
  AddNote(CountedNote(num_outside, "part", "in another file and left out"), extracted.note);
  if (is_damaged)
    AddNote("the file is not well-formed XML, so that parts of it may be missing", extracted.note);
  return extracted;
}

}  // namespace lectern::tools
