// Describes, as JSON, how this library was built; lectern_build_info (lectern_c.h) returns it.
#ifndef LECTERN_ENGINE_API_BUILD_INFO_H_
#define LECTERN_ENGINE_API_BUILD_INFO_H_

#include <string>

namespace lectern {

// Returns the object that lectern_c.h describes at lectern_build_info. Cannot fail, but may throw
// bad_alloc; the caller in lectern_c.cc catches it.
std::string BuildInfoJson();

}  // namespace lectern

#endif  // LECTERN_ENGINE_API_BUILD_INFO_H_
