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
#include "tests/kernels/cuda/score_buckets.h"

namespace lectern {
namespace {

// What of `sizes` rows each, one after the other, are among the `wanted` best by their scores.
// `is_clear`: whether none is so near to the cut that a rounding error decides.
struct Best {
  std::vector<uint32_t> taken;
  bool is_clear = true;
};
Best FindBest(const std::vector<double>& scores, const std::vector<uint32_t>& sizes,
              uint32_t wanted) {
  std::vector<uint64_t> counts(kNumBuckets);
  for (size_t i = 0; i < scores.size(); ++i) counts[BucketOfScore(scores[i])] += sizes[i];
  uint32_t cut = kNumBuckets - 1;
  uint64_t left = wanted;
  while (cut > 0 && counts[cut] < left) left -= counts[cut--];
  Best best;
  for (size_t i = 0; i < scores.size(); ++i) {
    const uint32_t bucket = BucketOfScore(scores[i]);
    const uint64_t taken =
        bucket > cut ? sizes[i] : bucket == cut ? std::min<uint64_t>(left, sizes[i]) : 0;
    if (bucket == cut) left -= taken;
    best.taken.push_back(static_cast<uint32_t>(taken));
    best.is_clear &= sizes[i] == 0 || !IsNearEdgeOf(scores[i], cut);
  }
  return best;
}

// A layer of drawn codes, and what the definition makes of them in double.
struct Case {
  std::vector<uint32_t> num_rows;  // of each kv head
  size_t num_queries = 4, dim = 64;
  size_t rows_per_cluster = 7, clusters_per_group = 6;
  size_t num_tokens = 1;  // num_queries % num_tokens == 0
  Dtype dtype = Dtype::kF16;
  float scale = 0.25f, softcap = 0;
  bool has_known = true, has_weights = true, has_deviations = true;
  uint32_t num_kinds = 0;  // of clusters, in turn; 0: each is another
  float factor = 0.3f;  // of the codes; 0: rows of a cluster are equal

  std::vector<uint32_t> row_begin, clusters, group_begin, group_clusters;
  std::vector<uint8_t> planes, fine_planes;
  std::vector<uint16_t> queries, centroids;
  std::vector<uint32_t> cluster_begin, cluster_end, first_row;
  std::vector<float> factors, fine_factors, known, weights, deviations;
  uint32_t most_rows = 0, most_groups = 0, most_clusters = 0;
  uint32_t all_rows = 0;
  // [head][R * rows]: by row codes, and by fine codes. [head][R * clusters]: of their keys.
  std::vector<std::vector<float>> logits, fine_logits, cluster_logits;

  size_t plane_bytes() const { return PlaneBytes(dim); }
  size_t num_heads() const { return num_rows.size(); }
  size_t num_clusters(size_t head) const { return cluster_begin[head + 1] - cluster_begin[head]; }
  uint32_t ClusterRow(size_t head, size_t cluster) const {
    return static_cast<uint32_t>(std::min<size_t>(cluster * rows_per_cluster, num_rows[head]));
  }

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
  double Softcapped(double logit) const {
    return softcap > 0 ? softcap * std::tanh(logit / softcap) : logit;
  }

  void Draw(unsigned seed = 7) {
    for (auto* const of : {&row_begin, &clusters, &group_begin, &group_clusters, &cluster_begin,
                           &cluster_end, &first_row}) {
      of->clear();
    }
    for (auto* const of : {&factors, &fine_factors, &known, &weights, &deviations}) of->clear();
    for (auto* const of : {&logits, &fine_logits, &cluster_logits}) of->clear();
    planes.clear(), fine_planes.clear(), centroids.clear();
    cluster_begin = {0};
    all_rows = 0;
    most_rows = *std::max_element(num_rows.begin(), num_rows.end());
    most_clusters = static_cast<uint32_t>((most_rows + rows_per_cluster - 1) / rows_per_cluster);
    most_groups =
        static_cast<uint32_t>((most_clusters + clusters_per_group - 1) / clusters_per_group);
    std::mt19937 engine(seed);
    std::uniform_real_distribution<float> uniform(0, 1);
    // Queries as attention takes them, with columns that are nobody's.
    Matrix drawn = Matrix::Random(num_tokens, query_stride(), seed + 3);
    queries = Round(drawn);
    for (size_t h = 0; h < num_heads(); ++h) {
      row_begin.push_back(static_cast<uint32_t>(factors.size()));
      all_rows += num_rows[h];
      const size_t of_head = (num_rows[h] + rows_per_cluster - 1) / rows_per_cluster;
      cluster_begin.push_back(cluster_begin.back() + static_cast<uint32_t>(of_head));
      for (uint32_t g = 0; g <= most_groups; ++g) {
        const size_t cluster = std::min(g * clusters_per_group, of_head);
        group_clusters.push_back(static_cast<uint32_t>(cluster));
        group_begin.push_back(ClusterRow(h, cluster));
      }
      first_row.push_back(static_cast<uint32_t>(1000 * h + 7));
      DrawHead(h, drawn, seed, engine);
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

  void DrawHead(size_t h, const Matrix& drawn, unsigned seed, std::mt19937& engine) {
    std::uniform_real_distribution<float> uniform(0, 1);
    Matrix rotated(num_queries, dim);
    std::vector<double> norms(num_queries);
    for (size_t r = 0; r < num_queries; ++r) {
      for (size_t c = 0; c < dim; ++c) {
        rotated[r][c] = scale * QueryOf(drawn, h, r)[c];
        norms[r] += double{rotated[r][c]} * rotated[r][c];
      }
      norms[r] = std::sqrt(norms[r]);
      Rotate({rotated[r], dim});
    }
    std::vector<uint8_t> tables(num_queries * SignTableBytes(dim));
    std::vector<SignScale> scales(num_queries);
    MakeSignTables(rotated, tables, scales);
    const size_t of_head = num_clusters(h), count = num_rows[h];
    Matrix head_centroids = Matrix::Random(of_head, dim, seed + 43 + static_cast<unsigned>(h));
    for (size_t i = 0; num_kinds > 0 && i < of_head; ++i) {
      std::copy_n(head_centroids[i % num_kinds], dim, head_centroids[i]);
    }
    const std::vector<uint16_t> rounded = Round(head_centroids);
    centroids.insert(centroids.end(), rounded.begin(), rounded.end());
    Matrix of_centroids(num_queries, of_head), of_keys(num_queries, of_head);
    for (size_t i = 0; i < of_head; ++i) {
      cluster_end.push_back(ClusterRow(h, i + 1));
      const bool is_again = num_kinds > 0 && i >= num_kinds;
      deviations.push_back(is_again ? deviations[deviations.size() - num_kinds] : 0.6f * uniform(engine));
      const uint32_t size = ClusterRow(h, i + 1) - ClusterRow(h, i);
      const double log_count = std::log(static_cast<double>(size));
      for (size_t r = 0; r < num_queries; ++r) {
        double dot = 0;
        for (size_t c = 0; c < dim; ++c) {
          dot += double{QueryOf(drawn, h, r)[c]} * head_centroids[i][c];
        }
        of_centroids[r][i] = static_cast<float>(scale * dot);
        // kernels/second_order.h
        const double deviation = norms[r] * deviations.back(), most = std::sqrt(2 * log_count);
        const double more =
            deviation < most ? deviation * deviation / 2 : deviation * most - log_count;
        of_keys[r][i] =
            static_cast<float>(Softcapped(scale * dot + (has_deviations ? more : 0)));
      }
    }
    cluster_logits.push_back(of_keys.data);
    // Planes of the row's number of three bits, side by side, and packed.
    std::vector<std::byte> of_rows(count * 3 * plane_bytes());
    for (std::byte& byte : of_rows) byte = static_cast<std::byte>(engine());
    std::array<std::vector<std::byte>, 3> packed;
    for (size_t p = 0; p < 3; ++p) {
      packed[p].resize(PackedSignBytes(count, plane_bytes()));
      if (count == 0) continue;
      PackSignsScalar({.planes = of_rows.data() + p * plane_bytes(),
                       .stride = 3 * plane_bytes(),
                       .num_rows = count,
                       .plane_bytes = plane_bytes(),
                       .packed = packed[p].data()});
    }
    Matrix expected(num_queries, count);
    std::vector<float> head_factors, head_fine_factors;
    for (uint32_t t = 0; t < count; ++t) {
      clusters.push_back(static_cast<uint32_t>(t / rows_per_cluster));
      head_factors.push_back(factor * uniform(engine));
      head_fine_factors.push_back(head_factors.back() / 5);
      for (size_t r = 0; r < num_queries; ++r) {
        expected[r][t] = of_centroids[r][clusters.back()];
      }
      for (size_t b = 0; b < 3 * plane_bytes(); ++b) {
        const auto byte = static_cast<uint8_t>(of_rows[t * 3 * plane_bytes() + b]);
        fine_planes.push_back(byte);
        if (b < plane_bytes()) planes.push_back(byte);
      }
    }
    Matrix fine = expected;
    AddSignLogitsScalar({.tables = tables,
                         .scales = scales,
                         .plane_bytes = plane_bytes(),
                         .planes = {packed[0].data()},
                         .factors = head_factors,
                         .logits = expected.rows});
    AddSignLogitsScalar({.tables = tables,
                         .scales = scales,
                         .plane_bytes = plane_bytes(),
                         .planes = {packed[0].data(), packed[1].data(), packed[2].data()},
                         .factors = head_fine_factors,
                         .logits = {fine.data.data(), num_queries, count}});
    for (Matrix* const of : {&expected, &fine}) {
      for (float& logit : of->data) logit = static_cast<float>(Softcapped(logit));
    }
    logits.push_back(expected.data);
    fine_logits.push_back(fine.data);
    fine_factors.insert(fine_factors.end(), head_fine_factors.begin(), head_fine_factors.end());
    factors.insert(factors.end(), head_factors.begin(), head_factors.end());
    factors.resize((factors.size() + 31) / 32 * 32);
    clusters.resize(factors.size());
    fine_factors.resize(factors.size());
    planes.resize(factors.size() * plane_bytes());
    fine_planes.resize(factors.size() * 3 * plane_bytes());
  }

  double Weight(size_t r) const {
    return has_weights ? weights[r] : 1 / static_cast<double>(num_queries);
  }
  double Known(size_t head, size_t r) const {
    return has_known ? std::exp(double{known[head * num_queries + r]}) : 0;
  }
};

// What is chosen of a case, by the definition.
struct Chosen {
  const Case& of;
  uint32_t num_coded, num_refined, num_wanted;
  bool is_clear = true;
  std::vector<std::vector<uint32_t>> coded_of_cluster = {};  // [head][cluster]: the first rows
  // [head][row]
  std::vector<std::vector<bool>> is_coded = {}, is_refined = {}, is_listed = {};

  void Choose() {
    is_clear = true;
    for (auto* const rows : {&is_coded, &is_refined, &is_listed}) {
      rows->clear();
      for (const uint32_t count : of.num_rows) rows->emplace_back(count, false);
    }
    coded_of_cluster.clear();
    for (size_t h = 0; h < of.num_heads(); ++h) coded_of_cluster.emplace_back(of.num_clusters(h));
    const std::vector<double> by_clusters = Lses();
    std::vector<double> scores;
    std::vector<uint32_t> sizes;
    for (size_t h = 0; h < of.num_heads(); ++h) {
      for (size_t i = 0; i < of.num_clusters(h); ++i) {
        sizes.push_back(of.ClusterRow(h, i + 1) - of.ClusterRow(h, i));
        scores.push_back(0);
      }
      for (size_t r = 0; r < of.num_queries; ++r) {
        const double lse = by_clusters[h * of.num_queries + r];
        for (size_t i = 0; i < of.num_clusters(h); ++i) {
          scores[of.cluster_begin[h] + i] +=
              of.Weight(r) * std::exp(ClusterLogit(h, r, i) - lse);
        }
      }
    }
    const std::vector<uint32_t> taken = Take(scores, sizes, num_coded);
    for (size_t h = 0; h < of.num_heads(); ++h) {
      for (size_t i = 0; i < of.num_clusters(h); ++i) {
        const uint32_t count = taken[of.cluster_begin[h] + i], first = of.ClusterRow(h, i);
        coded_of_cluster[h][i] = count;
        std::fill_n(is_coded[h].begin() + first, count, true);
      }
    }
    const std::vector<double> by_codes = Lses();
    TakeRows(is_coded, by_clusters, num_refined, is_refined);
    TakeRows(is_refined, by_codes, num_wanted, is_listed);
  }

  std::vector<uint32_t> Take(const std::vector<double>& scores, const std::vector<uint32_t>& sizes,
                             uint32_t wanted) {
    Best best = FindBest(scores, sizes, wanted);
    is_clear &= best.is_clear;
    return best.taken;
  }
  void TakeRows(const std::vector<std::vector<bool>>& from, const std::vector<double>& lses,
                uint32_t wanted, std::vector<std::vector<bool>>& to) {
    std::vector<double> scores;
    std::vector<std::pair<size_t, uint32_t>> rows;
    for (size_t h = 0; h < of.num_heads(); ++h) {
      for (uint32_t t = 0; t < of.num_rows[h]; ++t) {
        if (!from[h][t]) continue;
        rows.emplace_back(h, t);
        scores.push_back(0);
        for (size_t r = 0; r < of.num_queries; ++r) {
          scores.back() += of.Weight(r) * std::exp(Logit(h, r, t) - lses[h * of.num_queries + r]);
        }
      }
    }
    const auto taken = Take(scores, std::vector<uint32_t>(rows.size(), 1), wanted);
    for (size_t i = 0; i < rows.size(); ++i) {
      if (taken[i] > 0) to[rows[i].first][rows[i].second] = true;
    }
  }

  double ClusterLogit(size_t h, size_t r, size_t cluster) const {
    return of.cluster_logits[h][r * of.num_clusters(h) + cluster];
  }
  // Of a coded row, as far as it is known.
  double Logit(size_t h, size_t r, uint32_t t) const {
    return (is_refined[h][t] ? of.fine_logits : of.logits)[h][r * of.num_rows[h] + t];
  }
  double RestMass(size_t h, size_t r, size_t cluster) const {
    const uint32_t size = of.ClusterRow(h, cluster + 1) - of.ClusterRow(h, cluster);
    const uint32_t rest = size - coded_of_cluster[h][cluster];
    return rest > 0 ? rest * std::exp(ClusterLogit(h, r, cluster)) : 0;
  }
  double Lse(size_t h, size_t r) const {
    double sum = of.Known(h, r);
    for (size_t i = 0; i < of.num_clusters(h); ++i) sum += RestMass(h, r, i);
    for (uint32_t t = 0; t < of.num_rows[h]; ++t) {
      if (is_coded[h][t]) sum += std::exp(Logit(h, r, t));
    }
    return std::log(sum);
  }
  std::vector<double> Lses() const {
    std::vector<double> lses;
    for (size_t h = 0; h < of.num_heads(); ++h) {
      for (size_t r = 0; r < of.num_queries; ++r) lses.push_back(Lse(h, r));
    }
    return lses;
  }
  double TailMass(size_t h, size_t r, size_t group) const {
    const uint32_t* const clusters =
        of.group_clusters.data() + h * (of.most_groups + 1) + group;
    double sum = 0;
    for (uint32_t i = clusters[0]; i < clusters[1]; ++i) {
      sum += RestMass(h, r, i);
      for (uint32_t t = of.ClusterRow(h, i); t < of.ClusterRow(h, i + 1); ++t) {
        if (is_coded[h][t] && !is_listed[h][t]) sum += std::exp(Logit(h, r, t));
      }
    }
    return sum;
  }
};

class CudaRowLookupTest : public CudaTest {
 public:
  struct Found {
    std::vector<uint32_t> rows, counts;
    std::vector<float> lse, tail, tail_lse;
  };
  // `then`: with what was found, on the device.
  Found Run(const Case& of, uint32_t num_coded, uint32_t num_refined, uint32_t num_wanted,
            const std::function<void(const CudaRowLookupArgs&)>& then = {}) {
    const auto planes = Upload(of.planes), fine_planes = Upload(of.fine_planes);
    const auto fine_factors = Upload(of.fine_factors), deviations = Upload(of.deviations);
    const auto query_bits = Upload(of.queries), centroids = Upload(of.centroids);
    const auto cluster_begin = Upload(of.cluster_begin), first_row = Upload(of.first_row);
    const auto cluster_end = Upload(of.cluster_end), rotation = Upload(RotationSigns(of.dim));
    const auto factors = Upload(of.factors), known = Upload(of.known);
    const auto weights = Upload(of.weights);
    const auto group_clusters = Upload(of.group_clusters);
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
                  .group_clusters = group_clusters.data(),
                  .centroids = centroids.data(),
                  .cluster_begin = cluster_begin.data(),
                  .cluster_end = cluster_end.data(),
                  .deviations = of.has_deviations ? deviations.data() : nullptr,
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
    const size_t num_scratch = CudaRowLookupScratch(
        args.codes, static_cast<uint32_t>(of.num_queries), num_coded, num_refined);
    if (scratch_.size() != num_scratch) scratch_ = Make<float>(num_scratch);
    const auto rows = Make<uint32_t>(num_wanted), counts = Make<uint32_t>(of.num_heads());
    const auto lse = Make<float>(queries), tail = Make<float>(queries * of.most_groups);
    const auto tail_lse = Make<float>(queries);
    args.first_row = of.has_known ? first_row.data() : nullptr;
    args.softcap = of.softcap;
    args.known_lse = of.has_known ? known.data() : nullptr;
    args.row_weights = of.has_weights ? weights.data() : nullptr;
    args.num_coded = num_coded;
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

  // Lists and sums are those of the definition. Cases are drawn until none of its cuts is close.
  void Check(Case& of, uint32_t num_coded, uint32_t num_refined, uint32_t num_wanted) {
    SCOPED_TRACE(std::to_string(num_coded) + ", " + std::to_string(num_refined) + ", " +
                 std::to_string(num_wanted));
    Chosen chosen = {of, num_coded, num_refined, num_wanted};
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
  void CheckMasses(const Chosen& chosen, const Found& found, size_t h, size_t r) {
    const Case& of = chosen.of;
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
    Case of;
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
  Case of;
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
  Case of;
  for (uint32_t h = 0; h < 260; ++h) of.num_rows.push_back(h == 257 ? 1100 : h % 5 * 3);
  of.num_queries = 2;
  of.dim = 8;
  Check(of, 2000, 1300, 700);
  Check(of, of.all_rows, 1300, 700);
}

// More tiles of a head than a block has threads, and more clusters of a tile's slots.
TEST_P(CudaRowLookupTest, ListsTheBestOfManyRows) {
  Case of;
  of.num_rows = {265000, 20};
  of.num_queries = 1;
  of.dim = 8;
  of.clusters_per_group = 400;
  of.num_kinds = 30;
  of.factor = 0;
  Check(of, 100000, 30000, 10000);
  Case thin;
  thin.num_rows = {20, 40000};
  thin.rows_per_cluster = 1;
  thin.num_kinds = 50;
  thin.factor = 0;
  Check(thin, 3000, 2000, 1000);
}

// A cluster that is cut in two, of which no tile of slots has all.
TEST_P(CudaRowLookupTest, CodesThePartOfACluster) {
  Case of;
  of.num_rows = {6000, 200, 9000};
  of.rows_per_cluster = 3500;
  of.clusters_per_group = 1;
  for (const uint32_t num_coded : {100u, 3000u, 5000u, 14000u}) Check(of, num_coded, 80, 70);
}

// Whatever blocks ran when, and also where memory is what an earlier lookup left.
TEST_P(CudaRowLookupTest, FindsTheSameBitsEachTime) {
  Case of;
  of.num_rows = {1500, 700, 9100};
  of.num_queries = 5;
  of.Draw();
  const uint64_t before = cuda_emulation::NumLaunches();
  const Found first = Run(of, 5500, 2900, 1300);
  if (GetParam() != CudaMachine::kGpu) {
    EXPECT_EQ(cuda_emulation::NumLaunches() - before, 7u);  // as the header says
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

// Of rows of the same score the first ones, head by head.
TEST_P(CudaRowLookupTest, TakesEqualRowsInTheirOrder) {
  Case of;
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
  Case of;
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
  const Found found = Run(of, 1500, 600, kWanted, [&](const CudaRowLookupArgs& lookup) {
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
  EXPECT_TRUE(refuses([](auto& a) { a.codes.group_clusters = nullptr; }));
  EXPECT_TRUE(refuses([](auto& a) { a.codes.all_rows = uint64_t{1} << 31; }));
  EXPECT_TRUE(refuses([](auto& a) { a.codes.num_kv_heads = 0; }));
  EXPECT_TRUE(refuses([](auto& a) { a.softcap = NAN; }));
  EXPECT_TRUE(refuses([](auto& a) { a.tail = nullptr; }));
}

LECTERN_CUDA_TESTS(CudaRowLookupTest);

}  // namespace
}  // namespace lectern
