#include "tools/doctor/weights_scan.h"

#include <algorithm>
#include <cmath>

#include "kernels/convert.h"
#include "tools/quantities.h"

namespace lectern::doctor {
namespace {

// Limit of a row's largest value over the median of the rows' largest values in its matrix. In
// sound models the most that was seen is 7 (the bundled reader), 14 (Gemma 3 270M) and 16 (SmolLM2
// 135M).
constexpr double kMostOverMedian = 100;
constexpr size_t kRowsPerItem = 64;  // that a thread takes at a time

// The row of a matrix that stands out most.
struct Suspect {
  double over_median = 0;  // its largest value, see above; infinite: a value is not finite
  std::string row;         // "row 7 of q_proj of layer 0"
};

// The largest absolute value of a row; infinite where one is not finite. For packed rows the
// largest sum of a group's scale and minimum instead, which is where damage shows: the steps that a
// scale multiplies are small integers whatever their bits. `values`: scratch.
double LargestOf(const WeightMatrix& matrix, size_t row, std::vector<float>& values) {
  const size_t cols = matrix.num_cols();
  double largest = 0;
  const auto add = [&](double value) {
    largest = std::isfinite(value) ? std::max(largest, value) : INFINITY;
  };
  if (!matrix.is_packed()) {
    values.resize(cols);
    ToFloatRowsScalar(matrix.rows.Slice(row, row + 1), {values.data(), 1, cols});
    for (const float value : values) add(std::abs(value));
    return largest;
  }
  const size_t stride = kPackedGroup / PackedScales(matrix.packed.type);
  for (size_t col = 0; col < cols; col += stride) {
    add(std::abs(PackedScale(matrix.packed, row, col)) +
        std::abs(PackedMin(matrix.packed, row, col)));
  }
  return largest;
}

// The row of one matrix that stands out most.
Suspect ScanMatrix(const WeightMatrix& matrix, const std::string& name, ThreadPool& threads) {
  if (matrix.num_rows() == 0) return {};  // a layer of experts alone has no such matrix
  std::vector<double> largest(matrix.num_rows());
  threads.ParallelFor((largest.size() + kRowsPerItem - 1) / kRowsPerItem, [&](size_t i, size_t) {
    std::vector<float> values;
    const size_t end = std::min((i + 1) * kRowsPerItem, largest.size());
    for (size_t r = i * kRowsPerItem; r < end; ++r) largest[r] = LargestOf(matrix, r, values);
  });
  const auto at = std::ranges::max_element(largest);
  Suspect suspect{*at, "row " + std::to_string(at - largest.begin()) + " of " + name};
  const auto middle = largest.begin() + static_cast<ptrdiff_t>(largest.size() / 2);
  std::nth_element(largest.begin(), middle, largest.end());
  if (std::isfinite(suspect.over_median)) {
    suspect.over_median = *middle > 0 ? suspect.over_median / *middle : 0;
  }
  return suspect;
}

}  // namespace

Finding ScanWeights(const Model& model, ThreadPool& threads) {
  const Weights& weights = model.weights();
  Suspect worst = ScanMatrix(weights.embedding(), "embed_tokens", threads);
  const auto scan = [&](const WeightMatrix& matrix, const std::string& name) {
    Suspect suspect = ScanMatrix(matrix, name, threads);
    if (suspect.over_median > worst.over_median) worst = std::move(suspect);
  };
  if (!model.config().tie_word_embeddings) scan(weights.output(), "lm_head");
  for (uint32_t i = 0; i < model.config().num_layers; ++i) {
    const LayerWeights& layer = weights.layer(i);
    const std::string of = " of layer " + std::to_string(i);
    for (const auto& [name, matrix] :
         {std::pair("q_proj", &layer.q), std::pair("k_proj", &layer.k),
          std::pair("v_proj", &layer.v), std::pair("o_proj", &layer.o),
          std::pair("gate_proj", &layer.gate), std::pair("up_proj", &layer.up),
          std::pair("down_proj", &layer.down)}) {
      scan(*matrix, name + of);
    }
    for (size_t expert = 0; expert < layer.experts.size(); ++expert) {
      const ExpertWeights& own = layer.experts[expert];
      const std::string of_expert = " of expert " + std::to_string(expert) + of;
      scan(own.gate, "gate_proj" + of_expert);
      scan(own.up, "up_proj" + of_expert);
      scan(own.down, "down_proj" + of_expert);
    }
  }
  Finding finding{.name = "weights test",
                  .text = "no infinite values and no outliers (the largest row is " +
                          tools::Short(worst.over_median) + " times the median of its matrix)"};
  if (std::isinf(worst.over_median)) {
    finding.text = worst.row + " has values that are not finite: the model's file is damaged";
    finding.code = Code::kMalformedModel;
    finding.values = {{"is_finite", false}, {"row", worst.row}};
    return finding.Worsen(Verdict::kFail, "download the model again, or take another");
  }
  finding.values = {{"is_finite", true},
                    {"largest_over_median", worst.over_median},
                    {"limit", kMostOverMedian},
                    {"row", worst.row}};
  if (worst.over_median <= kMostOverMedian) return finding;
  finding.text = worst.row + " is " + tools::Short(worst.over_median) +
                 " times as large as the median row: the model's file may be damaged";
  return finding.Worsen(Verdict::kWarn, "compare the file's checksum with the published one, or "
                                        "download it again");
}

}  // namespace lectern::doctor
