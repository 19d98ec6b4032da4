#include "index/policies/policy.h"

namespace lectern {
namespace {

constexpr Policy kPolicies[] = {
    {"uniform", true, true, false, Statistic::kNone, UniformShares},
    {"pyramid", true, false, false, Statistic::kNone, PyramidShares},
    {"squeeze", true, false, false, Statistic::kCosine, SqueezeShares},
    {"kv-compress", true, true, false, Statistic::kBlockScores, KvCompressShares},
    {"dense-first", true, false, false, Statistic::kNone, DenseFirstShares},
    {"kv-compress-plain", true, true, false, Statistic::kPlainBlockScores, KvCompressPlainShares},
    {"kv-compress-full", true, true, false, Statistic::kFullBlockScores, KvCompressFullShares},
    {"global", false, true, true, Statistic::kNone, UniformShares},
};

}  // namespace

std::span<const Policy> Policies() { return kPolicies; }

}  // namespace lectern
