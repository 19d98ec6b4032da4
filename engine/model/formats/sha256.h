// Computes SHA-256 hashes (with OpenSSL's EVP), for fingerprints of models and documents.
#ifndef LECTERN_ENGINE_MODEL_FORMATS_SHA256_H_
#define LECTERN_ENGINE_MODEL_FORMATS_SHA256_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

namespace lectern {

class Sha256 {
 public:
  Sha256();
  ~Sha256();
  void Update(const void* data, size_t bytes);
  // Adds the text's length before the text, so that a sequence of texts has one reading only.
  void UpdateText(std::string_view text);
  std::array<uint8_t, 32> Finish();  // once

 private:
  struct Context;
  std::unique_ptr<Context> context_;
};

}  // namespace lectern

#endif  // LECTERN_ENGINE_MODEL_FORMATS_SHA256_H_
