#include <dlfcn.h>
#include <unistd.h>

#include "kernels/cuda/runtime/find_in_library.h"

namespace lectern {
namespace {

// The directory of the library or program that this function is in; "" where the system will not
// say.
std::string OwnDirectory() {
  Dl_info info;
  if (dladdr(reinterpret_cast<const void*>(&OwnDirectory), &info) == 0) return {};
  const std::string path = info.dli_fname;
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? std::string() : path.substr(0, slash + 1);
}

}  // namespace

const char* const kCudaLibraryName = "liblectern_cuda.so.1";

FoundFunction FindInLibrary(const std::string& library, const char* function) {
  const std::string beside = OwnDirectory() + library;
  void* loaded = dlopen(beside.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (loaded == nullptr && access(beside.c_str(), F_OK) != 0) {
    loaded = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  }
  if (loaded == nullptr) return {nullptr, dlerror()};  // names what it needs itself, too: cuBLAS
  void* const found = dlsym(loaded, function);
  if (found == nullptr) return {nullptr, dlerror()};
  return {found, {}};
}

}  // namespace lectern
