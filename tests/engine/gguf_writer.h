// GGUF files (version 3) for tests, as small as they can be. Nothing is checked: a key or a tensor
// may come twice, and bytes may be too few for their shape.
#ifndef LECTERN_TESTS_ENGINE_GGUF_WRITER_H_
#define LECTERN_TESTS_ENGINE_GGUF_WRITER_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "engine/model/formats/gguf.h"
#include "kernels/quant_blocks.h"

namespace lectern::testing {

class GgufWriter {
 public:
  // Adds a key with a value, behind those that are there; the value is copied.
  void Add(const std::string& key, std::string_view text);
  void Add(const std::string& key, const char* text) { Add(key, std::string_view(text)); }
  void Add(const std::string& key, const std::string& text) { Add(key, std::string_view(text)); }
  void Add(const std::string& key, uint32_t number);
  void Add(const std::string& key, float number);
  void Add(const std::string& key, bool flag);
  void Add(const std::string& key, const std::vector<std::string>& texts);
  void Add(const std::string& key, const std::vector<int32_t>& numbers);
  // A value of another file; whole numbers become 32 bits, other numbers float.
  void Add(const std::string& key, const GgufValue& value);
  // `shape`: outermost first. `bytes`: as `type` stores them; they are copied. Throws
  // std::runtime_error for a type that GGUF does not have.
  void AddTensor(const std::string& name, TensorType type, const std::vector<uint64_t>& shape,
                 std::string_view bytes);
  std::string Finish() const;  // the bytes of the file; more may be added afterwards

 private:
  void Begin(const std::string& key, GgufKind kind);

  std::string keys_, infos_, data_;
  uint64_t num_keys_ = 0, num_tensors_ = 0;
};

}  // namespace lectern::testing

#endif  // LECTERN_TESTS_ENGINE_GGUF_WRITER_H_
