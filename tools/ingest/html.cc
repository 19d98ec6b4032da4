#include "tools/ingest/html.h"

#include <gumbo.h>

#include <algorithm>
#include <chrono>
#include <csetjmp>
#include <cstddef>
#include <cstdlib>
#include <initializer_list>
#include <utility>
#include <vector>

#include "engine/model/formats/text.h"
#include "tools/ingest/characters.h"

namespace lectern::tools {
namespace {

using Clock = std::chrono::steady_clock;

// --- the tree -----------------------------------------------------------------------------------

// All memory of one parse, freed at once. Gumbo, the parser, cannot be told that there is no
// memory, has no limits, and frees a tree by recursion, which a deep page turns into a stack
// overflow. So nothing is freed singly, and an allocation that is one too many leaves the parser by
// a longjmp over its frames. That is sound because those frames are C's: they have no destructors.
class Arena {
 public:
  enum class Stop { kNone, kTooLarge, kTooSlow, kCancelled };

  explicit Arena(const HtmlOptions& options)
      : options_(options),
        deadline_(Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                     std::chrono::duration<double>(options.seconds))) {}
  ~Arena() {
    while (newest_) std::free(std::exchange(newest_, newest_->older));
  }
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  // Parses a page; the tree lives as long as this object, and points into `html`, which must stay.
  // nullptr: stopped() says why. Call it once.
  const GumboOutput* Parse(std::string_view html) {
    GumboOptions gumbo = kGumboDefaultOptions;
    gumbo.allocator = [](void* arena, size_t bytes) {
      return static_cast<Arena*>(arena)->Allocate(bytes);
    };
    gumbo.deallocator = [](void*, void*) {};
    gumbo.userdata = this;
    gumbo.max_errors = 0;
    if (setjmp(out_) != 0) return nullptr;
    return gumbo_parse_with_options(&gumbo, html.data(), html.size());
  }
  Stop stopped() const { return stopped_; }

 private:
  struct Chunk {
    Chunk* older;
  };
  static constexpr size_t kChunkBytes = size_t{1} << 20, kAlignment = alignof(std::max_align_t);
  // Allocations between two looks at the clock and the cancellation, which cost more than one.
  static constexpr uint64_t kCheckEvery = 1024;

  // Gumbo's allocator: the next bytes of the newest chunk, or of a new one. Does not return where a
  // limit is reached. `bytes` is compared with the limit before it is rounded up, which it could
  // overflow.
  void* Allocate(size_t bytes) {
    if (++num_allocations_ % kCheckEvery == 0) {
      if (options_.is_cancelled && options_.is_cancelled()) Leave(Stop::kCancelled);
      if (Clock::now() > deadline_) Leave(Stop::kTooSlow);
    }
    if (bytes > options_.memory_bytes) Leave(Stop::kTooLarge);
    bytes = (bytes + kAlignment - 1) / kAlignment * kAlignment;
    if (bytes > left_) {
      const size_t chunk = std::max(bytes, kChunkBytes);
      constexpr size_t kHeader = (sizeof(Chunk) + kAlignment - 1) / kAlignment * kAlignment;
      used_ += chunk;
      void* const memory = used_ > options_.memory_bytes ? nullptr : std::malloc(kHeader + chunk);
      if (!memory) Leave(Stop::kTooLarge);
      newest_ = new (memory) Chunk{newest_};
      next_ = static_cast<char*>(memory) + kHeader;
      left_ = chunk;
    }
    left_ -= bytes;
    return std::exchange(next_, next_ + bytes);
  }

  // Ends the parse: Parse returns nullptr.
  [[noreturn]] void Leave(Stop why) {
    stopped_ = why;
    std::longjmp(out_, 1);
  }

  const HtmlOptions& options_;
  const Clock::time_point deadline_;
  std::jmp_buf out_;
  Chunk* newest_ = nullptr;
  char* next_ = nullptr;
  size_t left_ = 0;
  uint64_t used_ = 0, num_allocations_ = 0;
  Stop stopped_ = Stop::kNone;
};

// --- what elements are --------------------------------------------------------------------------

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

// Elements whose content is not text of the page: a browser does not show them as text, or they are
// controls.
const TagSet& NeverShown() {
  static const TagSet tags = {
      GUMBO_TAG_HEAD,     GUMBO_TAG_SCRIPT, GUMBO_TAG_STYLE,    GUMBO_TAG_NOSCRIPT,
      GUMBO_TAG_TEMPLATE, GUMBO_TAG_TITLE,  GUMBO_TAG_IFRAME,   GUMBO_TAG_EMBED,
      GUMBO_TAG_OBJECT,   GUMBO_TAG_SVG,    GUMBO_TAG_AUDIO,    GUMBO_TAG_VIDEO,
      GUMBO_TAG_CANVAS,   GUMBO_TAG_BUTTON, GUMBO_TAG_SELECT,   GUMBO_TAG_INPUT,
      GUMBO_TAG_TEXTAREA, GUMBO_TAG_MAP,    GUMBO_TAG_DATALIST, GUMBO_TAG_NOFRAMES};
  return tags;
}
// Elements that stand between empty lines.
const TagSet& Paragraphs() {
  static const TagSet tags = {
      GUMBO_TAG_P,   GUMBO_TAG_H1,         GUMBO_TAG_H2,    GUMBO_TAG_H3,     GUMBO_TAG_H4,
      GUMBO_TAG_H5,  GUMBO_TAG_H6,         GUMBO_TAG_UL,    GUMBO_TAG_OL,     GUMBO_TAG_DL,
      GUMBO_TAG_PRE, GUMBO_TAG_BLOCKQUOTE, GUMBO_TAG_TABLE, GUMBO_TAG_FIGURE, GUMBO_TAG_SECTION,
      GUMBO_TAG_HR,  GUMBO_TAG_ARTICLE};
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
// Elements that may hold the main content, for DensestBlock. Lists and paragraphs may not: they are
// parts of a content.
const TagSet& Containers() {
  static const TagSet tags = {
      GUMBO_TAG_BODY,  GUMBO_TAG_DIV, GUMBO_TAG_SECTION, GUMBO_TAG_ARTICLE, GUMBO_TAG_TABLE,
      GUMBO_TAG_TBODY, GUMBO_TAG_TR,  GUMBO_TAG_TD,      GUMBO_TAG_FORM,    GUMBO_TAG_CENTER};
  return tags;
}

bool IsBlock(GumboTag tag) { return Paragraphs().Has(tag) || Lines().Has(tag); }

// 1 to 6 for h1 to h6; 0: no heading.
size_t HeadingLevel(GumboTag tag) {
  return tag >= GUMBO_TAG_H1 && tag <= GUMBO_TAG_H6 ? static_cast<size_t>(tag - GUMBO_TAG_H1) + 1
                                                    : 0;
}

// GUMBO_TAG_LAST, which is no tag, for text.
GumboTag TagOf(const GumboNode* node) {
  return node->type == GUMBO_NODE_ELEMENT ? node->v.element.tag : GUMBO_TAG_LAST;
}

// An attribute's value; empty where the element has none of this name.
std::string_view Attribute(const GumboNode* node, const char* name) {
  const GumboAttribute* const found = gumbo_get_attribute(&node->v.element.attributes, name);
  return found ? found->value : std::string_view();
}

// Whether an element is never shown, by its tag, its attributes or its own style. Style sheets are
// not read.
bool IsHidden(const GumboNode* node) {
  const GumboTag tag = TagOf(node);
  if (NeverShown().Has(tag)) return true;
  if (gumbo_get_attribute(&node->v.element.attributes, "hidden")) return true;
  if (Attribute(node, "aria-hidden") == "true") return true;
  std::string style;
  for (const char c : Attribute(node, "style")) {
    if (c != ' ') style += static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
  }
  return style.find("display:none") != std::string::npos ||
         style.find("visibility:hidden") != std::string::npos;
}

bool IsText(const GumboNode* node) {
  return node->type == GUMBO_NODE_TEXT || node->type == GUMBO_NODE_CDATA ||
         node->type == GUMBO_NODE_WHITESPACE;
}

// --- the main content ---------------------------------------------------------------------------

// A node of the page that is shown, in the order of the page. The descendants of the item at i are
// the items from i + 1 up to its `end`, so that a subtree is skipped by one step and sums need no
// recursion.
struct Item {
  const GumboNode* node;
  size_t parent, end;  // indexes of items; the first item's parent is itself
  bool in_article = false, in_link = false;
  bool is_boilerplate = false;  // navigation and the like, or inside of some
  bool has_paragraph = false;   // inside it
  bool has_layout = false;      // blocks that are no paragraphs, inside it
  bool has_heading = false;     // inside it, or is one: h1
  uint64_t shown = 0;           // bytes of text that are no spaces
  uint64_t prose = 0;           // of these neither boilerplate nor links
};

// Lists the items that are shown, without recursion, because a page may be as deep as it is long.
std::vector<Item> ShownItems(const GumboNode* body) {
  std::vector<Item> items;
  struct Open {
    size_t item;
    unsigned next;  // of its children
  };
  std::vector<Open> open;
  // Items inherit what they are inside of.
  const auto add = [&](const GumboNode* node, size_t parent) {
    Item item = {node, parent, 0};
    const GumboTag tag = TagOf(node);
    if (!items.empty()) {
      item.in_article = items[parent].in_article;
      item.in_link = items[parent].in_link;
    }
    item.in_article |= tag == GUMBO_TAG_ARTICLE || tag == GUMBO_TAG_MAIN;
    item.in_link |= tag == GUMBO_TAG_A;
    items.push_back(item);
    if (node->type == GUMBO_NODE_ELEMENT) {
      open.push_back({items.size() - 1, 0});
    } else {
      items.back().end = items.size();
    }
  };
  add(body, 0);
  while (!open.empty()) {
    const size_t parent = open.back().item;
    const GumboVector& children = items[parent].node->v.element.children;
    if (open.back().next == children.length) {
      items[parent].end = items.size();
      open.pop_back();
      continue;
    }
    const auto* const child = static_cast<const GumboNode*>(children.data[open.back().next++]);
    const bool is_shown = child->type == GUMBO_NODE_ELEMENT ? !IsHidden(child) : IsText(child);
    if (is_shown) add(child, parent);
  }
  return items;
}

// A main element, or one that says it is (ARIA).
bool IsMain(const Item& item) {
  return TagOf(item.node) == GUMBO_TAG_MAIN ||
         (item.node->type == GUMBO_NODE_ELEMENT && Attribute(item.node, "role") == "main");
}

// Whether an element is around the content of a page rather than a part of it, by its tag or its
// ARIA role. `page_shown`: bytes of text of the whole page.
bool IsBoilerplate(const Item& item, uint64_t page_shown) {
  if (item.node->type != GUMBO_NODE_ELEMENT) return false;
  const std::string_view role = Attribute(item.node, "role");
  switch (TagOf(item.node)) {
    case GUMBO_TAG_NAV:
    case GUMBO_TAG_ASIDE:
      return true;
    case GUMBO_TAG_HEADER:
    case GUMBO_TAG_FOOTER:
      return !item.in_article;
    case GUMBO_TAG_FORM:
      return item.shown * 2 <= page_shown;  // some servers put all of a page into one
    default:
      return role == "navigation" || role == "banner" || role == "contentinfo" ||
             role == "search" || role == "complementary";
  }
}

// Fills in what each item holds. Children stand behind their parent, so that one pass from the end
// adds every item to its parent after the item itself is complete.
void Measure(std::vector<Item>& items) {
  for (Item& item : items) {
    if (IsText(item.node)) {
      const std::string_view text = item.node->v.text.text;
      item.shown =
          text.size() - static_cast<uint64_t>(std::count_if(text.begin(), text.end(), IsHtmlSpace));
    }
    item.has_heading = TagOf(item.node) == GUMBO_TAG_H1;
  }
  for (size_t i = items.size() - 1; i > 0; --i) {
    Item& parent = items[items[i].parent];
    parent.shown += items[i].shown;
    parent.has_heading |= items[i].has_heading;
    const GumboTag tag = TagOf(items[i].node);
    const bool is_paragraph =
        tag == GUMBO_TAG_P ||
        (tag == GUMBO_TAG_DIV && !Attribute(items[i].node, "align").empty());  // unrtf's
    parent.has_paragraph |= items[i].has_paragraph || is_paragraph;
    parent.has_layout |= items[i].has_layout || (IsBlock(tag) && !is_paragraph);
  }
}

// Fills in the text that counts when the main content is chosen: menus are links, and do not.
void MeasureProse(std::vector<Item>& items) {
  for (Item& item : items) {
    const bool counts = IsText(item.node) && !item.is_boilerplate && !item.in_link;
    item.prose = counts ? item.shown : 0;
  }
  for (size_t i = items.size() - 1; i > 0; --i) items[items[i].parent].prose += items[i].prose;
}

// Marks what is around the content. A page that has nothing else (a list of links in a nav) keeps
// all of it.
void MarkBoilerplate(std::vector<Item>& items) {
  for (size_t i = 1; i < items.size(); ++i) {
    items[i].is_boilerplate =
        items[items[i].parent].is_boilerplate || IsBoilerplate(items[i], items[0].shown);
  }
  MeasureProse(items);
  if (items[0].prose > 0) return;
  for (Item& item : items) item.is_boilerplate = false;  // a page of nothing else
  MeasureProse(items);
}

// The innermost block that has four fifths of the prose, found from the body inwards. It does not
// go into a block where that would leave a heading outside: a title often stands beside the block
// of text. Four fifths is a choice that was not measured: a lower share loses parts of a text, a
// higher one keeps menus.
size_t DensestBlock(const std::vector<Item>& items) {
  for (size_t at = 0;;) {
    size_t best = 0, num_headings = 0;
    for (size_t i = at + 1; i < items[at].end; i = items[i].end) {
      if (items[i].is_boilerplate) continue;
      if (items[i].has_heading) ++num_headings;
      if (best == 0 || items[i].prose > items[best].prose) best = i;
    }
    const bool leaves_heading = best > 0 && num_headings > (items[best].has_heading ? 1 : 0);
    if (best == 0 || items[best].prose == 0 || leaves_heading ||
        !Containers().Has(TagOf(items[best].node)) || items[best].prose * 5 < items[at].prose * 4) {
      return at;
    }
    at = best;
  }
}

// Chooses the item whose text is returned, the author's own marks (main, article) before a guess.
size_t MainContent(const std::vector<Item>& items) {
  size_t main = 0, article = 0;
  for (size_t i = 1; i < items.size(); ++i) {
    const Item& item = items[i];
    if (item.is_boilerplate || item.prose == 0) continue;
    if (IsMain(item) && (main == 0 || item.prose > items[main].prose)) main = i;
    const bool is_article = TagOf(item.node) == GUMBO_TAG_ARTICLE;
    if (is_article && (article == 0 || item.prose > items[article].prose)) article = i;
  }
  if (main > 0) return main;
  if (article > 0 && items[article].prose * 2 >= items[0].prose) return article;
  return DensestBlock(items);
}

// --- its text -----------------------------------------------------------------------------------

// Text as it grows. Breaks, spaces and markers wait until a character follows them, so that none is
// left at the end of a line, of a block or of the text.
class TextWriter {
 public:
  // Asks for at least so many newlines before the next text: 1 ends a line, 2 leave one empty.
  void Break(int newlines) {
    newlines_ = std::max(newlines_, newlines);
    gap_.clear();
  }
  // The marker of a list item or a cell. It stands before the next text, after its break and in the
  // place of spaces.
  void SetMarker(std::string marker) { marker_ = std::move(marker); }

  // Adds text: white space runs become one space, unless `keeps_spaces` (pre). No-break spaces
  // count as spaces here, because they are used for layout.
  void Add(std::string_view text, bool keeps_spaces) {
    while (!text.empty()) {
      const size_t skipped = SkippedBytes(text);
      const bool is_nbsp = text.starts_with("\xC2\xA0");
      const char c = is_nbsp ? ' ' : text.front();
      text.remove_prefix(skipped > 0 ? skipped : is_nbsp ? 2 : 1);
      if (skipped > 0) continue;
      if (!IsHtmlSpace(c)) {
        Put(c);
      } else if (keeps_spaces) {
        gap_ += c;
      } else if (gap_.empty() && newlines_ == 0) {
        gap_ = ' ';
      }
    }
  }

  // Moves the text out.
  std::string Finish() {
    if (!text_.empty()) text_ += '\n';
    return std::move(text_);
  }

 private:
  // Length of the invisible character that `text` begins with: a soft hyphen, a zero-width space, a
  // byte order mark or a control; 0: it begins with none.
  static size_t SkippedBytes(std::string_view text) {
    if (text.starts_with("\xC2\xAD")) return 2;
    if (text.starts_with("\xE2\x80\x8B") || text.starts_with("\xEF\xBB\xBF")) return 3;
    const auto byte = static_cast<uint8_t>(text.front());
    return (byte < 0x20 && !IsHtmlSpace(text.front())) || byte == 0x7F ? 1 : 0;
  }

  // Writes one byte of a visible character, after what waits before it.
  void Put(char c) {
    if (newlines_ > 0 || text_.empty()) BeginLine();
    text_ += marker_.empty() ? gap_ : marker_;
    text_ += c;
    marker_.clear();
    gap_.clear();
  }

  // Newlines of pre count as those of its break; what follows the last of them indents.
  void BeginLine() {
    const auto newlines = std::count(gap_.begin(), gap_.end(), '\n');
    if (!text_.empty())
      text_.append(std::max(static_cast<size_t>(newlines_), static_cast<size_t>(newlines)), '\n');
    gap_.erase(0, gap_.rfind('\n') + 1);  // nothing where there is none
    if (marker_.starts_with(' ')) marker_.erase(0, 1);
    newlines_ = 0;
  }

  std::string text_;
  std::string gap_;  // spaces since the last character or break
  std::string marker_;
  int newlines_ = 0;
};

// Writes the text of the items, with the breaks and markers that elements ask for. One use.
class Renderer {
 public:
  Renderer(const std::vector<Item>& items, bool marks_headings)
      : items_(items), marks_headings_(marks_headings) {}

  // The text of the item `root` and of what is inside of it, but for boilerplate.
  std::string Run(size_t root) {
    for (size_t i = root; i < items_[root].end;) {
      while (!open_.empty() && items_[open_.back().item].end <= i) Close();
      const Item& item = items_[i];
      if (item.is_boilerplate) {
        i = item.end;
        continue;
      }
      if (item.node->type == GUMBO_NODE_ELEMENT) {
        BeginElement(i);
      } else {
        writer_.Add(item.node->v.text.text, num_pre_ > 0);
      }
      ++i;
    }
    return writer_.Finish();
  }

 private:
  struct Open {
    size_t item;
    uint64_t count = 0;  // of an ol's items, of a row's cells
  };

  void BeginElement(size_t i) {
    const GumboTag tag = TagOf(items_[i].node);
    // A heading that is marked stays one line.
    if (tag == GUMBO_TAG_BR && num_headings_ > 0) {
      writer_.Add(" ", false);
    } else {
      BreakAround(tag);
    }
    if (marks_headings_ && HeadingLevel(tag) > 0) {
      ++num_headings_;
      writer_.SetMarker(std::string(HeadingLevel(tag), '#') + " ");
    }
    if (tag == GUMBO_TAG_LI) writer_.SetMarker(ListMarker());
    if (tag == GUMBO_TAG_TD || tag == GUMBO_TAG_TH) BeginCell(items_[i]);
    if (IsDataCell(items_[i])) ++num_cells_;
    if (tag == GUMBO_TAG_PRE) ++num_pre_;
    if (tag == GUMBO_TAG_UL || tag == GUMBO_TAG_OL) ++num_lists_;
    open_.push_back({i});
  }

  void Close() {
    const GumboTag tag = TagOf(items_[open_.back().item].node);
    if (IsDataCell(items_[open_.back().item])) --num_cells_;
    open_.pop_back();
    if (tag == GUMBO_TAG_BR && num_headings_ > 0) return;
    if (marks_headings_ && HeadingLevel(tag) > 0) {
      --num_headings_;
      writer_.SetMarker("");
    }
    if (tag == GUMBO_TAG_UL || tag == GUMBO_TAG_OL) --num_lists_;
    BreakAround(tag);
    if (tag == GUMBO_TAG_LI) writer_.SetMarker("");
    if (tag == GUMBO_TAG_PRE) --num_pre_;
  }

  // Breaks before and after an element. Inside a list, paragraphs are lines: items stay together.
  // Inside a cell of data they are words: a row stays one line.
  void BreakAround(GumboTag tag) {
    if (!IsBlock(tag)) return;
    if (num_cells_ > 0) return writer_.Add(" ", false);
    writer_.Break(Paragraphs().Has(tag) && num_lists_ == 0 ? 2 : 1);
  }

  // The marker of the next item, counted for an ol. Its start and value attributes are not read.
  std::string ListMarker() {
    if (open_.empty() || TagOf(items_[open_.back().item].node) != GUMBO_TAG_OL) return "- ";
    return std::to_string(++open_.back().count) + ". ";
  }

  // Whether it is a cell that stands beside the others of its row. Cells that hold blocks are a
  // layout, but for paragraphs of a few words, in which DocBook, Word and unrtf wrap all text.
  static bool IsDataCell(const Item& item) {
    constexpr uint64_t kMostBytes = 600;  // a choice: a longer one is prose
    const GumboTag tag = TagOf(item.node);
    if (tag != GUMBO_TAG_TD && tag != GUMBO_TAG_TH) return false;
    return !item.has_layout && (!item.has_paragraph || item.shown <= kMostBytes);
  }

  void BeginCell(const Item& item) {
    if (!IsDataCell(item) || open_.empty()) return writer_.Break(1);
    if (open_.back().count++ > 0) writer_.SetMarker(" | ");
  }

  const std::vector<Item>& items_;
  std::vector<Open> open_;
  TextWriter writer_;
  const bool marks_headings_;
  int num_pre_ = 0, num_lists_ = 0, num_headings_ = 0, num_cells_ = 0;
};

// Gumbo makes a body where the page has none; only a frameset takes its place.
const GumboNode* BodyOf(const GumboOutput& output) {
  const GumboVector& children = output.root->v.element.children;
  for (unsigned i = 0; i < children.length; ++i) {
    const auto* const child = static_cast<const GumboNode*>(children.data[i]);
    if (TagOf(child) == GUMBO_TAG_BODY) return child;
  }
  return nullptr;  // a frameset
}

}  // namespace

api::Result<std::string> ReadHtml(std::string_view bytes, const HtmlOptions& options) {
  const auto fail = [&options](lectern_code code, const char* message) {
    return api::Error{code, options.name + message, "file"};
  };
  auto html = DecodeHtml(bytes, options);
  if (!html.ok()) return html.error();
  Arena arena(options);
  const GumboOutput* const output = arena.Parse(html->text);
  if (!output) {
    switch (arena.stopped()) {
      case Arena::Stop::kCancelled:
        return fail(LECTERN_CANCELLED, " was cancelled while it was read");
      case Arena::Stop::kTooSlow:
        return fail(LECTERN_LIMIT_EXCEEDED, " takes too long to read as HTML; give its text");
      default:
        return fail(LECTERN_LIMIT_EXCEEDED, " takes too much memory as HTML; give its text");
    }
  }
  const GumboNode* const body = BodyOf(*output);
  std::string text;
  if (body && !IsHidden(body)) {
    std::vector<Item> items = ShownItems(body);
    Measure(items);
    if (!options.keeps_all) MarkBoilerplate(items);
    const size_t content = options.keeps_all ? 0 : MainContent(items);
    text = CleanUtf8(Renderer(items, options.marks_headings).Run(content)).text;
  }
  if (text.empty()) {
    return fail(LECTERN_EMPTY_DOCUMENT,
                " has no text in it that is shown without scripts; save it from a browser");
  }
  return text;
}

}  // namespace lectern::tools
