#include "tools/ingest/extract/xml_tree.h"

#include <libxml/parser.h>
#include <libxml/xmlreader.h>

#include <charconv>
#include <climits>
#include <new>
#include <utility>

namespace lectern::tools {
namespace {

constexpr int kOptions =
    XML_PARSE_NONET | XML_PARSE_NOERROR | XML_PARSE_NOWARNING | XML_PARSE_NOCDATA;
// Elements may be this deep in each other: libxml2's own limit, which bounds our recursion too.
constexpr size_t kMostXmlBytes = INT_MAX;

std::string_view View(const xmlChar* text) {
  return text ? std::string_view(reinterpret_cast<const char*>(text)) : std::string_view();
}

bool IsShown(const xmlNode* node) {
  return node->type == XML_ELEMENT_NODE || node->type == XML_TEXT_NODE ||
         node->type == XML_CDATA_SECTION_NODE;
}
const xmlNode* SkipOthers(const xmlNode* node) {
  while (node && !IsShown(node)) node = node->next;
  return node;
}

std::string_view Value(const xmlAttr* attribute) {
  const xmlNode* const text = attribute->children;
  return text && text->type == XML_TEXT_NODE ? View(text->content) : std::string_view();
}

// How a parse ended, which its context refers to.
struct ParseEnd {
  bool has_entities = false, lacks_memory = false;
};

// A handler of libxml2: ends the parse at the first declared entity.
void RefuseEntity(void* context, const xmlChar*, int, const xmlChar*, const xmlChar*, xmlChar*) {
  auto* const parser = static_cast<xmlParserCtxt*>(context);
  static_cast<ParseEnd*>(parser->_private)->has_entities = true;
  xmlStopParser(parser);
}

// A handler of libxml2: notes the want of memory, which leads to other errors behind it.
void NoteError(void*, xmlError* error) {
  const auto* const parser = static_cast<const xmlParserCtxt*>(error->ctxt);
  if (!parser || error->code != XML_ERR_NO_MEMORY) return;
  static_cast<ParseEnd*>(parser->_private)->lacks_memory = true;
}

api::Error Fail(const std::string& part, const std::string& why) {
  return {LECTERN_INVALID_ARGUMENT, "is damaged: its part " + part + " " + why, "file"};
}
constexpr char kEntities[] = "declares entities, which none of its kind does";

// Throws std::bad_alloc if a step of a reader `has_failed` for want of memory, which libxml2 tells
// by its last error alone.
void ThrowWithoutMemory(bool has_failed) {
  const xmlError* const error = has_failed ? xmlGetLastError() : nullptr;
  if (error && error->code == XML_ERR_NO_MEMORY) throw std::bad_alloc();
}

struct FreeContext {
  void operator()(xmlParserCtxt* context) const { xmlFreeParserCtxt(context); }
};

}  // namespace

bool XmlNode::is_text() const { return node_->type != XML_ELEMENT_NODE; }
std::string_view XmlNode::text() const { return is_text() ? View(node_->content) : ""; }
std::string_view XmlNode::name() const {
  return node_ && !is_text() ? View(node_->name) : std::string_view();
}

std::string_view XmlNode::Attribute(const char* name) const {
  if (!node_ || is_text()) return {};
  for (const xmlAttr* at = node_->properties; at; at = at->next) {
    if (View(at->name) == name) return Value(at);
  }
  return {};
}

bool XmlNode::HasAttribute(const char* name) const {
  if (!node_ || is_text()) return false;
  for (const xmlAttr* at = node_->properties; at; at = at->next) {
    if (View(at->name) == name) return true;
  }
  return false;
}

int XmlNode::Number(const char* name, int otherwise) const {
  const std::string_view value = Attribute(name);
  int number = 0;
  const auto read = std::from_chars(value.data(), value.data() + value.size(), number);
  return read.ec == std::errc() && number >= 0 ? number : otherwise;
}

std::string_view XmlNode::Attribute(std::string_view space, const char* name) const {
  if (!node_ || is_text()) return {};
  for (const xmlAttr* at = node_->properties; at; at = at->next) {
    if (View(at->name) == name && at->ns && View(at->ns->href).ends_with(space)) return Value(at);
  }
  return {};
}

XmlNode XmlNode::first() const {
  return XmlNode(node_ && !is_text() ? SkipOthers(node_->children) : nullptr);
}
XmlNode XmlNode::next() const { return XmlNode(node_ ? SkipOthers(node_->next) : nullptr); }

XmlNode XmlNode::parent() const {
  const xmlNode* const parent = node_ ? node_->parent : nullptr;
  return XmlNode(parent && parent->type == XML_ELEMENT_NODE ? parent : nullptr);
}

XmlNode XmlNode::Child(std::string_view name) const {
  for (const XmlNode child : *this) {
    if (child.name() == name) return child;
  }
  return {};
}

XmlNode::Iterator& XmlNode::Iterator::operator++() {
  node_ = SkipOthers(node_->next);
  return *this;
}

void AppendAllText(XmlNode node, std::string& out) {
  for (const XmlNode child : node) {
    if (child.is_text()) {
      out += child.text();
    } else {
      AppendAllText(child, out);
    }
  }
}

bool HasAnyText(XmlNode node) {
  if (node.is_text()) return node.text().find_first_not_of(" \t\r\n") != std::string_view::npos;
  for (const XmlNode child : node) {
    if (HasAnyText(child)) return true;
  }
  return false;
}

void XmlTree::Free::operator()(_xmlDoc* document) const { xmlFreeDoc(document); }

api::Result<XmlTree> XmlTree::Parse(std::string_view bytes, const std::string& part,
                                    bool* is_damaged) {
  if (bytes.size() > kMostXmlBytes) return Fail(part, "is longer than 2 GiB");
  const std::unique_ptr<xmlParserCtxt, FreeContext> context(xmlNewParserCtxt());
  if (!context) throw std::bad_alloc();
  ParseEnd end;
  context->_private = &end;
  context->sax->serror = NoteError;
  context->sax->entityDecl = RefuseEntity;
  XmlTree tree;
  const int options = is_damaged ? kOptions | XML_PARSE_RECOVER : kOptions;
  tree.document_.reset(xmlCtxtReadMemory(
      context.get(), bytes.data(), static_cast<int>(bytes.size()), nullptr, nullptr, options));
  if (end.lacks_memory) throw std::bad_alloc();
  if (end.has_entities) return Fail(part, kEntities);
  if (!tree.document_ || !tree.root()) return Fail(part, "is not well-formed XML");
  if (is_damaged) *is_damaged = context->wellFormed == 0;
  return tree;
}

XmlNode XmlTree::root() const { return XmlNode(xmlDocGetRootElement(document_.get())); }

void XmlStream::Free::operator()(_xmlTextReader* reader) const { xmlFreeTextReader(reader); }

XmlStream::XmlStream(std::string_view bytes, std::string part)
    : reader_(bytes.size() > kMostXmlBytes
                  ? nullptr
                  : xmlReaderForMemory(bytes.data(), static_cast<int>(bytes.size()), nullptr,
                                       nullptr, kOptions)),
      part_(std::move(part)),
      has_failed_(!reader_) {
  ThrowWithoutMemory(has_failed_);
}

// Goes on from where a step of the reader led to the next start of an element.
bool XmlStream::Settle(int status) {
  for (; status == 1; status = xmlTextReaderRead(reader_.get())) {
    const int type = xmlTextReaderNodeType(reader_.get());
    if (type == XML_READER_TYPE_DOCUMENT_TYPE) break;
    if (type == XML_READER_TYPE_ELEMENT) return true;
  }
  ThrowWithoutMemory(status < 0);
  has_failed_ |= status != 0;
  return false;
}

bool XmlStream::Next() { return !has_failed_ && Settle(xmlTextReaderRead(reader_.get())); }
bool XmlStream::Skip() { return !has_failed_ && Settle(xmlTextReaderNext(reader_.get())); }

std::string_view XmlStream::name() const {
  return View(xmlTextReaderConstLocalName(reader_.get()));
}

XmlNode XmlStream::current() const { return XmlNode(xmlTextReaderCurrentNode(reader_.get())); }

XmlNode XmlStream::Expand() {
  const xmlNode* const node = xmlTextReaderExpand(reader_.get());
  ThrowWithoutMemory(!node);
  has_failed_ |= !node;
  return XmlNode(node);
}

api::Error XmlStream::error() const { return Fail(part_, "is not well-formed XML"); }

}  // namespace lectern::tools
