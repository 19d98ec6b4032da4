// Every architecture and RoPE recipe against transformers (tests/golden/architectures.json), past
// windows and past the positions that the recipe was trained for; then from indexing to an answer.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>

#include "tests/engine/dense_oracle.h"
#include "tests/engine/invented_gguf.h"
#include "tests/engine/invented_model.h"
#include "tests/engine/test_documents.h"

namespace lectern {
namespace {

using testing::IndexToAsk;
using testing::IndexTokens;
using testing::InventedText;
using testing::ReadWholeFile;
using testing::SourcePath;
using testing::TempFolder;
using testing::WriteInventedModel;

const Json& Cases() {
  static const Json* const cases = [] {
    auto parsed = ParseJson(ReadWholeFile(SourcePath("tests/golden/architectures.json")));
    EXPECT_TRUE(parsed.ok()) << parsed.status().message();
    return new Json(std::move(parsed).value());
  }();
  return *cases;
}

std::vector<std::string> CaseNames() {
  std::vector<std::string> names;
  for (const auto& [name, unused] : *Cases().object()) names.push_back(name);
  return names;
}

std::string TestName(const ::testing::TestParamInfo<std::string>& info) {
  std::string name = info.param;
  std::replace(name.begin(), name.end(), ' ', '_');
  return name;
}

std::vector<float> FloatsOfHex(const std::string& hex) {
  std::vector<float> floats(hex.size() / 8);
  for (size_t i = 0; i < hex.size() / 2; ++i) {
    const auto byte = static_cast<uint8_t>(std::stoi(hex.substr(2 * i, 2), nullptr, 16));
    std::memcpy(reinterpret_cast<uint8_t*>(floats.data()) + i, &byte, 1);
  }
  return floats;
}

// One case of each architecture: recipes of RoPE are no matter of indexing and asking.
bool IsFirstOfItsArchitecture(const std::string& name) {
  const auto type = [](const Json& item) {
    return *item.Find("config")->Find("model_type")->string();
  };
  for (const auto& [other, item] : *Cases().object()) {
    if (type(item) == type(*Cases().Find(name))) return other == name;
  }
  return false;
}

class ArchitecturesTest : public ::testing::TestWithParam<std::string> {
 protected:
  const Json& Case() const { return *Cases().Find(GetParam()); }
};

// The tokens of the golden's texts.
std::vector<int32_t> TextTokens(int64_t count) {
  std::vector<int32_t> tokens = {1};
  for (int64_t i = 1; i < count; ++i) {
    tokens.push_back(static_cast<int32_t>((7 * i * i + 13 * i + i / 397 * 5 + 5) % 397 + 3));
  }
  return tokens;
}

// Compares logits of the model at `path` with the golden's. The document's tokens are indexed, the
// next ones asked at once, the rest one by one, with everything read. The second text has clusters.
void ExpectGoldenLogits(const Json& golden, const std::string& path) {
  const auto every = static_cast<size_t>(*golden.Find("every")->integer());
  for (const Json& text : *golden.Find("texts")->array()) {
    const TempFolder folder;
    const std::vector<int32_t> tokens = TextTokens(*text.Find("tokens")->integer());
    const auto num_document = static_cast<size_t>(*text.Find("document")->integer());
    const auto indexed =
        IndexTokens(path, {tokens.begin(), tokens.begin() + static_cast<ptrdiff_t>(num_document)},
                    folder.path());
    auto session = DocumentSession::Create(indexed.document, indexed.model, *DefaultBackend(),
                                           std::make_shared<ThreadPool>(2), 0);
    ASSERT_TRUE(session.ok()) << session.status().message();
    const double std = *text.Find("std")->number();
    const Json::Array& positions = *text.Find("positions")->array();
    const Json::Array& rows = *text.Find("logits")->array();
    size_t done = num_document, compared = 0;
    const auto step_to = [&](size_t end) {
      const auto logits =
          (*session)->Step(std::span(tokens).subspan(done, end - done), 1, true, nullptr);
      ASSERT_TRUE(logits.ok()) << logits.status().message();
      done = end;
      for (size_t i = 0; i < positions.size(); ++i) {
        if (*positions[i].unsigned_integer() + 1 != done) continue;
        const std::vector<float> expected = FloatsOfHex(*rows[i].string());
        double worst = 0;
        for (size_t j = 0; j < expected.size(); ++j) {
          worst = std::max<double>(worst, std::abs((*logits)[j * every] - expected[j]) / std);
        }
        EXPECT_LE(worst, 5e-5) << "position " << done - 1;
        ++compared;
      }
    };
    step_to(*positions[0].unsigned_integer() + 1);
    while (done < tokens.size()) step_to(done + 1);
    EXPECT_EQ(compared, positions.size());
  }
}

TEST_P(ArchitecturesTest, LogitsAreThoseOfTransformers) {
  const TempFolder model;
  WriteInventedModel(Case(), model.path());
  ExpectGoldenLogits(Case(), model.path());
}

// The same as llama.cpp's converter writes it, of what a file can say. Recipes of RoPE that need
// further keys or tensors are gguf_model_test.cc's matter.
TEST_P(ArchitecturesTest, LogitsOfAGgufFileAreThoseOfTransformers) {
  const Json& config = *Case().Find("config");
  const std::string& type = *config.Find("model_type")->string();
  // gpt-oss's recipe of RoPE is that of every file of it, and so is the limit of its activation.
  for (const char* const unsaid :
       {"rope_scaling", "use_sliding_window", "no_rope_layers", "swiglu_limit"}) {
    const bool is_said = type == "gpt_oss" && std::string_view(unsaid) == "rope_scaling";
    if (config.Find(unsaid) != nullptr && !is_said) return;
  }
  for (const char* const other : {"gemma", "phi", "mistral"}) {
    if (type.starts_with(other)) return;
  }
  const TempFolder model;
  testing::GgufWriter file;
  testing::AddInventedKeys(Case(), file);
  testing::AddTinyVocabulary(file);
  testing::AddInventedTensors(Case(), TensorType::kF32, file);
  testing::WriteWholeFile(model.path() + "/model.gguf", file.Finish());
  ExpectGoldenLogits(Case(), model.path() + "/model.gguf");
}

// A document with clusters: what is asked at a budget of 1 is what the dense pass says, token for
// token, and sparse questions are answered and say what they read.
TEST_P(ArchitecturesTest, IndexesAndAnswers) {
  const bool has_windows_or_length =
      Case().Find("config")->Find("sliding_window") != nullptr || GetParam() == "llama dynamic";
  if (!has_windows_or_length && !IsFirstOfItsArchitecture(GetParam())) return;
  const TempFolder model, store;
  Json::Object case_object = *Case().object();
  Json::Object config = *Case().Find("config")->object();
  // Room for the document. Its recipe stays what it is.
  if (config.contains("max_position_embeddings") &&
      *config["max_position_embeddings"].integer() < 4096) {
    config["max_position_embeddings"] = Json(int64_t{4096});
  }
  case_object["config"] = Json(std::move(config));
  WriteInventedModel(Json(std::move(case_object)), model.path());
  const std::string text = InventedText(7000, 3);
  ASSERT_GE(IndexToAsk(store.path(), model.path(), text).tokens, 2048u);
  const auto ask = [&](float budget, size_t threads) {
    auto other =
        Engine::Create({.store = store.path(), .model = model.path(), .num_threads = threads});
    EXPECT_TRUE(other.ok());
    auto session = (*other)->Open("");
    EXPECT_TRUE(session.ok()) << session.status().message();
    AskOptions options;
    options.kv_budget = budget;
    options.max_tokens = 12;
    auto answer = (*session)->Ask("What is it?", options);
    EXPECT_TRUE(answer.ok()) << answer.status().message();
    return std::move(answer).value();
  };
  const Answer exact = ask(1, 1), sparse = ask(0.25f, 2), automatic = ask(kAutoBudget, 2);
  EXPECT_GT(automatic.answer_tokens, 0u);
  EXPECT_LE(automatic.kv.read_fraction_prefill, 1);
  EXPECT_GT(exact.answer_tokens, 0u);
  EXPECT_EQ(ask(1, 2).text, exact.text);  // any number of threads
  const auto loaded = Model::Load(Env::Default(), model.path());
  ASSERT_TRUE(loaded.ok());
  const bool has_windows = (*loaded)->config().window > 0;
  const bool has_clusters = (*loaded)->config().num_full_layers() > 0;
  EXPECT_EQ(exact.kv.window_bytes > 0, has_windows);
  EXPECT_EQ(exact.kv.bytes_read > 0, has_clusters);
  if (has_clusters) {
    EXPECT_LT(sparse.kv.read_fraction_prefill, 0.3);
    EXPECT_GT(sparse.kv.read_fraction_prefill, 0.1);
  }
}

// Folders whose architecture has no GGUF file of its own form (formats_test.cc has the others): at
// a budget of 1, the tokens of dense attention in float64, wherever it prefers its own clearly.
class FolderOracleTest : public ::testing::TestWithParam<std::string> {};

TEST_P(FolderOracleTest, IndexesAndAnswersAsDenseAttentionDoes) {
  const TempFolder folder, store;
  WriteInventedModel(*Cases().Find(GetParam()), folder.path());
  const auto engine =
      *Engine::Create({.store = store.path(), .model = folder.path(), .num_threads = 2});
  const std::string text = InventedText(7000, 3);
  IndexOptions options;
  options.kv_dtype = Dtype::kF32;
  IndexToAsk(store.path(), folder.path(), text, options);
  const auto model = *Model::Load(Env::Default(), folder.path());
  testing::DenseOracle oracle(folder.path(), "f32");
  oracle.Append(model->EncodeDocument(text)->ids);
  const auto session = *AsDocumentSession(*engine->Open("", nullptr));
  std::vector<int32_t> next = *model->EncodeQuestion("What is it?");
  size_t num_clear = 0;
  for (int step = 0; step < 12; ++step) {
    const auto logits = session->Step(next, 1, false, nullptr);
    ASSERT_TRUE(logits.ok());
    const std::vector<double> expected = oracle.Append(next);
    const auto best = std::ranges::max_element(expected) - expected.begin();
    std::vector<double> sorted = expected;
    std::ranges::nth_element(sorted, sorted.begin() + 1, std::greater<>());
    if (expected[static_cast<size_t>(best)] - sorted[1] > 1e-3) {
      EXPECT_EQ(std::ranges::max_element(*logits) - logits->begin(), best) << step;
      ++num_clear;
    }
    for (size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR((*logits)[i], expected[i], 1e-3);
    next = {static_cast<int32_t>(best)};
  }
  EXPECT_GT(num_clear, 6u);
}

INSTANTIATE_TEST_SUITE_P(Folders, FolderOracleTest,
                         ::testing::Values("exaone", "granite hybrid", "granite hybrid rope"),
                         TestName);

INSTANTIATE_TEST_SUITE_P(All, ArchitecturesTest, ::testing::ValuesIn(CaseNames()), TestName);

}  // namespace
}  // namespace lectern
