// SHA-256 by OpenSSL's EVP interface.
#include "engine/model/formats/sha256.h"

#include <openssl/evp.h>

#include <cassert>
#include <new>

namespace lectern {

struct Sha256::Context {
  EVP_MD_CTX* evp = EVP_MD_CTX_new();
  ~Context() { EVP_MD_CTX_free(evp); }
};

// OpenSSL fails here only when it cannot allocate; that leaves as every failed allocation does.
Sha256::Sha256() : context_(std::make_unique<Context>()) {
  if (context_->evp == nullptr || EVP_DigestInit_ex(context_->evp, EVP_sha256(), nullptr) != 1) {
    throw std::bad_alloc();
  }
}

Sha256::~Sha256() = default;

void Sha256::Update(const void* data, size_t bytes) {
  [[maybe_unused]] const int ok = EVP_DigestUpdate(context_->evp, data, bytes);
  assert(ok == 1);
}

std::array<uint8_t, 32> Sha256::Finish() {
  std::array<uint8_t, 32> digest{};
  unsigned size = 0;
  [[maybe_unused]] const int ok = EVP_DigestFinal_ex(context_->evp, digest.data(), &size);
  assert(ok == 1 && size == digest.size());
  return digest;
}

}  // namespace lectern
