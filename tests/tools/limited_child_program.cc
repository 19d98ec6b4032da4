// The child of limited_child_windows_test.cc: limited_child_program MODE [FILE].
#include <windows.h>

#include <fcntl.h>
#include <io.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>

int main(int argc, char** argv) {
  const std::string mode = argc > 1 ? argv[1] : "", file = argc > 2 ? argv[2] : "";
  _setmode(_fileno(stdout), _O_BINARY);
  if (mode == "copy") {
    std::ifstream in(file, std::ios::binary);
    const std::string bytes{std::istreambuf_iterator<char>(in), {}};
    std::fwrite(bytes.data(), 1, bytes.size(), stdout);
  } else if (mode == "complain") {
    std::fputs(std::string(10'000, 'x').c_str(), stderr);
    return 7;
  } else if (mode == "crash") {
    RaiseException(EXCEPTION_ACCESS_VIOLATION, EXCEPTION_NONCONTINUABLE, 0, nullptr);
  } else if (mode == "sleep") {
    std::puts("sleeping");
    std::fflush(stdout);
    Sleep(100'000);
  } else if (mode == "spin") {
    for (volatile int i = 0;; i = i + 1) {
    }
  } else if (mode == "allocate") {
    for (;;) {
      void* const memory = VirtualAlloc(nullptr, 1 << 24, MEM_RESERVE | MEM_COMMIT, PAGE_READWRITE);
      if (memory == nullptr) return 9;
      std::memset(memory, 1, 1 << 24);  // Wine counts the pages that were written to
      Sleep(10);                        // as long as a look takes
    }
  } else if (mode == "environment") {
    std::printf("%s|%s", std::getenv("LC_ALL"), std::getenv("SECRET") ? "SECRET" : "");
  }
  return 0;
}
