#include "engine/model/weights/packed_file.h"

#include <algorithm>
#include <cstring>
#include <system_error>

#include "store/crc32c.h"

namespace lectern {
namespace {

constexpr uint64_t kCheckedAtOnce = uint64_t{4} << 20;

// Reads the head. False: it cannot be read, is of another version, or has a matrix that does not
// lie behind the one before it and within the file. So what is checked is never more than the file.
bool ReadLayout(const MappedFile& file, PackedLayout* layout) {
  layout->file_bytes = file.size();
  if (file.size() < sizeof(PackedHeader) || !file.Load(0, sizeof(PackedHeader)).ok()) return false;
  std::memcpy(&layout->header, file.data(), sizeof(PackedHeader));
  if (std::memcmp(layout->header.magic, PackedHeader().magic, sizeof layout->header.magic) != 0) {
    return false;
  }
  const uint64_t count = layout->header.num_matrices;
  if (count > (file.size() - sizeof(PackedHeader)) / sizeof(PackedEntry)) return false;
  layout->entries.resize(static_cast<size_t>(count));
  const size_t bytes = layout->entries_bytes();
  if (!file.Load(sizeof(PackedHeader), bytes).ok()) return false;
  if (bytes > 0) {
    std::memcpy(layout->entries.data(), file.data() + sizeof(PackedHeader), bytes);
  }
  uint64_t end = sizeof(PackedHeader) + bytes;
  for (const PackedEntry& entry : layout->entries) {
    if (entry.offset < end || entry.offset > file.size() ||
        entry.bytes > file.size() - entry.offset) {
      return false;
    }
    end = entry.offset + entry.bytes;
  }
  return true;
}

}  // namespace

std::unique_ptr<PackedFile> PackedFile::Open(Env& env, const std::string& path, Io io,
                                             const CancelFlag* cancel) {
  auto file = io == Io::kMmap ? env.Map(path) : env.Mirror(path);
  auto opened = std::make_unique<PackedFile>();
  if (!file.ok() || !ReadLayout(**file, &opened->layout_)) return nullptr;
  opened->path_ = path;
  opened->file_ = std::move(file).value();
  opened->cancel_ = cancel;
  for (size_t i = 0; i < opened->layout_.entries.size(); ++i) {
    const PackedEntry& entry = opened->layout_.entries[i];
    for (uint64_t at = 0; at < entry.bytes; at += kCheckedAtOnce) {
      opened->pieces_.push_back({i, entry.offset + at, std::min(kCheckedAtOnce, entry.bytes - at)});
    }
  }
  return opened;
}

PackedFile::~PackedFile() {
  stop_ = true;
  if (thread_.joinable()) thread_.join();
}

void PackedFile::CheckPieces() {
  while (!failed_ && !stop_) {
    const size_t i = next_++;
    if (i >= pieces_.size()) return;
    Piece& piece = pieces_[i];
    if (IsSet(cancel_) || !file_->Load(piece.begin, piece.bytes).ok()) {
      failed_ = true;
    } else {
      piece.crc = Crc32c(0, file_->data() + piece.begin, piece.bytes);
    }
  }
}

void PackedFile::Begin() {
  try {
    thread_ = std::thread([this] { CheckPieces(); });
  } catch (const std::system_error&) {
    // Finish checks everything then.
  }
}

// The thread takes pieces as long as there are any, so nothing is left when it and the caller's
// threads have come to the end.
bool PackedFile::Finish(ThreadPool* threads) {
  const auto check = [&](size_t, size_t) { CheckPieces(); };
  if (threads != nullptr) {
    threads->ParallelFor(threads->num_threads(), check);
  } else {
    check(0, 0);
  }
  if (thread_.joinable()) thread_.join();
  if (failed_) return false;
  std::vector<uint32_t> crcs(layout_.entries.size(), 0);
  for (const Piece& piece : pieces_) {
    crcs[piece.entry] = Crc32cJoin(crcs[piece.entry], piece.crc, piece.bytes);
  }
  return std::ranges::equal(crcs, layout_.entries, {}, {}, &PackedEntry::crc);
}

}  // namespace lectern
