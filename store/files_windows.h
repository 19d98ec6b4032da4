// Open files of Windows as Env hands them out.
#ifndef LECTERN_STORE_FILES_WINDOWS_H_
#define LECTERN_STORE_FILES_WINDOWS_H_

#include <cstdint>
#include <limits>
#include <memory>
#include <string>

#include "store/env.h"
#include "store/system_windows.h"

namespace lectern {

inline constexpr uint64_t kMaxOffset = std::numeric_limits<int64_t>::max();  // of a byte of a file

// The size of an open file. kIoError: it is a link, a directory, a pipe or the like.
Result<uint64_t> RegularFileSize(HANDLE file, const std::string& path, const char* action);

// The files of Env::OpenWritable, Env::Map and Env::Mirror. `file`: a regular file of `size` bytes,
// open for reading, or for both. `path` is for messages.
std::unique_ptr<WritableFile> MakeWritable(Handle file, std::string path);
Result<std::unique_ptr<MappedFile>> MakeMapping(HANDLE file, uint64_t size,
                                                const std::string& path);
Result<std::unique_ptr<MappedFile>> MakeMirror(Handle file, uint64_t size, const std::string& path);

}  // namespace lectern

#endif  // LECTERN_STORE_FILES_WINDOWS_H_
