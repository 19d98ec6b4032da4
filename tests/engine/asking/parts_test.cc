// Documents that are longer than their model's room, which are indexed in parts.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <random>
#include <set>

#include "engine/asking/asked_sessions.h"
#include "engine/asking/evidence.h"
#include "engine/asking/route.h"
#include "engine/asking/whole_question.h"
#include "engine/document/parts.h"
#include "engine/document/passages.h"
#include "engine/engine.h"
#include "engine/indexing/cut_parts.h"
#include "engine/model/model.h"
#include "engine/requests/report_json.h"
#include "tests/engine/test_documents.h"

namespace lectern {
namespace {

namespace fs = std::filesystem;
using testing::InventedText;
using testing::ReadWholeFile;
using testing::TempFolder;
using testing::TinyModel;
using testing::WriteWholeFile;

// Chapters under headings, each with a fact of its own words.
constexpr const char* kFacts[] = {"The harbour of Osk was dug by Ada Brok in 1871.",
                                  "Quinces are sold on Tuesdays alone.",
                                  "The observatory has a lens of forty inches.",
                                  "Zebras graze behind the glassworks.",
                                  "A ferry named Walrus leaves at dawn.",
                                  "The archive burned down in winter."};

std::string Chapters(size_t bytes_of_each) {
  std::string text;
  for (int i = 0; i < 6; ++i) {
    text += "# Chapter " + std::to_string(i + 1) + "\n\n";
    text += InventedText(bytes_of_each / 2, 10 + i) + "\n\n" + kFacts[i] + "\n\n";
    text += InventedText(bytes_of_each / 2, 20 + i) + "\n\n";
  }
  return text;
}

class PartsTest : public ::testing::Test {
 protected:
  // Makes the model, of 1,200 positions, and one store with the text, which tests
  // read, or copy before they change it.
  static void SetUpTestSuite() {
    shared_ = new Shared;
    fs::copy(TinyModel(), ModelPath());
    std::string config = ReadWholeFile(ModelPath() + "/config.json");
    const size_t at = config.find("32768");
    config.replace(at, 5, "1200");
    fs::remove(ModelPath() + "/config.json");
    WriteWholeFile(ModelPath() + "/config.json", config);
    IndexOptions options;
    options.name = "book";
    options.pages = {{0, 1, 0}, {Text().find("# Chapter 4"), 7, 0}};
    options.page_labels = "i\nA-3\n";
    options.on_progress = [](const IndexProgress& progress) {
      shared_->told.push_back(progress);
      return true;
    };
    auto report = EngineOn(shared_->folder.path() + "/store")->Index(Text(), options);
    ASSERT_TRUE(report.ok()) << report.status().message();
    shared_->report = *report;
  }
  static void TearDownTestSuite() {
    delete shared_;
    shared_ = nullptr;
  }

  static const std::string& Text() {
    static const std::string text = Chapters(3000);
    return text;
  }
  static std::string ModelPath() { return shared_->folder.path() + "/model"; }
  static std::unique_ptr<Engine> EngineOn(const std::string& store) {
    auto engine = Engine::Create({.store = store, .model = ModelPath(), .num_threads = 2});
    EXPECT_TRUE(engine.ok());
    return std::move(engine).value();
  }
  // An engine on the store that all tests read.
  static std::unique_ptr<Engine> SharedEngine() {
    return EngineOn(shared_->folder.path() + "/store");
  }
  static const IndexReport& SharedReport() { return shared_->report; }
  static const std::vector<IndexProgress>& Told() { return shared_->told; }
  // An engine on this test's own store, empty or a copy of the shared one.
  std::unique_ptr<Engine> NewEngine(const std::string& store = "store") {
    return EngineOn(folder_.path() + "/" + store);
  }
  std::unique_ptr<Engine> CopiedEngine() {
    fs::copy(shared_->folder.path() + "/store", folder_.path() + "/store",
             fs::copy_options::recursive);
    return NewEngine();
  }
  static IndexReport IndexText(Engine& engine, const std::string& text,
                               const std::string& name = "book") {
    IndexOptions options;
    options.name = name;
    auto report = engine.Index(text, options);
    EXPECT_TRUE(report.ok()) << report.status().message();
    return report.ok() ? *report : IndexReport();
  }
  // Ids of the documents in a folder of a store.
  static std::set<std::string> IdsIn(const std::string& store) {
    std::set<std::string> ids;
    if (!fs::exists(store + "/docs")) return ids;
    for (const auto& entry : fs::directory_iterator(store + "/docs")) {
      ids.insert(entry.path().filename().string());
    }
    return ids;
  }
  std::set<std::string> Ids(const std::string& store = "store") const {
    return IdsIn(folder_.path() + "/" + store);
  }
  // The id of a part of the shared document, or of a copy.
  static std::string PartId(size_t number) {
    const auto catalog = Catalog::Open(
        Env::Default(), CatalogPath(shared_->folder.path() + "/store"), Catalog::Mode::kReadOnly);
    const auto parts = PartsIn(*catalog.value()->List(), *ParseDocumentId(SharedReport().document));
    return ToHex(parts.at(number).id);
  }
  static Answer Ask(Engine& engine, const std::string& question, AskOptions options = {},
                    const std::string& name = "book") {
    options.max_tokens = 8;
    auto session = engine.Open(name);
    EXPECT_TRUE(session.ok()) << session.status().message();
    auto answer = (*session)->Ask(question, options);
    EXPECT_TRUE(answer.ok()) << answer.status().message();
    return answer.ok() ? *answer : Answer();
  }

  TempFolder folder_;

 private:
  struct Shared {
    TempFolder folder;
    IndexReport report;
    std::vector<IndexProgress> told;
  };
  static inline Shared* shared_ = nullptr;
};

// --- cutting ---

TEST_F(PartsTest, CutsAtHeadingsAndCoversTheText) {
  const auto model = *Model::Load(Env::Default(), ModelPath());
  const auto passages = SplitPassages(Text(), {});
  const auto tokens = TokenBegins(model->tokenizer(), Text());
  ASSERT_TRUE(tokens.ok());
  const uint64_t limit = tokens->size() * 9 / 20;
  const auto parts = CutParts(Text(), passages, *tokens, limit);
  ASSERT_GE(parts.size(), 3u);
  EXPECT_EQ(parts.front().begin, 0u);
  EXPECT_EQ(parts.back().end, Text().size());
  for (size_t i = 1; i < parts.size(); ++i) {
    EXPECT_EQ(parts[i].begin, parts[i - 1].end) << "headings need no overlap";
    EXPECT_EQ(Text().substr(parts[i].begin, 10), "# Chapter ");
    EXPECT_EQ(parts[i].headings, "");
  }
  for (const TextPart& part : parts) {
    const auto count = std::ranges::count_if(
        *tokens, [&](uint64_t at) { return at >= part.begin && at < part.end; });
    EXPECT_LE(static_cast<uint64_t>(count), limit);
  }
}

TEST_F(PartsTest, CutsProseBetweenSentencesWithAnOverlap) {
  const std::string prose = "# The only chapter\n\n" + InventedText(20000, 3);
  const auto model = *Model::Load(Env::Default(), ModelPath());
  const auto passages = SplitPassages(prose, {});
  const auto tokens = *TokenBegins(model->tokenizer(), prose);
  const auto parts = CutParts(prose, passages, tokens, 1000);
  ASSERT_GE(parts.size(), 3u);
  for (size_t i = 1; i < parts.size(); ++i) {
    EXPECT_LT(parts[i].begin, parts[i - 1].end);
    EXPECT_GT(parts[i].begin, parts[i - 1].begin);
    EXPECT_EQ(parts[i].headings, "The only chapter");
    const auto is_begin = [&](uint64_t at) {
      return std::ranges::any_of(passages, [&](const Passage& p) { return p.begin == at; });
    };
    EXPECT_TRUE(is_begin(parts[i].begin)) << i;
    EXPECT_TRUE(is_begin(parts[i - 1].end)) << i;
  }
}

TEST_F(PartsTest, CutsTextWithoutPassagesBetweenCharacters) {
  std::string text;
  for (int i = 0; i < 4000; ++i) text += "\xE2\x82\xAC";  // no sentence, three bytes a character
  const auto model = *Model::Load(Env::Default(), ModelPath());
  const auto passages = SplitPassages(text, {});
  const auto tokens = *TokenBegins(model->tokenizer(), text);
  const auto parts = CutParts(text, passages, tokens, 600);
  ASSERT_GE(parts.size(), 2u);
  EXPECT_EQ(parts.back().end, text.size());
  for (size_t i = 0; i < parts.size(); ++i) {
    EXPECT_EQ(parts[i].begin % 3, 0u);
    EXPECT_EQ(parts[i].end % 3, 0u);
    if (i > 0) {
      EXPECT_LE(parts[i].begin, parts[i - 1].end);
    }
  }
}

// Whatever stands between the passages, and however many tokens begin at one byte.
TEST_F(PartsTest, CutsAnyTextIntoPartsThatMakeItUp) {
  std::mt19937 random(1);
  const auto below = [&random](uint32_t end) { return random() % end; };
  for (int round = 0; round < 3000; ++round) {
    std::string text;
    while (text.size() < 2000) {
      switch (below(6)) {
        case 0:
          text += std::string(below(2) != 0 ? below(4) : below(900), ' ');
          break;
        case 1:
          text += "\n";
          break;
        case 2:
          text += "# Mills\n\n";
          break;
        case 3:
          text += "\u20AC\u3042";
          break;
        case 4:
          text += ". ";
          break;
        default:
          text += "Ada rents a mill" + std::string(below(3), '.') + " ";
      }
    }
    std::vector<uint64_t> tokens;
    for (uint64_t byte = 0; byte < text.size(); byte += below(5) == 0 ? 1 + below(9) : 1) {
      tokens.insert(tokens.end(), below(300) == 0 ? 300 : 1 + below(2), byte);
    }
    const auto parts = CutParts(text, SplitPassages(text, {}), tokens, 64 + below(200));
    ASSERT_EQ(parts.front().begin, 0u);
    ASSERT_EQ(parts.back().end, text.size());
    for (size_t i = 0; i < parts.size(); ++i) {
      ASSERT_LT(parts[i].begin, parts[i].end) << round;
      if (i == 0) continue;
      ASSERT_GT(parts[i].begin, parts[i - 1].begin) << round;
      ASSERT_LE(parts[i].begin, parts[i - 1].end) << round;
      ASSERT_GT(parts[i].end, parts[i - 1].end) << round;
      ASSERT_NE(static_cast<unsigned char>(text[parts[i].begin]) & 0xC0, 0x80) << round;
    }
  }
}

// --- routing ---

TEST_F(PartsTest, WordsChooseThePart) {
  const auto engine = SharedEngine();
  const char* const kQuestions[] = {"Who dug the harbour of Osk?", "When are quinces sold?",
                                    "How wide is the lens?",       "Where do zebras graze?",
                                    "When does the Walrus leave?", "What happened to the archive?"};
  for (size_t i = 0; i < 6; ++i) {
    const Answer answer = Ask(*engine, kQuestions[i]);
    ASSERT_FALSE(answer.parts.empty());
    const size_t fact = Text().find(kFacts[i]);
    EXPECT_LE(answer.parts.front().begin, fact) << kQuestions[i];
    EXPECT_GE(answer.parts.front().end, fact + 10) << kQuestions[i];
    EXPECT_EQ(std::ranges::count_if(answer.parts, &AskedPart::is_chosen), 1);
    EXPECT_LE(answer.parts.size(), AnswerChoice::kMostAsked);
  }
}

Answer AnswerWithSupport(float score) {
  Answer answer;
  answer.evidence.emplace_back().score = score;
  return answer;
}

// How many documents with these probabilities by words are asked, where each answer has this score.
size_t NumAsked(const std::vector<double>& probabilities, float score) {
  std::vector<RankedPart> ranked;
  for (const double p : probabilities) ranked.push_back({0, 0, p});
  AnswerChoice choice(ranked);
  size_t count = 0;
  for (; choice.WantsMore(); ++count) choice.Add(AnswerWithSupport(score));
  return count;
}

TEST(AnswerChoiceTest, AsksUntilNoOtherAnswerCouldBeBetter) {
  EXPECT_EQ(NumAsked({0.95, 0.03, 0.02}, 0), 1u);  // words are enough
  EXPECT_EQ(NumAsked({0.5, 0.5}, 1), 2u);
  EXPECT_EQ(NumAsked({0.5, 0.49, 0.01}, 1), 1u);
  // With a score of 0.1 an answer has a quarter of the weight that it would have with full support.
  EXPECT_EQ(NumAsked({0.6, 0.2, 0.2}, 1), 1u);
  EXPECT_EQ(NumAsked({0.6, 0.2, 0.1, 0.1}, 0.1f), 2u);
  EXPECT_EQ(NumAsked({0.4, 0.3, 0.1, 0.1, 0.1}, 0), 5u);
  EXPECT_EQ(NumAsked(std::vector<double>(20, 0.05), 0), AnswerChoice::kMostAsked);
  EXPECT_EQ(NumAsked({1}, 0), 1u);
  EXPECT_EQ(NumAsked({}, 0), 0u);
}

// 0.4 with a probability of refusing of 0.9 weighs less than 0.2 with one of 0.01.
TEST(AnswerChoiceTest, AModelThatWouldRatherRefuseCountsLess) {
  AskedSession doubtful, sure;
  doubtful.answer = sure.answer = AnswerWithSupport(0.8f);
  doubtful.probability = 0.4, doubtful.answer.refusal_probability = 0.9;
  sure.probability = 0.2, sure.answer.refusal_probability = 0.01;
  const AskedSession* const both[] = {&doubtful, &sure};
  EXPECT_EQ(ChooseAnswer(both), 1u);
  sure.answer.refusal_probability = 0.9;
  EXPECT_EQ(ChooseAnswer(both), 0u);
}

// Beyond 0.01 a probability of refusing makes no difference.
TEST(AnswerChoiceTest, NoAnswerIsTooSure) {
  AskedSession likely, sure;
  likely.answer = sure.answer = AnswerWithSupport(0.8f);
  likely.probability = 0.3, likely.answer.refusal_probability = 0.01;
  sure.probability = 0.2, sure.answer.refusal_probability = 1e-6;
  const AskedSession* const both[] = {&sure, &likely};
  EXPECT_EQ(ChooseAnswer(both), 1u);
}

TEST(AnswerChoiceTest, AfterRefusalsTheNextDocumentIsAsked) {
  std::vector<RankedPart> ranked;
  for (const double p : {0.7, 0.2, 0.05, 0.05}) ranked.push_back({0, 0, p});
  AnswerChoice choice(ranked);
  Answer refusal = AnswerWithSupport(1);
  refusal.is_refused = true;
  choice.Add(refusal);
  EXPECT_TRUE(choice.WantsMore());
  Answer unsupported = AnswerWithSupport(0.2f);
  unsupported.warnings = {"no_evidence"};
  choice.Add(unsupported);
  EXPECT_TRUE(choice.WantsMore());
  choice.Add(AnswerWithSupport(1));
  EXPECT_TRUE(choice.WantsMore());  // the next one is as likely
  choice.Add(AnswerWithSupport(1));
  EXPECT_FALSE(choice.WantsMore());
}

TEST(AnswerChoiceTest, ASupportedAnswerGoesBeforeALikelierDocument) {
  const auto asked = [](double probability, float score) {
    AskedSession one;
    one.answer = AnswerWithSupport(score);
    one.probability = probability;
    return one;
  };
  AskedSession refusal = asked(0.9, 1);
  refusal.answer.is_refused = true;
  const AskedSession likely = asked(0.5, 0.1f), supported = asked(0.2, 0.9f),
                     unlikely = asked(0.01, 1);
  const AskedSession* const all[] = {&refusal, &likely, &supported, &unlikely};
  EXPECT_EQ(ChooseAnswer(all), 2u);
  EXPECT_EQ(ChooseAnswer(std::span(all).first(2)), 1u);
  EXPECT_EQ(ChooseAnswer(std::span(all).first(1)), 0u);
}

// --- one document to the user ---

TEST_F(PartsTest, IsOneDocumentWithOneText) {
  const auto engine = SharedEngine();
  const IndexReport& report = SharedReport();
  const std::vector<IndexProgress>& told = Told();
  EXPECT_GE(report.parts, 3u);
  ASSERT_FALSE(told.empty());
  for (size_t i = 1; i < told.size(); ++i) {
    EXPECT_GE(told[i].done, told[i - 1].done);
    EXPECT_EQ(told[i].total, told[0].total);
    EXPECT_EQ(told[i].stage, IndexProgress::Stage::kPrefill);
  }
  EXPECT_EQ(told.back().done, told.back().total);
  const auto rows = engine->List();
  ASSERT_EQ(rows->size(), 1u);
  EXPECT_EQ((*rows)[0].name, "book");
  EXPECT_EQ((*rows)[0].num_tokens, report.tokens);
  EXPECT_EQ((*rows)[0].bytes_on_disk, report.bytes_on_disk);
  EXPECT_EQ(engine->Find("")->name, "book") << "the only document";
  const auto session = engine->Open("book");
  ASSERT_TRUE(session.ok());
  EXPECT_EQ((*session)->text(), Text());
  EXPECT_GT((*session)->dense_bytes(), 0u);
  EXPECT_FALSE((*session)->Tokenize("zebras")->ids.empty());
  // Passages, their pages and headings are the whole text's.
  const Answer answer = Ask(*engine, "Where do zebras graze?");
  ASSERT_FALSE(answer.evidence.empty());
  const Evidence& first = answer.evidence[0];
  EXPECT_EQ(first.text, kFacts[3]);
  EXPECT_EQ(Text().substr(first.begin, first.end - first.begin), kFacts[3]);
  EXPECT_EQ(first.page, 7u);
  EXPECT_EQ(first.page_label, "A-3");
  EXPECT_EQ(first.heading, "Chapter 4");
  for (const ByteRange& range : first.highlights) {
    EXPECT_GE(range.begin, first.begin);
    EXPECT_LE(range.end, first.end);
  }
  EXPECT_EQ(answer.document, report.document);
  EXPECT_EQ(answer.num_parts, report.parts);
  // So is what is cited, without a model.
  const auto cited = engine->Cite("book", {"The ferry Walrus leaves at dawn.", "", 1});
  ASSERT_TRUE(cited.ok());
  EXPECT_EQ(cited->sentences[0].evidence[0].text, kFacts[4]);
  EXPECT_EQ(cited->document_text, Text());
}

TEST_F(PartsTest, AnAnswerIsThatOfTheChosenPart) {
  const auto engine = SharedEngine();
  AskOptions options;
  options.kv_budget = 1;
  const Answer answer = Ask(*engine, "Where do zebras graze?", options);
  ASSERT_FALSE(answer.parts.empty());
  uint64_t bytes = 0;
  for (const AskedPart& part : answer.parts) {
    // The part's own document, which nobody lists, gives the same answer.
    const std::string id = PartId(part.number);
    const Answer alone = Ask(*engine, "Where do zebras graze?", options, id);
    EXPECT_EQ(alone.text, part.answer);
    if (part.is_chosen) {
      EXPECT_EQ(alone.text, answer.text);
    }
    bytes += alone.kv.bytes_read;
    EXPECT_LE(part.logprob, 0);
  }
  EXPECT_EQ(answer.kv.bytes_read, bytes);
}

// A part begins with its headings, which an answer's words may fit better than any passage.
TEST_F(PartsTest, HeadingsBeforeAPartAreNoEvidence) {
  const auto engine = NewEngine();
  std::string text = "# Zebras of the glassworks\n\n" + InventedText(7000, 3);
  // The question's words stand in one part, far from each other.
  for (const char* const word : {"walrus", "quinces", "ferry", "archive", "lens"}) {
    text += "\n\n" + InventedText(150, 4) + " " + word + " " + InventedText(150, 5);
  }
  IndexText(*engine, text);
  for (const uint32_t most : {1, 3}) {
    AskOptions options;
    options.max_evidence = most;
    options.max_tokens = 64;
    options.json_schema = R"({"const": "Zebras of the glassworks"})";
    const auto session = engine->Open("book");
    ASSERT_TRUE(session.ok());
    const auto answer =
        (*session)->Ask("Was there a walrus, quinces, ferry, archive, lens?", options);
    ASSERT_TRUE(answer.ok()) << answer.status().message();
    ASSERT_EQ(answer->text, "\"Zebras of the glassworks\"");
    ASSERT_GE(answer->parts.size(), 3u);
    for (const AskedPart& part : answer->parts) {
      // The heading itself is a passage of the first part, and of no other.
      EXPECT_EQ(part.support >= kLeastScore, part.number == 0) << part.number;
      EXPECT_EQ(part.is_chosen, part.number == 0) << part.number;
    }
    ASSERT_FALSE(answer->evidence.empty());
    EXPECT_EQ(answer->evidence[0].text, "Zebras of the glassworks");
    EXPECT_LE(answer->evidence.size(), most);
  }
}

TEST_F(PartsTest, ShowsTheChosenAnswerOnly) {
  const auto engine = SharedEngine();
  for (const char* const question : {"Where do zebras graze?", "When does it leave in winter?"}) {
    std::string shown;
    size_t tokens = 0;
    AskOptions options;
    options.on_text = [&](std::string_view piece) {
      shown += piece;
      return true;
    };
    options.on_token = [&](const SampledToken& token) { tokens += !token.bytes.empty(); };
    const Answer answer = Ask(*engine, question, options);
    EXPECT_EQ(shown, answer.text) << question;
    EXPECT_GT(tokens, 0u);
  }
}

TEST_F(PartsTest, FollowUpsKnowTheConversation) {
  const auto engine = SharedEngine();
  auto session = engine->Open("book");
  ASSERT_TRUE(session.ok());
  AskOptions options;
  options.max_tokens = 6;
  const auto first = (*session)->Ask("Where do zebras graze?", options);
  ASSERT_TRUE(first.ok());
  const auto second = (*session)->Ask("And why there?", options);
  ASSERT_TRUE(second.ok());
  EXPECT_GT(second->question_tokens, first->question_tokens) << "the turn before is fed, too";
  // Where the follow-up tells nothing, the question before chooses.
  EXPECT_EQ(second->parts.front().number, first->parts.front().number);
  options.history.turns = {{"a", "b"}};
  EXPECT_EQ((*session)->Ask("And?", options).status().code(), Code::kInvalidArgument);
  options.history = {};
  EXPECT_TRUE((*session)->Ask("Who?", options).ok());
}

// Each value goes to the part that has its words, and says what it says when only that is asked
// for; evidence and receipt are those of all parts that were asked.
TEST_F(PartsTest, EachValueOfAnObjectChoosesItsPart) {
  const auto engine = SharedEngine();
  const char* const kQuestions[] = {"Where do zebras graze?", "When are quinces sold?"};
  AskOptions options;
  options.kv_budget = 1;
  const auto ask = [&](Session& session, const char* question, const std::string& schema,
                       uint32_t max_tokens) {
    options.json_schema = schema;
    options.max_tokens = max_tokens;
    auto answer = session.Ask(question, options);
    EXPECT_TRUE(answer.ok()) << answer.status().message();
    return answer.ok() ? *std::move(answer) : Answer();
  };
  const std::string value = R"({"type": "string", "maxLength": 10})";
  Answer alone[2];
  for (size_t i = 0; i < 2; ++i) {
    alone[i] = ask(**engine->Open("book"), kQuestions[i], value, 100);
  }
  ASSERT_NE(alone[0].parts.front().number, alone[1].parts.front().number);
  const std::string place = R"("description": "Where do zebras graze?")";
  const std::string day = R"("description": "When are quinces sold?")";
  const std::string of_string = R"("type": "string", "maxLength": 10, )";
  const std::string object = R"({"type": "object", "properties": {"place": {)" + of_string + place +
                             R"(}, "day": {)" + of_string + day +
                             R"(}}, "required": ["place", "day"]})";
  const auto session = engine->Open("book");
  std::string shown;
  options.on_text = [&](std::string_view piece) {
    shown += piece;
    return true;
  };
  const Answer answer = ask(**session, "Xyzzy.", object, 200);
  EXPECT_EQ(answer.text, R"({"place": )" + alone[0].text + R"(, "day": )" + alone[1].text + "}");
  EXPECT_EQ(shown, answer.text);
  EXPECT_EQ(answer.document, SharedReport().document);
  EXPECT_EQ(answer.document_tokens, SharedReport().tokens);
  EXPECT_EQ(answer.num_parts, SharedReport().parts);
  EXPECT_EQ(answer.kv.bytes_read, alone[0].kv.bytes_read + alone[1].kv.bytes_read);
  EXPECT_EQ(answer.question_tokens, alone[0].question_tokens + alone[1].question_tokens);
  for (const char* const fact : {kFacts[3], kFacts[1]}) {
    const auto same = std::ranges::find(answer.evidence, fact, &Evidence::text);
    ASSERT_NE(same, answer.evidence.end()) << fact;
    EXPECT_EQ(Text().substr(same->begin, same->end - same->begin), fact);
  }
  std::set<uint32_t> numbers;
  for (const AskedPart& part : answer.parts) {
    EXPECT_TRUE(numbers.insert(part.number).second) << part.number;
    for (size_t i = 0; i < 2; ++i) {
      if (part.number != alone[i].parts.front().number) continue;
      EXPECT_TRUE(part.is_chosen);
      const std::string said = (i == 0 ? R"("place": )" : R"("day": )") + alone[i].text;
      EXPECT_NE(part.answer.find(said), std::string::npos) << part.answer;
    }
  }
  // The conversation has the object as one turn.
  const Answer next = ask(**session, "And the ferry?", value, 8);
  options.history.turns = {{"Xyzzy.", answer.text, ""}};
  const Answer told = ask(**engine->Open("book"), "And the ferry?", value, 8);
  EXPECT_EQ(next.text, told.text);
  EXPECT_EQ(next.question_tokens, told.question_tokens);
}

// It leaves no trace in the conversation where nothing was shown.
TEST_F(PartsTest, AnObjectIsCancelledBetweenItsValues) {
  const auto engine = SharedEngine();
  const auto session = engine->Open("book");
  CancelFlag cancel = true;
  AskOptions options;
  options.max_tokens = 100;
  options.cancel = &cancel;
  options.json_schema = R"({"type": "object", "required": ["zebras", "quinces"], "properties": {
      "zebras": {"type": "string", "maxLength": 10}, "quinces": {"type": "string"}}})";
  EXPECT_EQ((*session)->Ask("Who?", options).status().code(), Code::kCancelled);
  cancel = false;
  options.history.turns = {{"Is it old?", "Yes."}};  // it has not begun
  std::string shown;
  options.on_text = [&](std::string_view piece) {
    shown += piece;
    return shown.find("quinces") == shown.npos;
  };
  const auto answer = (*session)->Ask("Who?", options);
  ASSERT_TRUE(answer.ok()) << answer.status().message();
  EXPECT_EQ(answer->finish_reason, "cancelled");
  EXPECT_EQ(answer->text, shown);
}

TEST_F(PartsTest, ACancelledQuestionLeavesTheConversation) {
  const auto engine = SharedEngine();
  auto session = engine->Open("book");
  CancelFlag cancel = true;
  AskOptions options;
  options.max_tokens = 4;
  options.cancel = &cancel;
  EXPECT_EQ((*session)->Ask("Where do zebras graze?", options).status().code(), Code::kCancelled);
  cancel = false;
  options.history.turns = {{"Is it old?", "Yes."}};  // it has not begun
  EXPECT_TRUE((*session)->Ask("Where do zebras graze?", options).ok());
}

TEST_F(PartsTest, TellsItsPartsAsJson) {
  const auto engine = SharedEngine();
  const IndexReport& report = SharedReport();
  const Answer answer = Ask(*engine, "Where do zebras graze?");
  const auto json = ParseJson(AnswerJson(answer, OffsetUnit::kUtf8, Text()));
  const Json* const parts = json->Find("parts");
  ASSERT_NE(parts, nullptr);
  EXPECT_EQ(parts->Find("count")->unsigned_integer(), report.parts);
  EXPECT_EQ(parts->Find("asked")->array()->size(), answer.parts.size());
  EXPECT_EQ(ParseJson(IndexReportJson(report))->Find("parts")->unsigned_integer(), report.parts);
}

// --- the store ---

TEST_F(PartsTest, AnInterruptedRunGoesOnAtItsPart) {
  const auto engine = NewEngine();
  IndexOptions options;
  options.name = "book";
  uint64_t total = 0;
  options.on_progress = [&](const IndexProgress& progress) {
    total = progress.total;
    return progress.done * 2 < progress.total;
  };
  EXPECT_EQ(engine->Index(Text(), options).status().code(), Code::kCancelled);
  const std::set<std::string> begun = Ids();
  EXPECT_GE(begun.size(), 2u);
  // To the user there is one document, which is not ready.
  ASSERT_EQ(engine->List()->size(), 1u);
  EXPECT_EQ((*engine->List())[0].state, DocumentState::kBuilding);
  EXPECT_EQ((*engine->List())[0].num_tokens, total);
  EXPECT_EQ(engine->Open("book").status().code(), Code::kNotReady);
  ASSERT_TRUE(engine->Collect().ok());
  EXPECT_EQ(Ids(), begun) << "what is begun is kept";
  const IndexReport report = IndexText(*engine, Text());
  EXPECT_GT(report.resumed_tokens, total / 4);
  for (const std::string& id : begun) EXPECT_TRUE(Ids().contains(id));
  EXPECT_EQ(engine->List()->size(), 1u);
  EXPECT_TRUE(IndexText(*engine, Text()).existed);
  EXPECT_TRUE(engine->Verify("", true)->empty());
}

TEST_F(PartsTest, AQuotaForAllPartsIsAskedForBeforeTheFirst) {
  const std::string store = folder_.path() + "/store";
  const uint64_t needed = SharedReport().bytes_on_disk;
  auto engine = Engine::Create(
      {.store = store, .model = ModelPath(), .num_threads = 2, .quota_bytes = needed * 3 / 4});
  const auto refused = (*engine)->Index(Text(), {});
  EXPECT_EQ(refused.status().code(), Code::kNoSpace);
  EXPECT_EQ(refused.status().param(), "quota");
  EXPECT_TRUE(Ids().empty());
}

TEST_F(PartsTest, ARunThatIsGivenUpLeavesNothing) {
  const auto engine = NewEngine();
  IndexOptions options;
  options.name = "book";
  options.on_progress = [](const IndexProgress& progress) {
    return progress.done * 2 < progress.total;
  };
  EXPECT_EQ(engine->Index(Text(), options).status().code(), Code::kCancelled);
  ASSERT_TRUE(engine->Remove("book").ok());
  EXPECT_TRUE(Ids().empty());
  EXPECT_TRUE(engine->List()->empty());
}

TEST_F(PartsTest, AChangedTextKeepsTheBeginning) {
  const auto engine = CopiedEngine();
  const std::set<std::string> before = Ids();
  // The last chapter alone changes.
  std::string changed = Text();
  changed.replace(changed.find("The archive burned"), 3, "Our");
  const IndexReport report = IndexText(*engine, changed);
  EXPECT_FALSE(report.replaced.empty());
  EXPECT_GT(report.resumed_tokens, report.tokens / 2) << "the other parts are there";
  EXPECT_EQ(Ids().size(), before.size()) << "what nobody needs is gone";
  EXPECT_EQ(engine->List()->size(), 1u);
  EXPECT_TRUE(engine->Verify("book", true)->empty());
}

TEST_F(PartsTest, ATextThatFitsNowLeavesNoParts) {
  const auto engine = CopiedEngine();
  const IndexReport report = IndexText(*engine, "One sentence is left of the book.");
  EXPECT_EQ(report.parts, 0u);
  EXPECT_EQ(report.replaced, SharedReport().document);
  EXPECT_EQ(Ids(), std::set<std::string>{report.document});
}

TEST_F(PartsTest, GoesWithAllItsParts) {
  const auto engine = CopiedEngine();
  const std::string part = PartId(0);
  const auto refused = engine->Remove(part);
  EXPECT_EQ(refused.status().code(), Code::kInvalidArgument);
  EXPECT_NE(refused.status().message().find("is a part of"), std::string::npos);
  const auto removed = engine->Remove("book");
  ASSERT_TRUE(removed.ok());
  EXPECT_TRUE(removed->is_document_gone);
  EXPECT_TRUE(Ids().empty());
}

TEST_F(PartsTest, ATextThatIsAPartAsWellStaysForBoth) {
  const auto engine = CopiedEngine();
  const std::string part = PartId(0);
  const std::string own(engine->Open(part).value()->text());
  EXPECT_EQ(IndexText(*engine, own, "chapter").document, part);
  EXPECT_EQ(engine->List()->size(), 2u);
  const auto rows = engine->List();
  for (const DocumentRow& row : *rows) EXPECT_EQ(row.names.size(), 1u);
  ASSERT_TRUE(engine->Remove(part).ok());  // by its id: its own name alone
  EXPECT_EQ(engine->List()->size(), 1u);
  EXPECT_FALSE(Ask(*engine, "Who dug the harbour of Osk?").parts.empty());
  IndexText(*engine, own, "chapter");
  ASSERT_TRUE(engine->Remove("book").ok());
  EXPECT_EQ(Ids(), std::set<std::string>{part});
}

TEST_F(PartsTest, TravelsAsOneBundle) {
  const auto engine = CopiedEngine();
  const std::string bundle = folder_.path() + "/book.lectern";
  ASSERT_TRUE(engine->Export("book", bundle).ok());
  const auto other = NewEngine("other");
  const auto imported = other->Import(bundle, "");
  ASSERT_TRUE(imported.ok()) << imported.status().message();
  EXPECT_EQ(imported->row.name, "book");
  EXPECT_EQ(other->List()->size(), 1u);
  EXPECT_EQ(Ids("other"), Ids());
  EXPECT_TRUE(other->Verify("", true)->empty());
  EXPECT_EQ(Ask(*other, "Where do zebras graze?").text,
            Ask(*engine, "Where do zebras graze?").text);
  EXPECT_TRUE(other->Import(bundle, "")->existed);
  // A bundle that is damaged in a part leaves nothing.
  std::string bytes = ReadWholeFile(bundle);
  bytes[bytes.size() - 100000] ^= 1;
  WriteWholeFile(bundle, bytes);
  const auto third = NewEngine("third");
  EXPECT_FALSE(third->Import(bundle, "").ok());
  EXPECT_TRUE(Ids("third").empty());
  bytes.resize(bytes.size() / 2);
  WriteWholeFile(bundle, bytes);
  EXPECT_EQ(third->Import(bundle, "").status().code(), Code::kTruncated);
}

// Where the store has the first part of a bundle already, only the others need room.
TEST_F(PartsTest, AnImportCountsWhatIsMissing) {
  const auto engine = CopiedEngine();
  const std::string bundle = folder_.path() + "/book.lectern", store = folder_.path() + "/other";
  ASSERT_TRUE(engine->Export("book", bundle).ok());
  const std::string first(engine->Open(PartId(0)).value()->text());
  EXPECT_EQ(IndexText(*NewEngine("other"), first, "chapter").document, PartId(0));
  uint64_t of_part = 0;
  for (const auto& entry : fs::recursive_directory_iterator(store + "/docs")) {
    if (entry.is_regular_file()) of_part += entry.file_size();
  }
  ASSERT_GT(of_part, 100'000u);
  const uint64_t quota =
      *StoreBytes(Env::Default(), store) + fs::file_size(bundle) - of_part / 2;
  const auto limited = Engine::Create(
      {.store = store, .model = ModelPath(), .num_threads = 2, .quota_bytes = quota});
  ASSERT_TRUE(limited.ok());
  const auto imported = (*limited)->Import(bundle, "");
  ASSERT_TRUE(imported.ok()) << imported.status().message();
  EXPECT_TRUE((*limited)->Verify("", true)->empty());
  EXPECT_EQ(Ask(**limited, "Where do zebras graze?").text,
            Ask(*engine, "Where do zebras graze?").text);
}

TEST_F(PartsTest, IsFoundAgainWithoutTheCatalog) {
  CopiedEngine();
  fs::remove(folder_.path() + "/store/catalog.db");
  const auto engine = NewEngine();
  const auto recovered = engine->Recover();
  ASSERT_TRUE(recovered.ok()) << recovered.status().message();
  EXPECT_EQ(recovered->documents.size(), 1u);
  ASSERT_EQ(engine->List()->size(), 1u);
  EXPECT_EQ((*engine->List())[0].name, "book");
  EXPECT_FALSE(Ask(*engine, "Where do zebras graze?").parts.empty());
  ASSERT_TRUE(engine->Remove("book").ok());
  EXPECT_TRUE(Ids().empty());
}

TEST_F(PartsTest, DamageInAPartIsFoundAndSaid) {
  const auto engine = CopiedEngine();
  const std::string part = PartId(1);
  const std::string folder = folder_.path() + "/store/docs/" + part;
  const std::string generation = fs::directory_iterator(folder)->path().string();
  std::string bytes = ReadWholeFile(generation + "/layer-000.shard");
  bytes[5000] ^= 1;
  WriteWholeFile(generation + "/layer-000.shard", bytes);
  const auto damaged = engine->Verify("book", true);
  ASSERT_TRUE(damaged.ok());
  ASSERT_EQ(damaged->size(), 1u);
  EXPECT_EQ((*damaged)[0].document, part);
}

TEST_F(PartsTest, IsEstimatedAndPlannedAsAWhole) {
  const auto engine = CopiedEngine();
  const auto estimate = engine->Estimate(Text(), {});
  ASSERT_TRUE(estimate.ok()) << estimate.status().message();
  const IndexReport& report = SharedReport();
  EXPECT_EQ(estimate->tokens, report.tokens);
  EXPECT_GE(estimate->bytes_on_disk * 1.1, static_cast<double>(report.bytes_on_disk));
  EXPECT_TRUE(engine->Estimate(Text(), {})->existed);
  EXPECT_TRUE(engine->ShowPlan("book").ok());
  PlanChange change;
  change.kv_budget = 0.5f;
  ASSERT_TRUE(engine->ChangePlan("book", change).ok());
  EXPECT_NEAR(engine->ShowPlan("book")->kv_budget, 0.5, 1e-6);
  EXPECT_FALSE(Ask(*engine, "Where do zebras graze?").parts.empty()) << "parts keep their place";
  EXPECT_EQ(engine->List()->size(), 1u);
}

TEST_F(PartsTest, ANameOfAPartIsNobodyElses) {
  IndexOptions options;
  options.name = PartName(DocumentId{1, 2, 3}, 4);
  const auto refused = NewEngine()->Index("A text.", options);
  EXPECT_EQ(refused.status().code(), Code::kInvalidArgument);
  EXPECT_EQ(refused.status().param(), "name");
  EXPECT_EQ(WholeOf(options.name), (DocumentId{1, 2, 3}));
  EXPECT_FALSE(WholeOf("part of it"));
}

// --- questions that draw on the whole text ---

TEST_F(PartsTest, AWholeQuestionIsPutToEveryPart) {
  const auto engine = SharedEngine();
  AskOptions options;
  options.fallback = Fallback::kExact;
  std::vector<uint64_t> done;
  options.on_part = [&](uint64_t number, uint64_t count) {
    EXPECT_EQ(count, SharedReport().parts);
    done.push_back(number);
    return true;
  };
  std::string shown;
  std::vector<std::string> warned;
  options.on_text = [&](std::string_view piece) {
    shown += piece;
    return true;
  };
  options.on_warning = [&](std::string_view name, const Message& note) {
    warned.emplace_back(name);
    EXPECT_NE(note.text().find("parts are read"), std::string::npos);
  };
  const Answer answer = Ask(*engine, "List all animals and fruits.", options);
  EXPECT_EQ(done.size(), SharedReport().parts);
  EXPECT_EQ(answer.parts.size(), SharedReport().parts);
  EXPECT_EQ(shown, answer.text);
  EXPECT_EQ(warned, std::vector<std::string>{"whole_document"});
  EXPECT_EQ(std::ranges::count(answer.warnings, "whole_document"), 1);
  EXPECT_TRUE(answer.kv.fallback);
  EXPECT_NEAR(answer.kv.read_fraction_prefill, 1, 0.01);
  for (const Evidence& one : answer.evidence) {
    EXPECT_EQ(Text().substr(one.begin, one.end - one.begin), one.text);
  }
  // Without the wish it goes to some parts, as every question does, and so does one that asks for a
  // single thing, unless its attention is spread.
  EXPECT_LE(Ask(*engine, "List all animals and fruits.").parts.size(), AnswerChoice::kMostAsked);
}

TEST_F(PartsTest, AWholeQuestionCanBeStopped) {
  const auto engine = SharedEngine();
  auto session = engine->Open("book");
  AskOptions options;
  options.fallback = Fallback::kExact;
  options.max_tokens = 4;
  uint64_t last = 0;
  options.on_part = [&](uint64_t number, uint64_t) {
    last = number;
    return number < 2;
  };
  EXPECT_EQ((*session)->Ask("Summarise the text.", options).status().code(), Code::kCancelled);
  EXPECT_EQ(last, 2u);
}

TEST(WholeQuestion, IsKnownByItsFirstWords) {
  EXPECT_EQ(WholeKindOf("Please summarise the report."), WholeKind::kJoin);
  EXPECT_EQ(WholeKindOf("list all the harbours"), WholeKind::kJoin);
  EXPECT_EQ(WholeKindOf("How many harbours are there?"), WholeKind::kCount);
  EXPECT_EQ(WholeKindOf("Who dug the harbour?"), WholeKind::kNone);
  EXPECT_EQ(WholeKindOf(""), WholeKind::kNone);
}

TEST(WholeQuestion, JoinsAnswersOnceEach) {
  const std::string answers[] = {"Osk.", "osk", "", "the port of Lund", "Lund", "Ystad"};
  EXPECT_EQ(JoinAnswers(answers), "Osk.\nthe port of Lund\nYstad");
  EXPECT_EQ(JoinAnswers({}), "");
}

TEST(WholeQuestion, GroupsShrinkWhateverTheirSize) {
  const std::vector<std::string> answers = {std::string(900, 'a'), std::string(900, 'b'), "c", "d",
                                            "e"};
  const auto groups = GroupAnswers(answers, 1000);
  ASSERT_EQ(groups.size(), 2u);
  EXPECT_EQ(groups[0].size(), 2u);
  EXPECT_EQ(groups[1].size(), 3u);
  EXPECT_EQ(QuestionAfterAnswers("How many?", groups[1]),
            "These are answers from the parts of a long text, in their order:\n- c\n- d\n- e\n\n"
            "Answer from all of them: How many?");
}

}  // namespace
}  // namespace lectern
