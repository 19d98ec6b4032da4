// Logits and greedy tokens against transformers' (tests/golden/make_goldens.py).
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <numeric>

#include "tests/engine/test_documents.h"

namespace lectern {
namespace {

using testing::IndexTokens;
using testing::ReadWholeFile;
using testing::SourcePath;
using testing::TempFolder;
using testing::WriteWholeFile;

struct Golden {
  std::vector<int32_t> prompt, greedy;
  std::vector<std::vector<float>> logits;  // [prompt][vocab]
  std::vector<float> margin;
  double std = 0;  // of the logits
};

Golden ReadGolden(const std::string& path) {
  const std::string bytes = ReadWholeFile(path);
  size_t at = 0;
  const auto number = [&] {
    uint32_t n;
    std::memcpy(&n, bytes.data() + at, 4);
    at += 4;
    return n;
  };
  const auto array = [&](auto& to, size_t n) {
    to.resize(n);
    std::memcpy(to.data(), bytes.data() + at, n * 4);
    at += n * 4;
  };
  Golden golden;
  array(golden.prompt, number());
  const uint32_t vocab = number();
  golden.logits.resize(golden.prompt.size());
  double sum = 0, squares = 0;
  for (auto& row : golden.logits) {
    array(row, vocab);
    for (const float x : row) {
      sum += x;
      squares += double{x} * x;
    }
  }
  const double n = static_cast<double>(vocab * golden.prompt.size());
  golden.std = std::sqrt(squares / n - sum / n * (sum / n));
  array(golden.greedy, number());
  array(golden.margin, golden.greedy.size());
  EXPECT_EQ(at, bytes.size());
  return golden;
}

constexpr size_t kContextTokens = 16;  // of the prompt are indexed, the rest is asked

// Largest logit error in units of the golden's std, over the tokens after the fixed context; the
// model folder may have been changed.
double LogitError(const std::string& model, const Golden& golden) {
  const TempFolder folder;
  const std::vector<int32_t> context(golden.prompt.begin(), golden.prompt.begin() + kContextTokens);
  const auto indexed = IndexTokens(model, context, folder.path());
  const auto threads = std::make_shared<ThreadPool>(2);
  auto session =
      DocumentSession::Create(indexed.document, indexed.model, *DefaultBackend(), threads, 0);
  EXPECT_TRUE(session.ok());
  double worst = 0;
  for (size_t t = kContextTokens; t < golden.prompt.size(); ++t) {
    const auto logits = (*session)->Step({&golden.prompt[t], 1}, 1, true, nullptr);
    EXPECT_TRUE(logits.ok());
    for (size_t i = 0; i < logits->size(); ++i) {
      const double error = std::abs((*logits)[i] - golden.logits[t][i]) / golden.std;
      worst = std::isnan(error) ? INFINITY : std::max(worst, error);
    }
  }
  return worst;
}

class GoldenLogitsTest : public ::testing::TestWithParam<const char*> {
 protected:
  // The model with a tokenizer beside it (the engine wants one; the tokens are the golden's).
  GoldenLogitsTest() {
    const std::filesystem::path from = SourcePath("tests/golden/models/") + GetParam();
    for (const auto& file : std::filesystem::directory_iterator(from)) {
      std::filesystem::copy(file, folder_.path());
    }
    std::filesystem::copy(SourcePath("tests/golden/models/tokenizer.model"), folder_.path());
    golden_ = ReadGolden(folder_.path() + "/golden.bin");
  }
  TempFolder folder_;
  Golden golden_;
};

TEST_P(GoldenLogitsTest, EqualsTransformers) {
  EXPECT_GE(golden_.std, 2);
  const double error = LogitError(folder_.path(), golden_);
  RecordProperty("error", std::to_string(error));
  EXPECT_LE(error, 1e-4) << "in units of the logits' standard deviation " << golden_.std;
}

TEST_P(GoldenLogitsTest, QuestionInOneStepGivesTheSameGreedyTokens) {
  const TempFolder folder;
  const auto middle = golden_.prompt.begin() + kContextTokens;
  const auto indexed = IndexTokens(folder_.path(), {golden_.prompt.begin(), middle}, folder.path());
  const auto threads = std::make_shared<ThreadPool>(2);
  auto session =
      DocumentSession::Create(indexed.document, indexed.model, *DefaultBackend(), threads, 0);
  ASSERT_TRUE(session.ok());
  const std::vector<int32_t> rest(middle, golden_.prompt.end());
  auto logits = (*session)->Step(rest, 1, true, nullptr);
  ASSERT_TRUE(logits.ok());
  ASSERT_EQ(golden_.greedy.size(), 256u);
  for (size_t i = 0; i < golden_.greedy.size(); ++i) {
    const auto best = std::max_element(logits->begin(), logits->end()) - logits->begin();
    ASSERT_EQ(best, golden_.greedy[i])
        << "at greedy token " << i << ", margin " << golden_.margin[i];
    if (i + 1 == golden_.greedy.size()) break;
    logits = (*session)->Step({&golden_.greedy[i], 1}, 1, true, nullptr);
    ASSERT_TRUE(logits.ok());
  }
}

// Replaces the number after "key": in config.json; false when the key is not there.
bool ChangeConfig(const std::string& folder, const std::string& key, const std::string& value) {
  std::string json = ReadWholeFile(folder + "/config.json");
  size_t at = json.find("\"" + key + "\":");
  if (at == std::string::npos) return false;
  at += key.size() + 3;
  const size_t end = json.find_first_of(",}\n", at);
  json.replace(at, end - at, " " + value);
  WriteWholeFile(folder + "/config.json", json);
  return true;
}

TEST_P(GoldenLogitsTest, EveryConfigParameterMatters) {
  const std::string original = ReadWholeFile(folder_.path() + "/config.json");
  const std::pair<const char*, const char*> changes[] = {
      {"rms_norm_eps", "0.05"},
      {"rope_theta", "70000.0"},
      {"factor", "3.0"},
      {"low_freq_factor", "1.7"},
      {"high_freq_factor", "9.0"},
      {"original_max_position_embeddings", "200"},
      {"num_hidden_layers", "1"},
      {"num_attention_heads", "2"},
      {"num_key_value_heads", "1"},
      {"head_dim", "8"},
      {"intermediate_size", "32"},
      {"hidden_size", "16"},
      {"tie_word_embeddings", "true"},
      {"vocab_size", "128"}};
  int changed = 0;
  for (const auto& [key, value] : changes) {
    WriteWholeFile(folder_.path() + "/config.json", original);
    if (!ChangeConfig(folder_.path(), key, value)) continue;
    if (ReadWholeFile(folder_.path() + "/config.json") == original) continue;
    if (!Model::Load(Env::Default(), folder_.path()).ok()) {
      ++changed;  // refused: the shapes do not fit any more
      continue;
    }
    if (std::string_view(key) == "tie_word_embeddings" &&
        original.find("\"tie_word_embeddings\": true") != std::string::npos) {
      continue;
    }
    EXPECT_GT(LogitError(folder_.path(), golden_), 1e-3) << key << " = " << value;
    ++changed;
  }
  EXPECT_GE(changed, 5);
}

INSTANTIATE_TEST_SUITE_P(Models, GoldenLogitsTest,
                         ::testing::Values("gqa", "tied_mha", "mqa_f16", "llama3_v4", "llama3_v5",
                                           "sharded_bf16"),
                         [](const auto& param) { return std::string(param.param); });

}  // namespace
}  // namespace lectern
