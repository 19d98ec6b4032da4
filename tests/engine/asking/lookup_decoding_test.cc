// Lookup decoding changes no answer: with it and without it tokens, logits, text, receipt and
// evidence have the same bits, whatever is proposed, accepted or taken back.
#include <gtest/gtest.h>

#include <bit>
#include <thread>

#include "engine/asking/ask.h"
#include "engine/engine.h"
#include "engine/requests/report_json.h"
#include "tests/engine/test_documents.h"

namespace lectern {
namespace {

using testing::IndexToAsk;
using testing::InventedText;
using testing::ReaderModel;
using testing::ReadWholeFile;
using testing::SourcePath;
using testing::TempFolder;
using testing::TinyModel;

// The traces of a conversation, in the order in which they came.
struct Left {
  std::vector<std::string> events;  // texts, tokens and their logits
  std::vector<Answer> answers;
  size_t num_rows = 0;
};

// The receipt without times and without counts of proposals.
std::string ReceiptAlone(const Answer& answer) {
  Answer copy = answer;
  copy.timings_ms = {};
  copy.proposed_tokens = copy.accepted_tokens = 0;
  return AnswerJson(copy, OffsetUnit::kUtf8, "");
}

std::string BitsOf(double number) { return std::to_string(std::bit_cast<uint64_t>(number)); }

Left Converse(DocumentSession& session, std::span<const std::string> questions,
              const AskOptions& base, std::string_view lookup_decoding) {
  Left left;
  AskOptions options = base;
  options.lookup_decoding = lookup_decoding;
  options.on_text = [&](std::string_view text) {
    left.events.push_back("text " + std::string(text));
    return !base.on_text || base.on_text(text);
  };
  options.on_token = [&](const SampledToken& token) {
    std::string event = "token " + std::to_string(token.id) + " " + BitsOf(token.logprob);
    for (const LikelyToken& likely : token.likeliest) {
      event += " " + std::to_string(likely.id) + " " + BitsOf(likely.logprob);
    }
    left.events.push_back(event);
  };
  options.top_logprobs = 3;
  session.probe().on_token = [&](std::span<const float> logits, int32_t id) {
    uint64_t hash = 0;
    for (const float logit : logits) hash = hash * 31 + std::bit_cast<uint32_t>(logit);
    left.events.push_back("drew " + std::to_string(id) + " from " + std::to_string(hash));
  };
  for (const std::string& question : questions) {
    auto answer = session.Ask(question, options);
    EXPECT_TRUE(answer.ok()) << answer.status().message();
    if (answer.ok()) left.answers.push_back(*std::move(answer));
  }
  session.probe() = {};
  left.num_rows = session.num_past();
  return left;
}

void ExpectSame(const Left& with, const Left& without) {
  EXPECT_EQ(with.events, without.events);
  EXPECT_EQ(with.num_rows, without.num_rows);
  ASSERT_EQ(with.answers.size(), without.answers.size());
  for (size_t i = 0; i < with.answers.size(); ++i) {
    EXPECT_EQ(ReceiptAlone(with.answers[i]), ReceiptAlone(without.answers[i]));
    EXPECT_EQ(without.answers[i].proposed_tokens, 0u);
    EXPECT_EQ(without.answers[i].accepted_tokens, 0u);
    // The JSON rounds shares.
    const KvReceipt &a = with.answers[i].kv, &b = without.answers[i].kv;
    EXPECT_EQ(a.read_fraction_decode, b.read_fraction_decode);
    EXPECT_EQ(a.missed_mass_estimate, b.missed_mass_estimate);
    EXPECT_EQ(a.missed_mass_bound, b.missed_mass_bound);
    const std::vector<AttendedPassage>&of = with.answers[i].attention,
          &expected = without.answers[i].attention;
    ASSERT_EQ(of.size(), expected.size());
    for (size_t j = 0; j < of.size(); ++j) EXPECT_EQ(of[j].mass, expected[j].mass);
  }
}

AskOptions LookupOptions(float budget, uint32_t max_tokens = 40) {
  AskOptions options;
  options.kv_budget = budget;
  options.max_tokens = max_tokens;
  return options;
}

// Engines with a document each: a model of random weights, whose answers soon go round in circles,
// and the bundled reader, whose answers quote the demo's document.
class LookupDecodingTest : public ::testing::Test {
 protected:
  struct Indexed {
    TempFolder store;
    std::unique_ptr<Engine> engine;
    Indexed(const std::string& model, const std::string& text) {
      IndexToAsk(store.path(), model, text);
      engine = *Engine::Create({.store = store.path(), .model = model, .num_threads = 2});
    }
    // Sessions of one batch, in which each further row costs so much.
    std::unique_ptr<DocumentSession> Open(double row_cost) {
      auto session = *AsDocumentSession(*engine->Open("", nullptr));
      if (!batch || cost != row_cost) {
        StepBatch::Limits limits;
        limits.row_cost = cost = row_cost;
        batch = std::make_shared<StepBatch>(
            *Model::Load(Env::Default(), model_of(), {.store = store.path()}), *DefaultBackend(),
            std::make_shared<ThreadPool>(2), limits);
      }
      session->ShareSteps(batch);
      return session;
    }
    std::string model_of() const { return path; }
    std::string path;
    std::shared_ptr<StepBatch> batch;
    double cost = -1;
  };
  // They go at exit, and their threads with them.
  static Indexed& Invented() {
    static const std::unique_ptr<Indexed> indexed = Make(TinyModel(), InventedText(16000, 3));
    return *indexed;
  }
  static Indexed& Demo() {
    static const std::unique_ptr<Indexed> indexed =
        Make(ReaderModel(), ReadWholeFile(SourcePath("tools/demo/document.txt")));
    return *indexed;
  }
  static std::unique_ptr<Indexed> Make(const std::string& model, const std::string& text) {
    auto indexed = std::make_unique<Indexed>(model, text);
    indexed->path = model;
    return indexed;
  }
  // Asks with and without, and adds the counts of proposals to the test's.
  void Compare(Indexed& indexed, std::span<const std::string> questions,
               const AskOptions& options) {
    const Left without = Converse(*indexed.Open(0), questions, options, "off");
    for (const double row_cost : {0.0, 0.3}) {
      const Left with = Converse(*indexed.Open(row_cost), questions, options, "auto");
      ExpectSame(with, without);
      for (const Answer& answer : with.answers) {
        EXPECT_LE(answer.accepted_tokens, answer.proposed_tokens);
        EXPECT_LE(answer.accepted_tokens, answer.answer_tokens);
        num_proposed_ += answer.proposed_tokens, num_accepted_ += answer.accepted_tokens;
      }
    }
  }
  // Three sessions at a time, of which the first asks two questions.
  void CompareTogether(Indexed& indexed, std::span<const std::string> asked_in_turn,
                       uint32_t max_tokens) {
    const std::vector<std::string> questions[] = {
        {asked_in_turn[0], asked_in_turn[1]}, {asked_in_turn[1]}, {asked_in_turn.back()}};
    const AskOptions options = LookupOptions(0.3f, max_tokens);
    std::vector<Left> without;
    for (const auto& asked : questions) {
      without.push_back(Converse(*indexed.Open(0), asked, options, "off"));
    }
    std::vector<std::unique_ptr<DocumentSession>> sessions;
    for (size_t i = 0; i < 3; ++i) sessions.push_back(indexed.Open(0));
    std::vector<Left> with(3);
    {
      std::vector<std::jthread> threads;
      for (size_t i = 0; i < 3; ++i) {
        threads.emplace_back(
            [&, i] { with[i] = Converse(*sessions[i], questions[i], options, "auto"); });
      }
    }
    for (size_t i = 0; i < 3; ++i) {
      ExpectSame(with[i], without[i]);
      for (const Answer& answer : with[i].answers) num_accepted_ += answer.accepted_tokens;
    }
    EXPECT_GT(num_accepted_, 0u);
  }
  void ExpectBothKinds() const {  // some proposals stood, some did not
    EXPECT_GT(num_accepted_, 0u);
    EXPECT_GT(num_proposed_, num_accepted_);
  }

  uint64_t num_proposed_ = 0, num_accepted_ = 0;
};

const std::vector<std::string> kInventedQuestions = {"Which road?", "Who watched the river?"};
const std::vector<std::string> kDemoQuestions = {
    "Where does the Douquouth committee rent a hall?",
    "Repeat the first paragraph of the text word for word.", "And where is the hall?"};

TEST_F(LookupDecodingTest, ChangesNothingAtAnyBudget) {
  for (const float budget : {1.0f, 0.3f, 0.05f, kAutoBudget}) {
    SCOPED_TRACE(budget);
    Compare(Invented(), kInventedQuestions, LookupOptions(budget));
    // The demo's document is short: 0.0647 is the least that it serves.
    Compare(Demo(), kDemoQuestions, LookupOptions(budget == 0.05f ? 0.07f : budget));
  }
  ExpectBothKinds();
}

TEST_F(LookupDecodingTest, ChangesNothingWithOtherRulesAndLimits) {
  AskOptions options = LookupOptions(0.3f, 24);
  options.max_missed = 0.2;
  Compare(Invented(), kInventedQuestions, options);
  options = LookupOptions(0.3f, 24);
  options.tail = false;
  Compare(Invented(), kInventedQuestions, options);
  options.tail = true;
  options.rule = "top-p";
  Compare(Demo(), kDemoQuestions, options);
  options = LookupOptions(0, 24);
  for (const char* focus : {"only", "words"}) {
    options.focus = focus;
    Compare(Demo(), kDemoQuestions, options);
  }
  options = LookupOptions(0.3f, 24);
  options.max_evidence = 0;
  Compare(Demo(), kDemoQuestions, options);
  ExpectBothKinds();
}

TEST_F(LookupDecodingTest, ChangesNoDraw) {
  AskOptions options = LookupOptions(0.3f);
  SamplingOptions& sampling = options.sampling;
  for (const uint64_t seed : {1, 2, 3}) {
    sampling = {.temperature = 0.7f, .top_p = 0.9f, .seed = seed};
    Compare(Demo(), kDemoQuestions, options);
    sampling = {.temperature = 1.3f, .seed = seed, .top_k = 5, .min_p = 0.01f};
    Compare(Invented(), kInventedQuestions, options);
    sampling = {.temperature = 0.4f,
                .seed = seed,
                .frequency_penalty = 0.3f,
                .presence_penalty = 0.2f,
                .logit_bias = {{5, 2.0f}, {9, -100.0f}}};
    Compare(Demo(), kDemoQuestions, options);
  }
  ExpectBothKinds();
}

// Every length, so that the end comes before, in, and behind what was proposed.
TEST_F(LookupDecodingTest, EndsWhereItWouldEnd) {
  for (uint32_t max_tokens = 1; max_tokens <= 24; ++max_tokens) {
    Compare(Invented(), std::span(kInventedQuestions).first(1), LookupOptions(0.3f, max_tokens));
  }
  const Left whole = Converse(*Invented().Open(0), std::span(kInventedQuestions).first(1),
                              LookupOptions(0.3f), "off");
  const std::string text = whole.answers.front().text;
  ASSERT_GT(text.size(), 20u);
  for (size_t begin = 0; begin + 3 < std::min<size_t>(text.size(), 60); begin += 4) {
    AskOptions options = LookupOptions(0.3f);
    options.stop_texts = {text.substr(begin, 3)};
    Compare(Invented(), kInventedQuestions, options);
  }
  for (int enough = 1; enough <= 20; ++enough) {
    int pieces = 0;
    AskOptions options = LookupOptions(0.3f);
    options.on_text = [&](std::string_view) { return ++pieces % enough != 0; };
    Left without = Converse(*Invented().Open(0), kInventedQuestions, options, "off");
    pieces = 0;
    Left with = Converse(*Invented().Open(0), kInventedQuestions, options, "auto");
    ExpectSame(with, without);
  }
  EXPECT_GT(num_accepted_, 0u);
}

TEST_F(LookupDecodingTest, ASessionThatFailedStandsWhereItStood) {
  const auto session = Invented().Open(0);
  AskOptions options = LookupOptions(0.3f);
  int pieces = 0;
  struct Stop {};
  options.on_text = [&](std::string_view) -> bool {
    if (++pieces == 12) throw Stop();
    return true;
  };
  EXPECT_THROW((void)session->Ask(kInventedQuestions[0], options), Stop);
  EXPECT_EQ(session->num_past(), 0u);
  const Left again = Converse(*session, kInventedQuestions, LookupOptions(0.3f), "auto");
  ExpectSame(again, Converse(*Invented().Open(0), kInventedQuestions, LookupOptions(0.3f), "off"));
}

TEST_F(LookupDecodingTest, SessionsThatShareStepsKeepTheirBits) {
  CompareTogether(Demo(), kDemoQuestions, 40);
}

// The one for ThreadSanitizer, which would take a minute to index the demo's document.
TEST_F(LookupDecodingTest, SessionsOfAShortTextThatShareStepsKeepTheirBits) {
  Indexed indexed(TinyModel(), InventedText(6500, 3));
  indexed.path = TinyModel();
  CompareTogether(indexed, kInventedQuestions, 20);
}

TEST_F(LookupDecodingTest, IsOffWhereRowsCompeteOrSomebodyWatches) {
  AskOptions options = LookupOptions(0.3f);
  options.max_session_rows = 64;
  const auto capped = Converse(*Invented().Open(0), kInventedQuestions, options, "auto");
  for (const Answer& answer : capped.answers) EXPECT_EQ(answer.proposed_tokens, 0u);
  const auto session = Invented().Open(0);
  session->probe().on_layer = [](const LayerStep&) {};
  const auto answer = session->Ask(kInventedQuestions[0], LookupOptions(0.3f));
  ASSERT_TRUE(answer.ok());
  EXPECT_EQ(answer->proposed_tokens, 0u);
}

TEST_F(LookupDecodingTest, AnUnknownSettingIsRefused) {
  AskOptions options = LookupOptions(1);
  options.lookup_decoding = "on";
  const auto answer = Invented().Open(0)->Ask("Who?", options);
  EXPECT_EQ(answer.status().code(), Code::kInvalidArgument);
  EXPECT_EQ(answer.status().param(), "lookup_decoding");
}

}  // namespace
}  // namespace lectern
