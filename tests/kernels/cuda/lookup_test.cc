#include "kernels/cuda/lookup.h"

#include <cmath>
#include <cstring>

#include "kernels/second_order.h"
#include "tests/kernels/cuda/cuda_case.h"

namespace lectern {
namespace {

struct Shape {
  uint32_t num_tokens = 1, group = 4, head_dim = 64;
  std::vector<uint32_t> clusters = {130, 7};  // per kv head
  Dtype dtype = Dtype::kF16;
  bool second_order = false, known = false, weighted = false;
  float softcap = 0;
};

// A level, queries, and the scores that the definition gives, in double.
struct LookupCase {
  explicit LookupCase(const Shape& of)
      : shape(of),
        num_heads(static_cast<uint32_t>(of.clusters.size())),
        num_rows(of.num_tokens * of.group),
        queries(Matrix::Random(of.num_tokens, size_t{num_heads} * of.group * of.head_dim, 1, 1.5f),
                of.dtype),
        centroids(Matrix::Random(Total(of.clusters), of.head_dim, 2, 1.5f), of.dtype) {
    begin.push_back(0);
    for (const uint32_t count : of.clusters) begin.push_back(begin.back() + count);
    std::mt19937 engine(3);
    for (uint32_t i = 0; i < begin.back(); ++i) {
      counts.push_back(i % 13 == 5 ? 0.0f : static_cast<float>(engine() % 40 + 1));
      deviations.push_back(static_cast<float>(engine() % 100) / 100);
    }
    for (uint32_t i = 0; i < num_heads * num_rows; ++i) {
      known.push_back(i % 3 == 0 ? -kInf : static_cast<float>(engine() % 8));
    }
    float total = 0;
    for (uint32_t r = 0; r < num_rows; ++r) {
      weights.push_back(static_cast<float>(engine() % 5));
      total += weights.back();
    }
    for (float& weight : weights) weight /= total;
  }
  static uint32_t Total(const std::vector<uint32_t>& counts) {
    uint32_t total = 0;
    for (const uint32_t count : counts) total += count;
    return total;
  }
  float scale() const { return 1 / std::sqrt(static_cast<float>(shape.head_dim)); }
  std::vector<float> Norms() const {
    const Matrix q = queries.ToFloats();
    std::vector<float> norms;
    for (uint32_t head = 0; head < num_heads; ++head) {
      for (uint32_t row = 0; row < num_rows; ++row) {
        norms.push_back(scale() * Norm({QueryOf(q, head, row), shape.head_dim}));
      }
    }
    return norms;
  }
  const float* QueryOf(const Matrix& q, uint32_t head, uint32_t row) const {
    return q[row / shape.group] + (size_t{head} * shape.group + row % shape.group) * shape.head_dim;
  }

  std::vector<double> Expected() const {
    const Matrix q = queries.ToFloats(), c = centroids.ToFloats();
    const std::vector<float> norms = Norms();
    std::vector<double> scores(begin.back());
    for (uint32_t head = 0; head < num_heads; ++head) {
      for (uint32_t row = 0; row < num_rows; ++row) {
        const float* const query = QueryOf(q, head, row);
        std::vector<double> logits(begin[head + 1] - begin[head], -INFINITY);
        const double of_rest = shape.known ? double{known[head * num_rows + row]} : -INFINITY;
        double most = of_rest;
        for (size_t i = 0; i < logits.size(); ++i) {
          const uint32_t cluster = begin[head] + static_cast<uint32_t>(i);
          if (counts[cluster] == 0) continue;
          double logit = 0;
          for (size_t k = 0; k < shape.head_dim; ++k) logit += double{query[k]} * c[cluster][k];
          logit *= scale();
          if (shape.second_order) {
            logit += LogMeanExp(norms[head * num_rows + row] * deviations[cluster],
                                std::log(counts[cluster]));
          }
          if (shape.softcap > 0) logit = shape.softcap * std::tanh(logit / shape.softcap);
          logits[i] = logit;
          most = std::max(most, logit);
        }
        double sum = std::exp(of_rest - most);
        for (size_t i = 0; i < logits.size(); ++i) {
          sum += counts[begin[head] + i] * std::exp(logits[i] - most);
        }
        const double weight = shape.weighted ? double{weights[row]} : 1.0 / num_rows;
        for (size_t i = 0; i < logits.size(); ++i) {
          scores[begin[head] + i] += weight * std::exp(logits[i] - most) / sum;
        }
      }
    }
    return scores;
  }

  Shape shape;
  uint32_t num_heads, num_rows;
  StoredMatrix queries, centroids;
  std::vector<uint32_t> begin;
  std::vector<float> counts, deviations, known, weights;
};

class CudaLookupTest : public CudaTest {
 protected:
  struct Scores {
    std::vector<float> scores;
    std::vector<uint8_t> selected;
  };
  Scores Run(const LookupCase& c, const std::vector<float>& thresholds) {
    const auto queries = Upload(c.queries.bytes, 1), centroids = Upload(c.centroids.bytes, 1);
    const auto counts = Upload(c.counts), deviations = Upload(c.deviations);
    const auto begin = Upload(c.begin);
    const auto norms = Upload(c.Norms()), known = Upload(c.known), weights = Upload(c.weights);
    const auto limits = Upload(thresholds);
    const auto scores = Make<float>(c.begin.back());
    const auto selected = Make<uint8_t>(c.begin.back());
    const Shape& s = c.shape;
    CudaLookupArgs args;
    args.queries = {queries.data(), s.dtype,     size_t{c.num_heads} * s.group * s.head_dim,
                    s.num_tokens,   c.num_heads, s.group,
                    s.head_dim};
    args.clusters = {centroids.data(),
                     counts.data(),
                     begin.data(),
                     c.begin.back(),
                     *std::max_element(s.clusters.begin(), s.clusters.end()),
                     s.second_order ? deviations.data() : nullptr};
    args.scale = c.scale();
    args.softcap = s.softcap;
    if (s.second_order) args.query_norms = norms.data();
    if (s.known) args.known_lse = known.data();
    if (s.weighted) args.row_weights = weights.data();
    const auto scratch = Make<float>(CudaLookupScratch(args.queries, args.clusters));
    args.scratch = scratch.data();
    args.scores = scores.data();
    args.thresholds = limits.data();
    args.selected = selected.data();
    Expect(CudaLookup(stream_, args));
    return {Download(scores), Download(selected)};
  }
};

TEST_P(CudaLookupTest, ScoresMatchTheDefinition) {
  const auto check = [&](const Shape& shape) {
    SCOPED_TRACE(testing::Message() << shape.num_tokens << " tokens, group " << shape.group
                                    << ", head_dim " << shape.head_dim);
    const LookupCase c(shape);
    const std::vector<double> expected = c.Expected();
    std::vector<float> thresholds;
    for (uint32_t head = 0; head < c.num_heads; ++head) {
      const double most = shape.clusters[head] == 0
                              ? 0
                              : *std::max_element(expected.begin() + c.begin[head],
                                                  expected.begin() + c.begin[head + 1]);
      thresholds.push_back(static_cast<float>(most / 3));
    }
    const Scores got = Run(c, thresholds);
    size_t num_selected = 0;
    for (uint32_t head = 0; head < c.num_heads; ++head) {
      double mass = 0;
      for (uint32_t i = c.begin[head]; i < c.begin[head + 1]; ++i) {
        ASSERT_NEAR(got.scores[i], expected[i], 1e-3 * expected[i] + 1e-30) << "cluster " << i;
        ASSERT_EQ(got.selected[i], got.scores[i] > thresholds[head]);
        mass += double{c.counts[i]} * got.scores[i];
        num_selected += got.selected[i];
      }
      if (!shape.known && shape.clusters[head] > 0) {
        EXPECT_NEAR(mass, 1, 1e-4);
      }
    }
    EXPECT_GT(num_selected, 0u);
    EXPECT_LT(num_selected, expected.size());
  };
  check({});
  check({.group = 1, .clusters = {1, 128, 129}});
  check({.group = 16, .head_dim = 128, .clusters = {300, 0, 33}, .known = true, .weighted = true});
  check({.num_tokens = 3, .group = 5, .head_dim = 40, .clusters = {1200}, .dtype = Dtype::kBf16});
  check({.head_dim = 256, .clusters = {70}, .second_order = true, .softcap = 4});
  // Questions.
  check({.num_tokens = 20, .group = 4, .clusters = {130, 7, 64}});
  check({.num_tokens = 17, .group = 1, .head_dim = 128, .clusters = {600}, .known = true});
  check({.num_tokens = 70,
         .group = 2,
         .head_dim = 96,
         .clusters = {0, 65},
         .dtype = Dtype::kBf16,
         .second_order = true,
         .known = true,
         .weighted = true,
         .softcap = 6});
}

// Logits of hundreds: exp overflows where no maximum is subtracted, and all else is zero.
TEST_P(CudaLookupTest, LargeLogitsDoNotOverflow) {
  for (const uint32_t num_tokens : {1, 20}) {
    LookupCase c({.num_tokens = num_tokens, .clusters = {200}});
    for (uint32_t i = 0; i < 200; ++i) {
      for (size_t k = 0; k < 64; ++k) {
        const f16 value = ToF16(k == 0 ? static_cast<float>(i) * 30 : 0.0f);
        std::memcpy(c.centroids.bytes.data() + 1 + (i * 64 + k) * 2, &value, 2);
      }
    }
    const std::vector<double> expected = c.Expected();
    const Scores got = Run(c, {0.5f});
    for (uint32_t i = 0; i < 200; ++i) {
      ASSERT_NEAR(got.scores[i], expected[i], 1e-3 * expected[i] + 1e-6) << i;
    }
  }
}

TEST_P(CudaLookupTest, RefusesWhatItCannotTake) {
  const auto memory = Make<float>(4096);
  CudaLookupArgs good;
  good.queries = {memory.data(), Dtype::kF16, 512, 1, 2, 4, 64};
  good.clusters = {memory.data(), memory.data(), reinterpret_cast<const uint32_t*>(memory.data()),
                   10, 5};
  good.scale = 1;
  good.scratch = good.scores = memory.data();
  const auto why = [&](auto change) {
    CudaLookupArgs args = good;
    change(args);
    const CudaStatus status = CudaLookup(stream_, args);
    return status.code == CudaCode::kInvalidArgument ? std::string(status.reason) : "taken";
  };
  EXPECT_EQ(why([](auto& a) { a.queries.group = 0; }), "no queries");
  EXPECT_EQ(why([](auto& a) { a.clusters.begin = nullptr; }), "no clusters");
  EXPECT_EQ(why([](auto& a) { a.clusters.most_clusters = 11; }),
            "a head of more clusters than all");
  EXPECT_EQ(why([](auto& a) { a.query_norms = a.scores; }), "deviations without norms");
  EXPECT_EQ(why([](auto& a) { a.thresholds = a.scores; }), "thresholds without a selection");
  EXPECT_EQ(why([](auto& a) { a.scratch = nullptr; }), "no place for the result");
}

// ---- Selected clusters -> rows -> items

// Heads of clusters of drawn sizes, some empty, some selected.
struct Selection {
  explicit Selection(const std::vector<uint32_t>& clusters_of_heads) {
    std::mt19937 engine(7);
    uint32_t row = 0;
    cluster_begin.push_back(0);
    for (const uint32_t count : clusters_of_heads) {
      HeadRows head{row, row + 5, row, 0};
      std::vector<uint32_t> listed;
      for (; row < head.exact_end; ++row) listed.push_back(row);
      for (uint32_t i = 0; i < count; ++i) {
        const uint32_t size = engine() % 4 == 0 ? 0 : engine() % 70;
        selected.push_back(engine() % 3 == 0);
        row_begin.push_back(row);
        for (uint32_t k = 0; k < size; ++k, ++row) {
          if (selected.back()) listed.push_back(row);
        }
        row_end.push_back(row);
        log_counts.push_back(std::log(static_cast<float>(size)));
      }
      head.list_end = row;
      heads.push_back(head);
      rows.push_back(listed);
      cluster_begin.push_back(static_cast<uint32_t>(selected.size()));
    }
  }
  std::vector<uint8_t> selected;
  std::vector<uint32_t> row_begin, row_end, cluster_begin;
  std::vector<float> log_counts;
  std::vector<HeadRows> heads;
  std::vector<std::vector<uint32_t>> rows;  // expected, per head
};

TEST_P(CudaLookupTest, SelectedRowsAreListedAscendingAndCutIntoItems) {
  const Selection s({600, 1, 0, 4257});
  const auto selected = Upload(s.selected);
  const auto row_begin = Upload(s.row_begin), row_end = Upload(s.row_end);
  const auto cluster_begin = Upload(s.cluster_begin);
  const auto heads = Upload(s.heads);
  const auto log_counts = Upload(s.log_counts);
  const auto rows = Make<uint32_t>(s.heads.back().list_end);
  const auto counts = Make<uint32_t>(4);
  const auto bias = Make<float>(s.selected.size());
  Expect(CudaSelectRows(stream_, {.selected = selected.data(),
                                  .row_begin = row_begin.data(),
                                  .row_end = row_end.data(),
                                  .cluster_begin = cluster_begin.data(),
                                  .heads = heads.data(),
                                  .num_kv_heads = 4,
                                  .rows = rows.data(),
                                  .counts = counts.data(),
                                  .log_counts = log_counts.data(),
                                  .tail_bias = bias.data()}));
  const auto got = Download(rows), got_counts = Download(counts);
  const auto got_bias = Download(bias);
  std::vector<AttentionRange> ranges;
  std::vector<ExtraRange> extra;
  for (uint32_t head = 0; head < 4; ++head) {
    ASSERT_EQ(got_counts[head], s.rows[head].size());
    const uint32_t begin = s.heads[head].list_begin;
    EXPECT_TRUE(std::equal(s.rows[head].begin(), s.rows[head].end(), got.begin() + begin));
    ranges.push_back({head, 0, begin, begin + got_counts[head]});
    extra.push_back({2, head * 10, head * 10 + head * 100});  // of head 0: empty
    extra.push_back({1, 3, 4});
    for (size_t e = 2 * head; e < 2 * head + 2; ++e) {
      ranges.push_back({head, extra[e].source, extra[e].begin, extra[e].end});
    }
  }
  for (size_t i = 0; i < s.selected.size(); ++i) {
    EXPECT_EQ(got_bias[i], s.selected[i] ? -kInf : s.log_counts[i]);
  }

  const AttentionWork expected = CutAttention(ranges, 4, 128);
  const uint64_t most = MostAttentionItems(got.size() + 600 + 4, 12, 128);
  ASSERT_LE(expected.items.size(), most);
  const auto extras = Upload(extra);
  const auto items = Make<AttentionItem>(most);
  const auto begins = Make<uint32_t>(5), num_items = Make<uint32_t>(1);
  Expect(CudaCutItems(stream_, {.heads = heads.data(),
                                .counts = counts.data(),
                                .extra = extras.data(),
                                .num_extra = 2,
                                .num_kv_heads = 4,
                                .rows_per_item = 128,
                                .max_items = static_cast<uint32_t>(most),
                                .items = items.data(),
                                .item_begin = begins.data(),
                                .num_items = num_items.data()}));
  EXPECT_EQ(Download(begins), expected.item_begin);
  ASSERT_EQ(Download(num_items)[0], expected.items.size());
  const auto got_items = Download(items);
  for (size_t i = 0; i < expected.items.size(); ++i) {
    const AttentionItem &a = expected.items[i], &b = got_items[i];
    EXPECT_TRUE(a.kv_head == b.kv_head && a.source == b.source && a.begin == b.begin &&
                a.end == b.end)
        << i;
  }
}

LECTERN_CUDA_TESTS(CudaLookupTest);

}  // namespace
}  // namespace lectern
