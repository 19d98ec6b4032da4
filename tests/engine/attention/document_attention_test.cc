#include "engine/attention/document_attention.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <set>

#include "tests/engine/test_documents.h"

namespace lectern {
namespace {

using testing::Floats;
using testing::InventedText;
using testing::TempFolder;
using testing::TinyModel;
using testing::TokenDocument;

constexpr size_t kDim = 16;  // of the tiny model
constexpr uint32_t kLayer = 1;

// Queries and the states of every kv head of a layer.
struct Step {
  Step(size_t num_heads, size_t rows) : num_rows(rows) {
    queries.resize(num_heads, std::vector<float>(num_rows * kDim));
    numbers.resize(num_heads, std::vector<float>(num_rows * (kDim + 2)));
    for (size_t h = 0; h < num_heads; ++h) {
      views.emplace_back(queries[h].data(), num_rows, kDim);
      float* base = numbers[h].data();
      states.push_back({{base, num_rows, kDim},
                        {base + num_rows * kDim, num_rows},
                        {base + num_rows * (kDim + 1), num_rows}});
      ResetState(states.back());
    }
  }
  double Lse(size_t head, size_t row) const {
    return states[head].max[row] + std::log(double{states[head].sum[row]});
  }
  size_t num_rows;
  std::vector<std::vector<float>> queries, numbers;
  std::vector<Rows<const float>> views;
  std::vector<AttentionState> states;
};

class DocumentAttentionTest : public ::testing::TestWithParam<bool> {  // tail
 protected:
  static const Document& TestDocument() {
    static TempFolder folder;
    static TokenDocument document = [] {
      const auto model = Model::Load(Env::Default(), TinyModel());
      const auto tokens = (*model)->EncodeDocument(InventedText(16000, 11));
      return testing::IndexTokens(TinyModel(), tokens->ids, folder.path());
    }();
    return *document.document;
  }
  Result<DocumentRead> Attend(const Step& step, double budget, ObservedLogits* observed = nullptr) {
    DocumentRead read;
    LECTERN_RETURN_IF_ERROR(AttendDocument(
        {.query =
             {.backend = *DefaultBackend(),
              .threads = threads_,
              .rows = {.queries = step.views, .num_tokens = 1, .softcap = 0, .states = step.states},
              .is_cancelled = {},
              .workspace = workspace_},
         .document = TestDocument(),
         .layer = kLayer,
         .kv_budget = budget,
         .tail = GetParam(),
         .observed = observed},
        read));
    return read;
  }
  ThreadPool threads_{2};
  AttentionWorkspace workspace_;
};

// However long the question is: each of 4,096 tokens asks for one of the sinks or of the window.
// (The code published with arXiv:2411.09688 drops its window for long questions.)
TEST_P(DocumentAttentionTest, SinksAndWindowStayAttendedInALongQuestion) {
  const std::span<const HeadIndex> heads = *TestDocument().Heads(kLayer);
  Step step(heads.size(), 4096);
  std::vector<std::vector<float>> logits(heads.size());
  for (size_t h = 0; h < heads.size(); ++h) {
    const IndexRange exact = {0, heads[h].num_exact()};
    ASSERT_EQ(exact.size(), 104u);
    const std::vector<float> keys = Floats(heads[h].Keys(exact));
    for (size_t r = 0; r < step.num_rows; ++r) {
      double squares = 0, dot = 0;
      const float* key = &keys[r % exact.size() * kDim];
      for (size_t c = 0; c < kDim; ++c) squares += double{key[c]} * key[c];
      for (size_t c = 0; c < kDim; ++c) {
        step.queries[h][r * kDim + c] = static_cast<float>(60 * key[c] / squares);
        dot += double{step.queries[h][r * kDim + c]} * key[c];
      }
      logits[h].push_back(static_cast<float>(dot / std::sqrt(double{kDim})));  // 15
    }
  }
  const auto read = Attend(step, 0.1);
  ASSERT_TRUE(read.ok()) << read.status().message();
  EXPECT_LE(read->bytes, 0.1 * static_cast<double>(read->dense_bytes));
  for (size_t h = 0; h < heads.size(); ++h) {
    for (size_t r = 0; r < step.num_rows; ++r) {
      // The key that it asks for is in the sum, and its value in the output.
      ASSERT_GE(step.Lse(h, r), logits[h][r] - 1e-3) << "row " << r;
    }
  }
}

// The paths join the same states: with nearly all the bytes the sums nearly agree.
TEST_P(DocumentAttentionTest, ALargeBudgetIsCloseToExact) {
  const std::span<const HeadIndex> heads = *TestDocument().Heads(kLayer);
  std::mt19937 engine(3);
  std::normal_distribution<float> normal(0, 1);
  for (const size_t rows : {1, 40, 300}) {
    Step sparse(heads.size(), rows), exact(heads.size(), rows);
    for (size_t h = 0; h < heads.size(); ++h) {
      for (float& x : sparse.queries[h]) x = 2 * normal(engine);
      exact.queries[h] = sparse.queries[h];
    }
    ASSERT_TRUE(Attend(sparse, 0.999).ok());
    ASSERT_TRUE(Attend(exact, 1).ok());
    for (size_t h = 0; h < heads.size(); ++h) {
      for (size_t r = 0; r < rows; ++r) {
        EXPECT_NEAR(sparse.Lse(h, r), exact.Lse(h, r), GetParam() ? 0.02 : 0.4);
      }
    }
  }
}

// Also where the rows of the last token are cut into two items: 258 rows of three heads are 256 and
// two.
TEST_P(DocumentAttentionTest, LogitsOfTheLastTokensRowsAreObserved) {
  const std::span<const HeadIndex> heads = *TestDocument().Heads(kLayer);
  std::mt19937 engine(3);
  std::normal_distribution<float> normal(0, 1);
  constexpr size_t kRowsOfToken = 3;
  for (const size_t rows : {3, 255, 258, 261, 513}) {
    for (const double budget : {0.2, 1.0}) {
      Step step(heads.size(), rows);
      for (auto& queries : step.queries) {
        for (float& x : queries) x = normal(engine);
      }
      ObservedLogits observed;
      observed.num_queries = kRowsOfToken;
      ASSERT_TRUE(Attend(step, budget, &observed).ok());
      for (size_t h = 0; h < heads.size(); ++h) {
        const uint32_t num_exact = heads[h].num_exact();
        const std::vector<float> keys = Floats(heads[h].Keys({0, num_exact}));
        ASSERT_EQ(observed.exact[h].size(), kRowsOfToken * num_exact);
        for (size_t i = 0; i < observed.exact[h].size(); ++i) {
          const float* query = &step.queries[h][(rows - kRowsOfToken + i / num_exact) * kDim];
          const float* key = &keys[i % num_exact * kDim];
          double dot = 0;
          for (size_t c = 0; c < kDim; ++c) dot += double{query[c]} * key[c];
          ASSERT_NEAR(observed.exact[h][i], dot / std::sqrt(double{kDim}), 1e-3) << rows;
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(TailOrNot, DocumentAttentionTest, ::testing::Bool(),
                         [](const auto& param) { return param.param ? "Tail" : "NoTail"; });

// In the first layer a key is its token's, turned by its position: clusters made without positions
// hold one token each.
TEST(ClusterKeysTest, UnrotatedKeysMeetWhereverTheyStand) {
  std::vector<int32_t> ids;
  for (int i = 0; i < 2100; ++i) ids.push_back(3 + (i * i + i / 7) % 13 * 20);
  const auto mixed_clusters = [&](bool unrotated) {
    const TempFolder folder;
    const TokenDocument made =
        testing::IndexTokens(TinyModel(), ids, folder.path(), {.unrotated = unrotated});
    const HeadIndex& head = made.document->Heads(0).value()[0];
    const size_t num_clusters = head.levels().back().num_clusters();
    size_t mixed = 0;
    for (uint32_t i = 0; i < num_clusters; ++i) {
      const IndexRange rows = head.ClusterRows(i);
      std::set<int32_t> tokens;
      for (uint32_t row = rows.begin; row < rows.end; ++row) {
        tokens.insert(ids[head.positions()[row]]);
      }
      mixed += tokens.size() > 1;
    }
    return static_cast<double>(mixed) / static_cast<double>(num_clusters);
  };
  EXPECT_EQ(mixed_clusters(true), 0);
  EXPECT_GT(mixed_clusters(false), 0.1);
}

}  // namespace
}  // namespace lectern
