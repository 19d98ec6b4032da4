// Decides how the documents of a folder are named.
#ifndef LECTERN_TOOLS_FOLDER_NAMES_H_
#define LECTERN_TOOLS_FOLDER_NAMES_H_

#include <map>
#include <set>
#include <string>

#include "engine/lectern.h"
#include "tools/file_list.h"

namespace lectern::tools {

// A file below a folder is named by its path there ("2025/invoice.txt"), whatever else is in the
// folder, where no other document has that name. In all other cases the engine names it as it names
// a single file (engine/document/document_names.h): a file at the top of the folder, one whose
// document has a name already, and one whose name is taken, which gets more of its folders. One
// thread.
class FolderNames {
 public:
  // Reads the names that the store has, or those of its collection where one is named. Where that
  // is missing, there are none.
  FolderNames(api::Engine& engine, const std::string& collection);

  // For api::IndexOptions::path: a name to use whole, or the absolute path.
  std::string PathFor(const ListedFile& file, const std::string& source) const;
  // The name of another file's document with this id; empty: there is none, so far. Not for
  // collections.
  std::string EqualDocument(const std::string& id, const std::string& source) const;
  // Remembers the name that a file's document got.
  void Add(const std::string& id, const std::string& name, const std::string& source);

 private:
  std::map<std::string, std::string> sources_;  // by name
  std::set<std::string> known_;                 // sources that have a name
  struct First {
    std::string name, source;
  };
  std::map<std::string, First> documents_;  // by id, with their first name
};

}  // namespace lectern::tools

#endif  // LECTERN_TOOLS_FOLDER_NAMES_H_
