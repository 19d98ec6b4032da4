#include "store/catalog_rows.h"

#include <limits>
#include <map>

#include "store/crc32c.h"

namespace lectern {
namespace {

// A CRC-32C over columns, each with its length, so that bytes cannot move from one column to the
// next.
class RowCrc {
 public:
  explicit RowCrc(std::string_view table) { Add(table); }
  RowCrc& Add(int64_t value) {
    crc_ = Crc32c(crc_, &value, sizeof value);
    return *this;
  }
  RowCrc& Add(std::string_view bytes) {
    Add(static_cast<int64_t>(bytes.size()));
    crc_ = Crc32c(crc_, bytes.data(), bytes.size());
    return *this;
  }
  uint32_t value() const { return crc_; }

 private:
  uint32_t crc_ = 0;
};

}  // namespace

uint32_t DocumentCrc(const DocumentRow& row, std::string_view id, std::string_view fingerprint,
                     int64_t num_shards) {
  return RowCrc("documents")
      .Add(static_cast<int64_t>(row.generation))
      .Add(id)
      .Add(static_cast<int64_t>(row.state))
      .Add(fingerprint)
      .Add(row.model_path)
      .Add(static_cast<int64_t>(row.num_tokens))
      .Add(static_cast<int64_t>(row.text_bytes))
      .Add(static_cast<int64_t>(row.replaced_bytes))
      .Add(static_cast<int64_t>(row.bytes_on_disk))
      .Add(row.report_json)
      .Add(num_shards)
      .value();
}

uint32_t NameCrc(std::string_view name, std::string_view id, std::string_view source) {
  return RowCrc("names").Add(name).Add(id).Add(source).value();
}

uint32_t NameCrc1(std::string_view name, std::string_view id) {
  return RowCrc("names").Add(name).Add(id).value();
}

uint32_t CounterCrc(std::string_view name, int64_t value) {
  return RowCrc("counters").Add(name).Add(value).value();
}

uint32_t ShardCrc(int64_t generation, const ShardSummary& shard) {
  return RowCrc("shards")
      .Add(generation)
      .Add(shard.file)
      .Add(static_cast<int64_t>(shard.bytes))
      .Add(int64_t{shard.table_crc})
      .Add(int64_t{shard.header_crc})
      .value();
}

StoredDocument ReadDocument(const Statement& s) {
  StoredDocument stored;
  DocumentRow& row = stored.row;
  row.generation = static_cast<uint64_t>(s.Int(0));
  // The columns of kSelectDocuments, by number. The checksum is over the bytes as they are stored,
  // so that a blob of a wrong length, or a number out of range, does not pass.
  CopyTo(s.Bytes(1), row.id);
  const int64_t state = s.Int(2);
  row.state = static_cast<DocumentState>(state);
  CopyTo(s.Bytes(3), row.fingerprint);
  row.model_path = s.Bytes(4);
  row.num_tokens = static_cast<uint64_t>(s.Int(5));
  row.text_bytes = static_cast<uint64_t>(s.Int(6));
  row.replaced_bytes = static_cast<uint64_t>(s.Int(7));
  row.bytes_on_disk = static_cast<uint64_t>(s.Int(8));
  row.report_json = s.Bytes(9);
  stored.num_shards = s.Int(10);
  stored.intact = state >= 1 && state <= 3 && s.Bytes(1).size() == row.id.size() &&
                  s.Bytes(3).size() == row.fingerprint.size() &&
                  s.Int(11) == DocumentCrc(row, s.Bytes(1), s.Bytes(3), stored.num_shards);
  return stored;
}

bool ReadShard(const Statement& s, int64_t generation, ShardSummary& shard) {
  shard.file = s.Bytes(0);
  shard.bytes = static_cast<uint64_t>(s.Int(1));
  shard.table_crc = static_cast<uint32_t>(s.Int(2));
  shard.header_crc = static_cast<uint32_t>(s.Int(3));
  return s.Int(2) == shard.table_crc && s.Int(3) == shard.header_crc &&
         s.Int(4) == ShardCrc(generation, shard) && IsPlainName(shard.file);
}

Status CheckRange(const DocumentRow& row) {
  constexpr uint64_t kMax = std::numeric_limits<int64_t>::max();
  if (row.generation > kMax / 2) {
    return Status(Code::kLimitExceeded, "the generation of the document is beyond 2^62");
  }
  if (row.num_tokens <= kMax && row.text_bytes <= kMax && row.replaced_bytes <= kMax &&
      row.bytes_on_disk <= kMax) {
    return {};
  }
  return Status(Code::kLimitExceeded, "a size of the document is beyond 2^63");
}

std::vector<DocumentName> NamesOf(const std::vector<StoredName>& names, const DocumentId& id) {
  std::vector<DocumentName> of_id;
  for (const StoredName& name : names) {
    if (name.intact && name.id == id) of_id.push_back({name.name, name.source});
  }
  return of_id;
}

void AddNames(const std::vector<StoredName>& names, std::vector<DocumentRow>& rows) {
  std::map<DocumentId, std::vector<DocumentName>> of_id;
  for (const StoredName& name : names) {
    if (name.intact) of_id[name.id].push_back({name.name, name.source});
  }
  for (DocumentRow& row : rows) {
    const auto found = of_id.find(row.id);
    if (row.state != DocumentState::kReady || found == of_id.end()) continue;
    row.names = found->second;
    row.name = row.names.front().name;
  }
}

}  // namespace lectern
