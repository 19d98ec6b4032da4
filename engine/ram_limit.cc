#include "engine/ram_limit.h"

namespace lectern {
namespace {

std::string Mebibytes(uint64_t bytes) { return std::to_string((bytes + (1 << 20) - 1) >> 20); }

}  // namespace

Result<RamLimit::Share> RamLimit::Reserve(uint64_t bytes, const std::string& what,
                                          const std::string& way_out) {
  Share share;
  LECTERN_RETURN_IF_ERROR(Change(share, bytes, what, way_out));
  return share;
}

Status RamLimit::Change(Share& share, uint64_t bytes, const std::string& what,
                        const std::string& way_out) {
  const std::lock_guard lock(mutex_);
  const uint64_t taken = reserved_ - share.bytes_;  // by others
  if (bytes > bytes_ || taken > bytes_ - bytes) {
    return Status(Code::kOutOfMemory, what + " needs " + Mebibytes(bytes) +
                                          " MiB of memory beside " + Mebibytes(taken) +
                                          " MiB that are taken; the limit (max_ram) is " +
                                          Mebibytes(bytes_) + " MiB: allow more, or " + way_out)
        .WithParam("max_ram");
  }
  reserved_ += bytes - share.bytes_;
  share.limit_ = shared_from_this();
  share.bytes_ = bytes;
  if (IsExceeded()) {
    for (const auto& [owner, drop] : owners_) drop();
  }
  return {};
}

void RamLimit::Register(const void* owner, std::function<void()> drop) {
  const std::lock_guard lock(mutex_);
  owners_[owner] = std::move(drop);
}

void RamLimit::Unregister(const void* owner) {
  const std::lock_guard lock(mutex_);
  owners_.erase(owner);
}

}  // namespace lectern
