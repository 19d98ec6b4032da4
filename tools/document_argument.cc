#include "tools/document_argument.h"

#include "engine/model/formats/path_text.h"
#include "engine/requests/absolute_path.h"

namespace lectern::tools {
namespace {

// In double quotes. Names are shown as they are: terminals get them through Printable.
std::string Quoted(const std::string& text) { return "\"" + text + "\""; }

// Whether `path` ends with a slash and `end`: "a.txt" ends "/x/a.txt", not "/x/ba.txt".
bool EndsPath(std::string_view end, std::string_view path) {
  return path.size() > end.size() && path.ends_with(end) &&
         path[path.size() - end.size() - 1] == '/';
}

// A name as messages show it, with the file that it comes from where the name alone does not tell.
std::string Described(const api::DocumentName& name) {
  const bool has_path = !name.source.empty() && name.source != name.name;
  return Quoted(name.name) + (has_path ? " (" + name.source + ")" : "");
}

// A note that names other documents whose files end with `text`, as the user may have meant one of
// them; empty where there are none. `found` is the document that is asked.
std::string OthersNote(const api::DocumentList& list, const api::Document& found,
                       std::string_view text) {
  std::string others;
  for (const api::Document& document : list.documents) {
    if (document.id == found.id) continue;
    for (const api::DocumentName& name : document.names) {
      if (!EndsPath(text, name.source)) continue;
      others += (others.empty() ? "" : ", ") + Described(name);
    }
  }
  if (others.empty()) return "";
  return Described({found.name, found.source}) + " is asked; there is also " + others;
}

}  // namespace

std::string AbsolutePath(const std::string& path) { return lectern::AbsolutePath(path); }

api::Result<DocumentArgument> FindArgument(api::Engine& engine, const std::string& text) {
  auto list = engine.List();
  if (text.empty() || !list.ok()) return DocumentArgument{text, ""};  // the engine says what is wrong
  const std::string source = RealPath(text);
  // Where several names have this source, the last one is taken.
  const api::Document* from_file = nullptr;
  const api::DocumentName* file_name = nullptr;
  for (const api::Document& document : list->documents) {
    for (const api::DocumentName& name : document.names) {
      if (name.source != source) continue;
      from_file = &document;
      file_name = &name;
    }
  }
  auto found = engine.Find(text);
  if (!found.ok()) {
    return from_file ? DocumentArgument{file_name->name, ""} : DocumentArgument{text, ""};
  }
  if (from_file && from_file->id != found->id) {
    return api::Error{LECTERN_AMBIGUOUS,
                      "which " + Quoted(text) + "? That is the name of " +
                          Described({found->name, found->source}) + ", and the file here is " +
                          Described(*file_name) + "; give a name with a folder, or an id",
                      "document"};
  }
  return DocumentArgument{text, OthersNote(*list, *found, ForwardSlashes(text))};
}

}  // namespace lectern::tools
