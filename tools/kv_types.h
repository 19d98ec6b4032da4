// The types that keys and values can be stored as, by the names that users give them.
#ifndef LECTERN_TOOLS_KV_TYPES_H_
#define LECTERN_TOOLS_KV_TYPES_H_

#include <map>
#include <string>

#include "engine/lectern.h"

namespace lectern::tools {

inline const std::map<std::string, lectern_kv_type> kKvTypes = {{"f16", LECTERN_KV_F16},
                                                                {"bf16", LECTERN_KV_BF16},
                                                                {"f32", LECTERN_KV_F32},
                                                                {"q8", LECTERN_KV_Q8}};

}  // namespace lectern::tools

#endif  // LECTERN_TOOLS_KV_TYPES_H_
