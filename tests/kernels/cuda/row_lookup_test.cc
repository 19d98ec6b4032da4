#include "kernels/cuda/row_lookup.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <numeric>

#include "index/row_codes.h"
#include "kernels/cuda/key_squares.h"
#include "kernels/cuda/lookup.h"
#include "kernels/sign_logits.h"
#include "tests/kernels/cuda/cuda_case.h"

namespace lectern {
namespace {

// A layer of drawn codes, and what the definition makes of them in double.
struct Case {
  std::vector<uint32_t> num_rows;  // of each kv head
  size_t num_queries = 4, dim = 64;
  size_t rows_per_cluster = 7, rows_per_group = 40;
  size_t num_tokens = 1;  // num_queries % num_tokens == 0
  Dtype dtype = Dtype::kF16;
  float scale = 0.25f, softcap = 0;
  bool has_known = true, has_weights = true;
  bool equal_centroids = false;
  float factor = 0.3f;  // of the codes; 0: rows of a cluster are equal

  std::vector<uint32_t> row_begin, clusters, group_begin;
  std::vector<uint8_t> planes, fine_planes;
  std::vector<uint16_t> queries, centroids;
  std::vector<uint32_t> cluster_begin = {0}, first_row;
  std::vector<float> factors, fine_factors, known, weights;
  uint32_t most_rows = 0, most_groups = 0, most_clusters = 0;
  uint64_t all_rows = 0;
  // [head][R * rows]: by row codes, and by fine codes.
  std::vector<std::vector<float>> logits, fine_logits;

  size_t plane_bytes() const { return PlaneBytes(dim); }
  size_t num_heads() const { return num_rows.size(); }

  size_t group() const { return num_queries / num_tokens; }
  size_t query_stride() const { return (num_heads() * group() + 1) * dim; }
  const float* QueryOf(const Matrix& of, size_t head, size_t r) const {
    return of[r / group()] + (head * group() + r % group()) * dim;
  }
  // Bits in the queries' type; `values` become what they are worth.
  std::vector<uint16_t> Round(Matrix& values) const {
    std::vector<uint16_t> bits(values.data.size());
    auto* const bytes = reinterpret_cast<std::byte*>(bits.data());
    FromFloatRowsScalar(values.rows, dtype, bytes);
    ToFloatRowsScalar({bytes, dtype, values.rows.num_rows, values.rows.num_cols}, values.rows);
    return bits;
  }

  void Draw() {
    most_rows = *std::max_element(num_rows.begin(), num_rows.end());
    most_groups = static_cast<uint32_t>((most_rows + rows_per_group - 1) / rows_per_group);
    most_clusters = static_cast<uint32_t>((most_rows + rows_per_cluster - 1) / rows_per_cluster);
    std::mt19937 engine(7);
    std::uniform_real_distribution<float> uniform(0, 1);
    // Queries as attention takes them, with columns that are nobody's.
    Matrix drawn = Matrix::Random(num_tokens, query_stride(), 10);
    queries = Round(drawn);
    for (size_t h = 0; h < num_heads(); ++h) {
      row_begin.push_back(static_cast<uint32_t>(factors.size()));
      all_rows += num_rows[h];
      for (uint32_t g = 0; g <= most_groups; ++g) {
        group_begin.push_back(std::min(static_cast<uint32_t>(g * rows_per_group), num_rows[h]));
      }
      first_row.push_back(static_cast<uint32_t>(1000 * h + 7));
      Matrix rotated(num_queries, dim);
      for (size_t r = 0; r < num_queries; ++r) {
        for (size_t c = 0; c < dim; ++c) rotated[r][c] = scale * QueryOf(drawn, h, r)[c];
        Rotate({rotated[r], dim});
      }
      std::vector<uint8_t> of_head(num_queries * SignTableBytes(dim));
      std::vector<SignScale> head_scales(num_queries);
      MakeSignTables(rotated, of_head, head_scales);
      const size_t num_clusters = (num_rows[h] + rows_per_cluster - 1) / rows_per_cluster;
      Matrix head_centroids = Matrix::Random(num_clusters, dim, 50 + static_cast<unsigned>(h));
      if (equal_centroids) std::ranges::fill(head_centroids.data, 0.5f);
      const std::vector<uint16_t> rounded = Round(head_centroids);
      centroids.insert(centroids.end(), rounded.begin(), rounded.end());
      cluster_begin.push_back(cluster_begin.back() + static_cast<uint32_t>(num_clusters));
      const size_t bytes = PackedSignBytes(num_rows[h], plane_bytes());
      // Planes of the row's number of three bits, side by side, and packed.
      std::vector<std::byte> of_rows(num_rows[h] * 3 * plane_bytes());
      for (std::byte& byte : of_rows) byte = static_cast<std::byte>(engine());
      std::array<std::vector<std::byte>, 3> packed;
      for (size_t p = 0; p < 3; ++p) {
        packed[p].resize(bytes);
        if (num_rows[h] == 0) continue;
        PackSignsScalar({.planes = of_rows.data() + p * plane_bytes(),
                         .stride = 3 * plane_bytes(),
                         .num_rows = num_rows[h],
                         .plane_bytes = plane_bytes(),
                         .packed = packed[p].data()});
      }
      const std::vector<std::byte>& signs = packed[0];
      Matrix expected(num_queries, num_rows[h]);
      std::vector<float> head_factors;
      for (uint32_t t = 0; t < num_rows[h]; ++t) {
        const auto cluster = static_cast<uint32_t>(t / rows_per_cluster);
        clusters.push_back(cluster);
        head_factors.push_back(factor * uniform(engine));
        for (size_t r = 0; r < num_queries; ++r) {
          double dot = 0;
          for (size_t c = 0; c < dim; ++c) {
            dot += double{QueryOf(drawn, h, r)[c]} * head_centroids[cluster][c];
          }
          expected[r][t] = static_cast<float>(scale * dot);
        }
      }
      Matrix fine = expected;
      AddSignLogitsScalar({.tables = of_head,
                           .scales = head_scales,
                           .plane_bytes = plane_bytes(),
                           .planes = {signs.data()},
                           .factors = head_factors,
                           .logits = expected.rows});
      std::vector<float> head_fine_factors;
      for (const float f : head_factors) head_fine_factors.push_back(f / 5);
      AddSignLogitsScalar({.tables = of_head,
                           .scales = head_scales,
                           .plane_bytes = plane_bytes(),
                           .planes = {signs.data(), packed[1].data(), packed[2].data()},
                           .factors = head_fine_factors,
                           .logits = {fine.data.data(), num_queries, num_rows[h]}});
      for (Matrix* const of : {&expected, &fine}) {
        for (float& logit : of->data) {
          if (softcap > 0) logit = softcap * std::tanh(logit / softcap);
        }
      }
      logits.push_back(expected.data);
      fine_logits.push_back(fine.data);
      for (const std::byte byte : of_rows) fine_planes.push_back(static_cast<uint8_t>(byte));
      fine_factors.insert(fine_factors.end(), head_fine_factors.begin(), head_fine_factors.end());
      for (const std::byte byte : signs) planes.push_back(static_cast<uint8_t>(byte));
      factors.insert(factors.end(), head_factors.begin(), head_factors.end());
      factors.resize((factors.size() + 31) / 32 * 32);
      clusters.resize(factors.size());
      fine_factors.resize(factors.size());
      fine_planes.resize(factors.size() * 3 * plane_bytes());
    }
    for (size_t i = 0; i < num_heads() * num_queries; ++i) {
      known.push_back(i % 3 == 2 ? -INFINITY : 4 * uniform(engine));
    }
    float sum = 0;
    for (size_t r = 0; r < num_queries; ++r) {
      weights.push_back(r == 1 ? 0 : uniform(engine));
      sum += weights.back();
    }
    for (float& weight : weights) weight /= sum;
  }

  double Logit(size_t head, size_t r, uint32_t t) const {
    return logits[head][r * num_rows[head] + t];
  }
  double Lse(size_t head, size_t r) const {
    double sum = has_known ? std::exp(double{known[head * num_queries + r]}) : 0;
    for (uint32_t t = 0; t < num_rows[head]; ++t) sum += std::exp(Logit(head, r, t));
    return std::log(sum);
  }
  // [head][rows]
  std::vector<std::vector<double>> Scores() const {
    std::vector<std::vector<double>> scores;
    for (size_t h = 0; h < num_heads(); ++h) {
      scores.emplace_back(num_rows[h], 0.0);
      for (size_t r = 0; r < num_queries; ++r) {
        const double weight = has_weights ? weights[r] : 1 / static_cast<double>(num_queries);
        const double lse = Lse(h, r);
        for (uint32_t t = 0; t < num_rows[h]; ++t) {
          scores[h][t] += weight * std::exp(Logit(h, r, t) - lse);
        }
      }
    }
    return scores;
  }
  // The best rows by row codes; their logits become those by fine codes.
  std::vector<std::vector<bool>> Refine(uint32_t count) {
    const auto scores = Scores();
    std::vector<std::pair<size_t, uint32_t>> order;
    std::vector<std::vector<bool>> is_refined;
    for (size_t h = 0; h < num_heads(); ++h) {
      is_refined.emplace_back(num_rows[h], false);
      for (uint32_t t = 0; t < num_rows[h]; ++t) order.emplace_back(h, t);
    }
    std::stable_sort(order.begin(), order.end(), [&](const auto& a, const auto& b) {
      return scores[a.first][a.second] > scores[b.first][b.second];
    });
    order.resize(count);
    for (const auto& [h, t] : order) {
      is_refined[h][t] = true;
      for (size_t r = 0; r < num_queries; ++r) {
        logits[h][r * num_rows[h] + t] = fine_logits[h][r * num_rows[h] + t];
      }
    }
    return is_refined;
  }
};

class CudaRowLookupTest : public CudaTest {
 public:
  struct Found {
    std::vector<uint32_t> rows, counts;
    std::vector<float> lse, tail, tail_lse;
  };
  // `then`: with what was found, on the device.
  Found Run(const Case& of, uint32_t num_refined, uint32_t num_wanted,
            const std::function<void(const CudaRowLookupArgs&)>& then = {}) {
    const auto planes = Upload(of.planes), fine_planes = Upload(of.fine_planes);
    const auto fine_factors = Upload(of.fine_factors);
    const auto query_bits = Upload(of.queries), centroids = Upload(of.centroids);
    const auto cluster_begin = Upload(of.cluster_begin), first_row = Upload(of.first_row);
    const auto rotation = Upload(RotationSigns(of.dim));
    const auto factors = Upload(of.factors), known = Upload(of.known);
    const auto weights = Upload(of.weights);
    const auto clusters = Upload(of.clusters), row_begin = Upload(of.row_begin);
    const auto num_rows = Upload(of.num_rows), group_begin = Upload(of.group_begin);
    const size_t queries = of.num_heads() * of.num_queries;
    CudaRowLookupArgs args;
    args.codes = {.planes = planes.data(),
                  .factors = factors.data(),
                  .fine_planes = fine_planes.data(),
                  .fine_factors = fine_factors.data(),
                  .clusters = clusters.data(),
                  .row_begin = row_begin.data(),
                  .num_rows = num_rows.data(),
                  .group_begin = group_begin.data(),
                  .centroids = centroids.data(),
                  .cluster_begin = cluster_begin.data(),
                  .rotation = rotation.data(),
                  .num_kv_heads = static_cast<uint32_t>(of.num_heads()),
                  .most_rows = of.most_rows,
                  .most_groups = of.most_groups,
                  .most_clusters = of.most_clusters,
                  .all_rows = of.all_rows,
                  .plane_bytes = static_cast<uint32_t>(of.plane_bytes())};
    args.queries = {.data = query_bits.data(),
                    .dtype = of.dtype,
                    .stride = of.query_stride(),
                    .num_tokens = static_cast<uint32_t>(of.num_tokens),
                    .num_kv_heads = static_cast<uint32_t>(of.num_heads()),
                    .group = static_cast<uint32_t>(of.group()),
                    .head_dim = static_cast<uint32_t>(of.dim)};
    args.scale = of.scale;
    const size_t num_scratch =
        CudaRowLookupScratch(args.codes, static_cast<uint32_t>(of.num_queries));
    if (scratch_.size() != num_scratch) scratch_ = Make<float>(num_scratch);
    const auto rows = Make<uint32_t>(num_wanted), counts = Make<uint32_t>(of.num_heads());
    const auto lse = Make<float>(queries), tail = Make<float>(queries * of.most_groups);
    const auto tail_lse = Make<float>(queries);
    args.first_row = of.has_known ? first_row.data() : nullptr;
    args.softcap = of.softcap;
    args.known_lse = of.has_known ? known.data() : nullptr;
    args.row_weights = of.has_weights ? weights.data() : nullptr;
    args.num_refined = num_refined;
    args.num_wanted = num_wanted;
    args.scratch = scratch_.data();
    args.rows = rows.data();
    args.counts = counts.data();
    args.lse = lse.data();
    args.tail = tail.data();
    args.tail_lse = tail_lse.data();
    Expect(CudaRowLookup(stream_, args));
    if (then) then(args);
    Found found = {Download(rows), Download(counts), Download(lse), Download(tail),
                   Download(tail_lse)};
    size_t at = 0;  // rows as their head counts them
    for (size_t h = 0; h < of.num_heads(); ++h) {
      for (uint32_t i = 0; i < found.counts[h] && at < found.rows.size(); ++i, ++at) {
        if (args.first_row != nullptr) found.rows[at] -= of.first_row[h];
      }
    }
    return found;
  }

  DeviceBuffer<float> scratch_;

  // Every list is ascending, and of the refined rows none that is left has a larger score than one
  // that is listed; sums are those of the definition.
  void Check(Case of, uint32_t num_refined, uint32_t num_wanted) {
    const Found found = Run(of, num_refined, num_wanted);
    ASSERT_EQ(std::accumulate(found.counts.begin(), found.counts.end(), 0u), num_wanted);
    const auto is_refined = of.Refine(num_refined);
    const auto scores = of.Scores();
    double least = INFINITY, most = 0;  // of those listed; of those left
    size_t at = 0;
    for (size_t h = 0; h < of.num_heads(); ++h) {
      std::vector<bool> is_listed(of.num_rows[h]);
      for (uint32_t i = 0; i < found.counts[h]; ++i, ++at) {
        const uint32_t row = found.rows[at];
        ASSERT_LT(row, of.num_rows[h]);
        ASSERT_TRUE(i == 0 || found.rows[at - 1] < row);
        EXPECT_TRUE(is_refined[h][row]);
        is_listed[row] = true;
      }
      for (uint32_t t = 0; t < of.num_rows[h]; ++t) {
        if (is_listed[t]) {
          least = std::min(least, scores[h][t]);
        } else if (is_refined[h][t]) {
          most = std::max(most, scores[h][t]);
        }
      }
      for (size_t r = 0; r < of.num_queries; ++r) {
        const double lse = of.Lse(h, r);
        const float got = found.lse[h * of.num_queries + r];
        if (lse == -INFINITY) {  // no row, and nothing is known
          EXPECT_EQ(got, -INFINITY);
        } else {
          EXPECT_NEAR(got, lse, 3e-5);
        }
        double all_tails = 0;
        for (uint32_t g = 0; g < of.most_groups; ++g) {
          const uint32_t* const begins = of.group_begin.data() + h * (of.most_groups + 1) + g;
          double sum = 0;
          for (uint32_t t = begins[0]; t < begins[1]; ++t) {
            if (!is_listed[t]) sum += std::exp(of.Logit(h, r, t));
          }
          const float tail = found.tail[(h * of.num_queries + r) * of.most_groups + g];
          if (sum == 0) {
            EXPECT_EQ(tail, -INFINITY);
          } else {
            EXPECT_NEAR(tail, std::log(sum), 1e-4);
          }
          all_tails += sum;
        }
        const float tail_lse = found.tail_lse[h * of.num_queries + r];
        if (all_tails == 0) {
          EXPECT_EQ(tail_lse, -INFINITY);
        } else {
          EXPECT_NEAR(tail_lse, std::log(all_tails), 1e-4);
        }
      }
    }
    EXPECT_GE(least, most * (1 - 1e-4));  // tensor cores truncate
  }
};

TEST_P(CudaRowLookupTest, ListsTheBestOfAllHeads) {
  for (const size_t num_queries : {1, 4, 7, 16}) {
    SCOPED_TRACE(num_queries);
    Case of;
    of.num_rows = {1500, 3, 1024, 0, 2100};
    of.num_queries = num_queries;
    of.dim = num_queries == 1 ? 8 : num_queries == 7 ? 104 : num_queries == 16 ? 256 : 64;
    of.num_tokens = num_queries == 16 ? 2 : 1;
    of.dtype = num_queries == 7 ? Dtype::kBf16 : Dtype::kF16;
    of.scale = 1 / std::sqrt(static_cast<float>(of.dim));
    of.softcap = num_queries == 7 ? 3 : 0;
    of.has_known = num_queries != 1;
    of.has_weights = num_queries > 4;
    of.Draw();
    Check(of, 600, 200);
  }
}

TEST_P(CudaRowLookupTest, ListsFromOneRowToAll) {
  Case of;
  of.num_rows = {1100, 40};
  of.Draw();
  for (const uint32_t num_wanted : {1u, 2u, 1139u, 1140u}) {
    Check(of, num_wanted, num_wanted);
    Check(of, std::min(1140u, 4 * num_wanted), num_wanted);
  }
}

// More heads than a block has threads, of which most have few rows or none.
TEST_P(CudaRowLookupTest, ListsTheBestOfManyHeads) {
  Case of;
  for (uint32_t h = 0; h < 260; ++h) of.num_rows.push_back(h == 257 ? 1100 : h % 5 * 3);
  of.num_queries = 2;
  of.dim = 8;
  of.Draw();
  Check(of, 1300, 700);
}

// More tiles of a head than a block has threads.
TEST_P(CudaRowLookupTest, ListsTheBestOfManyRows) {
  Case of;
  of.num_rows = {265000, 20};
  of.num_queries = 1;
  of.dim = 8;
  of.rows_per_group = 3000;
  of.Draw();
  Check(of, 30000, 10000);
}

// Whatever blocks ran when, and also where memory is what an earlier lookup left.
TEST_P(CudaRowLookupTest, FindsTheSameBitsEachTime) {
  Case of;
  of.num_rows = {1500, 700, 2100};
  of.num_queries = 5;
  of.Draw();
  const uint64_t before = cuda_emulation::NumLaunches();
  const Found first = Run(of, 900, 300);
  if (GetParam() != CudaMachine::kGpu) {
    EXPECT_EQ(cuda_emulation::NumLaunches() - before, 13u);  // as the header says
  }
  for (uint64_t seed = 1; seed < 4; ++seed) {
    if (GetParam() == CudaMachine::kEmulatedShuffled) cuda_emulation::SetSeed(seed * 977);
    const Found again = Run(of, 900, 300);
    EXPECT_EQ(again.rows, first.rows);
    EXPECT_EQ(again.counts, first.counts);
    EXPECT_EQ(again.lse, first.lse);
    EXPECT_EQ(again.tail, first.tail);
    EXPECT_EQ(again.tail_lse, first.tail_lse);
  }
}

// Of rows of the same score the first ones, head by head.
TEST_P(CudaRowLookupTest, TakesEqualRowsInTheirOrder) {
  Case of;
  of.num_rows = {30, 2500};
  of.rows_per_cluster = 10000;
  of.factor = 0;
  of.has_weights = of.has_known = false;
  of.equal_centroids = true;
  of.Draw();
  const Found found = Run(of, 1400, 1300);  // of the first head each row counts more
  EXPECT_EQ(found.counts, (std::vector<uint32_t>{30, 1270}));
  for (uint32_t i = 0; i < 1300; ++i) ASSERT_EQ(found.rows[i], i < 30 ? i : i - 30);
  const Found few = Run(of, 20, 20);
  EXPECT_EQ(few.counts, (std::vector<uint32_t>{20, 0}));
  for (uint32_t i = 0; i < 20; ++i) ASSERT_EQ(few.rows[i], i);
}

// Better rows lie among those of the cut's score, before and after the last one that is listed.
TEST_P(CudaRowLookupTest, TakesTheFirstOfEqualRowsBesideBetterOnes) {
  Case of;
  of.num_rows = {1400, 30, 2500};
  of.rows_per_cluster = 310;
  of.factor = 0;
  of.Draw();
  const auto scores = of.Scores();
  std::vector<std::pair<size_t, uint32_t>> order;
  for (size_t h = 0; h < of.num_heads(); ++h) {
    for (uint32_t t = 0; t < of.num_rows[h]; ++t) order.emplace_back(h, t);
  }
  std::stable_sort(order.begin(), order.end(), [&](const auto& a, const auto& b) {
    return scores[a.first][a.second] > scores[b.first][b.second];
  });
  for (const uint32_t num_wanted : {100u, 700u, 1300u, 2000u, 3700u}) {
    SCOPED_TRACE(num_wanted);
    const uint32_t all_rows = static_cast<uint32_t>(order.size());
    const Found found = Run(of, std::min(all_rows, num_wanted + 777), num_wanted);
    std::vector<std::pair<size_t, uint32_t>> best(order.begin(), order.begin() + num_wanted);
    std::sort(best.begin(), best.end());
    ASSERT_EQ(std::accumulate(found.counts.begin(), found.counts.end(), 0u), num_wanted);
    for (size_t h = 0, at = 0; h < of.num_heads(); ++h) {
      for (uint32_t i = 0; i < found.counts[h]; ++i, ++at) {
        ASSERT_EQ(best[at], std::pair(h, found.rows[at])) << at;
      }
    }
  }
}

// A token's attention from its queries to its output, nothing of it by way of the host: the list
// and the tail as two sources, and the evidence of what was read.
TEST_P(CudaRowLookupTest, ListAndTailAreSourcesOfAttention) {
  Case of;
  of.num_rows = {900, 0, 1500};
  of.num_queries = 4;
  of.Draw();
  constexpr uint32_t kWanted = 200, kHeads = 3, kGroup = 4, kDim = 64, kRows = 3600;
  const uint32_t num_groups = of.most_groups, cols = kHeads * kGroup * kDim;
  Matrix keys = Matrix::Random(kRows, kDim, 21), values = Matrix::Random(kRows, kDim, 22);
  Matrix means = Matrix::Random(kHeads * num_groups, kDim, 23);
  const auto key_bits = Upload(of.Round(keys)), value_bits = Upload(of.Round(values));
  const auto mean_bits = Upload(of.Round(means));
  std::vector<ExtraRange> tails;
  for (uint32_t h = 0; h < kHeads; ++h) tails.push_back({1, h * num_groups, (h + 1) * num_groups});
  const auto extra = Upload(tails);
  std::vector<uint32_t> positions(kRows);
  for (uint32_t i = 0; i < kRows; ++i) positions[i] = i % 1000;
  const auto device_positions = Upload(positions);
  const auto squares = Upload(std::vector<uint64_t>(1000));
  const auto most_items =
      static_cast<uint32_t>(MostAttentionItems(kWanted + kHeads * num_groups, 2 * kHeads, 64));
  const auto items = Make<AttentionItem>(most_items);
  const auto begins = Make<uint32_t>(kHeads + 1), num_items = Make<uint32_t>(1);
  const auto out = Make<float>(most_items * kGroup * kDim);
  const auto max = Make<float>(most_items * kGroup), sum = Make<float>(most_items * kGroup);
  const auto output = Make<float>(cols), lse = Make<float>(kHeads * kGroup);
  const Found found = Run(of, 600, kWanted, [&](const CudaRowLookupArgs& lookup) {
    Expect(CudaCutItems(stream_, {.heads = nullptr,
                                  .counts = lookup.counts,
                                  .extra = extra.data(),
                                  .num_extra = 1,
                                  .num_kv_heads = kHeads,
                                  .rows_per_item = 64,
                                  .max_items = most_items,
                                  .items = items.data(),
                                  .item_begin = begins.data(),
                                  .num_items = num_items.data()}));
    CudaAttendArgs attend = {.queries = lookup.queries, .scale = of.scale, .num_sources = 2};
    attend.sources[0] = {.keys = key_bits.data(), .values = value_bits.data()};
    attend.sources[0].rows = lookup.rows;
    attend.sources[1] = {.values = mean_bits.data()};
    attend.sources[1].logits = lookup.tail;
    attend.sources[1].logits_stride = num_groups;
    attend.items = items.data();
    attend.num_items = num_items.data();
    attend.max_items = most_items;
    attend.states = {out.data(), max.data(), sum.data()};
    Expect(CudaAttend(stream_, attend));
    Expect(CudaJoin(stream_, {.lists = {{attend.states, begins.data()}},
                              .num_lists = 1,
                              .num_tokens = 1,
                              .num_kv_heads = kHeads,
                              .group = kGroup,
                              .head_dim = kDim,
                              .dtype = Dtype::kF32,
                              .output = output.data(),
                              .lse = lse.data()}));
    Expect(CudaKeySquares(stream_, {.queries = lookup.queries,
                                    .scale = of.scale,
                                    .source = attend.sources[0],
                                    .counts = lookup.counts,
                                    .most_entries = kWanted,
                                    .lse = lse.data(),
                                    .positions = device_positions.data(),
                                    .squares = squares.data()}));
  });
  Matrix queries(1, of.query_stride());
  ToFloatRowsScalar(
      {reinterpret_cast<const std::byte*>(of.queries.data()), of.dtype, 1, of.query_stride()},
      queries.rows);
  const auto got = Download(output), got_lse = Download(lse);
  std::vector<double> expected_squares(1000);
  for (size_t h = 0, at = 0; h < kHeads; at += found.counts[h++]) {
    for (size_t r = 0; r < kGroup; ++r) {
      std::vector<double> logits, expected(kDim);
      double total = 0;
      const auto add = [&](double logit, const float* value) {
        total += std::exp(logit);
        for (size_t c = 0; c < kDim; ++c) expected[c] += std::exp(logit) * value[c];
      };
      for (uint32_t i = 0; i < found.counts[h]; ++i) {
        const uint32_t row = of.first_row[h] + found.rows[at + i];
        double dot = 0;
        for (size_t c = 0; c < kDim; ++c)
          dot += double{of.QueryOf(queries, h, r)[c]} * keys[row][c];
        logits.push_back(of.scale * dot);
        add(logits.back(), values[row]);
      }
      for (uint32_t g = 0; g < num_groups; ++g) {
        add(found.tail[(h * kGroup + r) * num_groups + g], means[h * num_groups + g]);
      }
      if (of.num_rows[h] == 0) {
        EXPECT_EQ(got_lse[h * kGroup + r], -INFINITY);
      } else {
        EXPECT_NEAR(got_lse[h * kGroup + r], std::log(total), 2e-3);
      }
      for (size_t c = 0; c < kDim; ++c) {
        ASSERT_NEAR(got[(h * kGroup + r) * kDim + c], total > 0 ? expected[c] / total : 0, 0x1p-7)
            << h << ", " << r << ", " << c;
      }
      for (uint32_t i = 0; i < found.counts[h]; ++i) {
        expected_squares[positions[of.first_row[h] + found.rows[at + i]]] +=
            std::exp(2 * (logits[i] - std::log(total)));
      }
    }
  }
  const auto got_squares = Download(squares);
  double all = 0;
  for (size_t i = 0; i < 1000; ++i) {
    const double square = static_cast<double>(got_squares[i]) / kSquareUnits;
    EXPECT_NEAR(square, expected_squares[i], 0.01 * expected_squares[i] + 1e-9) << i;
    all += square;
  }
  EXPECT_GT(all, 0);
}

TEST_P(CudaRowLookupTest, RefusesWhatItCannotTake) {
  const auto floats = Make<float>(64);
  auto* const words = reinterpret_cast<uint32_t*>(floats.data());
  CudaRowLookupArgs good;
  good.codes = {.planes = reinterpret_cast<uint8_t*>(words),
                .factors = floats.data(),
                .fine_planes = reinterpret_cast<uint8_t*>(words),
                .fine_factors = floats.data(),
                .clusters = words,
                .row_begin = words,
                .num_rows = words,
                .group_begin = words,
                .centroids = words,
                .cluster_begin = words,
                .rotation = words,
                .num_kv_heads = 1,
                .most_rows = 8,
                .most_groups = 1,
                .most_clusters = 1,
                .all_rows = 8,
                .plane_bytes = 8};
  good.queries = {words, Dtype::kF16, 64, 1, 1, 1, 64};
  good.scale = 1;
  good.num_refined = good.num_wanted = 1;
  good.scratch = good.lse = good.tail = floats.data();
  good.rows = good.counts = words;
  const auto refuses = [&](auto change) {
    CudaRowLookupArgs args = good;
    change(args);
    return CudaRowLookup(stream_, args).code == CudaCode::kInvalidArgument;
  };
  EXPECT_TRUE(refuses([](auto& a) { a.codes.clusters = nullptr; }));
  EXPECT_TRUE(refuses([](auto& a) { ++a.codes.planes; }));
  EXPECT_TRUE(refuses([](auto& a) { a.codes.plane_bytes = 9; }));
  EXPECT_TRUE(refuses([](auto& a) { a.codes.centroids = nullptr; }));
  EXPECT_TRUE(refuses([](auto& a) { a.codes.rotation = nullptr; }));
  EXPECT_TRUE(refuses([](auto& a) { a.codes.most_clusters = 0; }));
  EXPECT_TRUE(refuses([](auto& a) { a.queries.dtype = Dtype::kF32; }));
  EXPECT_TRUE(refuses([](auto& a) { a.queries.stride = 56; }));
  EXPECT_TRUE(refuses([](auto& a) { a.queries.num_tokens = kMostLookupQueries + 1; }));
  EXPECT_TRUE(refuses([](auto& a) { a.scale = 0; }));
  EXPECT_TRUE(refuses([](auto& a) { a.num_wanted = 0; }));
  EXPECT_TRUE(refuses([](auto& a) { a.num_wanted = 2; }));
  EXPECT_TRUE(refuses([](auto& a) { a.num_refined = 9; }));
  EXPECT_TRUE(refuses([](auto& a) { a.codes.num_kv_heads = 0; }));
  EXPECT_TRUE(refuses([](auto& a) { a.softcap = NAN; }));
  EXPECT_TRUE(refuses([](auto& a) { a.tail = nullptr; }));
}

LECTERN_CUDA_TESTS(CudaRowLookupTest);

}  // namespace
}  // namespace lectern
