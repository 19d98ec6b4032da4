// A sparse prefill: what it shares with an exact one, how it goes on after an interruption, and
// that nobody takes its documents for others.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <map>

#include "engine/document/layer_shard.h"
#include "engine/indexing/index_document.h"
#include "engine/indexing/index_input.h"
#include "engine/indexing/prefill.h"
#include "engine/requests/report_json.h"
#include "tests/engine/test_documents.h"

namespace lectern {
namespace {

using testing::Floats;
using testing::InventedText;
using testing::ReadWholeFile;
using testing::TempFolder;
using testing::TinyModel;

constexpr uint64_t kTokens = 25600;  // clusters are made at 16,384 and at 24,576 tokens

const Model& TheModel() {
  static const auto model = Model::Load(Env::Default(), TinyModel());
  return **model;
}

std::vector<int32_t> Tokens() {
  auto context = TheModel().EncodeDocument(InventedText(75000, 3));
  std::vector<int32_t> ids = std::move(context).value().ids;
  EXPECT_GE(ids.size(), kTokens);
  ids.resize(kTokens);
  return ids;
}

// The spill of a prefill in a folder of its own.
class Prefilled {
 public:
  // `budget`: of a sparse one; 0: exact.
  explicit Prefilled(double budget, size_t num_threads = 2) : threads_(num_threads) {
    if (budget > 0) {
      options_.sparse.emplace(SparsePrefill{.env = Env::Default(),
                                            .directory = folder_.path() + "/spill/prefill",
                                            .temp_dir = folder_.path(),
                                            .budget = budget});
    }
  }

  // Until `is_cancelled` says so, from where the last run ended.
  Status Run(std::function<bool()> is_cancelled = {}) {
    const ModelConfig& config = TheModel().config();
    SpillShape shape;
    shape.num_tokens = kTokens;
    shape.num_layers = config.num_layers;
    shape.num_kv_heads = config.num_kv_heads;
    shape.head_dim = config.head_dim;
    shape.query_cols = config.num_heads * config.head_dim;
    shape.num_calibration = kWindowTokens;
    spill_.reset();
    auto spill = KvSpill::Open(Env::Default(), folder_.path() + "/spill", folder_.path(), shape);
    if (!spill.ok()) return spill.status();
    spill_ = std::move(spill).value();
    resumed_ = spill_->tokens_done();
    PrefillOptions options = options_;
    options.is_cancelled = std::move(is_cancelled);
    options.on_clusters = [this](uint64_t tokens) { clustered_.push_back(tokens); };
    const Transformer transformer(TheModel(), *DefaultBackend(), threads_);
    return Prefill(transformer, Tokens(), *spill_, options);
  }

  KvSpill& spill() { return *spill_; }
  uint64_t resumed() const { return resumed_; }  // tokens that the last run found
  const std::vector<uint64_t>& clustered() const { return clustered_; }
  // Keys, then values of tokens [begin, end) of all heads of a layer.
  std::vector<float> Rows(uint32_t layer, uint64_t begin, uint64_t end) const {
    std::vector<float> all;
    for (uint32_t head = 0; head < spill_->shape().num_kv_heads; ++head) {
      for (const TypedRows& rows :
           {spill_->Keys(layer, head, kTokens), spill_->Values(layer, head, kTokens)}) {
        const std::vector<float> floats = Floats(rows.Slice(begin, end));
        all.insert(all.end(), floats.begin(), floats.end());
      }
    }
    return all;
  }
  // The files that a prefill keeps, byte for byte.
  std::map<std::string, std::string> Files() const {
    std::map<std::string, std::string> files;
    for (const auto& entry : std::filesystem::directory_iterator(folder_.path() + "/spill")) {
      if (!entry.is_regular_file()) continue;
      files[entry.path().filename().string()] = ReadWholeFile(entry.path());
    }
    return files;
  }

 private:
  TempFolder folder_;
  ThreadPool threads_;
  PrefillOptions options_;
  std::unique_ptr<KvSpill> spill_;
  std::vector<uint64_t> clustered_;
  uint64_t resumed_ = 0;
};

const Prefilled& With(double budget) {
  static std::map<double, Prefilled> made;
  const auto [entry, is_new] = made.try_emplace(budget, budget);
  if (is_new) {
    const Status status = entry->second.Run();
    EXPECT_TRUE(status.ok()) << status.message();
  }
  return entry->second;
}

// Relative, of the last layer's rows of tokens [begin, end).
double Error(const Prefilled& prefilled, uint64_t begin, uint64_t end) {
  const uint32_t last = TheModel().config().num_layers - 1;
  const std::vector<float> exact = With(0).Rows(last, begin, end);
  const std::vector<float> other = prefilled.Rows(last, begin, end);
  double difference = 0, square = 0;
  for (size_t i = 0; i < exact.size(); ++i) {
    difference += std::pow(double{exact[i]} - other[i], 2);
    square += std::pow(double{exact[i]}, 2);
  }
  return std::sqrt(difference / square);
}

TEST(SparsePrefillTest, ReadingEveryClusteredRowIsExactPrefill) {
  // Keys and values are rounded to f16: 2^-11 where a sum in another order rounds the other way.
  EXPECT_LT(Error(With(1), kDenseTokens, kTokens), 1e-4);
}

TEST(SparsePrefillTest, MoreIsLessWrong) {
  const double most = Error(With(0.05), kDenseTokens, kTokens);
  const double some = Error(With(0.3), kDenseTokens, kTokens);
  EXPECT_GT(some, 2 * Error(With(1), kDenseTokens, kTokens));
  EXPECT_LT(some, most);
  EXPECT_LT(most, 0.6);  // random weights attend here and there: of trained ones a hundredth
}

TEST(SparsePrefillTest, WhatIsDenseIsExactPrefillBitForBit) {
  EXPECT_TRUE(With(0.05).Rows(0, 0, kTokens) == With(0).Rows(0, 0, kTokens));
  for (uint32_t layer = 0; layer < TheModel().config().num_layers; ++layer) {
    EXPECT_TRUE(With(0.05).Rows(layer, 0, kDenseTokens) == With(0).Rows(layer, 0, kDenseTokens));
  }
}

TEST(SparsePrefillTest, ClustersAreMadeWhereTheyAreSaidToBe) {
  EXPECT_EQ(With(0.05).clustered(), PrefillClusters::EndsIn(kTokens));
  EXPECT_EQ(With(0.05).clustered().size(), 2u);
  // A ninth of what a document of 512K tokens takes to be clustered, or more, is the last time.
  const auto ends = PrefillClusters::EndsIn(1 << 19);
  uint64_t sum = 0;
  for (const uint64_t end : ends) sum += end;
  EXPECT_LT(sum, 10 * ends.back());
  for (uint64_t begin = 0; begin < 1 << 19; begin += kChunkTokens) {
    const uint64_t end = PrefillClusters::EndFor(begin);
    EXPECT_EQ(end > 0, begin >= kDenseTokens);
    if (end == 0) continue;
    EXPECT_GE(begin, end + kDenseWindow);
    EXPECT_LE(begin, end + kDenseWindow + std::max<uint64_t>(8192, begin / 8));
  }
}

TEST(SparsePrefillTest, WindowedLayersGetNoClusters) {
  const TempFolder folder;
  constexpr uint32_t kDim = 8;
  ModelConfig config;
  config.num_layers = 3;
  config.window = 512;
  config.attention = {AttentionKind::kFull, AttentionKind::kSlidingWindow, AttentionKind::kFull};
  SpillShape shape;
  shape.num_tokens = kDenseTokens;
  shape.num_layers = config.num_layers;
  shape.num_kv_heads = 2;
  shape.head_dim = kDim;
  const auto spill = KvSpill::Open(Env::Default(), folder.path() + "/spill", folder.path(), shape);
  ASSERT_TRUE(spill.ok()) << spill.status().message();
  std::vector<float> rows(kDenseTokens * 2 * kDim);
  for (size_t i = 0; i < rows.size(); ++i) rows[i] = std::sin(static_cast<float>(i));
  const Rows<const float> all(rows.data(), kDenseTokens, 2 * kDim);
  for (uint32_t layer = 0; layer < config.num_layers; ++layer) {
    ASSERT_TRUE((*spill)->Append(*DefaultBackend(), layer, 0, all, all).ok());
  }
  (*spill)->Advance(kDenseTokens);
  ThreadPool threads(3);  // more threads than a layer has heads: layers are clustered in groups
  const SparsePrefill options = {.env = Env::Default(),
                                 .directory = folder.path() + "/prefill",
                                 .temp_dir = folder.path(),
                                 .budget = 0.1};
  PrefillClusters clusters(options, config, *DefaultBackend(), threads, **spill);
  const Status moved = clusters.MoveTo(kDenseTokens, {});
  ASSERT_TRUE(moved.ok()) << moved.message();
  EXPECT_EQ(clusters.end(), kDenseTokens - kDenseWindow);
  for (uint32_t layer = 0; layer < config.num_layers; ++layer) {
    const bool is_windowed = config.is_windowed(layer);
    EXPECT_EQ(clusters.Heads(layer).size(), is_windowed ? 0u : 2u);
    EXPECT_EQ(std::filesystem::exists(options.directory + "/" + LayerFile(layer)), !is_windowed);
  }
}

TEST(SparsePrefillTest, AnInterruptedRunEndsWithTheSameBytes) {
  // In a chunk that reads clusters, while clusters are made, and on one thread.
  Prefilled prefilled(0.05, /*num_threads=*/1);
  uint64_t before = 0;
  for (const uint64_t stop : {uint64_t{18432}, uint64_t{24576}, uint64_t{25088}}) {
    const Status status = prefilled.Run([&] { return prefilled.spill().tokens_done() >= stop; });
    EXPECT_EQ(status.code(), Code::kCancelled);
    EXPECT_EQ(prefilled.spill().tokens_done(), stop);
    EXPECT_EQ(prefilled.resumed(), before);
    before = stop;
  }
  ASSERT_TRUE(prefilled.Run().ok());
  EXPECT_EQ(prefilled.resumed(), before);
  EXPECT_TRUE(prefilled.Files() == With(0.05).Files());
}

// --- documents ----------------------------------------------------------------------------------

IndexOptions Sparse(double budget = 0.1) {
  IndexOptions options;
  options.name = "book";
  options.prefill = "sparse";
  options.prefill_budget = budget;
  return options;
}

class SparseDocumentTest : public ::testing::Test {
 protected:
  IndexReport Index(const std::string& text, const IndexOptions& options) {
    auto report = engine_->Index(text, options);
    EXPECT_TRUE(report.ok()) << report.status().message();
    return std::move(report).value();
  }
  TempFolder folder_;
  const std::string store_ = folder_.path() + "/store";
  std::unique_ptr<Engine> engine_ =
      std::move(Engine::Create({.store = store_, .model = TinyModel(), .num_threads = 2})).value();
};

TEST_F(SparseDocumentTest, IsAnotherDocumentAndSaysSo) {
  const std::string text = InventedText(50000, 4);
  IndexOptions exact;
  exact.name = "book";
  const IndexReport whole = Index(text, exact);
  ASSERT_GT(whole.tokens, kDenseTokens);
  const IndexReport sparse = Index(text, Sparse());
  EXPECT_NE(sparse.document, whole.document);
  EXPECT_FALSE(sparse.existed);
  EXPECT_EQ(sparse.reused_tokens, 0u);  // the exact one's rows are others
  EXPECT_EQ(sparse.prefill_budget, 0.1);
  EXPECT_EQ(whole.prefill_budget, 1);
  const auto again = Index(text, Sparse());
  EXPECT_TRUE(again.existed);
  EXPECT_EQ(again.prefill_budget, 0.1);
  EXPECT_FALSE(std::filesystem::exists(store_ + "/docs/" + sparse.document + "/" +
                                       std::to_string(sparse.generation) + "/prefill"));

  const std::vector<DocumentRow> rows = engine_->List().value();
  EXPECT_EQ(rows.size(), 2u);
  for (const DocumentRow& row : rows) {
    EXPECT_EQ(PrefillBudgetOf(row), ToHex(row.id) == sparse.document ? 0.1 : 1);
  }
  for (const IndexReport& report : {whole, sparse}) {
    auto session = std::move(engine_->Open(report.document)).value();
    AskOptions ask;
    ask.kv_budget = 1;
    ask.max_tokens = 1;
    const auto answer = session->Ask("Who?", ask);
    ASSERT_TRUE(answer.ok()) << answer.status().message();
    EXPECT_EQ(answer->kv.prefill_budget, report.prefill_budget);
    const auto json = ParseJson(AnswerJson(*answer, OffsetUnit::kUtf8, session->text()));
    EXPECT_EQ(*json->Find("kv")->Find("prefill")->string(),
              report.prefill_budget < 1 ? "sparse" : "exact");
  }
}

TEST_F(SparseDocumentTest, ThatIsAllDenseIsTheExactOne) {
  const std::string text = InventedText(3000, 4);
  IndexOptions exact;
  exact.name = "book";
  const IndexReport whole = Index(text, exact);
  const IndexReport sparse = Index(text, Sparse());
  EXPECT_TRUE(sparse.existed);
  EXPECT_EQ(sparse.document, whole.document);
  EXPECT_EQ(sparse.prefill_budget, 1);
}

TEST(SparsePrefillOptionsTest, TheIdHasTheBudget) {
  const auto id = [](double budget) {
    return MakeDocumentId("text", TheModel().fingerprint(), Dtype::kF16, {}, 0, budget);
  };
  EXPECT_EQ(id(1), MakeDocumentId("text", TheModel().fingerprint(), Dtype::kF16));
  EXPECT_NE(id(0.1), id(1));
  EXPECT_NE(id(0.1), id(0.2));
}

TEST_F(SparseDocumentTest, WrongOptionsAreRefused) {
  const auto refused = [&](const IndexOptions& options) {
    const Status status = engine_->Index("some text", options).status();
    EXPECT_EQ(status.code(), Code::kInvalidArgument);
    return status.param();
  };
  IndexOptions options;
  options.prefill = "fast";
  EXPECT_EQ(refused(options), "prefill");
  for (const double budget : {0.0, 0.01, -0.1, 1.1, std::nan("")}) {
    EXPECT_EQ(refused(Sparse(budget)), "prefill_budget");
  }
  options = Sparse();
  options.stats = "full";
  EXPECT_EQ(refused(options), "stats");
}

}  // namespace
}  // namespace lectern
