// The doctor's own tests can fail.
#include "tools/doctor/self_test.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>

namespace lectern::doctor {
namespace {

const char kTiny[] = LECTERN_SOURCE_DIR "/tests/golden/tiny";

std::shared_ptr<const Model> Tiny() {
  auto model = Model::Load(Env::Default(), kTiny, {.first_layers = 1});
  EXPECT_TRUE(model.ok()) << model.status().message();
  return *model;
}

// What a tokenizer says, spoiled.
class SpoiledTokenizer : public Tokenizer {
 public:
  SpoiledTokenizer(const Tokenizer& good, std::function<void(TokenizedText&)> spoil)
      : good_(good), spoil_(std::move(spoil)) {}
  std::string_view kind() const override { return good_.kind(); }
  size_t vocab_size() const override { return good_.vocab_size(); }
  int32_t bos_id() const override { return good_.bos_id(); }
  int32_t eos_id() const override { return good_.eos_id(); }
  int32_t ControlId(std::string_view text) const override { return good_.ControlId(text); }
  bool has_dummy_prefix() const override { return good_.has_dummy_prefix(); }
  std::string_view TokenBytes(int32_t id) const override { return good_.TokenBytes(id); }
  void AddTo(Sha256& hash) const override { good_.AddTo(hash); }

 private:
  Result<TokenizedText> EncodeValid(std::string_view text, Place) const override {
    auto tokens = good_.Encode(text);
    spoil_(*tokens);
    return tokens;
  }
  const Tokenizer& good_;
  const std::function<void(TokenizedText&)> spoil_;
};

TEST(DoctorSelfTest, GoodTokenizersPassAndSpoiledOnesDoNot) {
  const auto good =
      Tokenizer::Load(Env::Default(), LECTERN_SOURCE_DIR "/tools/reader/model/tokenizer.model");
  ASSERT_TRUE(good.ok());
  EXPECT_EQ(TestTokenizer(**good).verdict, Verdict::kOk) << TestTokenizer(**good).text;
  const auto verdict = [&](std::function<void(TokenizedText&)> spoil) {
    return TestTokenizer(SpoiledTokenizer(**good, std::move(spoil))).verdict;
  };
  EXPECT_EQ(verdict([](TokenizedText&) {}), Verdict::kOk);
  EXPECT_EQ(verdict([](TokenizedText& t) { t.ids[0] = 1; }), Verdict::kFail);  // <s>
  EXPECT_EQ(verdict([](TokenizedText& t) { t.ids[0] += 1; }), Verdict::kWarn);
  EXPECT_EQ(verdict([](TokenizedText& t) { t.ranges[1].begin += 1; }), Verdict::kFail);
  EXPECT_EQ(verdict([](TokenizedText& t) { t.ranges.back().end -= 1; }), Verdict::kFail);
  EXPECT_EQ(verdict([](TokenizedText& t) { t.ranges.back().end += 1; }), Verdict::kFail);
  EXPECT_EQ(verdict([](TokenizedText& t) { t = {}; }), Verdict::kFail);
}

TEST(DoctorSelfTest, EveryKernelOfALayerIsSeenToBeWrong) {
  const auto model = Tiny();
  ThreadPool threads(1);
  const Backend good = *FindBackend("simd");
  EXPECT_EQ(TestKernels(*model, good, threads).verdict, Verdict::kOk)
      << TestKernels(*model, good, threads).text;
  const auto verdict = [&](auto spoil) {
    Backend bad = good;
    spoil(bad);
    const Finding finding = TestKernels(*model, bad, threads);
    EXPECT_FALSE(finding.verdict == Verdict::kFail && finding.way_out.empty());
    return finding.verdict;
  };
  EXPECT_EQ(verdict([](Backend& b) {
              b.matmul = [](const MatMulArgs& args) {
                MatMulScalar(args);
                args.output[0][args.column_begin] += 1;
              };
            }),
            Verdict::kFail);
  EXPECT_EQ(verdict([](Backend& b) {
              b.rms_norm = [](const RmsNormArgs& args) {
                RmsNormScalar(args);
                args.output[args.output.num_rows - 1][0] = std::nanf("");
              };
            }),
            Verdict::kFail);
  EXPECT_EQ(verdict([](Backend& b) { b.rope = [](const RopeArgs&) {}; }), Verdict::kFail);
  EXPECT_EQ(verdict([](Backend& b) { b.glu = [](const GluArgs&) {}; }), Verdict::kFail);
  EXPECT_EQ(verdict([](Backend& b) { b.attend = [](const AttendArgs&) {}; }), Verdict::kFail);
}

TEST(DoctorSelfTest, FirstLayersAreThoseOfTheWholeModel) {
  const auto whole = Model::Load(Env::Default(), kTiny),
             first = Model::Load(Env::Default(), kTiny, {.first_layers = 1});
  ASSERT_TRUE(whole.ok() && first.ok());
  EXPECT_GT((*whole)->config().num_layers, 1u);
  EXPECT_EQ((*first)->config().num_layers, 1u);
  const TypedRows a = (*whole)->weights().layer(0).q.rows, b = (*first)->weights().layer(0).q.rows;
  ASSERT_EQ(a.num_rows * a.row_bytes(), b.num_rows * b.row_bytes());
  EXPECT_EQ(std::memcmp(a.data, b.data, a.num_rows * a.row_bytes()), 0);
}

TEST(FindingsTest, TheFirstFailureGivesTheExitStatus) {
  Findings findings = {{.name = "a", .text = "fine"}};
  EXPECT_EQ(ExitStatusOf(findings), 0);
  EXPECT_EQ(WorstOf(findings), Verdict::kOk);
  findings.push_back(Finding{.name = "bb", .text = "so so"}.Worsen(Verdict::kWarn, "do this"));
  EXPECT_EQ(ExitStatusOf(findings), 0);
  EXPECT_EQ(WorstOf(findings), Verdict::kWarn);
  findings.push_back(Finding::Failed("c", Status(Code::kNotFound, "no model"), "give one"));
  findings.push_back(Finding::Failed("d", Status(Code::kInternal, "later"), ""));
  EXPECT_EQ(ExitStatusOf(findings), ExitStatus(Code::kNotFound));
  EXPECT_EQ(FindingsText(findings),
            "ok    a   fine\nwarn  bb  so so\n          -> do this\nfail  c   no model\n"
            "          -> give one\nfail  d   later\n");
  const auto json = ParseJson(FindingsJson(findings, "1.2.3"));
  ASSERT_TRUE(json.ok());
  EXPECT_EQ(*json->Find("verdict")->string(), "fail");
  EXPECT_EQ(json->Find("findings")->array()->size(), 4u);
}

}  // namespace
}  // namespace lectern::doctor
