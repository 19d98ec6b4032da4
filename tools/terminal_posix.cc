#include <unistd.h>

#include "tools/terminal.h"

namespace lectern::tools {

bool IsTerminal(std::FILE* file) { return isatty(fileno(file)) == 1; }

}  // namespace lectern::tools
