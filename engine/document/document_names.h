// How documents are named: which names an index run gives, which version it replaces, and which
// document a user's text means.
//
// A document comes from a source: the real path of a file, or, without one, the name that it was
// given. Indexing the same source again makes the next version of the same document, which takes
// over its names. A file gets its base name; if another source has that name, as many of its
// folders are added as tell the two apart. Names are stored and compared in NFC.
#ifndef LECTERN_ENGINE_DOCUMENT_DOCUMENT_NAMES_H_
#define LECTERN_ENGINE_DOCUMENT_DOCUMENT_NAMES_H_

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "store/catalog.h"

namespace lectern {

// A name as it is stored and compared: in NFC, with U+FFFD for bytes that are not UTF-8 and without
// a byte order mark at its start.
std::string NameForm(std::string_view name);
// kInvalidArgument, param "name", if a name is not valid UTF-8, begins with a byte order mark, is
// longer than 1024 bytes, or looks like an id or the name of a part (parts.h). An empty name is
// fine: it means none.
Status CheckName(const std::string& name);
// Whether `name` is `path` or its last parts, such as "b/x.txt" of "/a/b/x.txt". Compared as names.
// False for an empty name.
bool IsEndOfPath(std::string_view name, std::string_view path);

// The names that an index run wishes for.
struct NameWish {
  std::string name;    // the requested name; empty: one is made from `path`
  std::string source;  // empty: `name` serves as source
  // An absolute path, whose last parts make names, or a name to use whole. Empty: `source`.
  std::string path;
};

// The changes of names that fulfil a wish.
struct NamePlan {
  // Where `names` is empty no name changes, and `replaced` and `others` are empty, too. `abandoned`
  // stays empty.
  NameChange change;
  std::string name;    // the document's name afterwards; empty: none
  std::string source;  // the wish's source, or what replaces it; empty: none
  // The previous version, whose names moved. It is in change.replaced too.
  std::optional<DocumentRow> before;
  std::string note;  // to tell the user; may be empty
  // Whether a name is given or moves; runs in change.abandoned do not count.
  bool IsChange() const { return !change.names.empty(); }
};

// Plans the names; changes nothing, and there is always a plan. `rows` is the catalog's content, of
// which ready documents count; `id` names the document that gets the names and need not be among
// them.
NamePlan PlanNames(const std::vector<DocumentRow>& rows, const NameWish& wish,
                   const DocumentId& id);

// The plan that PlanNames makes where `row`, the ready document that gets the names, tells it
// alone: the source has a name of this document that fits the path, and no name is asked for.
// Nothing else is compared, so that a thousand unchanged files take no million comparisons.
// Nothing: only PlanNames can tell.
std::optional<NamePlan> PlanKnownName(const DocumentRow& row, const NameWish& wish);

// The ready document that a text means: one of that name, else the only one whose source's path
// ends with the text (which must include a folder). The row's `name` is the name that was found.
// kAmbiguous, param "document", if the text ends the paths of several documents, which the message
// lists, also where it includes no folder. Nothing otherwise, and for an empty text.
Result<std::optional<DocumentRow>> FindByName(const std::vector<DocumentRow>& rows,
                                              std::string_view text);

// For messages: "\"b/x.txt\" (/a/b/x.txt)", the name alone where its source is no path, or the id
// of a document without names.
std::string NameAndSource(const DocumentRow& row);

}  // namespace lectern

#endif  // LECTERN_ENGINE_DOCUMENT_DOCUMENT_NAMES_H_
