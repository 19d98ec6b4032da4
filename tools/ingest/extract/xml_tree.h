// Reads XML that nobody vouches for, with libxml2: as a tree, or row by row where a part is large.
// Nothing outside of the bytes is ever loaded, and a document that declares entities is refused:
// office files and books have none, and entities that hold entities fill any memory.
#ifndef LECTERN_TOOLS_INGEST_EXTRACT_XML_TREE_H_
#define LECTERN_TOOLS_INGEST_EXTRACT_XML_TREE_H_

#include <memory>
#include <string>
#include <string_view>

#include "engine/lectern.h"

struct _xmlDoc;
struct _xmlNode;
struct _xmlTextReader;

namespace lectern::tools {

// An element or a text of a tree, which must outlive it; or none. Names are without their prefix.
class XmlNode {
 public:
  XmlNode() = default;
  explicit XmlNode(const _xmlNode* node) : node_(node) {}
  explicit operator bool() const { return node_ != nullptr; }
  bool operator==(const XmlNode&) const = default;  // whether it is the same node of the same tree

  bool is_text() const;
  std::string_view text() const;  // of a text; empty for an element
  std::string_view name() const;  // of an element; empty for a text
  // An attribute's value, by its name without a prefix; empty where there is none.
  std::string_view Attribute(const char* name) const;
  bool HasAttribute(const char* name) const;
  // An attribute as a number, 0 or more; `otherwise` where it is none or beyond 2^31.
  int Number(const char* name, int otherwise) const;
  // The attribute whose namespace ends with `space`, for elements with two of one name.
  std::string_view Attribute(std::string_view space, const char* name) const;

  // The first child element or text, and the next sibling; none at the end. Comments are skipped.
  XmlNode first() const;
  XmlNode next() const;
  XmlNode parent() const;  // none for the root
  // The first child element of a name; none where there is none.
  XmlNode Child(std::string_view name) const;

  class Iterator {
   public:
    explicit Iterator(const _xmlNode* node) : node_(node) {}
    XmlNode operator*() const { return XmlNode(node_); }
    Iterator& operator++();
    bool operator!=(const Iterator& other) const { return node_ != other.node_; }

   private:
    const _xmlNode* node_;
  };
  // Over the child elements and texts.
  Iterator begin() const { return Iterator(first().node_); }
  Iterator end() const { return Iterator(nullptr); }

 private:
  const _xmlNode* node_ = nullptr;
};

// Appends every text inside of an element, in its order.
void AppendAllText(XmlNode node, std::string& out);
// Whether any text inside of an element is more than white space.
bool HasAnyText(XmlNode node);

class XmlTree {
 public:
  // INVALID_ARGUMENT: no well-formed XML, elements more than 256 deep, or declared entities.
  // `part` names it in messages, which begin with a verb. Libxml2's limits hold: 10 MB for a text.
  // Throws std::bad_alloc, as the steps of XmlStream do.
  // `is_damaged`: takes what can be read of XML that is not well-formed, and is set to whether it
  // is.
  static api::Result<XmlTree> Parse(std::string_view bytes, const std::string& part,
                                    bool* is_damaged = nullptr);
  XmlNode root() const;

 private:
  struct Free {
    void operator()(_xmlDoc* document) const;
  };
  std::unique_ptr<_xmlDoc, Free> document_;
};

// Walks over the elements of a large part without a tree of it. `bytes` must outlive it.
class XmlStream {
 public:
  XmlStream(std::string_view bytes, std::string part);
  // Goes to the next element's start, inside of the current one or behind it; false: at the end,
  // or an error.
  bool Next();
  // Goes to the next element behind the current one.
  bool Skip();
  std::string_view name() const;  // of the current element
  // The current element without what is in it, for its attributes, until the next call of a step.
  XmlNode current() const;
  // The current element with all that is in it, until the next call of Next or Skip.
  XmlNode Expand();
  // Whether the part is damaged; error() then says so.
  bool has_failed() const { return has_failed_; }
  api::Error error() const;

 private:
  bool Settle(int status);
  struct Free {
    void operator()(_xmlTextReader* reader) const;
  };
  std::unique_ptr<_xmlTextReader, Free> reader_;
  std::string part_;
  bool has_failed_ = false;
};

}  // namespace lectern::tools

#endif  // LECTERN_TOOLS_INGEST_EXTRACT_XML_TREE_H_
