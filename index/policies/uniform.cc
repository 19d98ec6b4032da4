// Equal shares.
#include "index/policies/policy.h"

namespace lectern {

std::vector<double> UniformShares(const PolicyInput& input) {
  return std::vector<double>(input.rows.size(), input.kv_budget);
}

}  // namespace lectern
