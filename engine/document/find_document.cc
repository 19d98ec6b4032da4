#include "engine/document/find_document.h"

#include <algorithm>

#include "engine/document/document_names.h"
#include "engine/document/parts.h"
#include "engine/model/formats/json.h"
#include "store/store.h"

namespace lectern {
namespace {

// More names than this would hide the message that lists them.
constexpr size_t kMaxListed = 20;

// The store's documents for messages: "it has "a", "b"", or "it has none".
std::string Listing(const std::vector<DocumentRow>& rows) {
  std::string names;
  size_t count = 0;
  for (const DocumentRow& row : rows) {
    if (row.state != DocumentState::kReady || IsOnlyPart(row)) continue;
    if (++count > kMaxListed) {
      names += ", …";
      break;
    }
    names += (names.empty() ? "" : ", ") + NameAndSource(row);
  }
  return names.empty() ? "it has none" : "it has " + names;
}

Result<DocumentRow> OnlyDocument(const Catalog& catalog) {
  LECTERN_ASSIGN(std::vector<DocumentRow> rows, catalog.List());
  std::erase_if(rows, [](const DocumentRow& row) {
    return row.state != DocumentState::kReady || IsOnlyPart(row);
  });
  if (rows.size() == 1) return std::move(rows.front());
  if (rows.empty()) {
    return Status(Code::kNotFound, "the store has no document; index one first")
        .WithParam("document");
  }
  return Status(Code::kAmbiguous, "which document? " + Listing(rows)).WithParam("document");
}

const DocumentRow* FindBuilding(const std::vector<DocumentRow>& rows, std::string_view text) {
  const auto found = std::ranges::find_if(rows, [&](const DocumentRow& row) {
    return row.state == DocumentState::kBuilding &&
           (NameForm(BuildingName(row)) == NameForm(text) || ToHex(row.id) == text);
  });
  return found == rows.end() ? nullptr : &*found;
}

// Whoever indexes holds the store's lock, so the lock tells a running job from an interrupted one.
Status NotReady(Env& env, const std::string& store, std::string_view text) {
  const bool is_running = IsLocked(env, store);
  return Status(
             Code::kNotReady,
             "document \"" + std::string(text) +
                 (is_running ? "\" is being indexed now; wait until that is done"
                             : "\" is not indexed to the end; index the same text again, it goes "
                               "on where it stopped"))
      .WithParam("document");
}

// Finds by an exact name or an id, else by FindByName.
Result<std::optional<DocumentRow>> FindReady(const Catalog& catalog, std::string_view text) {
  LECTERN_ASSIGN(auto row, catalog.FindReadyByName(std::string(text)));
  if (row) return row;
  if (const auto id = ParseDocumentId(text)) {
    LECTERN_ASSIGN(row, catalog.FindReady(*id));
    if (row) return row;
  }
  LECTERN_ASSIGN(const std::vector<DocumentRow> rows, catalog.List());
  return FindByName(rows, text);
}

// Removes the document with all its names, or these names alone; true: the document is gone. One
// that is a part of another document, too, stays as that.
Result<bool> RemoveRow(Env& env, const std::string& store, Catalog& catalog, const DocumentRow& row,
                       bool is_by_id, const std::vector<std::string>& names) {
  const bool is_part = std::ranges::any_of(
      row.names, [](const DocumentName& name) { return WholeOf(name.name).has_value(); });
  if (is_by_id && !is_part) {
    LECTERN_RETURN_IF_ERROR(RemoveDocument(env, store, catalog, row.id));
    return true;
  }
  bool is_gone = false;
  for (const std::string& name : names) {
    LECTERN_ASSIGN(is_gone, catalog.RemoveName(name));
  }
  return is_gone;
}

Status NotFound(const std::vector<DocumentRow>& rows, std::string_view text) {
  return Status(Code::kNotFound,
                "no document \"" + std::string(text) + "\" in this store; " + Listing(rows))
      .WithParam("document");
}

}  // namespace

// The name is in the report, because the catalog has names of ready documents only.
std::string BuildingName(const DocumentRow& row) {
  const Result<Json> json = ParseJson(row.report_json);
  const auto member = [&](const char* key) -> std::string {
    const Json* const found = json.ok() ? json->Find(key) : nullptr;
    return found != nullptr && found->string() != nullptr ? *found->string() : "";
  };
  const std::string name = member("name"), source = member("source");
  return name.empty() ? source.substr(source.find_last_of('/') + 1) : name;
}

Result<DocumentRow> FindDocument(Env& env, const std::string& store, const Catalog& catalog,
                                 std::string_view text) {
  if (text.empty()) return OnlyDocument(catalog);
  LECTERN_ASSIGN(auto row, FindReady(catalog, text));
  if (row) return *std::move(row);
  LECTERN_ASSIGN(const std::vector<DocumentRow> rows, catalog.List());
  if (FindBuilding(rows, text) != nullptr) return NotReady(env, store, text);
  return NotFound(rows, text);
}

Result<Removed> RemoveNamed(Env& env, const std::string& store, Catalog& catalog,
                            std::string_view text) {
  Removed removed;
  auto found = FindDocument(env, store, catalog, text);
  if (found.status().code() == Code::kNotReady) {
    LECTERN_ASSIGN(const std::vector<DocumentRow> rows, catalog.List());
    const DocumentRow* const building = FindBuilding(rows, text);
    removed.document = ToHex(building->id);
    removed.is_document_gone = true;
    LECTERN_RETURN_IF_ERROR(RemoveDocument(env, store, catalog, building->id));
    if (RemoveOrphanedParts(env, store, catalog).ok()) (void)CollectGarbage(env, store, catalog);
    return removed;
  }
  LECTERN_ASSIGN(const DocumentRow row, std::move(found));
  removed.document = ToHex(row.id);
  const bool is_by_id = text.empty() || removed.document == text;
  // The end of a path is good for asking only: given a second time, it would remove the next
  // document that it fits.
  if (!is_by_id && NameForm(row.name) != NameForm(text)) {
    LECTERN_ASSIGN(const std::vector<DocumentRow> rows, catalog.List());
    return NotFound(rows, text);
  }
  if (IsOnlyPart(row)) {
    return Status(Code::kInvalidArgument,
                  "document " + removed.document + " is a part of document " +
                      ToHex(*WholeOf(row.names.front().name)) + "; remove that one")
        .WithParam("document");
  }
  for (const DocumentName& name : row.names) {
    if (WholeOf(name.name)) continue;
    const bool is_gone = is_by_id || name.name == row.name;
    (is_gone ? removed.names : removed.left).push_back(name.name);
  }
  LECTERN_ASSIGN(removed.is_document_gone,
                 RemoveRow(env, store, catalog, row, is_by_id, removed.names));
  // A later collection finishes if this fails.
  if (RemoveOrphanedParts(env, store, catalog).ok()) (void)CollectGarbage(env, store, catalog);
  return removed;
}

}  // namespace lectern
