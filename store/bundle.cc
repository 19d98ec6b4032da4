#include "store/bundle.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "store/crc32c.h"
#include "store/shard_layout.h"
#include "store/shard_reader.h"
#include "store/store.h"

namespace lectern {
namespace {

// A head larger than this is not believed; it bounds what a damaged file can make us allocate.
constexpr uint64_t kMaxHeadBytes = uint64_t{64} << 20;
constexpr size_t kCopyBytes = size_t{1} << 20;  // of a shard, at a time

// The shard of a bundle's entry: the document's, then the layers'.
std::string FileName(uint32_t index) { return index == 0 ? kDocumentFile : LayerFile(index - 1); }

// The checksum of a head, with its own field 0.
uint32_t HeadCrc(std::string head) {
  std::memset(head.data() + offsetof(BundleHeader, head_crc), 0, sizeof(uint32_t));
  return Crc32c(0, head.data(), head.size());
}

// ---- Writing ----

// Writes one document into the file of a bundle, from byte `begin` on. One use.
class DocumentExport {
 public:
  DocumentExport(Env& env, const std::string& directory, const DocumentRow& row, size_t num_parts,
                 WritableFile& out, uint64_t begin)
      : env_(env),
        row_(row),
        directory_(directory),
        num_parts_(num_parts),
        out_(out),
        begin_(begin) {}

  // The shards first, then the head, which has their checksums: a file that is cut short has no
  // head. Returns the document's size in the file.
  Result<uint64_t> Run() {
    LECTERN_ASSIGN(const CatalogEntry entry,
                   ReadGeneration(env_, directory_, row_.id, row_.generation));
    std::string head(HeadBytes(entry), '\0');
    uint64_t at = head.size();
    for (uint32_t i = 0; i < entry.shards.size(); ++i) {
      LECTERN_ASSIGN(const uint64_t end, CopyFile(FileName(i), at));
      at = end;
    }
    FillHead(entry, at, head);
    LECTERN_RETURN_IF_ERROR(out_.WriteAt(begin_, head.data(), head.size()));
    return at;
  }

 private:
  // The size of the head is known before the shards are written.
  uint64_t HeadBytes(const CatalogEntry& entry) const {
    return AlignUp(sizeof(BundleHeader) + entry.shards.size() * sizeof(BundleEntry) +
                       row_.name.size() + row_.model_path.size() + row_.report_json.size(),
                   kBundleAlignment);
  }

  // Copies a shard and its padding to byte `at` of the document; returns where the padding ends.
  Result<uint64_t> CopyFile(const std::string& file, uint64_t at) {
    LECTERN_ASSIGN(const auto from, env_.Mirror(directory_ + "/" + file));
    BundleEntry entry{at, from->size(), 0, 0};
    std::vector<std::byte> buffer(std::min<uint64_t>(kCopyBytes, from->size()));
    for (uint64_t done = 0; done < from->size(); done += kCopyBytes) {
      const size_t bytes = std::min<uint64_t>(kCopyBytes, from->size() - done);
      LECTERN_RETURN_IF_ERROR(from->ReadAt(done, buffer.data(), bytes));
      entry.crc = Crc32c(entry.crc, buffer.data(), bytes);
      LECTERN_RETURN_IF_ERROR(out_.WriteAt(begin_ + at + done, buffer.data(), bytes));
    }
    const uint64_t end = AlignUp(at + from->size(), kBundleAlignment);
    const std::string zeros(end - at - from->size(), '\0');
    entry.crc = Crc32c(entry.crc, zeros.data(), zeros.size());
    LECTERN_RETURN_IF_ERROR(out_.WriteAt(begin_ + at + from->size(), zeros.data(), zeros.size()));
    entries_.push_back(entry);
    return end;
  }

  // Writes header, entries and strings into `head`, which is zeros.
  void FillHead(const CatalogEntry& entry, uint64_t file_bytes, std::string& head) const {
    BundleHeader header{};
    std::memcpy(header.magic, kBundleMagic, sizeof header.magic);
    header.major = num_parts_ > 0 ? kBundlePartsMajor : kBundleMajor;
    header.num_parts = static_cast<uint32_t>(num_parts_);
    header.file_bytes = file_bytes;
    header.head_bytes = static_cast<uint32_t>(head.size());
    header.num_files = static_cast<uint32_t>(entry.shards.size());
    std::copy(row_.id.begin(), row_.id.end(), header.document_id);
    std::copy(row_.fingerprint.begin(), row_.fingerprint.end(), header.fingerprint);
    header.generation = row_.generation;
    header.num_tokens = row_.num_tokens;
    header.text_bytes = row_.text_bytes;
    header.replaced_bytes = row_.replaced_bytes;
    header.name_bytes = static_cast<uint32_t>(row_.name.size());
    header.model_path_bytes = static_cast<uint32_t>(row_.model_path.size());
    header.report_bytes = static_cast<uint32_t>(row_.report_json.size());
    std::string bytes(reinterpret_cast<const char*>(&header), sizeof header);
    bytes.append(reinterpret_cast<const char*>(entries_.data()),
                 entries_.size() * sizeof(BundleEntry));
    bytes += row_.name + row_.model_path + row_.report_json;
    std::copy(bytes.begin(), bytes.end(), head.begin());
    const uint32_t crc = HeadCrc(head);
    std::memcpy(head.data() + offsetof(BundleHeader, head_crc), &crc, sizeof crc);
  }

  Env& env_;
  const DocumentRow& row_;
  const std::string& directory_;
  const size_t num_parts_;  // that follow in the file
  WritableFile& out_;
  const uint64_t begin_;
  std::vector<BundleEntry> entries_;
};

// Writes the file: the document, then its parts. One use.
class Exporter {
 public:
  Exporter(Env& env, const std::string& store, const DocumentRow& row,
           const std::vector<DocumentRow>& parts, const std::string& path)
      : env_(env), store_(store), row_(row), parts_(parts), path_(path), temp_(path + ".part") {}

  Status Run() {
    LECTERN_ASSIGN(const bool taken, env_.Exists(path_));
    if (taken) return Status(Code::kInvalidArgument, path_ + ": there is a file already");
    LECTERN_ASSIGN(const bool is_begun, env_.Exists(temp_));
    if (is_begun) {
      return Status(Code::kInvalidArgument,
                    temp_ +
                        ": is there, from another export that runs or was interrupted; wait for "
                        "it or remove the file");
    }
    LECTERN_ASSIGN(out_, env_.OpenWritable(temp_, /*exclusive=*/true));
    const Status written = Write();
    out_.reset();
    if (!written.ok()) (void)env_.Remove(temp_);
    return written;
  }

 private:
  Status Write() {
    LECTERN_RETURN_IF_ERROR(Add(row_, parts_.size()));
    for (const DocumentRow& part : parts_) LECTERN_RETURN_IF_ERROR(Add(part, 0));
    LECTERN_RETURN_IF_ERROR(out_->Sync());
    LECTERN_RETURN_IF_ERROR(out_->Close());
    LECTERN_RETURN_IF_ERROR(env_.Rename(temp_, path_));
    const Status synced = env_.SyncDirectory(ParentDirectory(path_));
    if (!synced.ok()) (void)env_.Remove(path_);  // perhaps not durable: rather not there at all
    return synced;
  }

  // Appends a document, whose generation stays while it is copied.
  Status Add(const DocumentRow& row, size_t num_parts) {
    const std::string directory = DocumentDirectory(store_, row.id, row.generation);
    LECTERN_ASSIGN(const auto lease, env_.LockDirectory(directory, Lease::kShared));
    LECTERN_ASSIGN(const uint64_t bytes,
                   DocumentExport(env_, directory, row, num_parts, *out_, end_).Run());
    end_ += bytes;
    return {};
  }

  Env& env_;
  const std::string& store_;
  const DocumentRow& row_;
  const std::vector<DocumentRow>& parts_;
  const std::string path_, temp_;
  std::unique_ptr<WritableFile> out_;
  uint64_t end_ = 0;  // of what is written
};

// ---- Reading ----

// A part of a mapped file, seen as a file of its own.
class MappedPart : public MappedFile {
 public:
  MappedPart(std::shared_ptr<const MappedFile> file, uint64_t offset, uint64_t size)
      : file_(std::move(file)), offset_(offset), size_(size) {}
  const std::byte* data() const override { return file_->data() + offset_; }
  uint64_t size() const override { return size_; }
  Status Load(uint64_t offset, uint64_t bytes) const override {
    return file_->Load(offset_ + offset, bytes);
  }
  Status ReadAt(uint64_t offset, void* to, size_t bytes) const override {
    return file_->ReadAt(offset_ + offset, to, bytes);
  }
  void WillNeed(uint64_t offset, uint64_t bytes) const override {
    file_->WillNeed(offset_ + offset, bytes);
  }
  void DontNeed(uint64_t offset, uint64_t bytes) const override {
    file_->DontNeed(offset_ + offset, bytes);
  }

 private:
  std::shared_ptr<const MappedFile> file_;
  uint64_t offset_, size_;
};

// Reads one document of a bundle into the store: its head first, then the rest. One use.
class Importer {
 public:
  // The document begins at byte `begin` of the file.
  Importer(Env& env, const std::string& store, Catalog& catalog, const std::string& path,
           std::shared_ptr<const MappedFile> file, uint64_t begin)
      : env_(env),
        store_(store),
        catalog_(catalog),
        path_(path),
        file_(std::make_shared<MappedPart>(file, begin, file->size() - begin)),
        is_first_(begin == 0) {}

  // Reads the head of a document in the file, of which other documents may follow. Nothing in it is
  // used before its CRC is checked, then every number is checked against the file's size.
  Status ReadHead() {
    const uint64_t size = file_->size();
    if (size < sizeof header_) return Error(Code::kTruncated, "the file is cut short");
    LECTERN_RETURN_IF_ERROR(file_->Load(0, sizeof header_));
    std::memcpy(&header_, file_->data(), sizeof header_);
    if (std::memcmp(header_.magic, kBundleMagic, sizeof kBundleMagic) != 0) {
      return Error(Code::kCorrupt, "not a bundle (its first bytes are wrong)");
    }
    if (header_.head_bytes > kMaxHeadBytes) return Error(Code::kLimitExceeded, "its head is huge");
    if (header_.head_bytes < kBundleAlignment || header_.head_bytes % kBundleAlignment != 0) {
      return Error(Code::kCorrupt, "the size of its head is wrong");
    }
    if (header_.head_bytes > size) return Error(Code::kTruncated, "the file is cut short");
    LECTERN_RETURN_IF_ERROR(file_->Load(0, header_.head_bytes));
    const std::string head(reinterpret_cast<const char*>(file_->data()), header_.head_bytes);
    if (HeadCrc(head) != header_.head_crc) {
      return Error(Code::kChecksumMismatch, "checksum mismatch in the head");
    }
    if (header_.major == 0 || header_.major > kBundlePartsMajor) {
      return Status(Code::kUnsupportedVersion,
                    path_ + ": bundle " + std::to_string(header_.major) + ", this build reads " +
                        std::to_string(kBundlePartsMajor) + "; use a newer Lectern");
    }
    // Only behind a document in parts, and behind its parts, others follow.
    const bool is_alone = is_first_ && header_.num_parts == 0;
    if (header_.file_bytes > size || (is_alone && header_.file_bytes != size)) {
      return Error(Code::kTruncated, "the file has " + std::to_string(size) +
                                         " bytes, which is not what its head says");
    }
    return ReadEntries(head);
  }
  // These are valid after ReadHead. The row as the head has it; the number of parts that follow,
  // and the size of the document in the file.
  const DocumentRow& row() const { return row_; }
  uint32_t num_parts() const { return header_.num_parts; }
  uint64_t bytes() const { return header_.file_bytes; }

  // Everything of this document is checked before the first change of the store.
  Result<Imported> Run(const ImportNames& names) {
    LECTERN_ASSIGN(auto there, catalog_.FindReady(row_.id));
    names_ = names;
    row_.name = names_.name;
    if (there) {
      if (!names_.change.names.empty()) {
        LECTERN_RETURN_IF_ERROR(catalog_.ChangeNames(row_.id, names_.change));
        LECTERN_ASSIGN(there, catalog_.FindReady(row_.id));
        if (!there) return Status(Code::kNotFound, "the document was removed meanwhile");
      }
      there->name = names_.name;
      return Imported{*std::move(there), /*existed=*/true, names_.note};
    }
    LECTERN_RETURN_IF_ERROR(OpenShards());
    LECTERN_ASSIGN(row_.generation, catalog_.BeginDocument(row_));
    if (Status written = WriteShards(); !written.ok()) {
      (void)DiscardGeneration(env_, store_, catalog_, row_);  // else a collection removes it
      return written;
    }
    if (const auto now = catalog_.FindReady(row_.id); now.ok() && *now) row_.names = (*now)->names;
    return Imported{row_, /*existed=*/false, names_.note};
  }

 private:
  Status Error(Code code, const std::string& what) const {
    return Status(code, path_ + ": " + what + "; export the document again");
  }

  // Reads entries and strings of a head whose checksum is right; a bundle may still be made by
  // somebody with bad intent.
  Status ReadEntries(const std::string& head) {
    const uint64_t strings =
        uint64_t{header_.name_bytes} + header_.model_path_bytes + header_.report_bytes;
    const uint64_t strings_at = sizeof header_ + uint64_t{header_.num_files} * sizeof(BundleEntry);
    // A document in parts has no layers, and only later versions have such documents.
    const bool in_parts = header_.num_parts > 0;
    if (header_.num_files > kMaxLayers + 1 || (header_.num_files == 1) != in_parts ||
        header_.num_files == 0 || in_parts != (header_.major == kBundlePartsMajor) ||
        header_.generation == 0 || strings_at + strings > head.size()) {
      return Error(Code::kCorrupt, "its head contradicts itself");
    }
    entries_.resize(header_.num_files);
    std::memcpy(entries_.data(), head.data() + sizeof header_,
                entries_.size() * sizeof(BundleEntry));
    // The files must follow each other without gaps, so that each byte is covered by one checksum.
    uint64_t at = header_.head_bytes;
    for (const BundleEntry& entry : entries_) {
      if (entry.offset != at || entry.bytes > header_.file_bytes - at || entry.reserved != 0) {
        return Error(Code::kCorrupt, "its files do not follow each other");
      }
      at = AlignUp(entry.offset + entry.bytes, kBundleAlignment);
      if (at > header_.file_bytes) return Error(Code::kCorrupt, "its files are larger than it");
    }
    if (at != header_.file_bytes) return Error(Code::kCorrupt, "something follows its files");
    std::copy_n(header_.document_id, row_.id.size(), row_.id.begin());
    std::copy_n(header_.fingerprint, row_.fingerprint.size(), row_.fingerprint.begin());
    row_.num_tokens = header_.num_tokens;
    row_.text_bytes = header_.text_bytes;
    row_.replaced_bytes = header_.replaced_bytes;
    row_.name = head.substr(strings_at, header_.name_bytes);
    row_.model_path = head.substr(strings_at + header_.name_bytes, header_.model_path_bytes);
    row_.report_json = head.substr(strings_at + header_.name_bytes + header_.model_path_bytes,
                                   header_.report_bytes);
    return {};
  }

  // The checksum of a part of the file, which is read piece by piece: it may be larger than memory.
  Result<uint32_t> CrcOf(uint64_t offset, uint64_t bytes) const {
    constexpr uint64_t kPieceBytes = 1 << 20;
    std::vector<std::byte> piece(std::min(bytes, kPieceBytes));
    uint32_t crc = 0;
    for (uint64_t done = 0; done < bytes; done += kPieceBytes) {
      const uint64_t size = std::min(bytes - done, kPieceBytes);
      LECTERN_RETURN_IF_ERROR(file_->ReadAt(offset + done, piece.data(), size));
      crc = Crc32c(crc, piece.data(), size);
    }
    return crc;
  }

  // Checks every shard of the bundle, by checksum first and then by its own header: it must be of
  // this document.
  Status OpenShards() {
    for (uint32_t i = 0; i < entries_.size(); ++i) {
      const BundleEntry& entry = entries_[i];
      LECTERN_ASSIGN(const uint32_t crc,
                     CrcOf(entry.offset, AlignUp(entry.bytes, kBundleAlignment)));
      if (crc != entry.crc) {
        return Error(Code::kChecksumMismatch, "checksum mismatch in its " + FileName(i));
      }
      ShardReader::Expected expected = {.kind = i == 0 ? ShardKind::kDocument : ShardKind::kLayer,
                                        .layer = i == 0 ? 0 : i - 1,
                                        .document_id = row_.id.data(),
                                        .fingerprint = row_.fingerprint.data(),
                                        .generation = header_.generation,
                                        .table_crc = std::nullopt};
      LECTERN_ASSIGN(auto shard, ShardReader::Open(
                                     std::make_unique<MappedPart>(file_, entry.offset, entry.bytes),
                                     path_ + ":" + FileName(i), expected));
      LECTERN_RETURN_IF_ERROR(shard->VerifyAll());
      const bool in_parts = (shard->header().required_features & kInParts) != 0;
      const size_t num_layers = in_parts ? 0 : shard->header().num_layers;
      if (num_layers != entries_.size() - 1 || in_parts != (header_.num_parts > 0) ||
          shard->header().num_tokens != row_.num_tokens) {
        return Error(Code::kCorrupt, FileName(i) + " is not of this document");
      }
      shards_.push_back(std::move(shard));
    }
    return {};
  }

  // The shards are written anew, because their generation is part of every block's checksum. One
  // section at a time is in memory, checked once more as it is read.
  Status WriteShards() {
    const std::string directory = DocumentDirectory(store_, row_.id, row_.generation);
    LECTERN_RETURN_IF_ERROR(env_.MakeDirectory(directory));
    std::vector<ShardSummary> summaries;
    for (uint32_t i = 0; i < shards_.size(); ++i) {
      ShardHeader header = shards_[i]->header();
      header.generation = row_.generation;
      LECTERN_ASSIGN(const auto writer,
                     ShardWriter::Create(env_, store_ + "/tmp", directory, FileName(i), header));
      for (const SectionEntry& section : shards_[i]->sections()) {
        LECTERN_RETURN_IF_ERROR(shards_[i]->Verify(section.offset, section.bytes));
        LECTERN_RETURN_IF_ERROR(
            writer->AddSection(SectionKind{section.kind}, section.kv_head, section.level,
                               shards_[i]->data() + section.offset, section.bytes));
        shards_[i]->Drop();
      }
      LECTERN_ASSIGN(ShardSummary summary, writer->Finish());
      row_.bytes_on_disk += summary.bytes;
      summaries.push_back(std::move(summary));
    }
    row_.state = DocumentState::kReady;
    return catalog_.CommitDocument(row_, summaries, names_.change);
  }

  Env& env_;
  const std::string& store_;
  Catalog& catalog_;
  const std::string& path_;
  const std::shared_ptr<const MappedFile> file_;  // from the document's first byte on
  const bool is_first_;                           // the file begins with this document
  BundleHeader header_{};
  std::vector<BundleEntry> entries_;
  std::vector<std::unique_ptr<ShardReader>> shards_;
  DocumentRow row_;
  ImportNames names_;
};

}  // namespace

Status ExportDocument(Env& env, const std::string& store, const DocumentRow& row,
                      const std::string& path, const std::vector<DocumentRow>& parts) {
  return Exporter(env, store, row, parts, path).Run();
}

Result<Imported> ImportDocument(Env& env, const std::string& store, Catalog& catalog,
                                const std::string& path, const NameImport& names,
                                uint64_t quota_bytes) {
  // Read and not mapped: a bundle often lies on a stick or a network drive, whose loss is then an
  // error, and some of these cannot be mapped.
  LECTERN_ASSIGN(auto map, env.Mirror(path));
  const std::shared_ptr<const MappedFile> file = std::move(map);
  std::vector<Importer> documents;  // the first is the document, its parts follow
  uint64_t end = 0;
  const auto read = [&] {
    documents.emplace_back(env, store, catalog, path, file, end);
    const Status status = documents.back().ReadHead();
    if (status.ok()) end += documents.back().bytes();
    return status;
  };
  LECTERN_RETURN_IF_ERROR(read());
  const uint32_t num_parts = documents.front().num_parts();
  for (uint32_t i = 0; i < num_parts; ++i) {
    LECTERN_RETURN_IF_ERROR(read());
    if (documents.back().num_parts() > 0) {
      return Status(Code::kCorrupt, path + ": a part has parts; export the document again");
    }
  }
  if (end != file->size()) {
    return Status(Code::kTruncated, path + ": the file has " + std::to_string(file->size()) +
                                        " bytes, its heads say " + std::to_string(end) +
                                        "; export the document again");
  }
  // Parts that are in the store, as after an import that was interrupted, need no room.
  uint64_t needed = 0;
  for (const Importer& one : documents) {
    LECTERN_ASSIGN(const auto is_there, catalog.FindReady(one.row().id));
    if (!is_there) needed += one.bytes();
  }
  LECTERN_ASSIGN(const auto there, catalog.FindReady(documents.front().row().id));
  if (!there) {
    LECTERN_RETURN_IF_ERROR(CheckFreeSpace(env, store, needed));
    LECTERN_RETURN_IF_ERROR(CheckQuota(env, store, quota_bytes, needed));
    // The parts first: once the document is seen, all of it is there.
    for (uint32_t i = 0; i < num_parts; ++i) {
      Importer& part = documents[i + 1];
      LECTERN_ASSIGN(const ImportNames given,
                     names({.row = part.row(), .whole = &documents.front().row(), .number = i}));
      LECTERN_RETURN_IF_ERROR(part.Run(given).status());
    }
  }
  LECTERN_ASSIGN(const ImportNames given, names({.row = documents.front().row()}));
  return documents.front().Run(given);
}

}  // namespace lectern
