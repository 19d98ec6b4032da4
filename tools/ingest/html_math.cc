#include "tools/ingest/html_math.h"

#include <algorithm>
#include <iterator>
#include <string_view>
#include <vector>

#include "tools/ingest/characters.h"
#include "tools/ingest/html_elements.h"
#include "tools/ingest/linear_math.h"

namespace lectern::tools {
namespace {

constexpr int kMostDepth = 60;

// Gumbo knows few of MathML's elements; the others it only quotes.
std::string MathName(const GumboNode* node) {
  GumboStringPiece quoted = node->v.element.original_tag;
  gumbo_tag_from_original_text(&quoted);
  return Lower(std::string_view(quoted.data ? quoted.data : "", quoted.length));
}

std::vector<const GumboNode*> Children(const GumboNode* node, bool with_text) {
  std::vector<const GumboNode*> children;
  const GumboVector& all = node->v.element.children;
  for (unsigned i = 0; i < all.length; ++i) {
    const auto* const child = static_cast<const GumboNode*>(all.data[i]);
    const bool is_wanted = child->type == GUMBO_NODE_ELEMENT || (with_text && IsText(child));
    if (is_wanted) children.push_back(child);
  }
  return children;
}

// A text without white space around it.
std::string Trimmed(std::string_view text) {
  while (!text.empty() && IsHtmlSpace(text.front())) text.remove_prefix(1);
  while (!text.empty() && IsHtmlSpace(text.back())) text.remove_suffix(1);
  return std::string(text);
}

std::string TextInside(const GumboNode* node) {
  std::string text;
  for (const GumboNode* const child : Children(node, true)) {
    if (IsText(child)) text += child->v.text.text;
  }
  return Trimmed(text);
}

// The source in TeX that an annotation gives; empty: there is none.
std::string TexSource(const GumboNode* node, int depth) {
  if (depth > kMostDepth) return "";
  for (const GumboNode* const child : Children(node, false)) {
    const bool is_tex = MathName(child) == "annotation" &&
                        HtmlAttribute(child, "encoding").find("tex") != std::string_view::npos;
    const std::string source = is_tex ? TextInside(child) : TexSource(child, depth + 1);
    if (!source.empty()) return source;
  }
  return "";
}

// An operator, with spaces around those that compare or add, and without those that nobody sees.
std::string Operator(const std::string& text) {
  constexpr std::string_view kSpaced[] = {"=", "+", "-", "−", "<", ">", "≤", "≥", "≠",
                                          "≈", "→", "∈", "×", "±", "⇒", "≡", "∼", "∪"};
  constexpr std::string_view kInvisible[] = {"\u2062", "\u2063", "\u2064"};
  if (text == "\u2061") return " ";  // a function is applied
  if (std::find(std::begin(kInvisible), std::end(kInvisible), text) != std::end(kInvisible))
    return "";
  const bool is_spaced =
      std::find(std::begin(kSpaced), std::end(kSpaced), text) != std::end(kSpaced);
  return is_spaced ? " " + text + " " : text;
}

std::string Linear(const GumboNode* node, int depth);

std::string Joined(const GumboNode* node, std::string_view between, int depth) {
  std::string text;
  for (const GumboNode* const child : Children(node, true)) {
    if (!text.empty()) text += between;
    text += IsText(child) ? Trimmed(child->v.text.text) : Linear(child, depth + 1);
  }
  return text;
}

// An element whose parts stand above and below each other.
std::string Stacked(const std::string& name, const std::vector<std::string>& parts) {
  if (name == "mfrac") return MathFraction(parts[0], parts[1]);
  if (name == "mroot") return MathRoot(parts[0], parts[1]);
  const bool is_accent = name == "mover" && !parts[1].empty() && !IsAsciiLetter(parts[1][0]) &&
                         !IsAsciiDigit(parts[1][0]);
  if (is_accent) return parts[0] + parts[1];
  if (name == "msup" || name == "mover") return MathScripts(parts[0], "", parts[1]);
  return MathScripts(parts[0], parts[1], parts.size() > 2 ? parts[2] : "");
}

std::string Linear(const GumboNode* node, int depth) {
  constexpr std::string_view kStacked[] = {"mfrac",  "mroot",   "msup",  "msub",
                                           "munder", "msubsup", "mover", "munderover"};
  if (depth > kMostDepth) return "";
  const std::string name = MathName(node);
  if (name == "annotation" || name == "annotation-xml" || name == "mphantom") return "";
  if (name == "mo") return Operator(TextInside(node));
  if (name == "mspace") return " ";
  if (name == "msqrt") return MathRoot(Joined(node, "", depth), "");
  if (name == "mtr" || name == "mfenced") {
    const std::string cells = Joined(node, ", ", depth);
    return name == "mtr" ? cells : "(" + cells + ")";
  }
  if (name == "mtable") return Joined(node, "; ", depth);
  const bool is_stacked =
      std::find(std::begin(kStacked), std::end(kStacked), name) != std::end(kStacked);
  const std::vector<const GumboNode*> children = Children(node, false);
  if (!is_stacked || children.size() < 2) return Joined(node, "", depth);
  std::vector<std::string> parts;
  for (size_t i = 0; i < std::min(children.size(), size_t{3}); ++i)
    parts.push_back(Trimmed(Linear(children[i], depth + 1)));
  return Stacked(name, parts);
}

}  // namespace

std::string MathText(const GumboNode* math) {
  if (const std::string told = Trimmed(HtmlAttribute(math, "alttext")); !told.empty()) return told;
  const std::string source = TexSource(math, 0);
  return source.empty() ? Trimmed(Linear(math, 0)) : source;
}

}  // namespace lectern::tools
