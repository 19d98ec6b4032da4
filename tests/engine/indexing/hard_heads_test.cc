// Attention heads that clusters and codes find hard: the bundled reader's, made worse. Answers at
// the automatic budget must stay near exact ones, or be exact.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <functional>

#include "engine/indexing/teacher_forcing.h"
#include "kernels/types.h"
#include "tests/engine/test_documents.h"

namespace lectern {
namespace {

using testing::ReaderModel;
using testing::ReadWholeFile;
using testing::SourcePath;
using testing::TempFolder;
using testing::WriteWholeFile;

// The reader's heads (tools/reader/model/config.json).
constexpr size_t kHeadDim = 64, kWidth = 192, kNumLayers = 8;

// A factor for dimension `dim` of a head; RoPE rotates `dim` with `dim` + 32, so both have the
// same.
using Factor = std::function<float(size_t dim)>;

// Changes the rows of the projections of keys and queries. Factors whose product is 1 leave
// exact attention as it was.
struct Hardness {
  const char* name;
  Factor key, query;
};

const std::vector<Hardness>& Kinds() {
  const auto all = [](float factor) { return [factor](size_t) { return factor; }; };
  // Keys differ along a pair of dimensions that no query looks at.
  const auto one_direction = [](float factor) {
    return [factor](size_t dim) { return dim % 32 == 31 ? factor : 1.0f; };
  };
  const auto outliers = [](float factor) {
    return [factor](size_t dim) { return dim % 8 == 3 ? factor : 1.0f; };
  };
  static const std::vector<Hardness> kinds = {
      {"as they are", all(1), all(1)},
      {"spread in one direction", one_direction(64), one_direction(1 / 64.0f)},
      {"outlier dimensions", outliers(16), outliers(1 / 16.0f)},
      {"attention to one token", all(1), all(8)},
      {"flat attention", all(1), all(0)},
      {"tiny keys", all(1 / 1024.0f), all(1024)},
      {"huge keys", all(64), all(1 / 64.0f)},
  };
  return kinds;
}

// Multiplies the rows [heads * 64, 192] of a bf16 matrix, head by head.
void Scale(std::string& file, uint64_t begin, uint64_t end, const Factor& factor) {
  for (uint64_t at = begin, i = 0; at < end; at += sizeof(bf16), ++i) {
    bf16 weight;
    std::memcpy(&weight.bits, &file[at], sizeof weight.bits);
    const float scaled = ToFloat(weight) * factor(i / kWidth % kHeadDim);
    const auto bits = static_cast<uint16_t>(std::bit_cast<uint32_t>(scaled) >> 16);
    std::memcpy(&file[at], &bits, sizeof bits);
  }
}

void WriteHardModel(const Hardness& kind, const std::string& folder) {
  std::filesystem::copy(ReaderModel(), folder, std::filesystem::copy_options::recursive);
  const std::string path = folder + "/model.safetensors";
  std::string file = ReadWholeFile(path);
  uint64_t length;
  std::memcpy(&length, file.data(), sizeof length);
  const Result<Json> header = ParseJson(std::string_view(file).substr(sizeof length, length));
  ASSERT_TRUE(header.ok());
  for (size_t layer = 0; layer < kNumLayers; ++layer) {
    for (const bool is_key : {true, false}) {
      const std::string name = "model.layers." + std::to_string(layer) + ".self_attn." +
                               (is_key ? "k" : "q") + "_proj.weight";
      const Json* const tensor = header->Find(name);
      ASSERT_NE(tensor, nullptr) << name;
      ASSERT_EQ(*tensor->Find("dtype")->string(), "BF16");
      const auto& offsets = *tensor->Find("data_offsets")->array();
      const uint64_t data = sizeof length + length;
      Scale(file, data + *offsets[0].unsigned_integer(), data + *offsets[1].unsigned_integer(),
            is_key ? kind.key : kind.query);
    }
  }
  std::filesystem::remove(path);
  WriteWholeFile(path, file);
}

class HardHeadsTest : public ::testing::TestWithParam<size_t> {};

TEST_P(HardHeadsTest, AutomaticBudgetsStayNearExactAnswers) {
  const Hardness& kind = Kinds()[GetParam()];
  SCOPED_TRACE(kind.name);
  const TempFolder folder;
  WriteHardModel(kind, folder.path() + "/model");
  const auto engine = Engine::Create(
      {.store = folder.path() + "/store", .model = folder.path() + "/model", .num_threads = 2});
  ASSERT_TRUE(engine.ok()) << engine.status().message();
  const auto report = (*engine)->Index(ReadWholeFile(SourcePath("tools/demo/document.txt")), {});
  ASSERT_TRUE(report.ok()) << report.status().message();
  ASSERT_TRUE(report->divergence.has_value());
  const bool is_exact = report->kv_budget == 1;
  EXPECT_EQ(std::ranges::count(report->warnings, "exact_budget"), is_exact ? 1 : 0);
  AskOptions options;
  options.max_tokens = 16;
  double sum = 0;
  size_t count = 0;
  for (const char* question : {"Who chairs the committee?", "When was the bridge opened?",
                               "Which town has the largest market?"}) {
    auto opened = (*engine)->Open("");
    ASSERT_TRUE(opened.ok());
    auto& session = static_cast<DocumentSession&>(**opened);
    const auto exact = AskExactly(session, question, options);
    ASSERT_TRUE(exact.ok()) << exact.status().message();
    session.Forget();
    const auto forced = AskForced(session, question, *exact, options);
    ASSERT_TRUE(forced.ok()) << forced.status().message();
    EXPECT_TRUE(forced->answer.kv.is_auto);
    for (const double divergence : forced->divergences) sum += divergence;
    count += forced->divergences.size();
  }
  const double mean = sum / static_cast<double>(count);
  RecordProperty("budget", std::to_string(report->kv_budget));
  RecordProperty("divergence", std::to_string(mean));
  std::printf("%s: budget %.3f, predicted %.2g, divergence %.2g\n", kind.name, report->kv_budget,
              *report->divergence, mean);
  EXPECT_LE(mean, 3 * double{kMaxDivergence});
}

INSTANTIATE_TEST_SUITE_P(AllKinds, HardHeadsTest, ::testing::Range<size_t>(0, Kinds().size()),
                         [](const auto& kind) {
                           std::string name = Kinds()[kind.param].name;
                           for (char& c : name) c = c == ' ' ? '_' : c;
                           return name;
                         });

}  // namespace
}  // namespace lectern
