// The doctor's own tests can fail.
#include "tools/doctor/self_test.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>

#include "engine/model/formats/gguf.h"
#include "tests/engine/dense_oracle.h"
#include "tests/engine/invented_gguf.h"
#include "tests/engine/invented_model.h"
#include "tests/engine/test_documents.h"
#include "tools/doctor/kernel_test.h"
#include "tools/doctor/reading_test.h"
#include "tools/doctor/weights_scan.h"

namespace lectern::doctor {
namespace {

const char kTiny[] = LECTERN_SOURCE_DIR "/tests/golden/tiny";

std::shared_ptr<const Model> Tiny() {
  auto model = Model::Load(Env::Default(), kTiny, {.first_layers = 1});
  EXPECT_TRUE(model.ok()) << model.status().message();
  return *model;
}

// A tokenizer whose answers `spoil` changes.
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

// --- kernels ---

constexpr TensorType kTypes[] = {
    TensorType::kF32,  TensorType::kF16,    TensorType::kBf16,   TensorType::kQ8_0,
    TensorType::kQ4_0, TensorType::kQ4_1,   TensorType::kQ5_0,   TensorType::kQ5_1,
    TensorType::kQ4_K, TensorType::kQ5_K,   TensorType::kQ6_K,   TensorType::kQ2_K,
    TensorType::kQ3_K, TensorType::kIQ4_NL, TensorType::kIQ4_XS, TensorType::kMXFP4};

// One layer of an invented model; `spoil` may change the bytes of its file.
Result<std::shared_ptr<const Model>> Invented(
    const std::string& name, TensorType type,
    const std::function<void(std::string&)>& spoil = [](std::string&) {}) {
  static const Json all =
      *ParseJson(testing::ReadWholeFile(testing::SourcePath("tests/golden/architectures.json")));
  const Json architecture = testing::WithFields(
      *all.Find(name), {{"hidden_size", 256},
                        {"intermediate_size", 512},
                        {"num_hidden_layers", 1},
                        {"head_dim", 64}});
  testing::GgufWriter file;
  testing::AddInventedKeys(architecture, file);
  testing::AddTinyVocabulary(file);
  testing::AddInventedTensors(architecture, type, file);
  std::string bytes = file.Finish();
  spoil(bytes);
  const testing::TempFolder folder;
  testing::WriteWholeFile(folder.path() + "/m.gguf", bytes);
  ThreadPool threads(2);
  return Model::Load(Env::Default(), folder.path() + "/m.gguf",
                     {.io = Io::kPread, .threads = &threads, .first_layers = 1});
}

void ExpectSound(const char* name, TensorType type) {
  ThreadPool threads(2);
  const auto model = Invented(name, type);
  ASSERT_TRUE(model.ok()) << model.status().message();
  for (const Backend& backend : AvailableBackends()) {
    const Finding finding = TestKernels(**model, backend, threads);
    EXPECT_EQ(finding.verdict, Verdict::kOk)
        << name << ' ' << TensorTypeName(type) << ' ' << backend.name << ": " << finding.text;
    EXPECT_EQ(finding.text.find("rounding") != std::string::npos, !PlainDtype(type));
  }
}

TEST(DoctorSelfTest, KernelsOfEveryTypeAreFoundSound) {
  for (const TensorType type : kTypes) ExpectSound("llama", type);
}

TEST(DoctorSelfTest, KernelsOfEveryArchitectureAreFoundSound) {
  for (const char* name : {"gemma2", "gemma3", "qwen2", "phi3"}) {
    for (const TensorType type : {TensorType::kF32, TensorType::kQ4_K}) ExpectSound(name, type);
  }
}

TEST(DoctorSelfTest, KernelsOfEveryTypeAndArchitectureAreFoundSound) {
  for (const char* name : {"llama", "gemma2", "gemma3", "qwen2", "phi3"}) {
    for (const TensorType type : kTypes) ExpectSound(name, type);
  }
}

// A kernel with one wrong number in its result.
template <typename Args, void (*kRight)(const Args&)>
void WrongOnce(const Args& args) {
  kRight(args);
  args.output[args.output.num_rows - 1][args.output.num_cols / 2] += 0.1f;
}

void WrongLane(const PackedMatMulArgs& args) {
  PackedMatMulScalar(args);
  for (size_t r = 0; r < args.output.num_rows; ++r) {
    args.output[r][args.column_begin + 3] = args.output[r][args.column_begin + 4];
  }
}

// The last step of a row one too large.
void WrongStep(const QuantiseRowsArgs& args) {
  QuantiseRowsScalar(args);
  args.steps.back() = static_cast<int8_t>(args.steps.back() + 1);
}

TEST(DoctorSelfTest, EveryKernelOfALayerIsSeenToBeWrong) {
  ThreadPool threads(2);
  const Backend good = *FindBackend("simd");
  const auto verdict = [&](const Model& model, auto spoil) {
    Backend bad = good;
    spoil(bad);
    const Finding finding = TestKernels(model, bad, threads);
    EXPECT_EQ(finding.verdict == Verdict::kFail, !finding.way_out.empty());
    return finding.verdict;
  };
  const auto plain = Tiny();
  EXPECT_EQ(verdict(*plain, [](Backend&) {}), Verdict::kOk);
  EXPECT_EQ(verdict(*plain, [](Backend& b) {
              b.matmul = [](const MatMulArgs& args) {
                MatMulScalar(args);
                args.output[0][args.column_begin] += 1;
              };
            }),
            Verdict::kFail);
  EXPECT_EQ(verdict(*plain, [](Backend& b) {
              b.rms_norm = [](const RmsNormArgs& args) {
                RmsNormScalar(args);
                args.output[args.output.num_rows - 1][0] = std::nanf("");
              };
            }),
            Verdict::kFail);
  EXPECT_EQ(verdict(*plain,
                    [](Backend& b) { b.rms_norm = WrongOnce<RmsNormArgs, RmsNormScalar>; }),
            Verdict::kFail);
  EXPECT_EQ(verdict(*plain, [](Backend& b) { b.glu = WrongOnce<GluArgs, GluScalar>; }),
            Verdict::kFail);
  EXPECT_EQ(verdict(*plain, [](Backend& b) { b.rope = [](const RopeArgs&) {}; }), Verdict::kFail);
  EXPECT_EQ(verdict(*plain, [](Backend& b) { b.glu = [](const GluArgs&) {}; }), Verdict::kFail);
  EXPECT_EQ(verdict(*plain, [](Backend& b) { b.attend = [](const AttendArgs&) {}; }),
            Verdict::kFail);
  EXPECT_EQ(verdict(*plain, [](Backend& b) {
              b.to_float_rows = [](TypedRows from, Rows<float> to) {
                ToFloatRowsScalar(from, to);
                to[0][1] = 2;
              };
            }),
            Verdict::kFail);
  for (const TensorType type : {TensorType::kQ4_1, TensorType::kQ5_0, TensorType::kQ6_K,
                                TensorType::kQ2_K, TensorType::kIQ4_XS}) {
    const auto packed = Invented("gemma3", type);
    ASSERT_TRUE(packed.ok());
    EXPECT_EQ(verdict(**packed, [](Backend&) {}), Verdict::kOk);
    EXPECT_EQ(verdict(**packed, [](Backend& b) { b.packed_matmul = WrongLane; }), Verdict::kFail);
    EXPECT_EQ(verdict(**packed, [](Backend& b) { b.quantise_rows = WrongStep; }), Verdict::kFail);
  }
}

// A row of blk.0.attn_k in F32, at its place in the file.
void SpoilRow(std::string& bytes, size_t row, float value) {
  const auto table = ParseGguf(std::as_bytes(std::span(bytes)), "m",
                               [](uint64_t, uint64_t) { return Status(); });
  const GgufTensor& tensor = table->tensors.at("blk.0.attn_k.weight");
  const uint64_t row_bytes = (tensor.end - tensor.begin) / tensor.shape[0];
  std::memcpy(bytes.data() + tensor.begin + row * row_bytes, &value, sizeof value);
}

TEST(DoctorSelfTest, ARowOfWeightsThatIsNotFiniteIsNamed) {
  ThreadPool threads(1);
  for (const float value : {NAN, INFINITY}) {
    const auto model = Invented("llama", TensorType::kF32,
                                [&](std::string& bytes) { SpoilRow(bytes, 5, value); });
    ASSERT_TRUE(model.ok()) << model.status().message();
    const Finding finding = TestKernels(**model, *DefaultBackend(), threads);
    EXPECT_EQ(finding.verdict, Verdict::kFail);
    EXPECT_EQ(finding.code, Code::kMalformedModel);
    EXPECT_NE(finding.text.find("row 5 of k_proj of layer 0"), std::string::npos) << finding.text;
    EXPECT_NE(finding.way_out.find("download"), std::string::npos);
  }
}

// --- weights, and what the model makes of them ---

TEST(DoctorSelfTest, ARowThatIsFarTooLargeIsNamed) {
  ThreadPool threads(2);
  for (const TensorType type : {TensorType::kF32, TensorType::kQ8_0, TensorType::kQ4_1}) {
    const auto scan = [&](float factor) {
      const auto model = Invented("llama", type, [&](std::string& bytes) {
        const auto table = ParseGguf(std::as_bytes(std::span(bytes)), "m",
                                     [](uint64_t, uint64_t) { return Status(); });
        const GgufTensor& tensor = table->tensors.at("blk.0.ffn_up.weight");
        const uint64_t at = tensor.begin + 7 * ((tensor.end - tensor.begin) / tensor.shape[0]);
        if (type == TensorType::kF32) {
          float value;
          std::memcpy(&value, bytes.data() + at, sizeof value);
          value *= factor;
          std::memcpy(bytes.data() + at, &value, sizeof value);
        } else {  // the first block's scale
          f16 scale;
          std::memcpy(&scale, bytes.data() + at, sizeof scale);
          scale = ToF16(ToFloat(scale) * factor);
          std::memcpy(bytes.data() + at, &scale, sizeof scale);
        }
      });
      EXPECT_TRUE(model.ok()) << model.status().message();
      return ScanWeights(**model, threads);
    };
    EXPECT_EQ(scan(1).verdict, Verdict::kOk) << scan(1).text;
    const Finding finding = scan(100'000);
    EXPECT_EQ(finding.verdict, Verdict::kWarn);
    EXPECT_NE(finding.text.find("row 7 of up_proj of layer 0"), std::string::npos) << finding.text;
  }
  const auto spoilt =
      Invented("llama", TensorType::kF32, [](std::string& bytes) { SpoilRow(bytes, 5, NAN); });
  const Finding finding = ScanWeights(**spoilt, threads);
  EXPECT_EQ(finding.verdict, Verdict::kFail);
  EXPECT_NE(finding.text.find("row 5 of k_proj of layer 0"), std::string::npos) << finding.text;
}

Finding ReadWith(const Model& model) {
  ThreadPool threads(2);
  auto finding = TestReading(model, *DefaultBackend(), threads);
  EXPECT_TRUE(finding.ok()) << finding.status().message();
  return *finding;
}

TEST(DoctorSelfTest, TheBundledReaderReadsAndARandomModelDoesNot) {
  const auto reader = Model::Load(Env::Default(), testing::ReaderModel());
  ASSERT_TRUE(reader.ok());
  const Finding good = ReadWith(**reader);
  EXPECT_EQ(good.verdict, Verdict::kOk) << good.text;
  EXPECT_LT(*good.values.at("perplexity").number(), 800);
  const auto tiny = Model::Load(Env::Default(), kTiny);
  const Finding bad = ReadWith(**tiny);
  EXPECT_EQ(bad.verdict, Verdict::kWarn) << bad.text;
  EXPECT_NE(bad.way_out.find("conversion"), std::string::npos);
}

// The perplexity is that of the model's own forward pass, windows and softcaps included.
TEST(DoctorSelfTest, PerplexityIsThatOfTheDenseOracle) {
  for (const char* name : {"llama", "gemma2", "gemma3"}) {
    const testing::TempFolder folder;
    static const Json all = *ParseJson(
        testing::ReadWholeFile(testing::SourcePath("tests/golden/architectures.json")));
    testing::WriteInventedModel(*all.Find(name), folder.path());
    const auto model = Model::Load(Env::Default(), folder.path());
    ASSERT_TRUE(model.ok()) << model.status().message();
    const auto tokens = (*model)->tokenizer().Encode(ReadingParagraph());
    ASSERT_TRUE(tokens.ok());
    std::vector<int32_t> ids = {(*model)->tokenizer().bos_id()};
    ids.insert(ids.end(), tokens->ids.begin(), tokens->ids.end());
    testing::DenseOracle oracle(folder.path(), "f32");
    double loss = 0;
    for (size_t t = 0; t + 1 < ids.size(); ++t) {
      const std::vector<double> logits = oracle.Append({ids[t]});
      double sum = 0;
      for (const double logit : logits) sum += std::exp(logit - logits[0]);
      loss += std::log(sum) + logits[0] - logits[static_cast<size_t>(ids[t + 1])];
    }
    const double expected = std::exp(loss / static_cast<double>(ids.size() - 1));
    EXPECT_NEAR(*ReadWith(**model).values.at("perplexity").number() / expected, 1, 1e-3) << name;
  }
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
