#include <windows.h>

#include <io.h>

#include "tools/terminal.h"

namespace lectern::tools {

// A console. Printers and NUL are character devices too, for which _isatty is not 0.
bool IsTerminal(std::FILE* file) {
  DWORD mode = 0;
  return GetConsoleMode(reinterpret_cast<HANDLE>(_get_osfhandle(_fileno(file))), &mode) != 0;
}

}  // namespace lectern::tools
