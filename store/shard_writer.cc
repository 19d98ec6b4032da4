#include "store/shard_writer.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <new>
#include <random>
#include <set>

#include "store/crc32c.h"
#include "store/shard_layout.h"

namespace lectern {
namespace {

// "FILE.<16 random hex digits>.part": no leftover and no process at the same time has this name.
std::string TempName(const std::string& file) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::random_device random;
  std::string name = file + ".";
  for (int i = 0; i < 16; ++i) name += kDigits[random() & 15];
  return name + ".part";
}

// The error of a caller that does not keep the format's rules.
Status Misuse(const std::string& what) { return Status(Code::kInternal, what); }

}  // namespace

// The state of one file. Bytes go out in whole blocks, because each block needs its checksum before
// it leaves.
struct ShardWriter::Impl {
  Env& env;
  std::string directory, file, final_path, temp_path;
  ShardHeader header;
  std::unique_ptr<WritableFile> out;
  Status first_error;
  bool finished = false;

  // The block that is being filled. Block 0 waits in first_block, because its header is known last.
  std::vector<std::byte> block = std::vector<std::byte>(kBlockBytes);
  std::vector<std::byte> first_block;
  size_t block_fill = kHeaderBytes;  // bytes of `block` that are set
  std::vector<uint32_t> block_crcs;  // checksums of the blocks before it; Finish sets [0]
  std::vector<SectionEntry> sections;
  std::set<std::array<uint32_t, 3>> keys;  // kind, kv_head, level of every section

  Impl(Env& e, const std::string& temp_dir, const std::string& dir, const std::string& name,
       const ShardHeader& h)
      : env(e),
        directory(dir),
        file(name),
        final_path(dir + "/" + name),
        temp_path(temp_dir + "/" + TempName(name)),
        header(h) {}

  ~Impl() {
    try {
      if (!finished) Discard();
    } catch (const std::bad_alloc&) {  // a message could not be built; the leftover is swept later
    }
  }

  // Where the next byte goes, from the start of the file.
  uint64_t position() const { return block_crcs.size() * kBlockBytes + block_fill; }

  // Closes and removes the temporary file; does nothing a second time.
  void Discard() {
    if (out == nullptr) return;
    out.reset();
    (void)env.Remove(temp_path);  // leftovers in the temp directory are swept by a collection
  }

  // Remembers the first error and discards the file.
  Status Guard(Status status) {
    if (status.ok()) return status;
    first_error = status;
    Discard();
    return status;
  }

  // The error that every call returns after a failure, or after Finish.
  Status CheckOpen() const {
    if (!first_error.ok()) return first_error;
    return finished ? Misuse(final_path + ": written to after Finish") : Status();
  }

  // Writes the block that is full, except block 0, which waits for its header.
  Status FlushBlock() {
    const uint64_t index = block_crcs.size();
    if (index == 0) {
      first_block = std::exchange(block, std::vector<std::byte>(kBlockBytes));
      block_crcs.push_back(0);
    } else {
      LECTERN_RETURN_IF_ERROR(WriteBlocks(block.data(), 1));
    }
    block_fill = 0;
    return {};
  }

  // Writes whole blocks straight from the caller's memory, with their checksums: rows are large,
  // and copying them would take time.
  Status WriteBlocks(const std::byte* data, size_t count) {
    const uint64_t offset = block_crcs.size() * kBlockBytes;
    for (size_t i = 0; i < count; ++i) {
      const uint32_t seed = BlockSeed(header, block_crcs.size());
      block_crcs.push_back(Crc32c(seed, data + i * kBlockBytes, kBlockBytes));
    }
    return out->WriteAt(offset, data, count * kBlockBytes);
  }

  // Appends bytes, in blocks.
  Status Put(const std::byte* data, size_t bytes) {
    while (bytes > 0) {
      size_t taken;  // block 0 begins with the header, so there block_fill is not 0
      if (block_fill == 0 && bytes >= kBlockBytes) {
        taken = bytes / kBlockBytes * kBlockBytes;
        LECTERN_RETURN_IF_ERROR(WriteBlocks(data, taken / kBlockBytes));
      } else {
        taken = std::min(bytes, kBlockBytes - block_fill);
        std::memcpy(block.data() + block_fill, data, taken);
        block_fill += taken;
        if (block_fill == kBlockBytes) LECTERN_RETURN_IF_ERROR(FlushBlock());
      }
      data += taken;
      bytes -= taken;
    }
    return {};
  }

  // Appends zeros up to the next multiple of `alignment`, at most a block of them.
  Status PadTo(uint64_t alignment) {
    static constexpr std::byte kZeros[kBlockBytes] = {};
    return Put(kZeros, AlignUp(position(), alignment) - position());
  }

  Status BeginSection(const SectionEntry& key) {
    if (const std::string error = SectionError(header, key); !error.empty()) {
      return Misuse(final_path + ": a section cannot be written: " + error);
    }
    if (sections.size() == kMaxSections) {
      return Status(Code::kLimitExceeded, final_path + ": too many sections");
    }
    if (!keys.insert({key.kind, key.kv_head, key.level}).second) {
      return Misuse(final_path + ": section of kind " + std::to_string(key.kind) + " comes twice");
    }
    LECTERN_RETURN_IF_ERROR(PadTo(kSectionAlignment));
    sections.push_back(key);
    sections.back().offset = position();
    return {};
  }

  Status Append(const void* data, size_t bytes) {
    if (sections.empty()) return Misuse(final_path + ": Append before BeginSection");
    sections.back().bytes += bytes;
    return Put(static_cast<const std::byte*>(data), bytes);
  }

  // Writes the section table and the zeros that end the payload, and fills in the header's numbers.
  Status PutSectionTable() {
    LECTERN_RETURN_IF_ERROR(PadTo(kSectionAlignment));
    header.section_table_offset = position();
    header.num_sections = static_cast<uint32_t>(sections.size());
    LECTERN_RETURN_IF_ERROR(Put(reinterpret_cast<const std::byte*>(sections.data()),
                                sections.size() * sizeof(SectionEntry)));
    LECTERN_RETURN_IF_ERROR(PadTo(kBlockBytes));
    header.num_blocks = block_crcs.size();
    header.payload_bytes = header.num_blocks * kBlockBytes;
    return {};
  }

  // Completes block 0 with its header, now that all fields are known. The header's checksum covers
  // the header itself, the block's checksum covers both.
  void SealFirstBlock() {
    std::memset(first_block.data(), 0, kHeaderBytes);
    std::memcpy(first_block.data(), &header, sizeof header);
    header.header_crc = HeaderCrc(first_block.data());
    std::memcpy(first_block.data(), &header, sizeof header);
    block_crcs[0] = Crc32c(BlockSeed(header, 0), first_block.data(), kBlockBytes);
  }

  // The header's block is written last: without it a file is no shard.
  Result<ShardSummary> WriteTables() {
    LECTERN_RETURN_IF_ERROR(PutSectionTable());
    SealFirstBlock();
    const size_t table_bytes = block_crcs.size() * sizeof(uint32_t);
    ShardFooter footer{};
    footer.file_bytes = header.payload_bytes + table_bytes + sizeof footer;
    footer.table_crc = Crc32c(0, block_crcs.data(), table_bytes);
    footer.header_crc = header.header_crc;
    std::memcpy(footer.end_magic, kShardEndMagic, sizeof footer.end_magic);
    LECTERN_RETURN_IF_ERROR(out->WriteAt(header.payload_bytes, block_crcs.data(), table_bytes));
    LECTERN_RETURN_IF_ERROR(
        out->WriteAt(header.payload_bytes + table_bytes, &footer, sizeof footer));
    LECTERN_RETURN_IF_ERROR(out->WriteAt(0, first_block.data(), kBlockBytes));
    return ShardSummary{file, footer.file_bytes, footer.table_crc, footer.header_crc};
  }

  // Makes the file durable, then visible, then its name durable. In another order a crash could
  // leave a visible file with missing bytes.
  Status Publish() {
    LECTERN_RETURN_IF_ERROR(out->Sync());
    LECTERN_RETURN_IF_ERROR(out->Close());
    LECTERN_RETURN_IF_ERROR(env.Rename(temp_path, final_path));
    Status synced = env.SyncDirectory(directory);
    if (!synced.ok()) (void)env.Remove(final_path);  // perhaps not durable: rather not there at all
    return synced;
  }

  Result<ShardSummary> Finish() {
    Result<ShardSummary> summary = WriteTables();
    LECTERN_RETURN_IF_ERROR(Guard(summary.status()));
    LECTERN_RETURN_IF_ERROR(Guard(Publish()));
    finished = true;
    return summary;
  }
};

ShardWriter::ShardWriter(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
ShardWriter::~ShardWriter() = default;

Result<std::unique_ptr<ShardWriter>> ShardWriter::Create(Env& env, const std::string& temp_dir,
                                                         const std::string& directory,
                                                         const std::string& file,
                                                         const ShardHeader& header) {
  if (!IsPlainName(file)) return Misuse(file + ": no plain file name");
  if (const std::string error = HeaderError(header); !error.empty()) {
    return Misuse(directory + "/" + file + ": a shard cannot be written: " + error);
  }
  auto impl = std::make_unique<Impl>(env, temp_dir, directory, file, header);
  std::memcpy(impl->header.magic, kShardMagic, sizeof kShardMagic);
  impl->header.major = kFormatMajor;
  impl->header.minor = kFormatMinor;
  impl->header.header_crc = 0;
  impl->header.block_bytes = kBlockBytes;
  LECTERN_ASSIGN(impl->out, env.OpenWritable(impl->temp_path, /*exclusive=*/true));
  return std::unique_ptr<ShardWriter>(new ShardWriter(std::move(impl)));
}

Status ShardWriter::BeginSection(SectionKind kind, uint32_t kv_head, uint32_t level) {
  LECTERN_RETURN_IF_ERROR(impl_->CheckOpen());
  const SectionEntry key{static_cast<uint32_t>(kind), kv_head, level, 0, 0, 0};
  return impl_->Guard(impl_->BeginSection(key));
}

Status ShardWriter::Append(const void* data, size_t bytes) {
  LECTERN_RETURN_IF_ERROR(impl_->CheckOpen());
  return impl_->Guard(impl_->Append(data, bytes));
}

Status ShardWriter::AddSection(SectionKind kind, uint32_t kv_head, uint32_t level, const void* data,
                               size_t bytes) {
  LECTERN_RETURN_IF_ERROR(BeginSection(kind, kv_head, level));
  return Append(data, bytes);
}

Result<ShardSummary> ShardWriter::Finish() {
  LECTERN_RETURN_IF_ERROR(impl_->CheckOpen());
  return impl_->Finish();
}

}  // namespace lectern
