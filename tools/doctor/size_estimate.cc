#include "tools/doctor/size_estimate.h"

#include <algorithm>
#include <chrono>
#include <vector>

#include "engine/model/weights/weight_plan.h"
#include "tools/quantities.h"

namespace lectern::doctor {
namespace {

using tools::Bytes;
using tools::Short;

// The size of a kind of weights: all of them, and those that are read for a token.
struct WeightsSize {
  double all = 0, of_token = 0;
};

// Sums `size_of(name, shape)` over the tensors of the plan. Of experts a token reads those that it
// goes through; of an embedding that is not the output matrix, too, one row.
template <typename SizeOf>
WeightsSize SumOf(const WeightPlan& plan, const ModelConfig& config, const SizeOf& size_of) {
  const double used = config.experts.used, count = std::max(1u, config.experts.count);
  WeightsSize sum;
  for (const auto& [name, shape] : plan) {
    const double size = size_of(name, shape);
    sum.all += size;
    const bool is_looked_up = name == kEmbedding && !config.tie_word_embeddings;
    sum.of_token += is_looked_up ? 0 : IsOfExpert(name) ? size * used / count : size;
  }
  return sum;
}

double NumValues(const std::vector<uint64_t>& shape) {
  double values = 1;
  for (const uint64_t size : shape) values *= static_cast<double>(size);
  return values;
}

// Bytes a second at which the threads read memory that no cache holds.
double MemorySpeed(ThreadPool& threads) {
  constexpr size_t kWordsRead = size_t{32} << 20, kWordsPerItem = size_t{1} << 18;  // 256 MB, 2 MB
  const std::vector<uint64_t> words(kWordsRead, 1);
  std::vector<uint64_t> sums(kWordsRead / kWordsPerItem);
  double best = 0;
  for (int round = 0; round < 4; ++round) {
    const auto start = std::chrono::steady_clock::now();
    threads.ParallelFor(sums.size(), [&](size_t item, size_t) {
      const uint64_t* const from = words.data() + item * kWordsPerItem;
      uint64_t sum = 0;
      for (size_t i = 0; i < kWordsPerItem; ++i) sum += from[i];
      sums[item] += sum;
    });
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
    best = std::max(best, kWordsRead * sizeof(uint64_t) / taken.count());
  }
  // The sums are used, so that nobody leaves the reading out.
  return sums[0] > 0 ? best : 0;
}

}  // namespace

Finding EstimateSize(const ModelConfig& config, ThreadPool& threads) {
  const WeightPlan plan = MakeWeightPlan(config);
  const WeightsSize parameters =
      SumOf(plan, config, [](const std::string&, const auto& shape) { return NumValues(shape); });
  const auto packed = [&](WeightsType type) {
    return SumOf(plan, config, [&](const std::string& name, const std::vector<uint64_t>& shape) {
      const auto packing =
          shape.size() == 2 ? PackingOf(name, TensorType::kBf16, type, config) : std::nullopt;
      if (!packing || shape[1] % kPackedGroup != 0) return 2 * NumValues(shape);
      return static_cast<double>(PackedRows{nullptr, *packing, shape[0], shape[1]}.bytes());
    });
  };
  const WeightsSize q8 = packed(WeightsType::kQ8), q4 = packed(WeightsType::kQ4);
  const double kv = 4.0 * config.num_layers * config.num_kv_heads * config.head_dim;
  const double speed = MemorySpeed(threads);
  const auto bytes = [](double count) { return Bytes(static_cast<uint64_t>(count)); };
  Finding finding{
      .name = "size",
      .text = Short(parameters.all / 1e9) + " billion parameters, " +
              Short(parameters.of_token / 1e9) + " billion of them for a token; the weights take " +
              bytes(2 * parameters.all) + " as BF16, " + bytes(q8.all) + " as q8 and " +
              bytes(q4.all) + " as q4, of which a token reads " + bytes(2 * parameters.of_token) +
              ", " + bytes(q8.of_token) + " and " + bytes(q4.of_token) + "; keys and values take " +
              bytes(kv) + " for each token of a document; memory is read with " + bytes(speed) +
              "/s here, so answers come with at most " + Short(speed / q4.of_token) +
              " tokens/s as q4 (estimated from config.json alone)"};
  finding.values = {{"parameters", parameters.all},
                    {"active_parameters", parameters.of_token},
                    {"bf16_bytes", 2 * parameters.all},
                    {"q8_bytes", q8.all},
                    {"q4_bytes", q4.all},
                    {"q8_bytes_of_token", q8.of_token},
                    {"q4_bytes_of_token", q4.of_token},
                    {"kv_bytes_of_token", kv},
                    {"memory_bytes_per_second", speed},
                    {"is_estimate", true}};
  return finding;
}

}  // namespace lectern::doctor
