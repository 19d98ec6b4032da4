// How documents are named: the names that a run gives, the version that it replaces, and the
// document that a text stands for.
//
// A document comes from a source: the real path of a file, or, where there is none, the name that
// it was given. The same source again is the next version of the same document: it takes over that
// one's names. A file is named after its base name, or, where another source has that name, after
// as many of its folders as tell the two apart. Names are stored in NFC and compared in it.
#ifndef LECTERN_ENGINE_DOCUMENT_DOCUMENT_NAMES_H_
#define LECTERN_ENGINE_DOCUMENT_DOCUMENT_NAMES_H_

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "store/catalog.h"

namespace lectern {

// As names are stored and compared: NFC, and U+FFFD for what is not UTF-8.
std::string NameForm(std::string_view name);
// kInvalidArgument: it is no valid UTF-8, longer than 1024 bytes, or would look like an id. Empty
// is good: no name.
Status CheckName(const std::string& name);
// Whether `name` is `path` or its last parts: "b/x.txt" of "/a/b/x.txt". Compared as names.
bool IsEndOfPath(std::string_view name, std::string_view path);

struct NameWish {
  std::string name;    // asked for; empty: one is made from `path`
  std::string source;  // empty: `name`
  // An absolute path, whose last parts make names, or a name to be taken whole. Empty: `source`.
  std::string path;
};

struct NamePlan {
  NameChange change;  // empty: the names are as they shall be. Without `abandoned`
  std::string name;   // that the document has then; empty: none
  std::string source;  // of NameWish, or what stands for it; empty: none
  // The version before, whose names moved. It is in change.replaced.
  std::optional<DocumentRow> before;
  std::string note;  // what the user should know; or empty
  bool IsChange() const { return !change.names.empty(); }
};

// `rows`: of the catalog. `id`: of the document that gets the names; it need not be there yet.
NamePlan PlanNames(const std::vector<DocumentRow>& rows, const NameWish& wish,
                   const DocumentId& id);

// Which ready document a text stands for: a name; or the end of a source's path, with a folder in
// it, that fits one document only. The row's `name` is the name that was found. kAmbiguous: the
// text is the end of several paths, which the message lists; nothing: of none.
Result<std::optional<DocumentRow>> FindByName(const std::vector<DocumentRow>& rows,
                                              std::string_view text);

// "\"b/x.txt\" (/a/b/x.txt)", or the id of a document without names.
std::string NameAndSource(const DocumentRow& row);

}  // namespace lectern

#endif  // LECTERN_ENGINE_DOCUMENT_DOCUMENT_NAMES_H_
