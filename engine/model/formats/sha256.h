// SHA-256 by OpenSSL EVP.
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
  // Length-prefixed, so that a sequence of texts has one reading only.
  void UpdateText(std::string_view text);
  std::array<uint8_t, 32> Finish();  // once

 private:
  struct Context;
  std::unique_ptr<Context> context_;
};

}  // namespace lectern

#endif  // LECTERN_ENGINE_MODEL_FORMATS_SHA256_H_
