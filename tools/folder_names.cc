#include "tools/folder_names.h"

#include "tools/document_argument.h"

namespace lectern::tools {

FolderNames::FolderNames(api::Engine& engine, const std::string& collection) {
  if (!collection.empty()) {
    auto texts = engine.DocumentsOf(collection);
    if (!texts.ok()) return;  // adding to it will say what is wrong, if anything is
    for (const api::CollectionDocument& text : texts->documents) {
      Add(text.document, text.name, text.source);
    }
    return;
  }
  auto list = engine.List();
  if (!list.ok()) return;  // indexing will say what is wrong, if anything is
  for (const api::Document& document : list->documents) {
    if (document.state != "ready") continue;
    for (const api::DocumentName& name : document.names) {
      Add(document.id, name.name, name.source);
    }
  }
}

void FolderNames::Add(const std::string& id, const std::string& name, const std::string& source) {
  sources_[name] = source;
  known_.insert(source);
  documents_.emplace(id, First{name, source});
}

std::string FolderNames::PathFor(const ListedFile& file, const std::string& source) const {
  // A longer one is no name (CheckName).
  constexpr size_t kMaxNameBytes = 1024;
  const bool is_below = file.within.find('/') != std::string::npos;
  if (!is_below || file.within.size() > kMaxNameBytes || known_.contains(source) ||
      sources_.contains(file.within)) {
    return AbsolutePath(file.path);
  }
  return file.within;
}

std::string FolderNames::EqualDocument(const std::string& id, const std::string& source) const {
  const auto found = documents_.find(id);
  if (found == documents_.end() || found->second.source == source) return "";
  return found->second.name;
}

}  // namespace lectern::tools
