#include "engine/model/weights/packed_weights.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <functional>
#include <new>
#include <optional>
#include <random>
#include <span>
#include <utility>

#include "kernels/convert.h"
#include "store/crc32c.h"
#include "store/store.h"

namespace lectern {
namespace {

constexpr uint64_t kAlignment = 64;  // bytes; a cache line
constexpr uint64_t kChunkBytes = uint64_t{4} << 20;  // of the source, in memory at a time

// The next multiple of kAlignment.
uint64_t Aligned(uint64_t at) { return (at + kAlignment - 1) / kAlignment * kAlignment; }

// Computes the places from the shapes alone, so that a file can be checked against it.
PackedLayout LayOut(const Fingerprint& fingerprint, const std::vector<PackedSource>& sources) {
  PackedLayout layout;
  layout.header.fingerprint = fingerprint;
  layout.header.num_matrices = sources.size();
  uint64_t at = sizeof(PackedHeader) + sources.size() * sizeof(PackedEntry);
  for (const PackedSource& source : sources) {
    const PackedRows rows = {nullptr, source.type, source.rows.num_rows, source.rows.num_cols};
    at = Aligned(at);
    layout.entries.push_back(
        {at, rows.bytes(), rows.num_rows, rows.num_cols, static_cast<uint32_t>(source.type), 0});
    at += rows.bytes();
  }
  layout.file_bytes = at;
  return layout;
}

// Views of the matrices in a file's bytes.
std::vector<PackedRows> Views(const PackedLayout& layout, const std::byte* file) {
  std::vector<PackedRows> views;
  for (const PackedEntry& entry : layout.entries) {
    PackedRows view = {nullptr, static_cast<PackedType>(entry.type), entry.num_rows,
                       entry.num_cols};
    view.Set(file + entry.offset);
    views.push_back(view);
  }
  return views;
}

Status Cancelled() { return {Code::kCancelled, "quantising the model was cancelled"}; }

// Takes packed bytes of the file at an offset.
using Sink = std::function<Status(uint64_t offset, std::span<const std::byte> bytes)>;

}  // namespace

// One call of PackedWeights::Open.
class WeightsPacker {
 public:
  WeightsPacker(Env& env, const Fingerprint& fingerprint, const std::vector<PackedSource>& sources,
                const PackedWeightsOptions& options, std::unique_ptr<PackedFile> begun)
      : env_(env),
        sources_(sources),
        options_(options),
        begun_(std::move(begun)),
        layout_(LayOut(fingerprint, sources)),
        path_(options.store.empty() ? "" : PackedWeightsPath(options.store, fingerprint)) {}

  // A file that was just written is opened and verified like any other: the disk may have failed.
  Result<std::unique_ptr<PackedWeights>> Run() {
    if (auto kept = OpenFile()) return kept;
    if (IsSet(options_.cancel)) return Cancelled();
    if (CanWrite()) {
      LECTERN_RETURN_IF_ERROR(WriteFile());
      if (auto made = OpenFile()) {
        made->quantised_ = sources_.size();
        return made;
      }
    }
    return PackIntoMemory();
  }

 private:
  // Opens the file, if that was not begun earlier, and verifies it; nullptr: it is not there or is
  // not what we would write, or this was cancelled.
  std::unique_ptr<PackedWeights> OpenFile() {
    if (path_.empty()) return nullptr;
    // Another one, and this one if it is refused, is closed on return: an open file may be in the
    // way of writing.
    std::unique_ptr<PackedFile> file = std::move(begun_);
    if (!file || file->path() != path_) {
      file = PackedFile::Open(env_, path_, options_.io, options_.cancel);
    }
    if (!file || !IsWanted(file->layout()) || !file->Finish(options_.threads)) return nullptr;
    auto weights = std::make_unique<PackedWeights>();
    weights->file_ = file->Take();
    weights->matrices_ = Views(layout_, weights->file_->data());
    return weights;
  }

  // Whether a file's head is what we would write; checksums follow from its bytes alone.
  bool IsWanted(PackedLayout layout) const {
    PackedLayout wanted = layout_;  // after packing, with the checksums of what was written
    for (PackedLayout* head : {&wanted, &layout}) {
      for (PackedEntry& entry : head->entries) entry.crc = 0;
    }
    return layout.file_bytes == wanted.file_bytes &&
           std::memcmp(&layout.header, &wanted.header, sizeof(PackedHeader)) == 0 &&
           std::memcmp(layout.entries.data(), wanted.entries.data(), wanted.entries_bytes()) == 0;
  }

  // Calls body(item, slot) for all items, on the threads, if there are any.
  void ForAll(size_t num_items, ThreadPool::Body body) const {
    if (options_.threads != nullptr) {
      options_.threads->ParallelFor(num_items, body);
    } else {
      for (size_t i = 0; i < num_items; ++i) body(i, 0);
    }
  }

  // Whether the store takes a file of this size: it is open, and disk and quota have room.
  bool CanWrite() const {
    return !path_.empty() && IsOpenStore(env_, options_.store) &&
           CheckFreeSpace(env_, options_.store, layout_.file_bytes).ok() &&
           CheckQuota(env_, options_.store, options_.quota_bytes, layout_.file_bytes).ok();
  }

  // Writes the file. An error is one of the source; if the store does not take the file, that is no
  // error, and there is no file afterwards.
  Status WriteFile() {
    const std::string temp =
        options_.store + "/tmp/weights." + std::to_string(std::random_device()()) + ".part";
    if (!env_.MakeDirectory(ParentDirectory(path_)).ok()) return {};
    auto file = env_.OpenWritable(temp, /*exclusive=*/true);
    if (!file.ok()) return {};
    bool failed = !(*file)->Allocate(layout_.file_bytes).ok();
    Status packed;
    if (!failed) {
      packed = Pack([&](uint64_t offset, std::span<const std::byte> bytes) {
        Status written = (*file)->WriteAt(offset, bytes.data(), bytes.size());
        failed |= !written.ok();
        return written;
      });
    }
    if (!failed && packed.ok()) failed = !Finish(**file, temp).ok();
    if (failed || !packed.ok()) (void)env_.Remove(temp);
    return failed ? Status() : packed;
  }

  // Writes the head last, when checksums are known, and makes the file durable under its name.
  Status Finish(WritableFile& file, const std::string& temp) {
    LECTERN_RETURN_IF_ERROR(file.WriteAt(0, &layout_.header, sizeof(PackedHeader)));
    LECTERN_RETURN_IF_ERROR(
        file.WriteAt(sizeof(PackedHeader), layout_.entries.data(), layout_.entries_bytes()));
    LECTERN_RETURN_IF_ERROR(file.Sync());
    LECTERN_RETURN_IF_ERROR(file.Close());
    LECTERN_RETURN_IF_ERROR(env_.Rename(temp, path_));
    return env_.SyncDirectory(ParentDirectory(path_));
  }

  // Packs without a store. The size may be gigabytes, so the allocation is checked and not thrown.
  Result<std::unique_ptr<PackedWeights>> PackIntoMemory() {
    auto weights = std::make_unique<PackedWeights>();
    weights->memory_.reset(new (std::nothrow) std::byte[layout_.file_bytes]);
    if (!weights->memory_) {
      return Status(Code::kOutOfMemory, "no memory for weights of " +
                                            std::to_string(layout_.file_bytes >> 20) +
                                            " MiB, and no store that takes them as a file");
    }
    std::byte* const memory = weights->memory_.get();
    LECTERN_RETURN_IF_ERROR(Pack([&](uint64_t offset, std::span<const std::byte> bytes) {
      std::memcpy(memory + offset, bytes.data(), bytes.size());
      return Status();
    }));
    weights->matrices_ = Views(layout_, memory);
    weights->quantised_ = sources_.size();
    return weights;
  }

  // Hands all matrices to `sink`, in order, and fills in the checksums.
  Status Pack(const Sink& sink) {
    for (size_t i = 0; i < sources_.size(); ++i) {
      layout_.entries[i].crc = 0;
      LECTERN_RETURN_IF_ERROR(PackMatrix(sources_[i], layout_.entries[i], sink));
    }
    return {};
  }

  Status PackMatrix(const PackedSource& source, PackedEntry& entry, const Sink& sink) const;

  Env& env_;
  const std::vector<PackedSource>& sources_;
  const PackedWeightsOptions& options_;
  std::unique_ptr<PackedFile> begun_;
  PackedLayout layout_;
  const std::string path_;
};

// Packs a matrix chunk by chunk of panels: each is loaded, quantised by all threads, and let go, so
// that little of the source is in memory at once. Planes are made of panels of q8, and a chunk of
// the low one goes to its own place, behind the whole high one.
Status WeightsPacker::PackMatrix(const PackedSource& source, PackedEntry& entry,
                                 const Sink& sink) const {
  ThreadPool* const threads = options_.threads;
  const TensorRows& rows = source.rows;
  const std::optional<Dtype> plain = PlainDtype(rows.type);
  const PackedRows whole = {nullptr, source.type, rows.num_rows, rows.num_cols};
  const PackedType type = whole.has_planes() ? PackedType::kQ8 : source.type;
  const size_t split_bytes =
      whole.has_planes() ? PackedRows{nullptr, type, 1, rows.num_cols}.bytes() : 0;
  const uint64_t source_panel = kPackedColumns * rows.row_bytes();
  const size_t panels_at_once = std::max<uint64_t>(1, kChunkBytes / source_panel);
  const size_t most = std::min(panels_at_once, whole.num_panels());
  const size_t num_slots = threads == nullptr ? 1 : threads->num_threads();
  std::vector<float> floats(plain ? num_slots * kPackedColumns * rows.num_cols : 0);
  std::vector<std::byte> split(num_slots * split_bytes);
  std::vector<std::byte> packed(most * whole.panel_bytes()), low(most * whole.low_panel_bytes());
  uint32_t low_crc = 0;
  for (size_t first = 0; first < whole.num_panels(); first += panels_at_once) {
    if (IsSet(options_.cancel)) return Cancelled();
    const size_t count = std::min(panels_at_once, whole.num_panels() - first);
    const size_t begin = first * kPackedColumns,
                 end = std::min(begin + count * kPackedColumns, rows.num_rows);
    const uint64_t offset = source.offset + begin * rows.row_bytes();
    const uint64_t bytes = (end - begin) * rows.row_bytes();
    LECTERN_RETURN_IF_ERROR(source.file->Load(offset, bytes));
    std::atomic<bool> holds = true;
    const auto pack = [&](size_t panel, size_t slot) {
      const size_t from = begin + panel * kPackedColumns;
      const TensorRows stored = rows.Slice(from, std::min(from + kPackedColumns, end));
      std::byte* const out = packed.data() + panel * whole.panel_bytes();
      std::byte* const q8 = whole.has_planes() ? split.data() + slot * split_bytes : out;
      bool fits;
      if (!plain) {
        fits = PackBlocks(stored, q8);  // blocks keep their values: they are only laid out anew
      } else {
        const Rows<float> values(floats.data() + slot * kPackedColumns * rows.num_cols,
                                 stored.num_rows, rows.num_cols);
        ToFloatRowsSimd({stored.data, *plain, stored.num_rows, stored.num_cols}, values);
        fits = PackPanel(values, type, q8);
      }
      if (!fits) {
        holds = false;
      } else if (whole.has_planes()) {
        SplitPanel(q8, rows.num_cols, out, low.data() + panel * whole.low_panel_bytes());
      }
    };
    ForAll(count, pack);
    source.file->DontNeed(offset, bytes);
    if (!holds) {
      return {Code::kUnsupportedModel,
              "tensor \"" + source.name + "\" holds values that are not finite" +
                  (plain ? " or too large to be quantised; use " + OptionName("weights", "stored")
                         : "; download the model again")};
    }
    const std::span<const std::byte> done(packed.data(), count * whole.panel_bytes());
    entry.crc = Crc32c(entry.crc, done.data(), done.size());
    LECTERN_RETURN_IF_ERROR(sink(entry.offset + first * whole.panel_bytes(), done));
    if (!whole.has_planes()) continue;
    const std::span<const std::byte> lower(low.data(), count * whole.low_panel_bytes());
    low_crc = Crc32c(low_crc, lower.data(), lower.size());
    const uint64_t plane = entry.offset + whole.num_panels() * whole.panel_bytes();
    LECTERN_RETURN_IF_ERROR(sink(plane + first * whole.low_panel_bytes(), lower));
  }
  entry.crc = Crc32cJoin(entry.crc, low_crc, whole.num_panels() * whole.low_panel_bytes());
  return {};
}

uint64_t PackedWeights::end_of(size_t count) const {
  if (count == 0) return 0;
  const PackedRows& last = matrices_[count - 1];
  return static_cast<uint64_t>(last.data - file_->data()) + last.bytes();
}

Result<std::unique_ptr<PackedWeights>> PackedWeights::Open(Env& env, const Fingerprint& fingerprint,
                                                           const std::vector<PackedSource>& sources,
                                                           const PackedWeightsOptions& options,
                                                           std::unique_ptr<PackedFile> begun) {
  return WeightsPacker(env, fingerprint, sources, options, std::move(begun)).Run();
}

}  // namespace lectern
