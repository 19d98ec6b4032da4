// Loads a shared library while the program runs, as each system does it.
#ifndef LECTERN_KERNELS_CUDA_RUNTIME_FIND_IN_LIBRARY_H_
#define LECTERN_KERNELS_CUDA_RUNTIME_FIND_IN_LIBRARY_H_

#include <string>

namespace lectern {

extern const char* const kCudaLibraryName;  // of the kernels for GPUs, as this system names it

struct FoundFunction {
  void* function = nullptr;
  std::string why;  // where there is no function: the system's message
};

// Loads `library` from the directory of the library or program that this code is in or, where it
// does not lie there, from where the system looks for libraries, and finds the function in it. The
// library is never unloaded. Any thread.
FoundFunction FindInLibrary(const std::string& library, const char* function);

}  // namespace lectern

#endif  // LECTERN_KERNELS_CUDA_RUNTIME_FIND_IN_LIBRARY_H_
