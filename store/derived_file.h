// A file that does not exist on disk: its bytes are computed from other files when they are loaded.
// It serves readers of MappedFile whose source has its numbers in another order.
#ifndef LECTERN_STORE_DERIVED_FILE_H_
#define LECTERN_STORE_DERIVED_FILE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

#include "store/env.h"
#include "store/status.h"

namespace lectern {

// Writes bytes [offset, offset + bytes) of the file to `to`. Any thread may call it.
using DeriveBytes = std::function<Status(uint64_t offset, void* to, size_t bytes)>;

// Makes such a file of `size` bytes, above 0. It behaves like Env::Mirror: only bytes that were
// loaded take memory, and DontNeed gives it back. kOutOfMemory: there are no addresses for it.
Result<std::unique_ptr<MappedFile>> MakeDerivedFile(uint64_t size, DeriveBytes derive);

}  // namespace lectern

#endif  // LECTERN_STORE_DERIVED_FILE_H_
