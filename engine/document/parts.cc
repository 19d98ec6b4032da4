#include "engine/document/parts.h"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <map>
#include <set>
#include <utility>

#include "engine/model/formats/json.h"
#include "store/shard_reader.h"
#include "store/store.h"

namespace lectern {
namespace {

constexpr std::string_view kPartPrefix = "\x1fpart ";
constexpr size_t kNumberDigits = 5;

// The number of a part by its name, which WholeOf has accepted.
size_t NumberOf(std::string_view name) {
  size_t number = 0;
  const std::string_view digits = name.substr(name.size() - kNumberDigits);
  std::from_chars(digits.data(), digits.data() + digits.size(), number);
  return number;
}

// Whether these lie inside the text, in order, and each begins no later than the one before ends,
// so that no byte of the text is without a part.
bool ArePartsOf(std::span<const Part> parts, uint64_t text_bytes) {
  if (parts.empty() || parts.size() > kMaxParts || parts.front().begin != 0) return false;
  for (size_t i = 0; i < parts.size(); ++i) {
    if (parts[i].begin >= parts[i].end) return false;
    if (i == 0) continue;
    const Part& before = parts[i - 1];
    if (parts[i].begin <= before.begin || parts[i].begin > before.end ||
        parts[i].end <= before.end) {
      return false;
    }
  }
  return parts.back().end == text_bytes;
}

// The document of which this one, that is being indexed, will be a part.
std::optional<DocumentId> WholeOfBuilding(const DocumentRow& row) {
  const Result<Json> json = ParseJson(row.report_json);
  const Json* const whole = json.ok() ? json->Find("part_of") : nullptr;
  if (whole == nullptr || whole->string() == nullptr) return std::nullopt;
  return ParseDocumentId(*whole->string());
}

}  // namespace

DocumentId IdOf(const Part& part) {
  DocumentId id;
  std::copy_n(part.id, id.size(), id.begin());
  return id;
}

std::string PartName(const DocumentId& whole, size_t number) {
  char digits[16];
  std::snprintf(digits, sizeof digits, "%05zu", number);
  return std::string(kPartPrefix) + ToHex(whole) + " " + digits;
}

std::optional<DocumentId> WholeOf(std::string_view name) {
  const size_t id_digits = 2 * DocumentId().size();
  if (name.size() != kPartPrefix.size() + id_digits + 1 + kNumberDigits) return std::nullopt;
  if (!name.starts_with(kPartPrefix)) return std::nullopt;
  return ParseDocumentId(name.substr(kPartPrefix.size(), id_digits));
}

bool IsOnlyPart(const DocumentRow& row) {
  if (row.state == DocumentState::kBuilding) return WholeOfBuilding(row).has_value();
  return !row.names.empty() && std::ranges::all_of(row.names, [](const DocumentName& name) {
    return WholeOf(name.name).has_value();
  });
}

std::vector<DocumentRow> PartsIn(const std::vector<DocumentRow>& rows, const DocumentId& whole) {
  std::map<size_t, const DocumentRow*> parts;
  for (const DocumentRow& row : rows) {
    if (row.state != DocumentState::kReady) continue;
    for (const DocumentName& name : row.names) {
      if (WholeOf(name.name) == whole) parts[NumberOf(name.name)] = &row;
    }
  }
  std::vector<DocumentRow> found;
  for (const auto& [number, row] : parts) found.push_back(*row);
  return found;
}

Status RemoveOrphanedParts(Env& env, const std::string& store, Catalog& catalog) {
  LECTERN_ASSIGN(const std::vector<DocumentRow> rows, catalog.List());
  std::set<DocumentId> alive;
  for (const DocumentRow& row : rows) {
    if (row.state != DocumentState::kDead) alive.insert(row.id);
  }
  for (const DocumentRow& row : rows) {
    if (row.state == DocumentState::kBuilding) {
      const std::optional<DocumentId> whole = WholeOfBuilding(row);
      if (whole && !alive.contains(*whole)) {
        LECTERN_RETURN_IF_ERROR(DiscardGeneration(env, store, catalog, row));
      }
    }
    for (const DocumentName& name : row.names) {
      const std::optional<DocumentId> whole = WholeOf(name.name);
      if (!whole || alive.contains(*whole)) continue;
      LECTERN_RETURN_IF_ERROR(catalog.RemoveName(name.name).status());
    }
  }
  return {};
}

Status NameParts(Env& env, const std::string& store, Catalog& catalog) {
  LECTERN_ASSIGN(const std::vector<DocumentRow> rows, catalog.List());
  for (const DocumentRow& row : rows) {
    if (row.state != DocumentState::kReady) continue;
    LECTERN_ASSIGN(const std::vector<ShardSummary> shards, catalog.Shards(row.generation));
    if (!IsInParts(shards)) continue;
    const auto whole =
        PartedDocument::Open(env, DocumentDirectory(store, row.id, row.generation), row, shards);
    if (!whole.ok()) continue;
    for (size_t i = 0; i < (*whole)->parts().size(); ++i) {
      const Status named = catalog.ChangeNames(
          IdOf((*whole)->parts()[i]),
          {.names = {{PartName(row.id, i), ""}}, .replaced = {}, .abandoned = {}, .others = {}});
      if (!named.ok() && named.code() != Code::kNotFound) return named;
    }
  }
  return {};
}

Result<std::shared_ptr<const PartedDocument>> PartedDocument::Open(
    Env& env, const std::string& directory, const DocumentRow& row,
    const std::vector<ShardSummary>& shards, const std::shared_ptr<RamLimit>& ram) {
  auto document = std::make_shared<PartedDocument>();
  LECTERN_ASSIGN(document->lease_, env.LockDirectory(directory, Lease::kShared));
  LECTERN_RETURN_IF_ERROR(document->contents_.Open(env, directory, row, shards));
  const ShardReader& shard = document->contents_.shard();
  if ((shard.header().required_features & kInParts) == 0 ||
      shard.Find(SectionKind::kParts, 0, 0) == nullptr) {
    return CorruptDocument(shard.path(), "it has neither layers nor parts");
  }
  LECTERN_ASSIGN(document->parts_, shard.Array<Part>(SectionKind::kParts, 0, 0));
  if (!ArePartsOf(document->parts_, document->contents_.text().size())) {
    return CorruptDocument(shard.path(), "its parts do not make up its text");
  }
  if (ram) {
    LECTERN_ASSIGN(document->ram_share_,
                   ram->Reserve(document->contents_.BytesKept(),
                                "opening document \"" + row.name + "\"", "close other documents"));
  }
  return std::shared_ptr<const PartedDocument>(std::move(document));
}

}  // namespace lectern
