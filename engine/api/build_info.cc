// Gathers the description of this build. engine/CMakeLists.txt defines LECTERN_BUILD_…, and gives
// this file the same settings of Highway that the kernels have, so that HWY_TARGETS is theirs.
#include "engine/api/build_info.h"

#include <hwy/targets.h>

#include "engine/lectern_c.h"
#include "engine/model/formats/json.h"
#include "kernels/backend.h"

namespace lectern {

// Instruction sets are those that the kernels were compiled for; `instruction_set` is the one that
// runs on this machine. Every bit of HWY_TARGETS is one set.
std::string BuildInfoJson() {
  Json::Array instruction_sets;
  for (int64_t left = HWY_TARGETS; left != 0; left &= left - 1) {
    instruction_sets.push_back(hwy::TargetName(left & -left));
  }
  return Json(Json::Object{{"version", LECTERN_VERSION},
                           {"abi", LECTERN_ABI_VERSION},
                           {"commit", LECTERN_BUILD_COMMIT},
                           {"compiler", LECTERN_BUILD_COMPILER},
                           {"build_type", LECTERN_BUILD_TYPE},
                           {"instruction_sets", std::move(instruction_sets)},
                           {"instruction_set", SimdTarget()},
                           {"faiss", LECTERN_BUILD_FAISS},
                           {"sentencepiece", LECTERN_BUILD_SENTENCEPIECE}})
      .Dump();
}

}  // namespace lectern
