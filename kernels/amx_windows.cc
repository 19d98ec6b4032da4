#include "kernels/amx.h"

namespace lectern {

// Windows would have to be asked for the registers, too (EnableProcessOptionalXStateFeatures), and
// nobody has tried that.
bool HasAmx() { return false; }

}  // namespace lectern
