// Tells, as JSON, how this library was built.
#ifndef LECTERN_ENGINE_API_BUILD_INFO_H_
#define LECTERN_ENGINE_API_BUILD_INFO_H_

#include <string>

namespace lectern {

// The object of lectern_build_info. Throws bad_alloc.
std::string BuildInfoJson();

}  // namespace lectern

#endif  // LECTERN_ENGINE_API_BUILD_INFO_H_
