// Computes SHA-256 hashes (with OpenSSL's EVP), for fingerprints of models and documents.
#ifndef LECTERN_ENGINE_MODEL_FORMATS_SHA256_H_
#define LECTERN_ENGINE_MODEL_FORMATS_SHA256_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

namespace lectern {

// One hash in the making: updates, then Finish once. One thread. Nothing fails except the
// constructor, which throws bad_alloc.
class Sha256 {
 public:
  Sha256();
  ~Sha256();
  // Hashes further bytes. Where a number is hashed by its bytes, its byte order is part of the
  // hash.
  void Update(const void* data, size_t bytes);
  // Adds the text's length before the text, so that a sequence of texts has one reading only.
  void UpdateText(std::string_view text) {
    UpdateNumber(text.size());
    Update(text.data(), text.size());
  }
  // Adds the number's 8 bytes in little-endian order, on every machine.
  void UpdateNumber(uint64_t number) {
    uint8_t bytes[8];
    for (size_t i = 0; i < 8; ++i) bytes[i] = static_cast<uint8_t>(number >> (8 * i));
    Update(bytes, sizeof(bytes));
  }
  // Returns the hash. Call it once, and no Update behind it. Neither is checked: OpenSSL reports no
  // error, and a second call returns a wrong hash.
  std::array<uint8_t, 32> Finish();

 private:
  struct Context;
  std::unique_ptr<Context> context_;
};

}  // namespace lectern

#endif  // LECTERN_ENGINE_MODEL_FORMATS_SHA256_H_
