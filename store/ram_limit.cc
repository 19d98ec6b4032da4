#include "store/ram_limit.h"

namespace lectern {

std::string Mebibytes(uint64_t bytes) { return std::to_string((bytes + (1 << 20) - 1) >> 20); }

Result<RamLimit::Share> RamLimit::Reserve(uint64_t bytes, const std::string& what,
                                          const Message& way_out) {
  Share share;
  LECTERN_RETURN_IF_ERROR(Change(share, bytes, what, way_out));
  return share;
}

Status RamLimit::Change(Share& share, uint64_t bytes, const std::string& what,
                        const Message& way_out) {
  const std::lock_guard lock(mutex_);
  uint64_t taken = reserved_ - share.bytes_;  // of the other shares
  const auto fits = [&] { return bytes <= bytes_ && taken <= bytes_ - bytes; };  // cannot overflow
  if (!fits()) {  // documents' layers on a device are shares that can be dropped
    for (const auto& [owner, drop] : owners_) drop();
    taken = reserved_ - share.bytes_;
  }
  if (!fits()) {
    const bool is_device = kind_ == Kind::kDevice;
    const std::string option = is_device ? "device_memory" : "max_ram";
    return Status(Code::kOutOfMemory, what + " needs " + Mebibytes(bytes) + " MiB of " +
                                          (is_device ? "the GPU's memory" : "memory") + " beside " +
                                          Mebibytes(taken) + " MiB that are taken; the limit (" +
                                          OptionName(option) + ") is " + Mebibytes(bytes_) +
                                          " MiB: allow more, or " + way_out)
        .WithParam(option);
  }
  reserved_ += bytes - share.bytes_;
  share.limit_ = shared_from_this();
  share.bytes_ = bytes;
  // The reservation stands; pages must go until they fit beside it.
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
