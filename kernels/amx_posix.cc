#include "kernels/amx.h"

#if defined(__linux__) && defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace lectern {

#if defined(__linux__) && defined(__x86_64__)
namespace {

// Numbers of Intel's manual and of Linux's <asm/prctl.h>, which has them only in newer headers.
constexpr unsigned kTileBit = 1u << 24, kInt8Bit = 1u << 25;  // of leaf 7, EDX
constexpr unsigned kOsXsaveBit = 1u << 27;                    // of leaf 1, ECX
constexpr unsigned kTileStates = 3u << 17;  // of XCR0: the configuration, the data
constexpr long kRequestPermission = 0x1023, kTileData = 18;

bool HasInstructions() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (!__get_cpuid(1, &a, &b, &c, &d) || (c & kOsXsaveBit) == 0) return false;
  if (!__get_cpuid_count(7, 0, &a, &b, &c, &d)) return false;
  if ((d & kTileBit) == 0 || (d & kInt8Bit) == 0) return false;
  unsigned low = 0, high = 0;
  asm("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return (low & kTileStates) == kTileStates;
}

}  // namespace

bool HasAmx() {
  static const bool has_amx =
      HasInstructions() && syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
  return has_amx;
}
#else
bool HasAmx() { return false; }
#endif

}  // namespace lectern
