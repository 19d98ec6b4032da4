#include "kernels/cuda/attention/attention.h"

#include <cmath>
#include <numeric>

#include "kernels/attention.h"
#include "kernels/element.h"
#include "tests/kernels/cuda/attention/device_kv.h"
#include "tests/kernels/cuda/cuda_case.h"

namespace lectern {
namespace {

// One layer's queries and rows of all kv heads, and what may be seen.
struct Problem {
  uint32_t num_tokens = 1, num_kv_heads = 2, group = 4, head_dim = 64;
  Dtype dtype = Dtype::kF16;  // of keys and values
  Dtype queries_in = Dtype::kF16;
  uint32_t num_rows = 300;  // of all kv heads together
  float softcap = 0;
  uint32_t num_query_rows() const { return num_tokens * group; }
  size_t query_cols() const { return size_t{num_kv_heads} * group * head_dim; }
  float scale() const { return 1 / std::sqrt(static_cast<float>(head_dim)); }
};

// softmax(…) V of one query row in double, over entries with a visible logit.
std::vector<double> Dense(const Problem& p, const float* query, const Matrix& keys,
                          const Matrix& values, const std::vector<std::pair<size_t, float>>& seen,
                          double* lse = nullptr) {
  std::vector<double> logits, out(p.head_dim);
  double most = -INFINITY, sum = 0;
  for (const auto& [row, bias] : seen) {
    double dot = 0;
    for (size_t c = 0; c < p.head_dim; ++c) dot += double{query[c]} * keys[row][c];
    dot *= p.scale();
    if (p.softcap > 0) dot = p.softcap * std::tanh(dot / p.softcap);
    logits.push_back(dot + bias);
    most = std::max(most, logits.back());
  }
  for (size_t i = 0; i < seen.size(); ++i) {
    if (logits[i] == -INFINITY) continue;
    const double weight = std::exp(logits[i] - most);
    sum += weight;
    for (size_t c = 0; c < p.head_dim; ++c) out[c] += weight * values[seen[i].first][c];
  }
  for (double& x : out) x = sum > 0 ? x / sum : 0;
  if (lse != nullptr) *lse = most + std::log(sum);
  return out;
}

class CudaAttentionTest : public CudaTest {
 protected:
  // The error that a row of the result may have.
  static double Tolerance(const Problem& p, const Matrix& values) {
    float largest = 0;
    for (const float x : values.data) largest = std::max(largest, std::abs(x));
    return largest * (p.queries_in == Dtype::kF16 ? 0x1p-9 : 0x1p-6);
  }

  DeviceQueries QueriesOf(const Problem& p, const void* data) const {
    return {data, p.queries_in, p.query_cols(), p.num_tokens, p.num_kv_heads, p.group, p.head_dim};
  }

  struct Output {
    Matrix rows;             // [num_tokens, query_cols]
    std::vector<float> lse;  // [kv heads][R]
  };
  // Items in two phases, or finished in one where `finish`.
  Output Run(const Problem& p, const StoredMatrix& queries, std::vector<DeviceKv> sources,
             const AttentionWork& work, bool finish = false) {
    const auto q = Upload(queries.bytes, 1);
    const uint32_t rows = p.num_query_rows();
    const auto items = Upload(work.items), no_items = DeviceBuffer<AttentionItem>();
    const auto begins = Upload(work.item_begin);
    const auto out = Make<float>(work.items.size() * rows * p.head_dim);
    const auto max = Make<float>(work.items.size() * rows);
    const auto sum = Make<float>(work.items.size() * rows);
    const auto lse = Make<float>(size_t{p.num_kv_heads} * rows);
    const auto output = Make<std::byte>(p.num_tokens * RowBytes(p.queries_in, p.query_cols()));
    CudaAttendArgs args{.queries = QueriesOf(p, q.data()),
                        .scale = p.scale(),
                        .softcap = p.softcap,
                        .num_sources = static_cast<uint32_t>(sources.size()),
                        .items = items.data(),
                        .max_items = static_cast<uint32_t>(work.items.size())};
    std::copy(sources.begin(), sources.end(), args.sources);
    if (finish) {
      args.output = output.data();
      args.lse = lse.data();
    } else {
      args.states = {out.data(), max.data(), sum.data()};
    }
    Expect(CudaAttend(stream_, args));
    if (!finish) {
      Expect(CudaJoin(stream_, {.lists = {{args.states, begins.data()}},
                                .num_lists = 1,
                                .num_tokens = p.num_tokens,
                                .num_kv_heads = p.num_kv_heads,
                                .group = p.group,
                                .head_dim = p.head_dim,
                                .dtype = p.queries_in,
                                .output = output.data(),
                                .lse = lse.data()}));
    }
    const auto bytes = Download(output);
    Output result{Matrix(p.num_tokens, p.query_cols()), Download(lse)};
    ToFloatRowsScalar({bytes.data(), p.queries_in, p.num_tokens, p.query_cols()}, result.rows.rows);
    return result;
  }

  // seen(kv head, token): entries (row, bias) that a query sees.
  template <typename Seen>
  void ExpectDense(const Problem& p, const StoredMatrix& queries, const Matrix& keys,
                   const Matrix& values, const Output& output, const Seen& seen) {
    const Matrix q = queries.ToFloats();
    const double tolerance = Tolerance(p, values);
    for (uint32_t head = 0; head < p.num_kv_heads; ++head) {
      for (uint32_t row = 0; row < p.num_query_rows(); ++row) {
        const size_t col = (size_t{head} * p.group + row % p.group) * p.head_dim;
        double lse = 0;
        const auto expected =
            Dense(p, q[row / p.group] + col, keys, values, seen(head, row / p.group), &lse);
        const float* const got = output.rows[row / p.group] + col;
        for (size_t c = 0; c < p.head_dim; ++c) {
          ASSERT_NEAR(got[c], expected[c], tolerance)
              << "kv head " << head << ", row " << row << ", column " << c;
        }
        const float got_lse = output.lse[head * p.num_query_rows() + row];
        if (std::isinf(lse)) {
          ASSERT_EQ(got_lse, -kInf);
        } else {
          ASSERT_NEAR(got_lse, lse, p.queries_in == Dtype::kF16 ? 2e-3 : 2e-2);
        }
      }
    }
  }
};

// A token's step: lists of rows of uneven heads, in items, and joined.
TEST_P(CudaAttentionTest, FewRowsOverListsOfUnevenHeadsMatchDense) {
  const auto check = [&](const Problem& p, std::vector<uint32_t> counts) {
    SCOPED_TRACE(testing::Message() << "head_dim " << p.head_dim << ", group " << p.group
                                    << ", dtype " << static_cast<int>(p.dtype));
    const StoredMatrix queries(Matrix::Random(p.num_tokens, p.query_cols(), 1, 2), p.queries_in);
    const StoredMatrix keys(Matrix::Random(p.num_rows, p.head_dim, 2), p.dtype);
    const StoredMatrix values(Matrix::Random(p.num_rows, p.head_dim, 3), p.dtype);
    std::vector<uint32_t> rows;
    std::vector<AttentionRange> ranges;
    for (uint32_t head = 0; head < p.num_kv_heads; ++head) {
      const auto begin = static_cast<uint32_t>(rows.size());
      for (uint32_t i = 0; i < counts[head]; ++i) rows.push_back((i * 7 + head) % p.num_rows);
      ranges.push_back({head, 0, begin, static_cast<uint32_t>(rows.size())});
    }
    const auto list = Upload(rows);
    const DeviceRowsOfKv kv(*this, keys, values);
    DeviceKv source = kv.view;
    source.rows = list.data();
    const Output output = Run(p, queries, {source}, CutAttention(ranges, p.num_kv_heads, 128));
    ExpectDense(p, queries, keys.ToFloats(), values.ToFloats(), output,
                [&](uint32_t head, uint32_t) {
                  std::vector<std::pair<size_t, float>> seen;
                  for (uint32_t i = ranges[head].begin; i < ranges[head].end; ++i) {
                    seen.emplace_back(rows[i], 0.0f);
                  }
                  return seen;
                });
  };
  check({}, {1, 299});
  check({.group = 1}, {64, 130});
  check({.num_kv_heads = 3, .group = 8, .head_dim = 128}, {0, 257, 65});
  check({.group = 2, .head_dim = 40, .dtype = Dtype::kBf16, .queries_in = Dtype::kBf16}, {63, 70});
  check({.group = 16, .head_dim = 256}, {33, 129});
  check({.head_dim = 96, .softcap = 3}, {100, 129});
  check({.head_dim = 64, .dtype = Dtype::kQ8}, {100, 129});
  check({.head_dim = 128, .dtype = Dtype::kQ8}, {65, 3});
}

// A question's or a document's prefill, at once and in items of its keys.
TEST_P(CudaAttentionTest, CausalPrefillMatchesDense) {
  const auto check = [&](const Problem& p, uint32_t past, uint32_t window) {
    SCOPED_TRACE(testing::Message() << p.num_tokens << " tokens after " << past << ", window "
                                    << window << ", head_dim " << p.head_dim);
    const uint32_t capacity = past + p.num_tokens + 5;
    const StoredMatrix queries(Matrix::Random(p.num_tokens, p.query_cols(), 1, 2), p.queries_in);
    const uint32_t num_rows = capacity * p.num_kv_heads;
    const StoredMatrix keys(Matrix::Random(num_rows, p.head_dim, 2), p.dtype);
    const StoredMatrix values(Matrix::Random(num_rows, p.head_dim, 3), p.dtype);
    const DeviceRowsOfKv kv(*this, keys, values);
    DeviceKv source = kv.view;
    source.rows_per_head = capacity;
    source.first_position = past;
    source.window = window;
    std::vector<AttentionRange> ranges;
    for (uint32_t head = 0; head < p.num_kv_heads; ++head) {
      ranges.push_back({head, 0, head * capacity, head * capacity + past + p.num_tokens});
    }
    for (const bool finish : {true, false}) {
      const uint32_t rows_per_item = finish ? capacity : 64;
      const Output output =
          Run(p, queries, {source}, CutAttention(ranges, p.num_kv_heads, rows_per_item), finish);
      ExpectDense(p, queries, keys.ToFloats(), values.ToFloats(), output,
                  [&](uint32_t head, uint32_t token) {
                    std::vector<std::pair<size_t, float>> seen;
                    for (uint32_t position = 0; position <= past + token; ++position) {
                      if (window > 0 && past + token - position >= window) continue;
                      seen.emplace_back(head * capacity + position, 0.0f);
                    }
                    return seen;
                  });
    }
  };
  check({.num_tokens = 70, .group = 1}, 0, 0);
  check({.num_tokens = 33, .group = 3, .head_dim = 128}, 100, 0);
  check({.num_tokens = 45,
         .num_kv_heads = 1,
         .group = 4,
         .dtype = Dtype::kBf16,
         .queries_in = Dtype::kBf16},
        70, 50);
  check({.num_tokens = 20, .num_kv_heads = 1, .group = 2, .head_dim = 200, .softcap = 5}, 13, 9);
  check({.num_tokens = 3, .group = 5}, 140, 64);
  check({.num_tokens = 40, .num_kv_heads = 1, .group = 1, .dtype = Dtype::kQ8}, 30, 0);
  // Tiles that all rows of a block see, or all but one: of one entry, the last and the first; more
  // rows than the largest block has.
  check({.num_tokens = 70, .num_kv_heads = 1, .group = 1}, 62, 0);
  check({.num_tokens = 66, .num_kv_heads = 6, .group = 1}, 200, 137);
  check({.num_tokens = 150, .num_kv_heads = 1, .group = 1}, 300, 250);
  check({.num_tokens = 65, .num_kv_heads = 2, .group = 2, .head_dim = 128, .dtype = Dtype::kQ8},
        131, 0);
}

// Document, tail and session in one step, as the engine will ask for them.
TEST_P(CudaAttentionTest, SourcesJoinAsIfTheyWereOne) {
  const Problem p{.num_tokens = 5, .num_kv_heads = 2, .group = 4, .head_dim = 64};
  const StoredMatrix queries(Matrix::Random(p.num_tokens, p.query_cols(), 1, 2), p.queries_in);
  const StoredMatrix keys(Matrix::Random(200, 64, 2), p.dtype);
  const StoredMatrix values(Matrix::Random(200, 64, 3), p.dtype);
  const DeviceRowsOfKv kv(*this, keys, values);
  std::vector<float> bias(200);
  for (size_t i = 0; i < 200; ++i) bias[i] = i % 3 == 0 ? -kInf : 0.01f * static_cast<float>(i);
  const auto biases = Upload(bias);
  std::vector<uint32_t> rows(40);
  std::iota(rows.begin(), rows.end(), 100u);
  const auto list = Upload(rows);
  DeviceKv document = kv.view, tail = kv.view, session = kv.view;
  document.rows = list.data();
  tail.bias = biases.data();
  session.rows_per_head = 20;
  session.first_position = 7;
  std::vector<AttentionRange> ranges;
  for (uint32_t head = 0; head < 2; ++head) {
    ranges.push_back({head, 0, 20 * head, 20 * head + 20});
    ranges.push_back({head, 1, 50, 91});
    ranges.push_back({head, 2, 20 * head, 20 * head + 12});
  }
  const Output output = Run(p, queries, {document, tail, session}, CutAttention(ranges, 2, 64));
  ExpectDense(p, queries, keys.ToFloats(), values.ToFloats(), output,
              [&](uint32_t head, uint32_t token) {
                std::vector<std::pair<size_t, float>> seen;
                for (uint32_t i = 20 * head; i < 20 * head + 20; ++i) seen.emplace_back(100 + i, 0);
                for (uint32_t i = 50; i < 91; ++i) seen.emplace_back(i, bias[i]);
                for (uint32_t i = 0; i <= 7 + token; ++i) seen.emplace_back(20 * head + i, 0);
                return seen;
              });
}

// A tail, whose log masses differ from row to row, beside rows by their keys: in one list of items,
// and in lists of their own that are joined.
TEST_P(CudaAttentionTest, LogMassesTakeThePlaceOfProducts) {
  const auto check = [&](const Problem& p, uint32_t stride, std::vector<uint32_t> num_groups) {
    SCOPED_TRACE(testing::Message() << p.num_tokens << " tokens, head_dim " << p.head_dim
                                    << ", dtype " << static_cast<int>(p.dtype));
    const uint32_t num_rows = p.num_query_rows();
    const StoredMatrix queries(Matrix::Random(p.num_tokens, p.query_cols(), 1, 2), p.queries_in);
    const StoredMatrix keys(Matrix::Random(p.num_rows, p.head_dim, 2), p.dtype);
    const StoredMatrix values(Matrix::Random(p.num_rows, p.head_dim, 3), p.dtype);
    const StoredMatrix means(Matrix::Random(p.num_kv_heads * stride, p.head_dim, 4), p.dtype);
    Matrix masses = Matrix::Random(p.num_kv_heads * num_rows, stride, 5, 3);
    for (size_t i = 0; i < masses.data.size(); i += 3) masses.data[i] = -kInf;
    const auto logits = Upload(masses.data);
    const DeviceRowsOfKv kv(*this, keys, values), of_tail(*this, means, means);
    DeviceKv tail = of_tail.view;
    tail.keys = nullptr;
    tail.key_scales = nullptr;
    tail.logits = logits.data();
    tail.logits_stride = stride;
    // The last head reads nothing but its tail.
    std::vector<AttentionRange> rows, tails, all;
    for (uint32_t head = 0; head < p.num_kv_heads; ++head) {
      rows.push_back({head, 0, 10 * head, head + 1 < p.num_kv_heads ? 10 * head + 70 : 0});
      tails.push_back({head, 1, head * stride, head * stride + num_groups[head]});
      all.push_back(rows.back());
      all.push_back(tails.back());
    }
    const Matrix q = queries.ToFloats(), k = keys.ToFloats(), v = values.ToFloats();
    const Matrix m = means.ToFloats();
    const double tolerance = 2 * std::max(Tolerance(p, v), Tolerance(p, m));
    const auto expect = [&](const Output& output, bool has_rows) {
      for (uint32_t head = 0; head < p.num_kv_heads; ++head) {
        for (uint32_t r = 0; r < num_rows; ++r) {
          const size_t first_col = (size_t{head} * p.group + r % p.group) * p.head_dim;
          const float* const query = q[r / p.group] + first_col;
          std::vector<double> out(p.head_dim);
          double sum = 0;
          const auto add = [&](double logit, const float* value) {
            sum += std::exp(logit);
            for (size_t c = 0; c < p.head_dim; ++c) out[c] += std::exp(logit) * value[c];
          };
          for (uint32_t i = rows[head].begin; i < rows[head].end; ++i) {
            double dot = 0;
            for (size_t c = 0; c < p.head_dim; ++c) dot += double{query[c]} * k[i][c];
            add(p.softcap * std::tanh(dot * p.scale() / p.softcap), v[i]);
          }
          for (uint32_t g = 0; g < num_groups[head]; ++g) {
            add(masses[head * num_rows + r][g], m[head * stride + g]);
          }
          const float got_lse = output.lse[head * num_rows + r];
          ASSERT_NEAR(got_lse, std::log(sum), p.queries_in == Dtype::kF16 ? 2e-3 : 2e-2);
          for (size_t c = 0; has_rows && c < p.head_dim; ++c) {
            ASSERT_NEAR(output.rows[r / p.group][first_col + c], out[c] / sum, tolerance)
                << "kv head " << head << ", row " << r << ", column " << c;
          }
        }
      }
    };
    expect(Run(p, queries, {kv.view, tail}, CutAttention(all, p.num_kv_heads, 64)), true);

    const auto device_queries = Upload(queries.bytes, 1);
    std::vector<DeviceBuffer<float>> states;
    std::vector<DeviceBuffer<uint32_t>> begins;
    std::vector<DeviceBuffer<AttentionItem>> items;
    CudaJoinArgs join = {.lists = {},
                         .num_lists = 3,
                         .num_tokens = p.num_tokens,
                         .num_kv_heads = p.num_kv_heads,
                         .group = p.group,
                         .head_dim = p.head_dim,
                         .dtype = p.queries_in,
                         .output = nullptr};
    for (uint32_t l = 0; l < 3; ++l) {  // the second: empty
      const AttentionWork work = CutAttention(l == 0   ? rows
                                              : l == 2 ? tails
                                                       : std::vector<AttentionRange>(),
                                              p.num_kv_heads, 64);
      const size_t size = std::max<size_t>(1, work.items.size()) * num_rows;
      for (const size_t cols : {p.head_dim, 1u, 1u}) states.push_back(Make<float>(size * cols));
      items.push_back(Upload(work.items));
      begins.push_back(Upload(work.item_begin));
      join.lists[l] = {{states[3 * l].data(), states[3 * l + 1].data(), states[3 * l + 2].data()},
                       begins.back().data()};
      Expect(CudaAttend(stream_, {.queries = QueriesOf(p, device_queries.data()),
                                  .scale = p.scale(),
                                  .softcap = p.softcap,
                                  .sources = {kv.view, tail},
                                  .num_sources = 2,
                                  .items = items.back().data(),
                                  .max_items = static_cast<uint32_t>(work.items.size()),
                                  .states = join.lists[l].states}));
    }
    const auto lse = Make<float>(size_t{p.num_kv_heads} * num_rows);
    const auto output = Make<std::byte>(p.num_tokens * RowBytes(p.queries_in, p.query_cols()));
    join.lse = lse.data();
    Output result{Matrix(p.num_tokens, p.query_cols()), {}};
    CudaJoinArgs without = join;
    for (JoinList& list : without.lists) list.states.out = nullptr;
    Expect(CudaJoin(stream_, without));
    result.lse = Download(lse);
    expect(result, false);
    join.output = output.data();
    Expect(CudaJoin(stream_, join));
    EXPECT_EQ(Download(lse), result.lse);
    const auto bytes = Download(output);
    ToFloatRowsScalar({bytes.data(), p.queries_in, p.num_tokens, p.query_cols()}, result.rows.rows);
    expect(result, true);
  };
  check({.softcap = 4}, 90, {90, 65});
  check({.num_kv_heads = 3, .group = 1, .head_dim = 128, .softcap = 4}, 7, {0, 3, 7});
  check({.num_kv_heads = 1, .group = 16, .head_dim = 256, .softcap = 4}, 130, {129});
  check(
      {.group = 2, .head_dim = 8, .dtype = Dtype::kBf16, .queries_in = Dtype::kBf16, .softcap = 4},
      70, {70, 2});
  check({.head_dim = 96, .dtype = Dtype::kQ8, .softcap = 4}, 66, {66, 33});
  check({.num_tokens = 20, .num_kv_heads = 1, .group = 4, .softcap = 4}, 80, {67});
  check({.num_tokens = 30, .group = 3, .head_dim = 32, .dtype = Dtype::kQ8, .softcap = 4}, 5,
        {5, 2});
}

// The same bits whatever the blocks that take the items, and in whatever order they run.
TEST_P(CudaAttentionTest, ItemsCountedByTheDeviceGiveTheSameBits) {
  const Problem p{.num_tokens = 1, .num_kv_heads = 2, .group = 4, .head_dim = 64};
  const StoredMatrix queries(Matrix::Random(1, p.query_cols(), 1, 2), p.queries_in);
  const StoredMatrix keys(Matrix::Random(2000, 64, 2), p.dtype);
  const StoredMatrix values(Matrix::Random(2000, 64, 3), p.dtype);
  const DeviceRowsOfKv kv(*this, keys, values);
  const AttentionWork work = CutAttention({{0, 0, 0, 1400}, {1, 0, 1400, 2000}}, 2, 64);
  const auto q = Upload(queries.bytes, 1);
  const auto items = Upload(work.items);
  const auto count = Upload(std::vector<uint32_t>{static_cast<uint32_t>(work.items.size())});
  std::vector<std::vector<float>> results;
  for (const bool by_device : {false, true}) {
    const auto out = Make<float>(40 * 4 * 64), max = Make<float>(160), sum = Make<float>(160);
    CudaAttendArgs args{.queries = QueriesOf(p, q.data()),
                        .scale = p.scale(),
                        .sources = {kv.view},
                        .items = items.data(),
                        .max_items = static_cast<uint32_t>(work.items.size()),
                        .states = {out.data(), max.data(), sum.data()}};
    if (by_device) {
      args.num_items = count.data();
      args.max_items = 1000;  // room for more than there are
    }
    Expect(CudaAttend(stream_, args));
    results.push_back(Download(out));
  }
  EXPECT_TRUE(SameBits(results[0].data(), results[1].data(), work.items.size() * 256));
}

// Items that lie before a window, as split-KV has them: exactly nothing, whoever comes first.
TEST_P(CudaAttentionTest, ItemsThatNobodySeesLeaveEmptyStates) {
  const Problem p{.num_tokens = 1, .num_kv_heads = 1, .group = 8, .head_dim = 64};
  const StoredMatrix queries(Matrix::Random(1, p.query_cols(), 1, 2), p.queries_in);
  const StoredMatrix keys(Matrix::Random(1300, 64, 2), p.dtype);
  const DeviceRowsOfKv kv(*this, keys, keys);
  const AttentionWork work = CutAttention({{0, 0, 0, 1280}}, 1, 32);
  const auto q = Upload(queries.bytes, 1);
  const auto items = Upload(work.items);
  const auto out = Make<float>(40 * 8 * 64), max = Make<float>(320), sum = Make<float>(320);
  CudaAttendArgs args;
  args.queries = QueriesOf(p, q.data());
  args.scale = p.scale();
  args.sources[0] = kv.view;
  args.sources[0].rows_per_head = 1300;
  args.sources[0].first_position = 1299;
  args.sources[0].window = 10;
  args.items = items.data();
  args.max_items = 40;
  args.states = {out.data(), max.data(), sum.data()};
  Expect(CudaAttend(stream_, args));
  for (const float x : Download(out)) ASSERT_EQ(x, 0);
  for (const float x : Download(max)) ASSERT_EQ(x, -kInf);
  for (const float x : Download(sum)) ASSERT_EQ(x, 0);
}

TEST_P(CudaAttentionTest, LargeLogitsDoNotOverflow) {
  Problem p{.num_tokens = 1, .num_kv_heads = 1, .group = 2, .head_dim = 64};
  const StoredMatrix queries(Matrix::Random(1, p.query_cols(), 1, 300), p.queries_in);
  const StoredMatrix keys(Matrix::Random(90, 64, 2, 30), p.dtype);
  const StoredMatrix values(Matrix::Random(90, 64, 3), p.dtype);
  const DeviceRowsOfKv kv(*this, keys, values);
  const Output output = Run(p, queries, {kv.view}, CutAttention({{0, 0, 0, 90}}, 1, 64));
  for (const float x : output.rows.data) EXPECT_TRUE(std::isfinite(x));
  const Matrix q = queries.ToFloats(), k = keys.ToFloats(), v = values.ToFloats();
  std::vector<std::pair<size_t, float>> all;
  for (size_t i = 0; i < 90; ++i) all.emplace_back(i, 0.0f);
  for (uint32_t g = 0; g < 2; ++g) {
    const auto expected = Dense(p, q[0] + 64 * g, k, v, all);
    for (size_t c = 0; c < 64; ++c) {
      EXPECT_NEAR(output.rows[0][64 * g + c], expected[c], Tolerance(p, v));
    }
  }
}

TEST_P(CudaAttentionTest, NothingAttendedFinishesAsZero) {
  const Problem p{.num_tokens = 1, .num_kv_heads = 2, .group = 2, .head_dim = 64};
  const StoredMatrix queries(Matrix::Random(1, p.query_cols(), 1), p.queries_in);
  const StoredMatrix keys(Matrix::Random(64, 64, 2), p.dtype);
  const DeviceRowsOfKv kv(*this, keys, keys);
  const auto bias = Upload(std::vector<float>(64, -kInf));
  DeviceKv source = kv.view;
  source.bias = bias.data();
  const Output output = Run(p, queries, {source}, CutAttention({{0, 0, 0, 64}}, 2, 64));
  for (const float x : output.rows.data) EXPECT_EQ(x, 0);  // no weight, and no item at all
  for (const float lse : output.lse) EXPECT_EQ(lse, -kInf);
}

TEST_P(CudaAttentionTest, RefusesWhatItCannotTake) {
  const Problem p{};
  const auto memory = Make<float>(4096);
  const CudaAttendArgs good{
      .queries = QueriesOf(p, memory.data()),
      .scale = 1,
      .sources = {{.keys = memory.data(), .values = memory.data(), .dtype = Dtype::kF16}},
      .items = reinterpret_cast<const AttentionItem*>(memory.data()),
      .max_items = 1,
      .states = {memory.data(), memory.data(), memory.data()}};
  const auto why = [&](auto change) {
    CudaAttendArgs args = good;
    change(args);
    const CudaStatus status = CudaAttend(stream_, args);
    return status.code == CudaCode::kInvalidArgument ? std::string(status.reason) : "taken";
  };
  EXPECT_EQ(why([](auto& a) { a.queries.head_dim = 60; }),
            "a head_dim that is no multiple of 8 up to 256");
  EXPECT_EQ(why([](auto& a) { a.queries.head_dim = 264; }),
            "a head_dim that is no multiple of 8 up to 256");
  EXPECT_EQ(why([](auto& a) { a.queries.dtype = Dtype::kF32; }), "queries of neither f16 nor bf16");
  EXPECT_EQ(why([](auto& a) { a.queries.stride -= 8; }),
            "a stride that is too small or not aligned");
  EXPECT_EQ(why([](auto& a) { a.queries.stride += 4; }),
            "a stride that is too small or not aligned");
  EXPECT_EQ(why([](auto& a) { a.queries.num_tokens = 0; }), "no queries");
  EXPECT_EQ(why([](auto& a) { a.sources[0].dtype = Dtype::kBf16; }),
            "keys of another type than the queries");
  EXPECT_EQ(why([](auto& a) { a.sources[0].dtype = Dtype::kQ8; }), "q8 without scales");
  EXPECT_EQ(why([](auto& a) {
              a.sources[0].dtype = Dtype::kQ8;
              a.queries.dtype = Dtype::kBf16;
            }),
            "q8 with queries that are not f16");
  EXPECT_EQ(why([](auto& a) { a.sources[0].keys = nullptr; }), "no keys or values");
  EXPECT_EQ(why([&](auto& a) { a.sources[0].logits = memory.data(); }),
            "logits without a stride, or with rows, a bias or causality");
  EXPECT_EQ(why([&](auto& a) {
              a.sources[0].logits = a.sources[0].bias = memory.data();
              a.sources[0].logits_stride = 4;
            }),
            "logits without a stride, or with rows, a bias or causality");
  EXPECT_EQ(why([](auto& a) { a.scale = NAN; }), "a scale that is none");
  EXPECT_EQ(why([](auto& a) { a.num_sources = 4; }), "too many sources");
  EXPECT_EQ(why([](auto& a) { a.states.sum = nullptr; }), "no place for the result");
  EXPECT_EQ(why([&](auto& a) { a.output = memory.data(); }),
            "finished rows of more than an item for each kv head");
  EXPECT_EQ(why([](auto& a) {
              a.sources[0].rows_per_head = 5;
              a.sources[0].rows = reinterpret_cast<const uint32_t*>(a.items);
            }),
            "causal rows by a list");
}

// More items than a block has threads, in several lists; a row that attended to nothing.
TEST_P(CudaAttentionTest, JoinAddsItemsOfAllLists) {
  const auto check = [&](uint32_t num_tokens, uint32_t group, uint32_t head_dim) {
    SCOPED_TRACE(testing::Message() << num_tokens << " tokens, " << head_dim << " wide");
    const std::vector<std::vector<uint32_t>> begins = {{0, 170, 172}, {0, 0, 0}, {0, 3, 300}};
    const uint32_t num_rows = num_tokens * group, num_heads = 2;
    const uint32_t cols = num_heads * group * head_dim;
    std::vector<Matrix> outs, sums, maxima;
    std::vector<DeviceBuffer<float>> buffers;
    std::vector<DeviceBuffer<uint32_t>> device_begins;
    CudaJoinArgs args = {.lists = {},
                         .num_lists = 3,
                         .num_tokens = num_tokens,
                         .num_kv_heads = num_heads,
                         .group = group,
                         .head_dim = head_dim,
                         .dtype = Dtype::kF32,
                         .output = nullptr};
    for (uint32_t l = 0; l < 3; ++l) {
      const size_t size = std::max(1u, begins[l].back()) * num_rows;
      outs.push_back(Matrix::Random(size, head_dim, 3 * l));
      maxima.push_back(Matrix::Random(size, 1, 3 * l + 1, 3));
      sums.push_back(Matrix::Random(size, 1, 3 * l + 2));
      for (float& x : sums.back().data) x = 1 + std::abs(x);
      for (size_t i = 0; i < size; ++i) {  // of the last row nothing; of others some
        if (i % num_rows + 1 < num_rows && i % 7 > 0) continue;
        maxima.back().data[i] = -kInf;
        sums.back().data[i] = 0;
        std::fill_n(outs.back()[i], head_dim, 0.0f);
      }
      for (const Matrix* const of : {&outs.back(), &maxima.back(), &sums.back()}) {
        buffers.push_back(Upload(of->data));
      }
      device_begins.push_back(Upload(begins[l]));
      args.lists[l] = {
          {buffers[3 * l].data(), buffers[3 * l + 1].data(), buffers[3 * l + 2].data()},
          device_begins.back().data()};
    }
    const auto output = Make<float>(num_tokens * cols), lse = Make<float>(num_heads * num_rows);
    args.output = output.data();
    args.lse = lse.data();
    Expect(CudaJoin(stream_, args));
    const auto got = Download(output), got_lse = Download(lse);
    for (uint32_t head = 0; head < num_heads; ++head) {
      for (uint32_t r = 0; r < num_rows; ++r) {
        double sum = 0;
        std::vector<double> out(head_dim);
        for (uint32_t l = 0; l < 3; ++l) {
          for (uint32_t item = begins[l][head]; item < begins[l][head + 1]; ++item) {
            const size_t at = item * num_rows + r;
            const double factor = std::exp(double{maxima[l].data[at]});
            sum += factor * sums[l].data[at];
            for (uint32_t c = 0; c < head_dim; ++c) out[c] += factor * outs[l][at][c];
          }
        }
        const size_t first = r / group * cols + (head * group + r % group) * head_dim;
        if (r + 1 == num_rows) {
          ASSERT_EQ(got_lse[head * num_rows + r], -kInf);
        } else {
          ASSERT_NEAR(got_lse[head * num_rows + r], std::log(sum), 1e-5);
        }
        for (uint32_t c = 0; c < head_dim; ++c) {
          ASSERT_NEAR(got[first + c], sum > 0 ? out[c] / sum : 0, 1e-5)
              << head << ", " << r << ", " << c;
        }
      }
    }
  };
  check(1, 4, 8);
  check(2, 3, 40);
  check(1, 2, 256);
  check(20, 1, 40);
}

TEST_P(CudaAttentionTest, JoinRefusesWhatItCannotTake) {
  const auto memory = Make<float>(64);
  const auto* const begins = reinterpret_cast<const uint32_t*>(memory.data());
  const DeviceStates states = {memory.data(), memory.data(), memory.data()};
  const CudaJoinArgs good = {.lists = {{states, begins}, {states, begins}},
                             .num_lists = 2,
                             .num_tokens = 1,
                             .num_kv_heads = 1,
                             .group = 1,
                             .head_dim = 8,
                             .dtype = Dtype::kF32,
                             .output = memory.data()};
  const auto refused = [&](auto change) {
    CudaJoinArgs args = good;
    change(args);
    EXPECT_EQ(CudaJoin(stream_, args).code, CudaCode::kInvalidArgument);
  };
  refused([](auto& args) { args.num_lists = 0; });
  refused([](auto& args) { args.num_lists = kMostJoined + 1; });
  refused([](auto& args) { args.num_lists = 3; });  // the third is none
  refused([](auto& args) { args.lists[1].states.out = nullptr; });
  refused([](auto& args) { args.lists[1].item_begin = nullptr; });
  refused([](auto& args) { args.output = nullptr; });  // no LSEs either
  refused([](auto& args) { args.dtype = Dtype::kQ8; });
  refused([](auto& args) { args.head_dim = 264; });
}

LECTERN_CUDA_TESTS(CudaAttentionTest);

}  // namespace
}  // namespace lectern
