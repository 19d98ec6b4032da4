#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/attention.h"
#include "kernels/element.h"
#include "kernels/softcap.h"

namespace lectern {
namespace {

constexpr double kNothing = -std::numeric_limits<double>::infinity();

double Logit(const AttendArgs& args, size_t r, size_t j) {
  double dot = 0;
  for (size_t c = 0; c < args.queries.num_cols; ++c) {
    dot +=
        static_cast<double>(args.queries[r][c]) * LoadElement(args.keys.row(j), args.keys.dtype, c);
  }
  return Softcapped(args.scale * dot, args.softcap);
}

// Attends one row. The logits are computed anew wherever they are needed, because the definition
// has no memory to keep n of them.
void AttendRow(const AttendArgs& args, size_t r, size_t first, size_t num_visible) {
  double max = args.state.max[r];
  for (size_t j = first; j < num_visible; ++j) max = std::max(max, Logit(args, r, j));
  if (max == kNothing) return;  // no key is seen, now or before

  // Rescales the sums from before to the new maximum.
  const double before = std::exp(args.state.max[r] - max);
  double sum = before * args.state.sum[r];
  for (size_t j = first; j < num_visible; ++j) sum += std::exp(Logit(args, r, j) - max);

  // Columns of `out` that are summed in double at a time: a head of most models in one go.
  constexpr size_t kBlock = 128;
  for (size_t begin = 0; begin < args.values.num_cols; begin += kBlock) {
    const size_t end = std::min(begin + kBlock, args.values.num_cols);
    double out[kBlock];
    for (size_t c = begin; c < end; ++c) out[c - begin] = before * args.state.out[r][c];
    for (size_t j = first; j < num_visible; ++j) {
      const double weight = std::exp(Logit(args, r, j) - max);
      for (size_t c = begin; c < end; ++c) {
        out[c - begin] += weight * LoadElement(args.values.row(j), args.values.dtype, c);
      }
    }
    for (size_t c = begin; c < end; ++c) args.state.out[r][c] = static_cast<float>(out[c - begin]);
  }
  args.state.max[r] = static_cast<float>(max);
  args.state.sum[r] = static_cast<float>(sum);
}

}  // namespace

void AttendScalar(const AttendArgs& args) {
  const size_t num_keys = args.keys.num_rows;
  assert(args.queries.num_rows >= 1 && num_keys >= 1 && args.values.num_rows == num_keys);
  assert(args.queries.num_cols == args.keys.num_cols);
  assert(args.values.num_cols == args.state.out.num_cols);
  for (size_t r = 0; r < args.queries.num_rows; ++r) {
    const size_t num_visible =
        args.visible.empty() ? num_keys : std::min<size_t>(args.visible[r], num_keys);
    const size_t first = args.first.empty() ? 0 : args.first[r];
    AttendRow(args, r, first, num_visible);
    if (args.logits.data == nullptr) continue;
    for (size_t j = 0; j < num_keys; ++j) {
      const bool is_seen = j >= first && j < num_visible;
      args.logits[r][j] = static_cast<float>(is_seen ? Logit(args, r, j) : kNothing);
    }
  }
}

void AttendBlocksScalar(const AttendBlocksArgs& args) {
  size_t column = 0;
  for (const KvBlock& block : args.blocks) {
    const size_t rows = block.keys.num_rows;
    AttendArgs attend = {.queries = args.queries,
                         .keys = block.keys,
                         .values = block.values,
                         .scale = args.scale,
                         .softcap = args.softcap,
                         .visible = {},
                         .state = args.state,
                         .logits = {},
                         .scratch = args.scratch};
    if (args.logits.data != nullptr) {
      attend.logits = {args.logits.data + column, args.logits.num_rows, rows, args.logits.stride};
    }
    AttendScalar(attend);
    column += rows;
  }
}

void AttendLogitsScalar(const AttendLogitsArgs& args) {
  assert(args.values.num_rows == args.logits.num_cols);
  assert(args.state.num_rows() == args.logits.num_rows);
  for (size_t r = 0; r < args.logits.num_rows; ++r) {
    const std::span<const float> logits(args.logits[r], args.logits.num_cols);
    double max = args.state.max[r];
    for (const float logit : logits) max = std::max<double>(max, logit);
    if (max == kNothing) continue;
    const double before = std::exp(args.state.max[r] - max);
    double sum = before * args.state.sum[r];
    for (const float logit : logits) sum += std::exp(logit - max);
    for (size_t c = 0; c < args.values.num_cols; ++c) {
      double out = before * args.state.out[r][c];
      for (size_t j = 0; j < logits.size(); ++j) {
        out += std::exp(logits[j] - max) * LoadElement(args.values.row(j), args.values.dtype, c);
      }
      args.state.out[r][c] = static_cast<float>(out);
    }
    args.state.max[r] = static_cast<float>(max);
    args.state.sum[r] = static_cast<float>(sum);
  }
}

}  // namespace lectern
