#include "engine/gpu/weights.h"

#include <algorithm>
#include <atomic>
#include <numeric>

#include "engine/gpu/memory_plan.h"

namespace lectern {
namespace {

// Rows that a thread converts at a time. Chosen without measurement.
constexpr size_t kRowsPerItem = 64;
// A matrix is converted in pieces of so many bytes before these are uploaded. Chosen without
// measurement.
constexpr size_t kStagingBytes = size_t{32} << 20;

bool IsFinite(uint16_t bits, Dtype dtype) {
  const uint16_t exponent = dtype == Dtype::kF16 ? 0x7C00 : 0x7F80;
  return (bits & exponent) != exponent;
}

void RowToFloats(const Backend& backend, const WeightMatrix& matrix, size_t row,
                 Rows<float> floats) {
  if (!matrix.is_packed()) {
    return backend.to_float_rows(matrix.rows.Slice(row, row + 1), floats);
  }
  for (size_t i = 0; i < floats.num_cols; ++i) {
    floats[0][i] = PackedElement(matrix.packed, row, i);
  }
}

// The row of the file that becomes each row: pairs of a head that are neighbours go apart.
std::vector<size_t> SeparatedRows(size_t num_rows, size_t head_dim) {
  std::vector<size_t> rows(num_rows);
  for (size_t row = 0; row < num_rows; ++row) {
    const size_t at = row % head_dim, half = head_dim / 2;
    rows[row] = row - at + (at < half ? 2 * at : 2 * (at - half) + 1);
  }
  return rows;
}

}  // namespace

Dtype DeviceWeightsDtype(const Weights& weights, size_t num_layers) {
  for (size_t i = 0; i < num_layers; ++i) {
    const LayerWeights& layer = weights.layer(i);
    for (const WeightMatrix* matrix :
         {&layer.q, &layer.k, &layer.v, &layer.o, &layer.gate, &layer.up, &layer.down}) {
      if (matrix->is_packed() || matrix->rows.dtype != Dtype::kBf16) return Dtype::kF16;
    }
  }
  return Dtype::kBf16;
}

class DeviceWeightsLoader {
 public:
  DeviceWeightsLoader(DeviceStream& stream, const Model& model, const Backend& backend,
                      ThreadPool& threads)
      : stream_(stream), model_(model), backend_(backend), threads_(threads) {}

  Status Load(DeviceWeights& to) {
    const ModelConfig& config = model_.config();
    const Weights& weights = model_.weights();
    to.dtype_ = dtype_ = DeviceWeightsDtype(weights, config.num_layers);
    to.layers_.resize(config.num_layers);
    for (size_t i = 0; i < config.num_layers; ++i) {
      LECTERN_RETURN_IF_ERROR(LoadLayer(weights.layer(i), to.layers_[i]));
    }
    LECTERN_RETURN_IF_ERROR(Upload({{weights.output()}}, to.output_));
    LECTERN_RETURN_IF_ERROR(Upload(weights.final_norm(), to.final_norm_));
    return stream_.Wait();
  }

 private:
  // Uploads the matrices and vectors of one layer, in the order that DeviceWeights::Layer states.
  Status LoadLayer(const LayerWeights& from, DeviceWeights::Layer& to) {
    const ModelConfig& config = model_.config();
    std::vector<size_t> q_rows, k_rows;
    if (config.rope.has_neighbours) {
      q_rows = SeparatedRows(from.q.num_rows(), config.head_dim);
      k_rows = SeparatedRows(from.k.num_rows(), config.head_dim);
    }
    LECTERN_RETURN_IF_ERROR(Upload({{from.q, q_rows}, {from.k, k_rows}, {from.v}}, to.qkv));
    LECTERN_RETURN_IF_ERROR(Upload({{from.o}}, to.o));
    LECTERN_RETURN_IF_ERROR(Upload({{from.gate}, {from.up}}, to.gate_up));
    LECTERN_RETURN_IF_ERROR(Upload({{from.down}}, to.down));
    LECTERN_RETURN_IF_ERROR(Upload(from.attention_norm, to.attention_norm));
    LECTERN_RETURN_IF_ERROR(Upload(from.mlp_norm, to.mlp_norm));
    LECTERN_RETURN_IF_ERROR(Upload(from.attention_post_norm, to.attention_post_norm));
    LECTERN_RETURN_IF_ERROR(Upload(from.mlp_post_norm, to.mlp_post_norm));
    LECTERN_RETURN_IF_ERROR(Upload(from.q_norm, to.q_norm));
    LECTERN_RETURN_IF_ERROR(Upload(from.k_norm, to.k_norm));
    LECTERN_RETURN_IF_ERROR(Upload(Ordered(from.q_bias, q_rows), to.q_bias));
    LECTERN_RETURN_IF_ERROR(Upload(Ordered(from.k_bias, k_rows), to.k_bias));
    LECTERN_RETURN_IF_ERROR(Upload(from.v_bias, to.v_bias));
    return Upload(from.o_bias, to.o_bias);
  }

  static std::vector<float> Ordered(const std::vector<float>& bias,
                                    const std::vector<size_t>& rows) {
    if (rows.empty() || bias.empty()) return bias;
    std::vector<float> ordered;
    for (const size_t row : rows) ordered.push_back(bias[row]);
    return ordered;
  }

  Status Upload(const std::vector<float>& from, DeviceArray<float>& to) {
    if (from.empty()) return {};
    LECTERN_RETURN_IF_ERROR(to.Reserve(stream_, from.size(), "the model"));
    const WaitsForStream wait(stream_);  // `from` may be a temporary
    return to.Upload(stream_, from.data(), from.size());
  }

  // `order`: the row of `from` that becomes each row; empty: as they are.
  struct Part {
    const WeightMatrix& from;
    std::vector<size_t> order = {};
  };
  // Uploads several matrices as one, one below the other.
  Status Upload(const std::vector<Part>& parts, DeviceWeights::Matrix& to) {
    to.num_cols = parts.front().from.num_cols();
    for (const Part& part : parts) to.num_rows += part.from.num_rows();
    LECTERN_RETURN_IF_ERROR(to.data.Reserve(stream_, to.num_rows * to.num_cols, "the model"));
    const WaitsForStream wait(stream_);
    size_t first_row = 0;
    for (const Part& part : parts) {
      LECTERN_RETURN_IF_ERROR(UploadPart(part, first_row, to));
      first_row += part.from.num_rows();
    }
    return {};
  }
  // Converts a matrix in pieces and uploads them to the rows from `first_row` on.
  // kUnsupportedModel: a weight does not fit the type.
  Status UploadPart(const Part& part, size_t first_row, const DeviceWeights::Matrix& to) {
    const size_t step =
        std::max<size_t>(1, kStagingBytes / (to.num_cols * sizeof(uint16_t)) / kRowsPerItem) *
        kRowsPerItem;
    const size_t num_rows = part.from.num_rows();
    for (size_t begin = 0; begin < num_rows; begin += step) {
      const size_t count = std::min(step, num_rows - begin);
      LECTERN_RETURN_IF_ERROR(stream_.Wait());  // for what is in the staging memory
      if (!Convert(part.from, part.order, begin, count)) {
        return {Code::kUnsupportedModel,
                model_.folder() +
                    ": a weight is not finite or too large for f16, as which the GPU multiplies "
                    "it; run on the CPU (" +
                    OptionName("device", "cpu") + ")"};
      }
      LECTERN_RETURN_IF_ERROR(to.data.Upload(stream_, staging_.data(), count * to.num_cols,
                                             (first_row + begin) * to.num_cols));
    }
    return {};
  }

  // Rows [begin, begin + count) into staging_; false: one does not fit its type.
  bool Convert(const WeightMatrix& from, const std::vector<size_t>& order, size_t begin,
               size_t count) {
    const size_t cols = from.num_cols();
    staging_.resize(std::max(staging_.size(), count * cols));
    std::atomic<bool> fits = true;
    threads_.ParallelFor((count + kRowsPerItem - 1) / kRowsPerItem, [&](size_t item, size_t) {
      std::vector<float> floats(cols);
      const size_t end = std::min((item + 1) * kRowsPerItem, count);
      for (size_t i = item * kRowsPerItem; i < end; ++i) {
        uint16_t* const to = staging_.data() + i * cols;
        const Rows<float> row(floats.data(), 1, cols);
        RowToFloats(backend_, from, order.empty() ? begin + i : order[begin + i], row);
        backend_.from_float_rows(row, dtype_, reinterpret_cast<std::byte*>(to));
        const auto is_finite = [this](uint16_t bits) { return IsFinite(bits, dtype_); };
        if (!std::all_of(to, to + cols, is_finite)) fits = false;
      }
    });
    return fits;
  }

  DeviceStream& stream_;
  const Model& model_;
  const Backend& backend_;
  ThreadPool& threads_;
  Dtype dtype_ = Dtype::kF16;
  std::vector<uint16_t> staging_;
};

Result<std::unique_ptr<DeviceWeights>> DeviceWeights::Load(DeviceStream& stream,
                                                           const Model& model,
                                                           const Backend& backend,
                                                           ThreadPool& threads) {
  LECTERN_RETURN_IF_ERROR(CheckDevicePlan(model.config(), *stream.device().memory(),
                                          model.folder()));
  auto weights = std::make_unique<DeviceWeights>();
  LECTERN_RETURN_IF_ERROR(
      DeviceWeightsLoader(stream, model, backend, threads).Load(*weights));
  return weights;
}

}  // namespace lectern
