#include "kernels/amx.h"

namespace lectern {

// Windows would have to be asked for the registers, too (EnableProcessOptionalXStateFeatures), which
// nobody has tried.
bool HasAmx() { return false; }

}  // namespace lectern
