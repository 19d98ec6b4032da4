#include "kernels/cuda/lookup/row_lookup.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <numeric>

#include "kernels/cuda/attention/key_squares.h"
#include "tests/kernels/cuda/cuda_case.h"
#include "tests/kernels/cuda/lookup/row_lookup_case.h"
#include "tests/kernels/cuda/lookup/uploaded_case.h"

namespace lectern {
namespace {

class CudaRowLookupTest : public CudaTest {
 public:
  using Found = FoundRows;
  // `then` is called with the arguments after the lookup, while its result is on the device.
  Found Run(const RowLookupCase& of, uint32_t num_coded, uint32_t num_refined, uint32_t num_wanted,
            const std::function<void(const CudaRowLookupArgs&)>& then = {}) {
    const UploadedCase lookup(*this, of, of.group(), of.num_queries, of.num_queries, num_wanted);
    CudaRowLookupArgs args;
    lookup.Set(args, num_coded, num_refined);
    args.row_weights = of.has_weights ? lookup.weights() : nullptr;
    const size_t num_scratch = CudaRowLookupScratch(
        args.codes, static_cast<uint32_t>(of.num_queries), num_coded, num_refined);
    if (scratch_.size() != num_scratch) scratch_ = Make<float>(num_scratch);
    args.scratch = scratch_.data();
    Expect(CudaRowLookup(stream_, args));
    if (then) then(args);
    return lookup.Found();
  }

  DeviceBuffer<float> scratch_;

  // Lists and sums are those of the definition. Cases are drawn until none of its cuts is close.
  void Check(RowLookupCase& of, uint32_t num_coded, uint32_t num_refined, uint32_t num_wanted) {
    SCOPED_TRACE(std::to_string(num_coded) + ", " + std::to_string(num_refined) + ", " +
                 std::to_string(num_wanted));
    ChosenRows chosen = {of, num_coded, num_refined, num_wanted};
    unsigned seed = 7;
    do {
      ASSERT_LT(seed, 60u);
      of.Draw(seed++);
      chosen.Choose();
    } while (!chosen.is_clear);
    const Found found = Run(of, num_coded, num_refined, num_wanted);
    ASSERT_EQ(std::accumulate(found.counts.begin(), found.counts.end(), 0u), num_wanted);
    size_t at = 0;
    for (size_t h = 0; h < of.num_heads(); ++h) {
      std::vector<uint32_t> listed;
      for (uint32_t t = 0; t < of.num_rows[h]; ++t) {
        if (chosen.is_listed[h][t]) listed.push_back(t);
      }
      ASSERT_EQ(std::vector(found.rows.begin() + static_cast<ptrdiff_t>(at),
                            found.rows.begin() + static_cast<ptrdiff_t>(at + found.counts[h])),
                listed);
      at += listed.size();
      for (size_t r = 0; r < of.num_queries; ++r) CheckMasses(chosen, found, h, r);
    }
  }
  void CheckMasses(const ChosenRows& chosen, const Found& found, size_t h, size_t r) {
    const RowLookupCase& of = chosen.of;
    const size_t query = h * of.num_queries + r;
    const auto check = [](float got, double expected, double tolerance) {
      if (expected == -INFINITY) {
        EXPECT_EQ(got, -INFINITY);
      } else {
        EXPECT_NEAR(got, expected, tolerance);
      }
    };
    check(found.lse[query], chosen.Lse(h, r), 3e-5);  // -inf: no row, and nothing is known
    double all_tails = 0;
    for (uint32_t g = 0; g < of.most_groups; ++g) {
      const double sum = chosen.TailMass(h, r, g);
      check(found.tail[query * of.most_groups + g], std::log(sum), 1e-4);
      all_tails += sum;
    }
    check(found.tail_lse[query], std::log(all_tails), 1e-4);
  }
};

TEST_P(CudaRowLookupTest, ListsTheBestOfAllHeads) {
  for (const size_t num_queries : {1, 4, 7, 16}) {
    SCOPED_TRACE(num_queries);
    RowLookupCase of;
    of.num_rows = {1500, 3, 1024, 0, 2100};
    of.num_queries = num_queries;
    of.dim = num_queries == 1 ? 8 : num_queries == 7 ? 104 : num_queries == 16 ? 256 : 128;
    of.num_tokens = num_queries == 16 ? 2 : 1;
    of.dtype = num_queries == 7 ? Dtype::kBf16 : Dtype::kF16;
    of.scale = 1 / std::sqrt(static_cast<float>(of.dim));
    of.softcap = num_queries == 7 ? 3 : 0;
    of.has_known = num_queries != 1;
    of.has_weights = num_queries > 4;
    of.has_deviations = num_queries != 4;
    Check(of, 1900, 600, 200);
  }
}

TEST_P(CudaRowLookupTest, ListsFromOneRowToAll) {
  RowLookupCase of;
  of.num_rows = {1100, 40};
  for (const uint32_t num_wanted : {1u, 2u, 1139u, 1140u}) {
    Check(of, num_wanted, num_wanted, num_wanted);
    Check(of, 1140, std::min(1140u, 4 * num_wanted), num_wanted);
    Check(of, std::min(1140u, 50 * num_wanted), std::min(1140u, 4 * num_wanted), num_wanted);
  }
}

// More heads than a block has threads, of which most have few rows or none: a tile has slots of
// many.
TEST_P(CudaRowLookupTest, ListsTheBestOfManyHeads) {
  RowLookupCase of;
  for (uint32_t h = 0; h < 260; ++h) of.num_rows.push_back(h == 257 ? 1100 : h % 5 * 3);
  of.num_queries = 2;
  of.dim = 8;
  Check(of, 2000, 1300, 700);
  Check(of, of.all_rows, 1300, 700);
}

// More tiles of a head than a block has threads, and more clusters of a tile's slots.
TEST_P(CudaRowLookupTest, ListsTheBestOfManyRows) {
  RowLookupCase of;
  of.num_rows = {265000, 20};
  of.num_queries = 1;
  of.dim = 8;
  of.clusters_per_group = 400;
  of.num_kinds = 30;
  of.factor = 0;
  Check(of, 100000, 30000, 10000);
  RowLookupCase thin;
  thin.num_rows = {20, 40000};
  thin.rows_per_cluster = 1;
  thin.num_kinds = 50;
  thin.factor = 0;
  Check(thin, 3000, 2000, 1000);
}

// A cluster that is cut in two, of which no tile of slots has all.
TEST_P(CudaRowLookupTest, CodesThePartOfACluster) {
  RowLookupCase of;
  of.num_rows = {6000, 200, 9000};
  of.rows_per_cluster = 3500;
  of.clusters_per_group = 1;
  for (const uint32_t num_coded : {100u, 3000u, 5000u, 14000u}) Check(of, num_coded, 80, 70);
}

// Row codes that take rows for far more than all that clusters tell of, and fine codes that take
// it back.
TEST_P(CudaRowLookupTest, ForgetsWhatFineCodesTakeBack) {
  RowLookupCase of;
  of.num_rows = {900, 600};
  of.factor = 300;
  Check(of, 1500, 1500, 200);
  Check(of, 1000, 1000, 1000);
}

// Whatever blocks ran when, and also where memory is what an earlier lookup left.
TEST_P(CudaRowLookupTest, FindsTheSameBitsEachTime) {
  RowLookupCase of;
  of.num_rows = {1500, 700, 9100};
  of.num_queries = 5;
  of.Draw();
  const uint64_t before = cuda_emulation::NumLaunches();
  const Found first = Run(of, 5500, 2900, 1300);
  if (GetParam() != CudaMachine::kGpu) {
    EXPECT_EQ(cuda_emulation::NumLaunches() - before, 8u);  // as the header says
  }
  for (uint64_t seed = 1; seed < 4; ++seed) {
    if (GetParam() == CudaMachine::kEmulatedShuffled) cuda_emulation::SetSeed(seed * 977);
    const Found again = Run(of, 5500, 2900, 1300);
    EXPECT_EQ(again.rows, first.rows);
    EXPECT_EQ(again.counts, first.counts);
    EXPECT_EQ(again.lse, first.lse);
    EXPECT_EQ(again.tail, first.tail);
    EXPECT_EQ(again.tail_lse, first.tail_lse);
  }
}

// Among rows of the same score the first ones are taken, head by head.
TEST_P(CudaRowLookupTest, TakesEqualRowsInTheirOrder) {
  RowLookupCase of;
  of.num_rows = {30, 2500};
  of.rows_per_cluster = 10000;
  of.clusters_per_group = 1;
  of.factor = 0;
  of.has_weights = of.has_known = of.has_deviations = false;
  of.num_kinds = 1;
  of.Draw();
  const Found found = Run(of, 2530, 1400, 1300);  // of the first head each row counts more
  EXPECT_EQ(found.counts, (std::vector<uint32_t>{30, 1270}));
  for (uint32_t i = 0; i < 1300; ++i) ASSERT_EQ(found.rows[i], i < 30 ? i : i - 30);
  const Found few = Run(of, 20, 20, 20);
  EXPECT_EQ(few.counts, (std::vector<uint32_t>{20, 0}));
  for (uint32_t i = 0; i < 20; ++i) ASSERT_EQ(few.rows[i], i);
}

// Better rows lie among those of the cut's score, before and after the last one that is listed.
TEST_P(CudaRowLookupTest, TakesTheFirstOfEqualRowsBesideBetterOnes) {
  RowLookupCase of;
  of.num_rows = {1400, 30, 2500};
  of.rows_per_cluster = 310;
  of.clusters_per_group = 2;
  of.factor = 0;
  for (const uint32_t num_wanted : {100u, 700u, 1300u, 2000u, 3700u}) {
    Check(of, 3930, std::min(3930u, num_wanted + 777), num_wanted);
  }
}

// A token's attention from its queries to its output, nothing of it by way of the host: the list
// and the tail as two sources, and the evidence of what was read.
TEST_P(CudaRowLookupTest, ListAndTailAreSourcesOfAttention) {
  RowLookupCase of;
  of.num_rows = {900, 0, 1500};
  of.num_queries = 4;
  of.Draw();
  constexpr uint32_t kWanted = 200, kHeads = 3, kGroup = 4, kDim = 64, kRows = 3600;
  const uint32_t num_groups = of.most_groups, cols = kHeads * kGroup * kDim;
  Matrix keys = Matrix::Random(kRows, kDim, 21), values = Matrix::Random(kRows, kDim, 22);
  Matrix means = Matrix::Random(kHeads * num_groups, kDim, 23);
  const auto key_bits = Upload(of.Round(keys)), value_bits = Upload(of.Round(values));
  const auto mean_bits = Upload(of.Round(means));
  std::vector<uint32_t> positions(kRows);
  for (uint32_t i = 0; i < kRows; ++i) positions[i] = i % 1000;
  const auto device_positions = Upload(positions);
  const auto squares = Upload(std::vector<uint64_t>(1000));
  const auto most_items =
      static_cast<uint32_t>(MostAttentionItems(kWanted + kHeads * num_groups, 2 * kHeads, 64));
  const auto out = Make<float>(most_items * kGroup * kDim);
  const auto max = Make<float>(most_items * kGroup), sum = Make<float>(most_items * kGroup);
  const auto output = Make<float>(cols), lse = Make<float>(kHeads * kGroup);
  const Found found = Run(of, 1500, 600, kWanted, [&](const CudaRowLookupArgs& lookup) {
    CudaAttendArgs attend = {.queries = lookup.queries, .scale = of.scale, .num_sources = 2};
    attend.sources[0] = {.keys = key_bits.data(), .values = value_bits.data()};
    attend.sources[0].rows = lookup.rows;
    attend.sources[1] = {.values = mean_bits.data()};
    attend.sources[1].logits = lookup.tail;
    attend.sources[1].logits_stride = num_groups;
    attend.items = lookup.cut.items;
    attend.num_items = lookup.cut.num_items;
    attend.max_items = lookup.cut.max_items;
    attend.states = {out.data(), max.data(), sum.data()};
    Expect(CudaAttend(stream_, attend));
    Expect(CudaJoin(stream_, {.lists = {{attend.states, lookup.cut.item_begin}},
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
                .group_clusters = words,
                .centroids = words,
                .cluster_begin = words,
                .cluster_end = words,
                .rotation = words,
                .num_kv_heads = 1,
                .most_rows = 8,
                .most_groups = 1,
                .most_clusters = 1,
                .all_rows = 8,
                .plane_bytes = 8};
  good.queries = {words, Dtype::kF16, 64, 1, 1, 1, 64};
  good.scale = 1;
  good.num_coded = good.num_refined = good.num_wanted = 1;
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
  EXPECT_TRUE(refuses([](auto& a) { a.num_refined = 2; }));
  EXPECT_TRUE(refuses([](auto& a) { a.num_coded = 9; }));
  EXPECT_TRUE(refuses([](auto& a) { a.codes.cluster_end = nullptr; }));
  const auto items = Make<AttentionItem>(4);
  good.cut = {.list_begin = nullptr,
              .counts = words,
              .extra = nullptr,
              .num_extra = 0,
              .num_kv_heads = 1,
              .rows_per_item = 64,
              .max_items = 4,
              .items = items.data(),
              .item_begin = words,
              .num_items = words};
  EXPECT_TRUE(refuses([](auto& a) { a.cut.counts += 1; }));
  EXPECT_TRUE(refuses([](auto& a) { a.cut.num_kv_heads = 2; }));
  EXPECT_TRUE(refuses([](auto& a) { a.cut.rows_per_item = 0; }));
  EXPECT_TRUE(refuses([](auto& a) { a.codes.group_clusters = nullptr; }));
  EXPECT_TRUE(refuses([](auto& a) { a.codes.all_rows = uint64_t{1} << 31; }));
  EXPECT_TRUE(refuses([](auto& a) { a.codes.num_kv_heads = 0; }));
  EXPECT_TRUE(refuses([](auto& a) { a.softcap = NAN; }));
  EXPECT_TRUE(refuses([](auto& a) { a.tail = nullptr; }));
}

LECTERN_CUDA_TESTS(CudaRowLookupTest);

}  // namespace
}  // namespace lectern
