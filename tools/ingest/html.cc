#include "tools/ingest/html.h"

#include <gumbo.h>

#include <algorithm>
#include <chrono>
#include <csetjmp>
#include <cstddef>
#include <cstdlib>
#include <iterator>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/model/formats/text.h"
#include "tools/ingest/characters.h"
#include "tools/ingest/html_elements.h"
#include "tools/ingest/html_lists.h"
#include "tools/ingest/html_text.h"

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

// --- the main content ---------------------------------------------------------------------------

// A table of Javadoc's, from JDK 17 on: a block of cells without rows, whose columns have names
// ("col-first", "col-second", "col-last"), and whose texts are blocks.
void ActInTableOfJavadoc(HtmlItem& item, const HtmlItem& parent) {
  if (TagOf(item.node) != GUMBO_TAG_DIV) return;
  if (HasClass(item.node, "summary-table")) {
    item.tag = GUMBO_TAG_TABLE;
  } else if (TagOf(parent.node) != GUMBO_TAG_DIV) {
    return;
  } else if (parent.tag == GUMBO_TAG_TABLE && HasClass(item.node, "col-")) {
    item.tag = GUMBO_TAG_TD;
    item.begins_row = HasClass(item.node, "col-first");
  } else if (parent.tag == GUMBO_TAG_TD && HasClass(item.node, "block")) {
    item.tag = GUMBO_TAG_P;
  }
}

// Lists the items that are shown, without recursion, because a page may be as deep as it is long.
std::vector<HtmlItem> ShownItems(const GumboNode* body) {
  std::vector<HtmlItem> items;
  struct Open {
    size_t item;
    unsigned next;  // of its children
  };
  std::vector<Open> open;
  // Items inherit what they are inside of.
  const auto add = [&](const GumboNode* node, size_t parent) {
    HtmlItem item = {node, ActingTag(node), parent, 0};
    // A cell without a row is a block that is centred, or a column of the page.
    if (item.tag != TagOf(node) && (item.tag == GUMBO_TAG_TD || item.tag == GUMBO_TAG_TH) &&
        (items.empty() || items[parent].tag != GUMBO_TAG_TR)) {
      item.tag = GUMBO_TAG_DIV;
    }
    if (!items.empty()) ActInTableOfJavadoc(item, items[parent]);
    const GumboTag tag = item.tag;
    if (!items.empty()) {
      item.in_article = items[parent].in_article;
      item.in_link = items[parent].in_link;
    }
    item.in_article |= tag == GUMBO_TAG_ARTICLE || tag == GUMBO_TAG_MAIN;
    item.in_link |= tag == GUMBO_TAG_A;
    items.push_back(item);
    if (node->type == GUMBO_NODE_ELEMENT && !IsWhole(node)) {
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
bool IsMain(const HtmlItem& item) {
  return item.tag == GUMBO_TAG_MAIN ||
         (item.node->type == GUMBO_NODE_ELEMENT && HtmlAttribute(item.node, "role") == "main");
}

// Whether an element is around the content of a page rather than a part of it, by its tag or its
// ARIA role. `page_shown`: bytes of text of the whole page.
bool IsBoilerplate(const HtmlItem& item, uint64_t page_shown) {
  if (item.node->type != GUMBO_NODE_ELEMENT) return false;
  const std::string_view role = HtmlAttribute(item.node, "role");
  switch (item.tag) {
    case GUMBO_TAG_NAV:
    case GUMBO_TAG_ASIDE:
      return true;
    case GUMBO_TAG_HEADER:
      // A title without links is the document's (pandoc's, R Markdown's), not that of a site.
      return !item.in_article && !(item.has_heading && item.linked == 0);
    case GUMBO_TAG_FOOTER:
      return !item.in_article;
    case GUMBO_TAG_FORM:
      return item.shown * 2 <= page_shown;  // some servers put all of a page into one
    default:
      return role == "navigation" || role == "banner" || role == "contentinfo" ||
             role == "search" || role == "complementary";
  }
}

// Whether a link leads to another page of the same book by its place in it, as its relation or its
// key says: the next one, the one before, the one above, the contents, the index.
bool IsLinkOfPager(const GumboNode* node) {
  constexpr std::string_view kRelations[] = {"next",  "prev",  "previous", "up",
                                             "start", "first", "last",     "contents",
                                             "index", "home",  "top"};
  const auto is_one = [&](std::string_view relation) {
    return std::find(std::begin(kRelations), std::end(kRelations), relation) !=
           std::end(kRelations);
  };
  const std::string_view key = HtmlAttribute(node, "accesskey");
  return is_one(Lower(HtmlAttribute(node, "rel"))) || key == "n" || key == "p" || key == "u" ||
         key == "h";
}

// Marks the lines that lead through a book's pages, "Next: Arrays, Up: Data [Contents][Index]":
// paragraphs and blocks without others inside, in which all links are such links, two or more, with
// no more than a label besides each.
void MarkPagers(std::vector<HtmlItem>& items) {
  constexpr uint64_t kMostLabelBytes = 12;  // of "Previous: ", and signs
  constexpr size_t kMostItems = 200;        // that are looked at, because blocks nest
  for (size_t i = 1; i < items.size(); ++i) {
    const GumboTag tag = items[i].tag;
    const bool is_block = tag == GUMBO_TAG_P || tag == GUMBO_TAG_DIV || tag == GUMBO_TAG_TABLE;
    if (!is_block || items[i].is_boilerplate || items[i].end - i > kMostItems) continue;
    if (tag == GUMBO_TAG_DIV &&
        (items[i].has_paragraph || items[i].has_lines || items[i].has_layout))
      continue;
    uint64_t num_links = 0, num_bytes = 0;
    bool is_pager = true;
    for (size_t at = i + 1; at < items[i].end && is_pager; ++at) {
      if (items[at].tag == GUMBO_TAG_A) {
        is_pager = IsLinkOfPager(items[at].node);
        ++num_links;
      } else if (IsText(items[at].node) && !items[at].in_link) {
        num_bytes += items[at].shown;
      }
    }
    if (!is_pager || num_links < 2 || num_bytes > num_links * kMostLabelBytes) continue;
    for (size_t at = i; at < items[i].end; ++at) items[at].is_boilerplate = true;
  }
}

// Fills in what each item holds. Children stand behind their parent, so that one pass from the end
// adds every item to its parent after the item itself is complete.
void Measure(std::vector<HtmlItem>& items) {
  for (HtmlItem& item : items) {
    if (IsText(item.node)) {
      const std::string_view text = item.node->v.text.text;
      item.shown =
          text.size() - static_cast<uint64_t>(std::count_if(text.begin(), text.end(), IsHtmlSpace));
      if (item.in_link) item.linked = item.shown;
    }
    item.has_heading = item.tag == GUMBO_TAG_H1;
  }
  for (size_t i = items.size() - 1; i > 0; --i) {
    HtmlItem& parent = items[items[i].parent];
    parent.shown += items[i].shown;
    parent.linked += items[i].linked;
    parent.has_heading |= items[i].has_heading;
    const GumboTag tag = items[i].tag;
    const bool is_line = tag == GUMBO_TAG_BR || tag == GUMBO_TAG_DIV;
    const bool is_paragraph =
        tag == GUMBO_TAG_P ||
        (tag == GUMBO_TAG_DIV && !HtmlAttribute(items[i].node, "align").empty());  // unrtf's
    parent.has_paragraph |= items[i].has_paragraph || is_paragraph;
    parent.has_lines |= items[i].has_lines || (is_line && !is_paragraph);
    parent.has_layout |= items[i].has_layout || (IsBlock(tag) && !is_paragraph && !is_line);
  }
}

// Marks the cells that stand beside the others of their row. Cells that hold blocks are a layout,
// but for paragraphs of a few words, in which DocBook, Word and unrtf wrap all text, and for a few
// lines (an address, a value in a div) beside other columns.
void MarkDataCells(std::vector<HtmlItem>& items) {
  constexpr uint64_t kMostBytes = 600;      // a choice: a longer one is prose
  constexpr uint64_t kMostLineBytes = 150;  // likewise: teasers and columns of pages are longer
  const auto is_cell = [](const HtmlItem& item) {
    return item.tag == GUMBO_TAG_TD || item.tag == GUMBO_TAG_TH;
  };
  std::vector<uint32_t> num_cells(items.size());  // of rows and of what is around cells without any
  std::vector<uint8_t> has_columns(items.size());
  for (const HtmlItem& item : items) num_cells[item.parent] += is_cell(item) ? 1 : 0;
  const auto table_of = [&](size_t i) {
    size_t at = items[i].parent;  // rows stand in a table, or in a part of one
    if (items[at].tag == GUMBO_TAG_TR) at = items[at].parent;
    return items[at].tag == GUMBO_TAG_TABLE ? at : items[at].parent;
  };
  for (size_t i = 1; i < items.size(); ++i) {
    if (is_cell(items[i]) && num_cells[items[i].parent] > 1) has_columns[table_of(i)] = 1;
  }
  for (size_t i = 1; i < items.size(); ++i) {
    HtmlItem& item = items[i];
    if (!is_cell(item)) continue;
    const bool may_hold_lines = item.shown <= kMostLineBytes && has_columns[table_of(i)];
    item.is_data = item.part == HtmlItem::Part::kNone && !item.has_layout &&
                   (!item.has_paragraph || item.shown <= kMostBytes) &&
                   (!item.has_lines || may_hold_lines);
  }
}

// Fills in the text that counts when the main content is chosen: menus are links, and do not.
void MeasureProse(std::vector<HtmlItem>& items) {
  for (HtmlItem& item : items) {
    const bool counts = IsText(item.node) && !item.is_boilerplate && !item.in_link;
    item.prose = counts ? item.shown : 0;
  }
  for (size_t i = items.size() - 1; i > 0; --i) items[items[i].parent].prose += items[i].prose;
}

// Marks what is around the content. A page that has nothing else (a list of links in a nav) keeps
// all of it.
void MarkBoilerplate(std::vector<HtmlItem>& items) {
  for (size_t i = 1; i < items.size(); ++i) {
    items[i].is_boilerplate =
        items[items[i].parent].is_boilerplate || IsBoilerplate(items[i], items[0].shown);
  }
  MarkPagers(items);
  MeasureProse(items);
  if (items[0].prose > 0) return;
  for (HtmlItem& item : items) item.is_boilerplate = false;  // a page of nothing else
  MeasureProse(items);
}

// The innermost block that has four fifths of the prose, found from the body inwards. It does not
// go into a block where that would leave a heading outside: a title often stands beside the block
// of text. Four fifths is a choice that was not measured: a lower share loses parts of a text, a
// higher one keeps menus.
size_t DensestBlock(const std::vector<HtmlItem>& items) {
  for (size_t at = 0;;) {
    size_t best = 0, num_headings = 0;
    for (size_t i = at + 1; i < items[at].end; i = items[i].end) {
      if (items[i].is_boilerplate) continue;
      if (items[i].has_heading) ++num_headings;
      if (best == 0 || items[i].prose > items[best].prose) best = i;
    }
    const bool leaves_heading = best > 0 && num_headings > (items[best].has_heading ? 1 : 0);
    if (best == 0 || items[best].prose == 0 || leaves_heading ||
        !Containers().Has(items[best].tag) || items[best].prose * 5 < items[at].prose * 4) {
      return at;
    }
    at = best;
  }
}

// A main element with less than one part in so many of the prose is not believed: some pages put a
// title or an advertisement into one. Of 990 pages with phrases that belong to their content and
// others that do not (trafilatura's), parts of 2, 3, 5 and 10 keep 2,905, 2,905, 2,904 and 2,904 of
// 2,951 and 1,452 of 2,966; believing each main element keeps 2,898 and 1,446.
constexpr uint64_t kMainShare = 5;

// Chooses the item whose text is returned, the author's own marks (main, article) before a guess.
size_t MainContent(const std::vector<HtmlItem>& items) {
  size_t main = 0, article = 0;
  for (size_t i = 1; i < items.size(); ++i) {
    const HtmlItem& item = items[i];
    if (item.is_boilerplate || item.prose == 0) continue;
    if (IsMain(item) && (main == 0 || item.prose > items[main].prose)) main = i;
    const bool is_article = item.tag == GUMBO_TAG_ARTICLE;
    if (is_article && (article == 0 || item.prose > items[article].prose)) article = i;
  }
  if (main > 0 && items[main].prose * kMainShare >= items[0].prose) return main;
  if (article > 0 && items[article].prose * 2 >= items[0].prose) return article;
  return DensestBlock(items);
}

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
    std::vector<HtmlItem> items = ShownItems(body);
    Measure(items);
    MarkListTables(items);
    MarkDataCells(items);
    if (!options.keeps_all) MarkBoilerplate(items);
    const size_t content = options.keeps_all ? 0 : MainContent(items);
    text = CleanUtf8(HtmlText(items, content, options.marks_headings)).text;
  }
  if (text.empty()) {
    return fail(LECTERN_EMPTY_DOCUMENT,
                " has no text in it that is shown without scripts; save it from a browser");
  }
  return text;
}

}  // namespace lectern::tools
