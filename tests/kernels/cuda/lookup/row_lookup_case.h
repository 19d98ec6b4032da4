// A layer of drawn codes for kernels/cuda/lookup/row_lookup.h, and its definition in double.
#ifndef LECTERN_TESTS_KERNELS_CUDA_LOOKUP_ROW_LOOKUP_CASE_H_
#define LECTERN_TESTS_KERNELS_CUDA_LOOKUP_ROW_LOOKUP_CASE_H_

#include <algorithm>
#include <array>
#include <cmath>
#include <random>
#include <utility>
#include <vector>

#include "index/row_codes.h"
#include "kernels/sign_logits.h"
#include "tests/kernels/cuda/cuda_case.h"
#include "tests/kernels/cuda/lookup/score_buckets.h"

namespace lectern {

// A layer of drawn codes, and what the definition makes of them in double.
struct RowLookupCase {
  std::vector<uint32_t> num_rows;  // of each kv head
  size_t num_queries = 4, dim = 64;
  size_t rows_per_cluster = 7, clusters_per_group = 6;
  size_t num_tokens = 1;  // num_queries % num_tokens == 0
  Dtype dtype = Dtype::kF16;
  float scale = 0.25f, softcap = 0;
  bool has_known = true, has_weights = true, has_deviations = true;
  uint32_t num_kinds = 0;  // of clusters, in turn; 0: each is another
  float factor = 0.3f;     // of the codes; 0: rows of a cluster are equal
  float fine_factor = 0.06f;  // of the fine codes

  // Made by Draw, with the names and layouts of DeviceRowCodes and CudaCodesLookupArgs.
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
  std::vector<uint16_t> Round(Matrix& values) const { return RoundTo(dtype, values); }
  double Softcapped(double logit) const {
    return softcap > 0 ? softcap * std::tanh(logit / softcap) : logit;
  }

  // Draws everything anew by the fields above, which are set first.
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
      deviations.push_back(is_again ? deviations[deviations.size() - num_kinds]
                                    : 0.6f * uniform(engine));
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
        of_keys[r][i] = static_cast<float>(Softcapped(scale * dot + (has_deviations ? more : 0)));
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
      head_fine_factors.push_back(factor > 0 ? head_factors.back() / factor * fine_factor : 0);
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

// The rows that the definition chooses in a case, which must be drawn and outlive it. Call Choose
// first; the other members work on its result. is_clear: no score is so near to a cut that a
// rounding error decides.
struct ChosenRows {
  const RowLookupCase& of;
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
          scores[of.cluster_begin[h] + i] += of.Weight(r) * std::exp(ClusterLogit(h, r, i) - lse);
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
    TakeRows(is_coded, by_clusters, num_refined, is_refined);
    TakeRows(is_refined, Lses(), num_wanted, is_listed);
  }

  std::vector<uint32_t> Take(const std::vector<double>& scores, const std::vector<uint32_t>& sizes,
                             uint32_t wanted) {
    BestOfScores best = BestOf(scores, sizes, wanted);
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
  // The logit of a coded row, by the best code that is known of it.
  double Logit(size_t h, size_t r, uint32_t t) const {
    return (is_refined[h][t] ? of.fine_logits : of.logits)[h][r * of.num_rows[h] + t];
  }
  double RestMass(size_t h, size_t r, size_t cluster) const {
    const uint32_t size = of.ClusterRow(h, cluster + 1) - of.ClusterRow(h, cluster);
    const uint32_t rest = size - coded_of_cluster[h][cluster];
    return rest > 0 ? rest * std::exp(ClusterLogit(h, r, cluster)) : 0;
  }
  // The log-sum-exp of query row r over all rows of the head, by the best that is known of each.
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
  // The sum of exp(logit) over the rows of a group of clusters that are not listed.
  double TailMass(size_t h, size_t r, size_t group) const {
    const uint32_t* const clusters = of.group_clusters.data() + h * (of.most_groups + 1) + group;
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

}  // namespace lectern

#endif  // LECTERN_TESTS_KERNELS_CUDA_LOOKUP_ROW_LOOKUP_CASE_H_
