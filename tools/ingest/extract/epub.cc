// Books (.epub): EPUB 2 and 3. Chapters are web pages, which html.h reads.
#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "tools/ingest/characters.h"
#include "tools/ingest/extract/readers.h"
#include "tools/ingest/extract/xml_tree.h"
#include "tools/ingest/extract/zip_parts.h"
#include "tools/ingest/html.h"

namespace lectern::tools {
namespace {

api::Error Fail(const std::string& message) { return {LECTERN_INVALID_ARGUMENT, message, "file"}; }

struct Item {
  std::string part;
  bool is_page = false;      // XHTML or HTML
  bool is_contents = false;  // the page with the table of contents
};

// Whether a reader program would need a licence: chapters are encrypted, not only fonts.
bool IsProtected(const ZipParts& parts) {
  const std::string* const xml = parts.Find("META-INF/encryption.xml");
  if (!xml) return false;
  auto tree = XmlTree::Parse(*xml, "META-INF/encryption.xml");
  if (!tree.ok()) return false;
  for (const XmlNode data : tree->root()) {
    const std::string_view part =
        data.Child("CipherData").Child("CipherReference").Attribute("URI");
    if (part.ends_with("html") || part.ends_with(".htm") || part.ends_with(".xml")) return true;
  }
  return false;
}

// The name of the package document, which container.xml tells.
std::string PackagePart(const ZipParts& parts) {
  const std::string* const xml = parts.Find("META-INF/container.xml");
  if (!xml) return "";
  auto tree = XmlTree::Parse(*xml, "META-INF/container.xml");
  if (!tree.ok()) return "";
  for (const XmlNode file : tree->root().Child("rootfiles")) {
    if (file.name() == "rootfile") return ResolvePart("", file.Attribute("full-path"));
  }
  return "";
}

std::map<std::string, Item> ItemsOf(XmlNode manifest, const std::string& package_part) {
  std::map<std::string, Item> items;
  for (const XmlNode node : manifest) {
    if (node.name() != "item") continue;
    Item& item = items[std::string(node.Attribute("id"))];
    item.part = ResolvePart(package_part, node.Attribute("href"));
    item.is_page = node.Attribute("media-type").find("html") != std::string_view::npos;
    const std::string properties = " " + std::string(node.Attribute("properties")) + " ";
    item.is_contents = properties.find(" nav ") != std::string::npos;
  }
  return items;
}

// Whether a page is a list of links to other places of the book, and so a table of contents: two
// thirds of its text, as far as tags tell, and a title besides. A front page that also says
// something (of which version the book is) has more.
bool IsContents(std::string_view page) {
  constexpr size_t kLeastLinks = 3, kMostOther = 200;
  size_t num_linked = 0, num_other = 0, num_links = 0;  // bytes, bytes, links
  page.remove_prefix(std::min(page.find("<body"), page.size()));
  bool is_link = false;
  for (size_t at = 0; at < page.size();) {
    if (page[at] != '<') {
      if (!IsHtmlSpace(page[at])) ++(is_link ? num_linked : num_other);
      ++at;
      continue;
    }
    const size_t end = std::min(page.find('>', at), page.size() - 1) + 1;
    const std::string_view tag = page.substr(at, end - at);
    if (tag.starts_with("</a>")) is_link = false;
    if (tag.starts_with("<a ") || tag.starts_with("<a\n")) {
      is_link = tag.find("href=") != tag.npos && tag.find("://") == tag.npos &&
                tag.find("mailto:") == tag.npos;
      num_links += is_link;
    }
    at = end;
  }
  return num_links >= kLeastLinks && num_linked > 2 * num_other && num_other <= kMostOther;
}

// Writes the title and the authors, unless the first chapters say the title themselves.
void AddTitle(XmlNode metadata, const std::vector<std::string>& chapters, TextBuilder& writer) {
  constexpr size_t kFirstChapters = 3, kFirstBytes = 5000;
  std::string title, authors;
  for (const XmlNode node : metadata) {
    if (node.name() == "title" && title.empty()) AppendAllText(node, title);
    if (node.name() != "creator") continue;
    if (!authors.empty()) authors += ", ";
    AppendAllText(node, authors);
  }
  title = CollapseSpace(title, false);
  if (title.empty()) return writer.Paragraph(authors);
  for (size_t i = 0; i < std::min(chapters.size(), kFirstChapters); ++i) {
    if (chapters[i].substr(0, kFirstBytes).find(title) != std::string::npos) return;
  }
  writer.Heading(1, title);
  writer.Paragraph(authors);
}

}  // namespace

api::Result<Extracted> ReadEpub(std::string_view bytes) {
  auto parts = ZipParts::Unpack(bytes);
  if (!parts.ok()) return parts.error();
  if (IsProtected(*parts)) return Fail("is protected (DRM): only its own reader program opens it");
  const std::string package_part = PackagePart(*parts);
  const std::string* const xml = parts->Find(package_part);
  if (!xml) return Fail("is damaged: it names no package document");
  auto package = XmlTree::Parse(*xml, package_part);
  if (!package.ok()) return package.error();
  const XmlNode root = package->root();
  const auto items = ItemsOf(root.Child("manifest"), package_part);
  std::vector<std::string> chapters;  // empty ones too: they are counted
  uint64_t num_missing = 0;
  std::set<std::string> read;  // parts: some books list a chapter again for each of its sections
  for (const XmlNode node : root.Child("spine")) {
    if (node.name() != "itemref") continue;
    const auto found = items.find(std::string(node.Attribute("idref")));
    if (found != items.end() && !read.insert(found->second.part).second) continue;
    std::string& chapter = chapters.emplace_back();
    if (found == items.end() || !found->second.is_page || found->second.is_contents) continue;
    const std::string* const page = parts->Find(found->second.part);
    num_missing += page == nullptr;
    if (!page || IsContents(*page)) continue;
    auto text = ReadHtml(
        *page,
        {.name = "its part " + found->second.part, .keeps_all = true, .marks_headings = true});
    if (text.ok()) {
      chapter = std::move(*text);
    } else if (text.error().code != LECTERN_EMPTY_DOCUMENT) {  // as a cover's page is
      api::Error error = text.error();
      error.message = "cannot be read: " + error.message;
      return error;
    }
  }
  TextBuilder writer;
  AddTitle(root.Child("metadata"), chapters, writer);
  for (size_t i = 0; i < chapters.size(); ++i) {
    writer.BeginPage(i + 1);
    writer.Verbatim(chapters[i]);
  }
  return writer.Finish(
      chapters.size(),
      num_missing == 0 ? "" : std::to_string(num_missing) + " chapters are missing in the file");
}

}  // namespace lectern::tools
