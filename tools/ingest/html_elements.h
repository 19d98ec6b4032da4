// The elements of a web page's tree (Gumbo's) and what is known of each: which are hidden, which
// are blocks. Shared by html.cc, which chooses the main content, and html_text.cc, which writes its
// text.
#ifndef LECTERN_TOOLS_INGEST_HTML_ELEMENTS_H_
#define LECTERN_TOOLS_INGEST_HTML_ELEMENTS_H_

#include <gumbo.h>

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>

namespace lectern::tools {

// A set of tags, for which Gumbo's numbers without gaps serve as indexes.
class TagSet {
 public:
  TagSet(std::initializer_list<GumboTag> tags) {
    for (const GumboTag tag : tags) has_[tag] = true;
  }
  bool Has(GumboTag tag) const { return has_[tag]; }

 private:
  bool has_[GUMBO_TAG_LAST + 1] = {};
};

// Elements that stand between empty lines, and those that may hold the main content.
const TagSet& Paragraphs();
const TagSet& Containers();
// Whether an element begins and ends a line.
bool IsBlock(GumboTag tag);
// 1 to 6 for h1 to h6; 0: no heading.
size_t HeadingLevel(GumboTag tag);
// GUMBO_TAG_LAST, which is no tag, for text.
GumboTag TagOf(const GumboNode* node);
// The tag whose part an element plays: blocks, spans and elements of the author's own are rows,
// cells, lists or headings by their ARIA role or by the display of their own style. Style sheets
// are not read.
GumboTag ActingTag(const GumboNode* node);
// Whether one of the element's classes has this name, or begins with it where it ends with "-".
bool HasClass(const GumboNode* node, std::string_view name);
// Whether it is the number of a note where it stands in the text (of EPUB 3 and of ARIA).
bool IsNoteReference(const GumboNode* node);
// Whether the element's own style keeps spaces and line ends as they are.
bool KeepsSpaces(const GumboNode* node);
bool IsText(const GumboNode* node);
// An attribute's value; empty where the element has none of this name.
std::string_view HtmlAttribute(const GumboNode* node, const char* name);
// An attribute as a number; `otherwise` where it is none, negative, or above 999,999.
int NumberAttribute(const GumboNode* node, const char* name, int otherwise);
// Whether an element is never shown, by its tag, its attributes or its own style. Style sheets are
// not read.
bool IsHidden(const GumboNode* node);
// Whether an element is written as a whole, by its attributes or by more than its text: an image, a
// formula.
bool IsWhole(const GumboNode* node);

// A node of the page that is shown, in the order of the page. The descendants of the item at i are
// the items from i + 1 up to its `end`, so that a subtree is skipped by one step and sums need no
// recursion.
struct HtmlItem {
  // The part of a cell in a table that is a list (html_lists.h).
  enum class Part { kNone, kMarker, kText };
  const GumboNode* node;
  GumboTag tag;        // ActingTag
  size_t parent, end;  // indexes of items; the first item's parent is itself
  bool in_article = false, in_link = false;
  bool begins_row = false;      // a cell of a table that has no rows
  bool is_boilerplate = false;  // navigation and the like, or inside of some
  bool has_paragraph = false;   // inside it
  bool has_lines = false;       // br and div, inside it
  bool has_layout = false;      // other blocks, inside it
  bool is_data = false;         // a cell that stands beside the others of its row
  bool has_heading = false;     // inside it, or is one: h1
  Part part = Part::kNone;
  uint64_t shown = 0;   // bytes of text that are no spaces
  uint64_t linked = 0;  // of these in links
  uint64_t prose = 0;   // of these neither boilerplate nor links
};

}  // namespace lectern::tools

#endif  // LECTERN_TOOLS_INGEST_HTML_ELEMENTS_H_
