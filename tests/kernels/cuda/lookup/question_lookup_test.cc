#include "kernels/cuda/lookup/question_lookup.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "index/row_codes.h"
#include "kernels/second_order.h"
#include "kernels/softcap.h"
#include "tests/kernels/cuda/cuda_case.h"
#include "tests/kernels/cuda/lookup/score_buckets.h"
#include "tests/kernels/cuda/lookup/uploaded_case.h"

namespace lectern {
namespace {

// The result that a lookup should have.
struct QuestionAnswer {
  std::vector<uint32_t> rows, counts;  // rows as their head counts them
  std::vector<double> lse, tail, tail_lse;
  std::vector<double> tail_slack;  // of exp(tail): what sums of floats may be off by, relatively
  std::vector<std::vector<bool>> is_coded;  // [head][row]
};

// A layer of drawn codes, and what the definition makes of them in double.
struct QuestionCase {
  std::vector<uint32_t> num_rows;  // of each kv head
  size_t dim = 64, num_tokens = 35, group = 2;
  size_t num_chosen = 9;
  Dtype dtype = Dtype::kF16;
  float scale = 0, softcap = 0;  // 0: 1 / sqrt(dim)
  bool has_known = true, has_deviations = true;
  uint32_t most_in_cluster = 12, most_in_group = 9;
  uint32_t widest_group = 0;  // clusters of each head's second group; 0: as others
  float factor = 0.3f;        // of the codes; 0: rows of a cluster are equal
  bool is_equal = false;      // all centroids, and weights
  // Rows of the first head of which most have e^50 and more by their row codes and nothing of their
  // own by fine codes, for the first query row that chooses.
  uint32_t loud_rows = 0;

  std::vector<uint32_t> row_begin, clusters, group_begin, group_clusters, cluster_begin = {0};
  std::vector<uint32_t> cluster_end;
  std::vector<uint32_t> first_row, chosen;
  std::vector<uint8_t> planes, fine_planes;
  std::vector<uint16_t> queries, centroids;
  std::vector<float> factors, fine_factors, deviations, known, weights;
  uint32_t most_rows = 0, most_groups = 0, most_clusters = 0;
  uint64_t all_rows = 0;
  // Per head: [R][clusters] scaled products, and [chosen][rows] logits by row and by fine codes.
  std::vector<Matrix> centroid_logits, logits, fine_logits;
  std::vector<std::vector<float>> norms;  // [R]

  size_t num_heads() const { return num_rows.size(); }
  size_t num_queries() const { return num_tokens * group; }
  size_t plane_bytes() const { return PlaneBytes(dim); }
  size_t query_stride() const { return (num_heads() * group + 1) * dim; }
  double Capped(double logit) const { return Softcapped(logit, double{softcap}); }
  std::vector<uint16_t> Round(Matrix& values) const { return RoundTo(dtype, values); }

  void Draw() {
    if (scale == 0) scale = 1 / std::sqrt(static_cast<float>(dim));
    std::mt19937 engine(11);
    std::uniform_real_distribution<float> uniform(0, 1);
    // Queries as attention takes them, with columns that are nobody's.
    Matrix drawn = Matrix::Random(num_tokens, query_stride(), 10);
    for (float& value : drawn.data) value *= 3;
    queries = Round(drawn);
    for (uint32_t row = 0; row < num_queries(); ++row) chosen.push_back(row);
    std::shuffle(chosen.begin(), chosen.end(), engine);
    chosen.resize(num_chosen);
    std::sort(chosen.begin(), chosen.end());
    for (size_t i = 0; i < num_chosen; ++i) {
      weights.push_back(is_equal ? 1 : 0.05f + uniform(engine));
    }
    const float sum = std::accumulate(weights.begin(), weights.end(), 0.0f);
    for (float& weight : weights) weight /= sum;
    std::vector<std::vector<uint32_t>> row_places, cluster_places;  // per head: of groups
    for (size_t h = 0; h < num_heads(); ++h) {
      row_begin.push_back(static_cast<uint32_t>(factors.size()));
      first_row.push_back(static_cast<uint32_t>(1000 * h + 7));
      all_rows += num_rows[h];
      row_places.push_back({0});
      cluster_places.push_back({0});
      uint32_t cluster = 0, wanted_in_group = 1;
      for (uint32_t row = 0; row < num_rows[h]; ++cluster) {
        if (cluster - cluster_places.back().back() == wanted_in_group) {
          row_places.back().push_back(row);
          cluster_places.back().push_back(cluster);
          wanted_in_group = 1 + static_cast<uint32_t>(engine()) % most_in_group;
          if (widest_group > 0 && row_places.back().size() == 2) wanted_in_group = widest_group;
        }
        const uint32_t size =
            std::min(1 + static_cast<uint32_t>(engine()) % most_in_cluster, num_rows[h] - row);
        for (uint32_t i = 0; i < size; ++i) clusters.push_back(cluster);
        cluster_end.push_back(row + size);
        deviations.push_back(0.2f * uniform(engine));
        row += size;
      }
      row_places.back().push_back(num_rows[h]);
      cluster_places.back().push_back(cluster);
      cluster_begin.push_back(cluster_begin.back() + cluster);
      most_rows = std::max(most_rows, num_rows[h]);
      most_clusters = std::max(most_clusters, cluster);
      most_groups = std::max(most_groups, static_cast<uint32_t>(row_places.back().size()));
      DrawCodes(h, drawn, cluster, engine);
    }
    for (size_t h = 0; h < num_heads(); ++h) {  // one group more than there are
      row_places[h].resize(most_groups + 1, row_places[h].back());
      cluster_places[h].resize(most_groups + 1, cluster_places[h].back());
      group_begin.insert(group_begin.end(), row_places[h].begin(), row_places[h].end());
      group_clusters.insert(group_clusters.end(), cluster_places[h].begin(),
                            cluster_places[h].end());
    }
    for (size_t i = 0; i < num_heads() * num_queries(); ++i) {
      known.push_back(i % 3 == 2 ? -INFINITY : 4 * uniform(engine));
    }
  }

  // Draws the codes of a head whose rows have their clusters.
  void DrawCodes(size_t head, const Matrix& drawn, uint32_t num_clusters, std::mt19937& engine) {
    std::uniform_real_distribution<float> uniform(0, 1);
    const uint32_t size = num_rows[head];
    const uint32_t* const of_rows = clusters.data() + row_begin[head];
    Matrix its_centroids = Matrix::Random(num_clusters, dim, 50 + static_cast<unsigned>(head));
    if (is_equal) std::ranges::fill(its_centroids.data, 0.5f);
    const std::vector<uint16_t> rounded = Round(its_centroids);
    centroids.insert(centroids.end(), rounded.begin(), rounded.end());
    Matrix products(num_queries(), num_clusters), rotated(num_chosen, dim);
    norms.emplace_back();
    for (size_t r = 0; r < num_queries(); ++r) {
      const float* const query = drawn[r / group] + (head * group + r % group) * dim;
      norms.back().push_back(scale * Norm({query, dim}));
      for (uint32_t i = 0; i < num_clusters; ++i) {
        double dot = 0;
        for (size_t c = 0; c < dim; ++c) dot += double{query[c]} * its_centroids[i][c];
        products[r][i] = static_cast<float>(scale * dot);
      }
    }
    for (size_t j = 0; j < num_chosen; ++j) {
      const float* const query =
          drawn[chosen[j] / group] + (head * group + chosen[j] % group) * dim;
      for (size_t c = 0; c < dim; ++c) rotated[j][c] = scale * query[c];
      Rotate({rotated[j], dim});
    }
    (void)Round(rotated);
    // Planes of each row's number of three bits, side by side.
    std::vector<std::byte> bits(size * 3 * plane_bytes());
    for (std::byte& byte : bits) byte = static_cast<std::byte>(engine());
    Matrix by_rows(num_chosen, size), by_fine(num_chosen, size);
    for (uint32_t t = 0; t < size; ++t) {
      factors.push_back(factor * uniform(engine));
      fine_factors.push_back(factors.back() / 5);
      const std::byte* const of_row = bits.data() + t * 3 * plane_bytes();
      const auto sign = [&](size_t plane, size_t c) {
        const auto byte = static_cast<unsigned>(of_row[plane * plane_bytes() + c / 8]);
        return (byte >> (c % 8) & 1) != 0 ? 1 : -1;
      };
      const auto product = [&](size_t j, const auto& number_at) {
        double sum = 0;
        for (size_t c = 0; c < dim; ++c) sum += double{rotated[j][c]} * number_at(c);
        return sum;
      };
      const auto sign_at = [&](size_t c) { return sign(0, c); };
      const auto number_at = [&](size_t c) { return 4 * sign(0, c) + sign(1, c) + 2 * sign(2, c); };
      if (head == 0 && t < loud_rows && t % 8 != 7) {
        factors.back() = static_cast<float>((50 + 0.01 * t) / product(0, sign_at));
        fine_factors.back() = 0;
      }
      for (size_t j = 0; j < num_chosen; ++j) {
        const double dot = product(j, sign_at), fine = product(j, number_at);
        const double centroid = products[chosen[j]][of_rows[t]];
        by_rows[j][t] = static_cast<float>(Capped(centroid + factors.back() * dot));
        by_fine[j][t] = static_cast<float>(Capped(centroid + fine_factors.back() * fine));
      }
    }
    centroid_logits.push_back(std::move(products));
    logits.push_back(std::move(by_rows));
    fine_logits.push_back(std::move(by_fine));
    for (const std::byte byte : bits) fine_planes.push_back(static_cast<uint8_t>(byte));
    for (uint32_t t = 0; t < size; ++t) {
      const auto signs = fine_planes.end() - static_cast<ptrdiff_t>((size - t) * 3 * plane_bytes());
      planes.insert(planes.end(), signs, signs + static_cast<ptrdiff_t>(plane_bytes()));
    }
    // The padding must never be read: it has a cluster that does not exist, and NaN.
    const size_t padded = (factors.size() + 31) / 32 * 32;
    factors.resize(padded, NAN);
    fine_factors.resize(padded, NAN);
    clusters.resize(padded, 0xFFFFFFFF);
    planes.resize(padded * plane_bytes());
    fine_planes.resize(padded * 3 * plane_bytes());
  }

  uint32_t ClusterSize(size_t head, uint32_t i) const {
    const uint32_t cluster = cluster_begin[head] + i;
    return cluster_end[cluster] - (i > 0 ? cluster_end[cluster - 1] : 0);
  }
  // s: of the keys of a cluster.
  double ClusterLogit(size_t head, size_t r, uint32_t i) const {
    double logit = centroid_logits[head][r][i];
    if (has_deviations) {
      logit += LogMeanExp(norms[head][r] * deviations[cluster_begin[head] + i],
                          std::log(static_cast<double>(ClusterSize(head, i))));
    }
    return Capped(logit);
  }
  // Log mass of a group by its clusters.
  double GroupMass(size_t head, size_t r, uint32_t g) const {
    const uint32_t* const places = group_clusters.data() + head * (most_groups + 1) + g;
    double sum = 0;
    for (uint32_t i = places[0]; i < places[1]; ++i) {
      sum += ClusterSize(head, i) * std::exp(ClusterLogit(head, r, i));
    }
    return std::log(sum);
  }

  using Masses = std::vector<std::vector<std::vector<double>>>;  // [head][rows][chosen]
  // Counts about `count` of the largest scores, so many that the next one is clearly smaller. Rows
  // that do not compete have negative scores.
  static uint32_t CountAtGap(const std::vector<std::vector<double>>& scores, uint32_t count,
                             double& cut) {
    std::vector<double> order;
    for (const auto& of_head : scores) {
      for (const double score : of_head) {
        if (score >= 0) order.push_back(score);
      }
    }
    std::sort(order.rbegin(), order.rend());
    const auto is_clear = [&] {
      const uint32_t last = BucketOfScore(order[count - 1]);
      return BucketOfScore(order[count]) < last && !IsNearEdgeOf(order[count], last) &&
             !IsNearEdgeOf(order[count - 1], last);
    };
    while (count < order.size() && !is_clear()) ++count;
    cut = order[count - 1];
    return count;
  }
  // How many rows of each head's clusters are coded; num_coded becomes a number that is clear.
  std::vector<std::vector<uint32_t>> Coded(const std::vector<std::vector<double>>& references,
                                           uint32_t& num_coded) const {
    std::vector<double> scores;
    std::vector<uint32_t> sizes;
    for (size_t h = 0; h < num_heads(); ++h) {
      for (uint32_t i = 0; i < cluster_begin[h + 1] - cluster_begin[h]; ++i) {
        sizes.push_back(ClusterSize(h, i));
        scores.push_back(0);
        for (size_t j = 0; j < num_chosen; ++j) {
          scores.back() += weights[j] * std::exp(ClusterLogit(h, chosen[j], i) - references[h][j]);
        }
      }
    }
    BestOfScores best;
    for (best = BestOf(scores, sizes, num_coded); num_coded < all_rows && !best.is_clear;) {
      best = BestOf(scores, sizes, ++num_coded);
    }
    std::vector<std::vector<uint32_t>> coded;
    for (size_t h = 0; h < num_heads(); ++h) {
      coded.emplace_back(best.taken.begin() + cluster_begin[h],
                         best.taken.begin() + cluster_begin[h + 1]);
    }
    return coded;
  }
  // The numbers become ones that are clear of others.
  QuestionAnswer Expected(uint32_t& num_coded, uint32_t& num_refined, uint32_t& num_wanted) const {
    QuestionAnswer answer;
    Masses masses;
    std::vector<std::vector<double>> references, known_mass, scores;
    for (size_t h = 0; h < num_heads(); ++h) {
      references.emplace_back();
      known_mass.emplace_back();
      masses.emplace_back(num_rows[h], std::vector<double>(num_chosen));
      scores.emplace_back(num_rows[h], 0.0);
      for (size_t j = 0; j < num_chosen; ++j) {
        const double is_known = has_known ? known[h * num_queries() + chosen[j]] : -INFINITY;
        double all = std::exp(is_known);
        for (uint32_t g = 0; g < most_groups; ++g) all += std::exp(GroupMass(h, chosen[j], g));
        references[h].push_back(all > 0 ? std::log(all) : 0);
        known_mass[h].push_back(std::exp(is_known - references[h][j]));
      }
    }
    const std::vector<std::vector<uint32_t>> coded = Coded(references, num_coded);
    for (size_t h = 0; h < num_heads(); ++h) {
      answer.is_coded.emplace_back();
      for (uint32_t t = 0; t < num_rows[h]; ++t) {
        const uint32_t cluster = clusters[row_begin[h] + t];
        const uint32_t end = cluster_end[cluster_begin[h] + cluster];
        const bool is_coded = t < end - ClusterSize(h, cluster) + coded[h][cluster];
        for (size_t j = 0; j < num_chosen; ++j) {
          const double logit = is_coded ? logits[h][j][t] : ClusterLogit(h, chosen[j], cluster);
          masses[h][t][j] = std::exp(std::min(80.0, logit - references[h][j]));
          scores[h][t] += weights[j] * masses[h][t][j];
        }
        if (!is_coded) scores[h][t] = -1;
        answer.is_coded.back().push_back(is_coded);
      }
    }
    double cut = 0;
    num_refined = CountAtGap(scores, num_refined, cut);
    const Masses coarse = masses;
    std::vector<std::vector<double>> fine_scores;
    for (size_t h = 0; h < num_heads(); ++h) {
      fine_scores.emplace_back(num_rows[h], 0.0);
      for (size_t j = 0; j < num_chosen; ++j) {
        double all = known_mass[h][j];
        for (uint32_t t = 0; t < num_rows[h]; ++t) {
          double& mass = masses[h][t][j];
          if (scores[h][t] >= cut) {
            mass = std::exp(std::min(80.0, fine_logits[h][j][t] - references[h][j]));
          }
          all += mass;
        }
        answer.lse.push_back(references[h][j] + std::log(all));
        for (uint32_t t = 0; t < num_rows[h]; ++t) {
          fine_scores[h][t] += weights[j] * masses[h][t][j] / all;
        }
      }
      for (uint32_t t = 0; t < num_rows[h]; ++t) {
        if (scores[h][t] < cut) fine_scores[h][t] = -1;
      }
    }
    num_wanted = CountAtGap(fine_scores, num_wanted, cut);
    for (size_t h = 0; h < num_heads(); ++h) {
      answer.counts.push_back(0);
      std::vector<double> all_left(num_chosen, 0.0);
      for (uint32_t t = 0; t < num_rows[h]; ++t) {
        if (fine_scores[h][t] < cut) continue;
        answer.rows.push_back(t);
        ++answer.counts.back();
      }
      const size_t at = answer.tail.size();
      answer.tail.resize(at + num_queries() * most_groups, -INFINITY);
      answer.tail_slack.resize(answer.tail.size(), 0);
      for (uint32_t g = 0; g < most_groups; ++g) {
        const uint32_t* const places = group_begin.data() + h * (most_groups + 1) + g;
        bool is_left = false;
        double left_share = 0, all_share = 0, rounded_share = 0;
        std::vector<double> left(num_chosen, 0.0), rounded(num_chosen, 0.0);
        for (size_t j = 0; j < num_chosen; ++j) {
          double all = 0;
          for (uint32_t t = places[0]; t < places[1]; ++t) {
            rounded[j] += coarse[h][t][j] + masses[h][t][j];
            all += masses[h][t][j];
            if (fine_scores[h][t] >= cut) continue;
            left[j] += masses[h][t][j];
            is_left = true;
          }
          all_left[j] += left[j];
          left_share += weights[j] * left[j];
          all_share += weights[j] * all;
          rounded_share += weights[j] * rounded[j];
        }
        if (!is_left) continue;
        for (size_t r = 0; r < num_queries(); ++r) {
          const size_t i = at + r * most_groups + g;
          answer.tail[i] = GroupMass(h, r, g) + std::log(left_share / all_share);
          answer.tail_slack[i] = rounded_share / left_share;
        }
        for (size_t j = 0; j < num_chosen; ++j) {
          const size_t i = at + chosen[j] * most_groups + g;
          answer.tail[i] = references[h][j] + std::log(left[j]);
          answer.tail_slack[i] = rounded[j] / left[j];
        }
      }
      for (size_t j = 0; j < num_chosen; ++j) {
        answer.tail_lse.push_back(references[h][j] + std::log(all_left[j]));
      }
    }
    return answer;
  }
};

class CudaQuestionLookupTest : public CudaTest {
 public:
  using Found = FoundRows;
  Found Run(const QuestionCase& of, uint32_t num_coded, uint32_t num_refined, uint32_t num_wanted) {
    const UploadedCase lookup(*this, of, of.group, of.num_queries(), of.num_chosen, num_wanted);
    const auto chosen = Upload(of.chosen);
    CudaQuestionLookupArgs args;
    lookup.Set(args, num_coded, num_refined);
    args.chosen = chosen.data();
    args.weights = lookup.weights();
    args.num_chosen = static_cast<uint32_t>(of.num_chosen);
    const size_t num_scratch =
        CudaQuestionLookupScratch(args.codes, args.num_chosen, num_coded, num_refined);
    if (scratch_.size() != num_scratch) scratch_ = Make<float>(num_scratch);
    args.scratch = scratch_.data();
    Expect(CudaQuestionLookup(stream_, args));
    return lookup.Found();
  }

  DeviceBuffer<float> scratch_;

  static void ExpectNear(float found, double expected, double within, const char* what, size_t i) {
    if (expected == -INFINITY) {
      EXPECT_EQ(found, -INFINITY) << what << " " << i;
    } else {
      EXPECT_NEAR(found, expected, within) << what << " " << i;
    }
  }
  // Found is what is expected of about so many rows; where all are coded, and where not.
  void Check(const QuestionCase& of, uint32_t num_refined, uint32_t num_wanted) {
    const auto all = static_cast<uint32_t>(of.all_rows);
    CheckCoded(of, all, num_refined, num_wanted);
    CheckCoded(of, std::max(num_refined, all * 2 / 3), num_refined, num_wanted);
  }
  void CheckCoded(const QuestionCase& of, uint32_t num_coded, uint32_t num_refined,
                  uint32_t num_wanted) {
    const QuestionAnswer expected = of.Expected(num_coded, num_refined, num_wanted);
    ASSERT_LE(num_refined, num_coded);
    const Found found = Run(of, num_coded, num_refined, num_wanted);
    EXPECT_EQ(found.counts, expected.counts);
    EXPECT_EQ(found.rows, expected.rows);
    for (size_t i = 0; i < expected.lse.size(); ++i) {
      ExpectNear(found.lse[i], expected.lse[i], 5e-5, "lse", i);
      // Read rows are most of what there is: a difference.
      const double left = std::exp(expected.tail_lse[i] - expected.lse[i]);
      ExpectNear(found.tail_lse[i], expected.tail_lse[i], 5e-5 + 1e-5 / left, "tail_lse", i);
    }
    for (size_t i = 0; i < expected.tail.size(); ++i) {
      ExpectNear(found.tail[i], expected.tail[i], 5e-5 + 1e-5 * expected.tail_slack[i], "tail", i);
    }
  }
};

TEST_P(CudaQuestionLookupTest, ListsTheBestOfAllHeads) {
  QuestionCase of;
  of.num_rows = {500, 0, 37, 300};
  of.Draw();
  Check(of, 300, 120);
}

// Every width of tiles and what lies below, both types, one row that chooses and many.
TEST_P(CudaQuestionLookupTest, TakesEveryWidth) {
  size_t num_chosen = 1;
  for (const size_t dim : {8, 40, 64, 72, 104, 128, 200, 256}) {
    for (const Dtype dtype : {Dtype::kF16, Dtype::kBf16}) {
      SCOPED_TRACE(std::to_string(dim) + (dtype == Dtype::kF16 ? " f16" : " bf16"));
      QuestionCase of;
      of.num_rows = {150, 66};
      of.dim = dim;
      of.dtype = dtype;
      of.num_tokens = 21;
      of.num_chosen = num_chosen;
      of.Draw();
      Check(of, 70, 30);
      num_chosen = (num_chosen + 15) % 41 + 1;  // on both sides of 16
    }
  }
}

// Tiles of queries that choose, of which the last is not full; other rows in more tiles.
TEST_P(CudaQuestionLookupTest, TakesManyRowsThatChoose) {
  for (const size_t num_chosen : {16, 17, 64, 65, 150}) {
    SCOPED_TRACE(num_chosen);
    QuestionCase of;
    of.num_rows = {130, 70};
    of.num_tokens = 50;
    of.group = 3;
    of.num_chosen = num_chosen;
    of.Draw();
    Check(of, 80, 40);
  }
}

TEST_P(CudaQuestionLookupTest, SoftcapsLogits) {
  QuestionCase of;
  of.num_rows = {200, 90};
  of.softcap = 1.5f;
  of.Draw();
  Check(of, 100, 50);
}

TEST_P(CudaQuestionLookupTest, NeedsNeitherDeviationsNorWhatIsKnown) {
  QuestionCase of;
  of.num_rows = {200, 90};
  of.has_known = of.has_deviations = false;
  of.Draw();
  Check(of, 100, 50);
}

// From one row to all: of groups that are listed as a whole nothing is left.
TEST_P(CudaQuestionLookupTest, ListsFromOneRowToAll) {
  QuestionCase of;
  of.num_rows = {140, 45};
  of.most_in_group = 2;
  of.most_in_cluster = 4;
  of.Draw();
  for (const auto& [num_refined, num_wanted] : std::vector<std::array<uint32_t, 2>>{
           {1, 1}, {2, 1}, {184, 1}, {120, 120}, {185, 150}, {184, 184}, {185, 185}}) {
    SCOPED_TRACE(num_wanted);
    Check(of, num_refined, num_wanted);
  }
}

// Clusters of a group in more than one tile; rows of a group in more chunks than there are warps;
// groups in more than one part, and parts that a head does not have.
TEST_P(CudaQuestionLookupTest, TakesGroupsOfAnySize) {
  QuestionCase wide;
  wide.num_rows = {900, 20};
  wide.widest_group = 140;
  wide.Draw();
  Check(wide, 500, 200);
  QuestionCase narrow;
  narrow.num_rows = {30, 400, 1};
  narrow.most_in_group = 1;
  narrow.most_in_cluster = 3;
  narrow.Draw();
  ASSERT_GT(narrow.most_groups, 160u);
  Check(narrow, 120, 60);
}

// More groups of a head than a block looks for at a time, and more tiles of rows than one.
TEST_P(CudaQuestionLookupTest, TakesMoreThanFillsTheDevice) {
  QuestionCase of;
  of.num_rows = {2600};
  of.dim = 8;
  of.num_tokens = 4;
  of.num_chosen = 3;
  of.most_in_group = of.most_in_cluster = 1;
  of.Draw();
  ASSERT_GT(of.most_groups, 2 * 16 * 64u);
  Check(of, 1500, 700);
}

// More heads than a block has threads, of which most have few rows or none.
TEST_P(CudaQuestionLookupTest, TakesManyHeads) {
  QuestionCase of;
  for (uint32_t h = 0; h < 270; ++h) of.num_rows.push_back(h == 261 ? 150 : h % 4 * 2);
  of.dim = 8;
  of.num_tokens = of.num_chosen = 2;
  of.group = 1;
  of.most_in_group = 20;
  of.Draw();
  Check(of, 500, 250);
}

// Rows whose row codes took them for almost everything, and whose fine codes do not: what they
// leave behind is no rounding error of what they had.
TEST_P(CudaQuestionLookupTest, ForgetsWhatFineCodesTakeBack) {
  QuestionCase of;
  of.num_rows = {200};
  of.num_chosen = 1;
  of.has_known = false;
  of.loud_rows = 200;
  of.Draw();
  uint32_t num_coded = 200, num_refined = 190, num_wanted = 20;
  const QuestionAnswer expected = of.Expected(num_coded, num_refined, num_wanted);
  const Found found = Run(of, num_coded, num_refined, num_wanted);
  EXPECT_EQ(found.rows, expected.rows);
  EXPECT_NEAR(found.lse[0], expected.lse[0], 0.1);  // rows that were not refined may be missing
}

// From one row's row code to those of all but one; clusters of which a part is coded.
TEST_P(CudaQuestionLookupTest, CodesTheBestClusters) {
  QuestionCase of;
  of.num_rows = {140, 0, 90};
  of.most_in_cluster = 40;
  of.Draw();
  for (const uint32_t num_coded : {1u, 2u, 50u, 97u, 229u}) {
    SCOPED_TRACE(num_coded);
    CheckCoded(of, num_coded, (num_coded + 1) / 2, (num_coded + 3) / 4);
  }
  QuestionCase equal;  // the first clusters, and of the last one the first rows
  equal.num_rows = {30, 1200};
  equal.num_tokens = equal.group = equal.num_chosen = 1;
  equal.factor = 0;
  equal.has_known = equal.has_deviations = false;
  equal.is_equal = true;
  equal.Draw();
  const Found found = Run(equal, 333, 333, 333);
  EXPECT_EQ(found.counts, (std::vector<uint32_t>{30, 303}));
  for (uint32_t i = 0; i < 333; ++i) ASSERT_EQ(found.rows[i], i < 30 ? i : i - 30);
}

// Codes and factors count for coded rows alone, fine codes for refined rows alone.
TEST_P(CudaQuestionLookupTest, ReadsNoCodesOfOtherRows) {
  QuestionCase of;
  of.num_rows = {300, 130};
  of.Draw();
  uint32_t num_coded = 210, num_refined = 100, num_wanted = 40;
  const QuestionAnswer expected = of.Expected(num_coded, num_refined, num_wanted);
  const Found found = Run(of, num_coded, num_refined, num_wanted);
  EXPECT_EQ(found.rows, expected.rows);
  uint32_t num_spoilt = 0;
  for (size_t h = 0; h < of.num_heads(); ++h) {
    for (uint32_t t = 0; t < of.num_rows[h]; ++t) {
      const size_t row = of.row_begin[h] + t;
      if (expected.is_coded[h][t]) continue;
      ++num_spoilt;
      of.factors[row] = of.fine_factors[row] = NAN;
      for (size_t b = 0; b < of.plane_bytes(); ++b) of.planes[row * of.plane_bytes() + b] ^= 0x5A;
    }
  }
  EXPECT_EQ(num_spoilt + num_coded, of.all_rows);
  EXPECT_EQ(Run(of, num_coded, num_refined, num_wanted), found);
}

// Among rows of the same score the first ones are taken, head by head.
TEST_P(CudaQuestionLookupTest, TakesEqualRowsInTheirOrder) {
  QuestionCase of;
  of.num_rows = {30, 1200};
  of.num_tokens = 1;
  of.group = 1;
  of.num_chosen = 1;
  of.factor = 0;
  of.has_known = of.has_deviations = false;
  of.is_equal = true;
  of.Draw();
  const Found found = Run(of, 1230, 700, 600);  // of the first head each row counts more
  EXPECT_EQ(found.counts, (std::vector<uint32_t>{30, 570}));
  for (uint32_t i = 0; i < 600; ++i) ASSERT_EQ(found.rows[i], i < 30 ? i : i - 30);
  const Found few = Run(of, 1230, 20, 20);
  EXPECT_EQ(few.counts, (std::vector<uint32_t>{20, 0}));
  for (uint32_t i = 0; i < 20; ++i) ASSERT_EQ(few.rows[i], i);
}

// Whatever blocks ran when, and also where memory is what an earlier lookup left.
TEST_P(CudaQuestionLookupTest, FindsTheSameBitsEachTime) {
  QuestionCase of;
  of.num_rows = {500, 70, 300};
  of.num_chosen = 20;
  of.Draw();
  const uint64_t before = cuda_emulation::NumLaunches();
  const Found first = Run(of, 870, 200, 90);
  if (GetParam() != CudaMachine::kGpu) {
    EXPECT_EQ(cuda_emulation::NumLaunches() - before, 8u);  // as the header says
  }
  const Found of_some = Run(of, 500, 200, 90);
  if (GetParam() != CudaMachine::kGpu) {
    EXPECT_EQ(cuda_emulation::NumLaunches() - before, 18u);
  }
  for (uint64_t seed = 1; seed < 4; ++seed) {
    if (GetParam() == CudaMachine::kEmulatedShuffled) cuda_emulation::SetSeed(seed * 977);
    EXPECT_EQ(Run(of, 870, 200, 90), first);
    EXPECT_EQ(Run(of, 500, 200, 90), of_some);
  }
}

TEST_P(CudaQuestionLookupTest, RefusesWhatItCannotTake) {
  const auto floats = Make<float>(64);
  auto* const words = reinterpret_cast<uint32_t*>(floats.data());
  CudaQuestionLookupArgs good;
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
  good.weights = floats.data();
  good.chosen = words;
  good.scale = 1;
  good.num_chosen = good.num_coded = good.num_refined = good.num_wanted = 1;
  good.scratch = good.lse = good.tail = floats.data();
  good.rows = good.counts = words;
  const auto refuses = [&](auto change) {
    CudaQuestionLookupArgs args = good;
    change(args);
    return CudaQuestionLookup(stream_, args).code == CudaCode::kInvalidArgument;
  };
  EXPECT_TRUE(refuses([](auto& a) { a.codes.clusters = nullptr; }));
  EXPECT_TRUE(refuses([](auto& a) { ++a.codes.planes; }));
  EXPECT_TRUE(refuses([](auto& a) { a.codes.plane_bytes = 9; }));
  EXPECT_TRUE(refuses([](auto& a) { a.codes.num_kv_heads = 2; }));
  EXPECT_TRUE(refuses([](auto& a) { a.codes.cluster_end = nullptr; }));
  EXPECT_TRUE(refuses([](auto& a) { a.codes.group_clusters = nullptr; }));
  EXPECT_TRUE(refuses([](auto& a) { a.chosen = nullptr; }));
  EXPECT_TRUE(refuses([](auto& a) { a.weights = nullptr; }));
  EXPECT_TRUE(refuses([](auto& a) { ++a.scratch; }));
  EXPECT_TRUE(refuses([](auto& a) { a.queries.dtype = Dtype::kF32; }));
  EXPECT_TRUE(refuses([](auto& a) { a.num_chosen = 0; }));
  EXPECT_TRUE(refuses([](auto& a) { a.num_chosen = 2; }));  // more than there are
  EXPECT_TRUE(refuses([](auto& a) {
    a.queries.num_tokens = kMostChosenQueries + 1;
    a.num_chosen = kMostChosenQueries + 1;
  }));
  EXPECT_TRUE(refuses([](auto& a) { a.scale = 0; }));
  EXPECT_TRUE(refuses([](auto& a) { a.softcap = NAN; }));
  EXPECT_TRUE(refuses([](auto& a) { a.num_wanted = 0; }));
  EXPECT_TRUE(refuses([](auto& a) { a.num_wanted = 2; }));
  EXPECT_TRUE(refuses([](auto& a) { a.num_refined = 2; }));
  EXPECT_TRUE(refuses([](auto& a) { a.num_coded = 9; }));
  EXPECT_TRUE(refuses([](auto& a) { a.tail = nullptr; }));
  if (GetParam() == CudaMachine::kGpu) return;
  // Blocks with less shared memory: nothing has run.
  cuda_emulation::SetMachine({.shared_bytes = 101376});
  Expect(CudaStream::Create(*lectern_cuda_kernels(), 0, stream_));
  const uint64_t before = cuda_emulation::NumLaunches();
  EXPECT_TRUE(refuses([&](auto& a) {
    a.codes.plane_bytes = 32;
    a.queries = {words, Dtype::kF16, 256, 1, 1, 1, 256};
  }));
  EXPECT_EQ(cuda_emulation::NumLaunches(), before);
}

LECTERN_CUDA_TESTS(CudaQuestionLookupTest);

}  // namespace
}  // namespace lectern
