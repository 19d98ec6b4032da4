// Policy uniform: every layer and head reads the same share.
#include "index/policies/policy.h"

namespace lectern {

std::vector<double> UniformShares(const PolicyInput& input) {
  return std::vector<double>(input.rows.size(), input.kv_budget);
}

}  // namespace lectern
