#include "kernels/sign_logits.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "kernels/softcap.h"

namespace lectern {

void FillSignTablesScalar(const FillSignTablesArgs& args) {
  const size_t dim = args.queries.num_cols;
  for (size_t r = 0; r < args.queries.num_rows; ++r) {
    const auto at = [&](size_t c) { return c < dim ? args.queries[r][c] : 0.0f; };
    uint8_t* table = args.tables.data() + r * SignTableBytes(dim);
    for (size_t g = 0; g < 2 * PlaneBytes(dim); ++g, table += 16) {
      float above_least[16] = {};  // the least sum has every sign against its query
      for (size_t i = 0; i < kSignGroup; ++i) {
        above_least[0] += 2 * std::max(0.0f, -at(g * kSignGroup + i));
      }
      for (size_t i = 0; i < kSignGroup; ++i) {
        const float change = 2 * at(g * kSignGroup + i);
        for (size_t bits = 0; bits < size_t{1} << i; ++bits) {
          above_least[bits + (size_t{1} << i)] = above_least[bits] + change;
        }
      }
      for (size_t bits = 0; bits < 16; ++bits) {
        table[bits] =
            static_cast<uint8_t>(std::max(0.0f, above_least[bits]) / args.scales[r].step + 0.5f);
      }
    }
  }
}

void AddSignLogitsScalar(const AddSignLogitsArgs& args) {
  constexpr std::array<uint32_t, 3> kWeights = {4, 1, 2};
  const size_t block_bytes = kSignBlock * args.plane_bytes;
  const bool one_bit = IsOneBit(args.planes);
  for (size_t r = 0; r < args.logits.num_rows; ++r) {
    const uint8_t* tables = args.tables.data() + r * args.plane_bytes * 32;
    const SignScale scale = args.scales[r];
    for (size_t t = 0; t < args.factors.size(); ++t) {
      uint32_t sum = 0;
      for (size_t p = 0; p < (one_bit ? 1 : args.planes.size()); ++p) {
        const std::byte* plane = args.planes[p] + t / kSignBlock * block_bytes + t % kSignBlock;
        uint32_t of_plane = 0;
        for (size_t b = 0; b < args.plane_bytes; ++b) {
          const auto bits = std::to_integer<uint32_t>(plane[b * kSignBlock]);
          of_plane += tables[b * 32 + (bits & 15)] + tables[b * 32 + 16 + (bits >> 4)];
        }
        sum += one_bit ? of_plane : kWeights[p] * of_plane;
      }
      const float weights = one_bit ? 1.0f : 7.0f;
      const float dot = scale.step * static_cast<float>(sum) + weights * scale.offset;
      args.logits[r][t] += args.factors[t] * dot;
    }
  }
}

void SignMassesScalar(const SignMassesArgs& args) {
  const Rows<float>&masses = args.codes.logits, &changes = args.changes;
  const auto finish = [&](const AddSignLogitsArgs& codes) {
    AddSignLogitsScalar(codes);
    for (size_t r = 0; r < codes.logits.num_rows; ++r) {
      for (size_t t = 0; t < codes.logits.num_cols; ++t) {
        float& logit = codes.logits[r][t];
        const double x = Softcapped(logit, args.softcap) - args.reference[r];
        logit = static_cast<float>(std::exp(std::min(x, 80.0)));
      }
    }
  };
  for (size_t r = 0; r < changes.num_rows; ++r) {
    std::copy_n(masses[r], masses.num_cols, changes[r]);
  }
  finish(args.codes);
  if (!args.sign_factors.empty()) finish(SignsAlone(args));
  for (size_t r = 0; r < masses.num_rows; ++r) {
    for (size_t t = 0; t < masses.num_cols; ++t) {
      if (!args.weights.empty()) args.scores[t] += args.weights[r] * masses[r][t];
      if (!args.sign_factors.empty()) changes[r][t] = masses[r][t] - changes[r][t];
    }
  }
}

void PackSignsScalar(const PackSignsArgs& args) {
  for (size_t row = 0; row < args.num_rows; ++row) {
    std::byte* const to =
        args.packed + row / kSignBlock * kSignBlock * args.plane_bytes + row % kSignBlock;
    const std::byte* const plane = args.planes + row * args.stride;
    for (size_t b = 0; b < args.plane_bytes; ++b) to[b * kSignBlock] = plane[b];
  }
}

}  // namespace lectern
