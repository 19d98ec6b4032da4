// Keeps lectern.dll in the process when the host unloads it: its threads may run, and handles be
// used, until the process ends. Linked into the DLL alone.
#include <windows.h>

namespace lectern {
namespace {

[[maybe_unused]] const bool stays_loaded = [] {
  static const char within = 0;
  HMODULE module = nullptr;
  return GetModuleHandleExW(GET_MODULE_HANDLE_EX_FLAG_FROM_ADDRESS | GET_MODULE_HANDLE_EX_FLAG_PIN,
                            reinterpret_cast<LPCWSTR>(&within), &module) != 0;
}();

}  // namespace
}  // namespace lectern
