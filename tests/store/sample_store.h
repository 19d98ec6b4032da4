// Whole stores with small documents, made without a model.
#ifndef LECTERN_TESTS_STORE_SAMPLE_STORE_H_
#define LECTERN_TESTS_STORE_SAMPLE_STORE_H_

#include <string>

#include "store/bundle.h"
#include "store/shard_writer.h"
#include "store/store.h"

namespace lectern {

// Calls action(Catalog&), which returns a Status, with the store's lock held, and lets the lock go.
// The action's errors, and those of LockStore and Catalog::Open.
template <typename Action>
Status AsWriter(Env& env, const std::string& store, Action action) {
  LECTERN_ASSIGN(const auto lock, LockStore(env, store));
  LECTERN_ASSIGN(const auto catalog,
                 Catalog::Open(env, CatalogPath(store), Catalog::Mode::kReadWrite));
  return action(*catalog);
}

inline DocumentId SampleId(uint8_t first) { return DocumentId{first, 1, 2, 3}; }

// The name that a test gives, from a source that nobody knows; "": no name.
inline NameChange Named(const std::string& name) {
  NameChange change;
  if (!name.empty()) change.names.push_back({name, ""});
  return change;
}

// Names an imported document: this name, or the one that it was exported with.
inline NameImport KeepName(const std::string& name = "") {
  return [name](const ImportedHead& head) -> Result<ImportNames> {
    const std::string given = name.empty() ? head.row.name : name;
    return ImportNames{Named(given), given, ""};
  };
}

// Adds a document of one layer, 3 tokens and these names under `id`, with its files; returns it as
// the catalog has it. The caller holds the store's lock. Errors of writing and of the catalog.
inline Result<CatalogEntry> AddSampleDocument(Env& env, const std::string& store, Catalog& catalog,
                                              const DocumentId& id, const std::string& name,
                                              const std::string& text) {
  CatalogEntry entry;
  DocumentRow& row = entry.row;
  row.id = id;
  row.name = name;
  row.fingerprint = Fingerprint{9, 8, 7};
  row.num_tokens = 3;
  row.text_bytes = text.size();
  row.model_path = "/models/reader";
  LECTERN_ASSIGN(row.generation, catalog.BeginDocument(row));
  const std::string directory = DocumentDirectory(store, id, row.generation);
  LECTERN_RETURN_IF_ERROR(env.MakeDirectory(directory));
  ShardHeader header{};
  std::copy(id.begin(), id.end(), header.document_id);
  std::copy(row.fingerprint.begin(), row.fingerprint.end(), header.fingerprint);
  header.generation = row.generation;
  header.num_tokens = row.num_tokens;
  header.num_layers = 1;
  header.num_kv_heads = 1;
  header.head_dim = 2;
  header.kv_dtype = 1;
  const auto write = [&](ShardKind kind, const std::string& file, SectionKind section,
                         const std::string& bytes) -> Status {
    header.kind = static_cast<uint32_t>(kind);
    LECTERN_ASSIGN(const auto writer,
                   ShardWriter::Create(env, store + "/tmp", directory, file, header));
    LECTERN_RETURN_IF_ERROR(writer->AddSection(section, 0, 0, bytes.data(), bytes.size()));
    if (kind == ShardKind::kDocument) {
      const std::string model = "{\"kv_budget\":0.1}";
      LECTERN_RETURN_IF_ERROR(
          writer->AddSection(SectionKind::kName, 0, 0, name.data(), name.size()));
      LECTERN_RETURN_IF_ERROR(
          writer->AddSection(SectionKind::kModel, 0, 0, model.data(), model.size()));
    }
    LECTERN_ASSIGN(ShardSummary summary, writer->Finish());
    row.bytes_on_disk += summary.bytes;
    entry.shards.push_back(std::move(summary));
    return {};
  };
  LECTERN_RETURN_IF_ERROR(write(ShardKind::kLayer, LayerFile(0), SectionKind::kRows,
                                std::string(24, static_cast<char>(id[0]))));
  LECTERN_RETURN_IF_ERROR(write(ShardKind::kDocument, kDocumentFile, SectionKind::kText, text));
  LECTERN_RETURN_IF_ERROR(catalog.CommitDocument(row, entry.shards, Named(name)));
  row.names = Named(name).names;
  return entry;
}

// The same, with lock and catalog of its own.
inline Result<CatalogEntry> AddSampleDocument(Env& env, const std::string& store,
                                              const DocumentId& id, const std::string& name,
                                              const std::string& text) {
  LECTERN_ASSIGN(const auto lock, LockStore(env, store));
  LECTERN_ASSIGN(const auto catalog,
                 Catalog::Open(env, CatalogPath(store), Catalog::Mode::kReadWrite));
  return AddSampleDocument(env, store, *catalog, id, name, text);
}

// Everything a reader can get out of a store, in one text; or the first error. Every byte of every
// shard of a ready document is verified. kCorrupt also: a document has other shards than the
// catalog.
inline Result<std::string> ReadSampleStore(Env& env, const std::string& store) {
  LECTERN_ASSIGN(const auto catalog,
                 Catalog::Open(env, CatalogPath(store), Catalog::Mode::kReadOnly));
  LECTERN_ASSIGN(const auto rows, catalog->List());
  std::string all;
  for (const DocumentRow& row : rows) {
    all += ToHex(row.id) + " " + ToHex(row.fingerprint) + " " + row.name + " " + row.model_path +
           " " + row.report_json;
    for (const uint64_t n : {row.generation, static_cast<uint64_t>(row.state), row.num_tokens,
                             row.text_bytes, row.replaced_bytes, row.bytes_on_disk}) {
      all += " " + std::to_string(n);
    }
    LECTERN_ASSIGN(const auto named, catalog->FindReadyByName(row.name));
    all += named ? " " + std::to_string(named->generation) : " unnamed";
    LECTERN_ASSIGN(const auto shards, catalog->Shards(row.generation));
    if (row.state == DocumentState::kReady) {
      const std::string directory = DocumentDirectory(store, row.id, row.generation);
      LECTERN_ASSIGN(const auto found, ReadGeneration(env, directory, row.id, row.generation));
      if (found.shards.size() != shards.size()) {
        return Status(Code::kCorrupt, directory + ": other shards than the catalog has");
      }
    }
    for (const ShardSummary& s : shards) {
      all += " " + s.file + " " + std::to_string(s.bytes) + " " + std::to_string(s.table_crc) +
             " " + std::to_string(s.header_crc);
    }
    all += "\n";
  }
  return all;
}

}  // namespace lectern

#endif  // LECTERN_TESTS_STORE_SAMPLE_STORE_H_
