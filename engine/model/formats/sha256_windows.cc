// SHA-256 by Windows (CNG), in place of OpenSSL's.
#include <windows.h>

#include <bcrypt.h>  // needs windows.h before it

#include <algorithm>
#include <cassert>
#include <new>

#include "engine/model/formats/sha256.h"

namespace lectern {

struct Sha256::Context {
  BCRYPT_HASH_HANDLE hash = nullptr;
  ~Context() {
    if (hash != nullptr) BCryptDestroyHash(hash);
  }
};

namespace {

// The algorithm, opened once for the process; nullptr where Windows has no memory for it.
BCRYPT_ALG_HANDLE Algorithm() {
  static const BCRYPT_ALG_HANDLE algorithm = [] {
    BCRYPT_ALG_HANDLE opened = nullptr;
    BCryptOpenAlgorithmProvider(&opened, BCRYPT_SHA256_ALGORITHM, nullptr, 0);
    return opened;
  }();
  return algorithm;
}

}  // namespace

Sha256::Sha256() : context_(std::make_unique<Context>()) {
  if (Algorithm() == nullptr ||
      BCryptCreateHash(Algorithm(), &context_->hash, nullptr, 0, nullptr, 0, 0) != 0) {
    throw std::bad_alloc();
  }
}

Sha256::~Sha256() = default;

void Sha256::Update(const void* data, size_t bytes) {
  constexpr size_t kPart = size_t{1} << 30;  // a call takes 32 bits
  auto* at = static_cast<PUCHAR>(const_cast<void*>(data));
  while (bytes > 0) {
    const size_t part = std::min(bytes, kPart);
    [[maybe_unused]] const auto status =
        BCryptHashData(context_->hash, at, static_cast<ULONG>(part), 0);
    assert(status == 0);
    at += part;
    bytes -= part;
  }
}

std::array<uint8_t, 32> Sha256::Finish() {
  std::array<uint8_t, 32> digest{};
  [[maybe_unused]] const auto status = BCryptFinishHash(context_->hash, digest.data(), 32, 0);
  assert(status == 0);
  return digest;
}

}  // namespace lectern
