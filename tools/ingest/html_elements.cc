#include "tools/ingest/html_elements.h"

#include <algorithm>
#include <charconv>
#include <iterator>
#include <span>
#include <string>
#include <string_view>

#include "tools/ingest/alt_text.h"
#include "tools/ingest/characters.h"

namespace lectern::tools {

namespace {

// Elements whose content is not text of the page: a browser does not show them as text, or they are
// controls, or aids to reading ideographs (rt).
const TagSet& NeverShown() {
  static const TagSet tags = {
      GUMBO_TAG_HEAD,  GUMBO_TAG_SCRIPT,   GUMBO_TAG_STYLE,  GUMBO_TAG_NOSCRIPT, GUMBO_TAG_TEMPLATE,
      GUMBO_TAG_TITLE, GUMBO_TAG_IFRAME,   GUMBO_TAG_EMBED,  GUMBO_TAG_OBJECT,   GUMBO_TAG_SVG,
      GUMBO_TAG_AUDIO, GUMBO_TAG_VIDEO,    GUMBO_TAG_CANVAS, GUMBO_TAG_BUTTON,   GUMBO_TAG_SELECT,
      GUMBO_TAG_INPUT, GUMBO_TAG_TEXTAREA, GUMBO_TAG_MAP,    GUMBO_TAG_DATALIST, GUMBO_TAG_NOFRAMES,
      GUMBO_TAG_RT,    GUMBO_TAG_RP};
  return tags;
}
// Elements that stand on lines of their own.
const TagSet& Lines() {
  static const TagSet tags = {GUMBO_TAG_BODY,    GUMBO_TAG_DIV,        GUMBO_TAG_MAIN,
                              GUMBO_TAG_LI,      GUMBO_TAG_DT,         GUMBO_TAG_DD,
                              GUMBO_TAG_TR,      GUMBO_TAG_CAPTION,    GUMBO_TAG_NAV,
                              GUMBO_TAG_ASIDE,   GUMBO_TAG_HEADER,     GUMBO_TAG_FOOTER,
                              GUMBO_TAG_ADDRESS, GUMBO_TAG_DETAILS,    GUMBO_TAG_SUMMARY,
                              GUMBO_TAG_CENTER,  GUMBO_TAG_FORM,       GUMBO_TAG_HGROUP,
                              GUMBO_TAG_BR,      GUMBO_TAG_FIGCAPTION, GUMBO_TAG_FIELDSET};
  return tags;
}

// The value of a property of the element's own style, in lower case and without spaces; empty: it
// is not set. The last one counts.
std::string StyleValue(const GumboNode* node, std::string_view property) {
  std::string style;
  for (const char c : HtmlAttribute(node, "style")) {
    if (!IsHtmlSpace(c)) style += Lower(c);
  }
  std::string value;
  for (size_t begin = 0; begin < style.size();) {
    const size_t end = std::min(style.find(';', begin), style.size());
    const std::string_view part = std::string_view(style).substr(begin, end - begin);
    if (part.starts_with(property) && part.substr(property.size()).starts_with(':')) {
      value = part.substr(property.size() + 1);
      value.resize(std::min(value.find('!'), value.size()));  // !important
    }
    begin = end + 1;
  }
  return value;
}

struct Acting {
  std::string_view name;  // of a role, or of a display
  GumboTag tag;
};
// Roles of ARIA 1.2 that have the part of an element of HTML.
constexpr Acting kRoles[] = {
    {"table", GUMBO_TAG_TABLE},    {"grid", GUMBO_TAG_TABLE},
    {"treegrid", GUMBO_TAG_TABLE}, {"rowgroup", GUMBO_TAG_TBODY},
    {"row", GUMBO_TAG_TR},         {"cell", GUMBO_TAG_TD},
    {"gridcell", GUMBO_TAG_TD},    {"columnheader", GUMBO_TAG_TH},
    {"rowheader", GUMBO_TAG_TH},   {"caption", GUMBO_TAG_CAPTION},
    {"list", GUMBO_TAG_UL},        {"listitem", GUMBO_TAG_LI},
    {"paragraph", GUMBO_TAG_P},    {"blockquote", GUMBO_TAG_BLOCKQUOTE},
};
constexpr Acting kDisplays[] = {
    {"table", GUMBO_TAG_TABLE},
    {"table-row-group", GUMBO_TAG_TBODY},
    {"table-header-group", GUMBO_TAG_THEAD},
    {"table-footer-group", GUMBO_TAG_TFOOT},
    {"table-row", GUMBO_TAG_TR},
    {"table-cell", GUMBO_TAG_TD},
    {"table-caption", GUMBO_TAG_CAPTION},
    {"list-item", GUMBO_TAG_LI},
    {"block", GUMBO_TAG_DIV},
    {"inline", GUMBO_TAG_SPAN},
};

GumboTag Find(std::string_view name, std::span<const Acting> all, GumboTag otherwise) {
  const auto found = std::ranges::find(all, name, &Acting::name);
  return found == all.end() ? otherwise : found->tag;
}

// Whether the element is shown only when a script or a button opens it. Dialogs are told by their
// name: not every Gumbo has a tag for them.
bool IsClosed(const GumboNode* node) {
  const GumboVector* const attributes = &node->v.element.attributes;
  if (gumbo_get_attribute(attributes, "popover")) return true;
  if (gumbo_get_attribute(attributes, "open")) return false;
  GumboStringPiece name = node->v.element.original_tag;
  gumbo_tag_from_original_text(&name);
  return name.data && name.length == 6 &&
         Lower(std::string_view(name.data, name.length)) == "dialog";
}

// Whether a noscript element is longer than in browsers. Where scripts run, these take its content
// for characters, up to the next end tag. Gumbo takes it for markup, so that a start tag inside
// without an end tag draws the rest of the page into the element.
bool EndsTooLate(const GumboNode* node) {
  if (TagOf(node) != GUMBO_TAG_NOSCRIPT) return false;
  constexpr std::string_view kEndTag = "</noscript";
  const GumboStringPiece begin = node->v.element.original_tag,
                         end = node->v.element.original_end_tag;
  if (begin.length == 0) return false;
  if (end.length == 0) return true;
  return std::search(begin.data + begin.length, end.data, kEndTag.begin(), kEndTag.end(),
                     [](char a, char b) { return Lower(a) == b; }) != end.data;
}

// Whether the text of the image is a formula, which wikis hide from screen readers.
bool IsFormulaImage(const GumboNode* node) {
  if (TagOf(node) != GUMBO_TAG_IMG) return false;
  const std::string text = ImageText("", HtmlAttribute(node, "alt"));
  return !text.empty() && !text.starts_with('[') && !text.starts_with('(');
}

// Whether it is the sign behind a heading or a term that links to the place where it stands, as
// Sphinx, Texinfo and wikis write it, or the one of a note that leads back to its mark: a link into
// the page that is one such sign.
bool IsPermalink(const GumboNode* node) {
  if (TagOf(node) != GUMBO_TAG_A || HtmlAttribute(node, "href").find('#') == std::string::npos)
    return false;
  const GumboVector& children = node->v.element.children;
  if (children.length != 1) return false;
  const auto* const child = static_cast<const GumboNode*>(children.data[0]);
  if (child->type != GUMBO_NODE_TEXT) return false;
  std::string_view text = child->v.text.text;
  while (!text.empty() && IsHtmlSpace(text.front())) text.remove_prefix(1);
  if (text.starts_with("\xC2\xA0")) text.remove_prefix(2);  // a no-break space
  while (!text.empty() && IsHtmlSpace(text.back())) text.remove_suffix(1);
  constexpr std::string_view kTextForm = "\xEF\xB8\x8E";  // U+FE0E: as text, not as a picture
  if (text.ends_with(kTextForm)) text.remove_suffix(kTextForm.size());
  constexpr std::string_view kSigns[] = {"¶", "#", "§", "🔗", "⚓", "↩", "⤴", "↑", "^"};
  return std::find(std::begin(kSigns), std::end(kSigns), text) != std::end(kSigns);
}

}  // namespace

const TagSet& Paragraphs() {
  static const TagSet tags = {
      GUMBO_TAG_P,   GUMBO_TAG_H1,         GUMBO_TAG_H2,    GUMBO_TAG_H3,     GUMBO_TAG_H4,
      GUMBO_TAG_H5,  GUMBO_TAG_H6,         GUMBO_TAG_UL,    GUMBO_TAG_OL,     GUMBO_TAG_DL,
      GUMBO_TAG_PRE, GUMBO_TAG_BLOCKQUOTE, GUMBO_TAG_TABLE, GUMBO_TAG_FIGURE, GUMBO_TAG_SECTION,
      GUMBO_TAG_HR,  GUMBO_TAG_ARTICLE};
  return tags;
}
// Lists and paragraphs may not be the main content: they are parts of one.
const TagSet& Containers() {
  static const TagSet tags = {
      GUMBO_TAG_BODY,  GUMBO_TAG_DIV, GUMBO_TAG_SECTION, GUMBO_TAG_ARTICLE, GUMBO_TAG_TABLE,
      GUMBO_TAG_TBODY, GUMBO_TAG_TR,  GUMBO_TAG_TD,      GUMBO_TAG_FORM,    GUMBO_TAG_CENTER};
  return tags;
}

bool IsBlock(GumboTag tag) { return Paragraphs().Has(tag) || Lines().Has(tag); }

size_t HeadingLevel(GumboTag tag) {
  return tag >= GUMBO_TAG_H1 && tag <= GUMBO_TAG_H6 ? static_cast<size_t>(tag - GUMBO_TAG_H1) + 1
                                                    : 0;
}

GumboTag TagOf(const GumboNode* node) {
  return node->type == GUMBO_NODE_ELEMENT ? node->v.element.tag : GUMBO_TAG_LAST;
}

// Elements that have a part of their own keep it, whatever role or style they have: lists that
// menus are made of are shown in a row, and stay lists.
GumboTag ActingTag(const GumboNode* node) {
  const GumboTag tag = TagOf(node);
  const bool is_plain = tag == GUMBO_TAG_DIV || tag == GUMBO_TAG_SPAN || tag == GUMBO_TAG_UNKNOWN;
  if (!is_plain && tag != GUMBO_TAG_P) return tag;
  const std::string role = Lower(HtmlAttribute(node, "role"));
  if (role == "heading") {
    const int level = std::clamp(NumberAttribute(node, "aria-level", 2), 1, 6);
    return static_cast<GumboTag>(GUMBO_TAG_H1 + level - 1);
  }
  if (!is_plain) return tag;
  const GumboTag by_role = Find(role, kRoles, GUMBO_TAG_LAST);
  return by_role != GUMBO_TAG_LAST ? by_role : Find(StyleValue(node, "display"), kDisplays, tag);
}

bool HasClass(const GumboNode* node, std::string_view name) {
  std::string_view rest = HtmlAttribute(node, "class");
  while (!rest.empty()) {
    const size_t size = static_cast<size_t>(
        std::find_if(rest.begin(), rest.end(), [](char c) { return IsHtmlSpace(c); }) -
        rest.begin());
    const std::string_view one = rest.substr(0, size);
    if (name.ends_with('-') ? one.starts_with(name) : one == name) return true;
    rest.remove_prefix(std::min(size + 1, rest.size()));
  }
  return false;
}

bool KeepsSpaces(const GumboNode* node) {
  return TagOf(node) == GUMBO_TAG_PRE || StyleValue(node, "white-space").starts_with("pre");
}

std::string_view HtmlAttribute(const GumboNode* node, const char* name) {
  const GumboAttribute* const found = gumbo_get_attribute(&node->v.element.attributes, name);
  return found ? found->value : std::string_view();
}

bool IsHidden(const GumboNode* node) {
  if (NeverShown().Has(TagOf(node)) && !IsWhole(node) && !EndsTooLate(node)) return true;
  if (gumbo_get_attribute(&node->v.element.attributes, "hidden")) return true;
  if (IsClosed(node) || IsPermalink(node)) return true;
  if (HasClass(node, "mw-editsection")) return true;  // "[edit]" behind a heading of Wikipedia
  if (HtmlAttribute(node, "aria-hidden") == "true" && !IsFormulaImage(node)) return true;
  return StyleValue(node, "display") == "none" || StyleValue(node, "visibility") == "hidden";
}

bool IsNoteReference(const GumboNode* node) {
  return HtmlAttribute(node, "epub:type").find("noteref") != std::string_view::npos ||
         HtmlAttribute(node, "role") == "doc-noteref";
}

bool IsText(const GumboNode* node) {
  return node->type == GUMBO_NODE_TEXT || node->type == GUMBO_NODE_CDATA ||
         node->type == GUMBO_NODE_WHITESPACE;
}

bool IsWhole(const GumboNode* node) {
  const GumboTag tag = TagOf(node);
  const bool is_drawing = tag == GUMBO_TAG_SVG && HtmlAttribute(node, "role") == "img" &&
                          !HtmlAttribute(node, "aria-label").empty();
  return tag == GUMBO_TAG_IMG || tag == GUMBO_TAG_MATH || is_drawing;
}

int NumberAttribute(const GumboNode* node, const char* name, int otherwise) {
  constexpr int kMost = 999'999;
  const std::string_view value = HtmlAttribute(node, name);
  int number = 0;
  const auto read = std::from_chars(value.data(), value.data() + value.size(), number);
  return read.ec == std::errc() && number >= 0 && number <= kMost ? number : otherwise;
}

}  // namespace lectern::tools
