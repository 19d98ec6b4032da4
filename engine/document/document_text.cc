#include "engine/document/document_text.h"

#include <utility>

#include "store/store.h"

namespace lectern {

Status CorruptDocument(const std::string& path, const char* what) {
  return {Code::kCorrupt, path + ": " + what + "; index the document again"};
}

Result<std::unique_ptr<ShardReader>> OpenShardOf(
    const DocumentRow& row, const std::vector<ShardSummary>& shards, const std::string& directory,
    const std::string& file, std::unique_ptr<MappedFile> map, ShardKind kind, uint32_t layer) {
  ShardReader::Expected expected = {.kind = kind,
                                    .layer = layer,
                                    .document_id = row.id.data(),
                                    .fingerprint = row.fingerprint.data(),
                                    .generation = row.generation,
                                    .table_crc = std::nullopt};
  for (const ShardSummary& shard : shards) {
    if (shard.file == file) expected.table_crc = shard.table_crc;
  }
  if (!expected.table_crc) {
    return Status(Code::kCorrupt, "the catalog knows no " + file + " of document " + ToHex(row.id) +
                                      "; index the document again");
  }
  return ShardReader::Open(std::move(map), directory + "/" + file, expected);
}

Status DocumentText::Open(Env& env, const std::string& directory, const DocumentRow& row,
                          const std::vector<ShardSummary>& shards) {
  row_ = row;
  LECTERN_ASSIGN(auto map, ShardReader::Map(env, directory + "/" + kDocumentFile, Io::kPread));
  LECTERN_ASSIGN(shard_, OpenShardOf(row, shards, directory, kDocumentFile, std::move(map),
                                     ShardKind::kDocument, 0));
  LECTERN_ASSIGN(const auto text, shard_->Section(SectionKind::kText, 0, 0));
  text_ = {reinterpret_cast<const char*>(text.data()), text.size()};
  if (shard_->Find(SectionKind::kPageMap, 0, 0) != nullptr) {
    LECTERN_ASSIGN(pages_, shard_->Array<PageMapEntry>(SectionKind::kPageMap, 0, 0));
    if (!IsPageMap(pages_, text.size())) {
      return CorruptDocument(shard_->path(), "its page map is damaged");
    }
  }
  if (shard_->Find(SectionKind::kPageLabels, 0, 0) != nullptr) {
    LECTERN_ASSIGN(const auto labels, shard_->Section(SectionKind::kPageLabels, 0, 0));
    page_labels_ = {reinterpret_cast<const char*>(labels.data()), labels.size()};
    if (!ArePageLabels(page_labels_, pages_.size())) {
      return CorruptDocument(shard_->path(), "its page labels are damaged");
    }
  }
  return ReadPassages();
}

Status DocumentText::ReadPassages() {
  if (shard_->Find(SectionKind::kPassages, 0, 0) == nullptr) return {};
  LECTERN_ASSIGN(passages_, shard_->Array<Passage>(SectionKind::kPassages, 0, 0));
  if (ArePassagesOf(passages_, text_)) return {};
  return CorruptDocument(shard_->path(), "its passages are damaged");
}

std::span<const Passage> DocumentText::passages() const {
  if (!passages_.empty()) return passages_;
  std::call_once(split_.once, [this] { split_.passages = SplitPassages(text_, pages_); });
  return split_.passages;
}

Result<const WordIndex*> DocumentText::words() const {
  const std::lock_guard lock(words_.mutex);
  if (words_.index) return words_.index.get();
  std::string_view bytes;
  if (shard_->Find(SectionKind::kWords, 0, 0) != nullptr) {
    LECTERN_ASSIGN(const auto stored, shard_->Section(SectionKind::kWords, 0, 0));
    bytes = {reinterpret_cast<const char*>(stored.data()), stored.size()};
  } else {
    LECTERN_ASSIGN(words_.bytes, WordIndex::Build(text_, passages()));
    bytes = words_.bytes;
  }
  LECTERN_ASSIGN(auto index, WordIndex::Open(bytes));
  if (index->num_passages() != passages().size()) {
    return CorruptDocument(shard_->path(), "its words are those of other passages");
  }
  words_.index = std::move(index);
  return words_.index.get();
}

uint64_t DocumentText::BytesKept() const {
  uint64_t kept = shard_->header().payload_bytes;
  if (passages_.empty()) kept += text_.size();  // more than prose's passages need
  if (shard_->Find(SectionKind::kWords, 0, 0) == nullptr) {
    kept += 2 * text_.size();  // words() would make an index
  }
  return kept;
}

}  // namespace lectern
