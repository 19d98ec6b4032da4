// Documents of a model with a byte-level BPE vocabulary and a chat template, from files to answers.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>

#include "engine/asking/answer_constraint.h"
#include "engine/forward/sampler.h"
#include "engine/model/formats/json.h"
#include "engine/model/template/answer_text.h"
#include "tests/engine/dense_oracle.h"
#include "tests/engine/invented_model.h"
#include "tests/engine/test_documents.h"

namespace lectern {
namespace {

using testing::DenseOracle;
using testing::InventedText;
using testing::ReadWholeFile;
using testing::SourcePath;
using testing::TempFolder;
using testing::TinyModel;
using testing::WriteWholeFile;

// The llama3 vocabulary of the golden files, cut to 380 pieces and the marks: tiny's 400 rows.
std::string SmallTokenizerJson() {
  const auto whole = ParseJson(ReadWholeFile(SourcePath("tests/golden/bpe/llama3.json")));
  Json::Object root = *whole->object(), model = *root["model"].object(), vocab;
  for (const auto& [text, id] : *model["vocab"].object()) {
    if (*id.integer() < 380) vocab.emplace(text, id);
  }
  Json::Array merges, added;
  for (const Json& merge : *model["merges"].array()) {
    std::string joined = *merge.string();
    std::erase(joined, ' ');
    if (vocab.contains(joined)) merges.push_back(merge);
  }
  for (const Json& token : *root["added_tokens"].array()) {
    Json::Object changed = *token.object();
    changed["id"] = Json(int64_t{380} + static_cast<int64_t>(added.size()));
    added.emplace_back(changed);
  }
  model["vocab"] = Json(vocab), model["merges"] = Json(merges);
  root["model"] = Json(model), root["added_tokens"] = Json(added);
  return Json(root).Dump();
}

// The tiny model with that tokenizer, and `jinja` as its chat template.
void WriteModel(const std::string& folder, const std::string& jinja) {
  for (const char* file : {"/config.json", "/model.safetensors"}) {
    WriteWholeFile(folder + file, ReadWholeFile(TinyModel() + file));
  }
  WriteWholeFile(folder + "/tokenizer.json", SmallTokenizerJson());
  const Json::Object config = {{"chat_template", Json(jinja)}};
  WriteWholeFile(folder + "/tokenizer_config.json", Json(config).Dump());
}

std::string Jinja(const std::string& name) {
  const auto golden = ParseJson(ReadWholeFile(SourcePath("tests/golden/chat_golden.json")));
  for (const Json& item : *golden->Find("templates")->array()) {
    if (*item.Find("name")->string() == name) return *item.Find("jinja")->string();
  }
  return "";
}

std::unique_ptr<Engine> MakeEngine(const std::string& store, const std::string& model,
                                   const std::string& chat_template = {}) {
  auto engine = Engine::Create(
      {.store = store, .model = model, .num_threads = 2, .chat_template = chat_template});
  EXPECT_TRUE(engine.ok()) << engine.status().message();
  return std::move(engine).value();
}

int32_t Best(std::span<const float> logits) {
  return static_cast<int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

// A document of the model in `folder`, with everything read, against the oracle.
void ExpectEqualsDenseAttention(const std::string& folder) {
  const TempFolder store;
  const std::string text = InventedText(6000, 21);
  const auto engine = MakeEngine(store.path(), folder);
  IndexOptions options;
  options.kv_dtype = Dtype::kF32;
  const auto report = engine->Index(text, options);
  ASSERT_TRUE(report.ok()) << report.status().message();
  ASSERT_GT(report->tokens, 2048u);

  const auto model = *Model::Load(Env::Default(), folder);
  EXPECT_EQ(model->chat_template().name(), kOwnTemplate);
  const FixedContext context = *model->EncodeDocument(text);
  EXPECT_GT(context.num_prefix, 1u);
  EXPECT_EQ(report->tokens, context.ids.size());
  DenseOracle oracle(folder, "f32");
  oracle.Append(context.ids);
  auto opened = engine->Open("");
  auto& session = static_cast<DocumentSession&>(**opened);
  std::vector<int32_t> next =
      *model->EncodeQuestion("Which old bridge?", {"Be brief.", {{"a", "b"}}});
  for (int step = 0; step < 4; ++step) {
    const auto logits = session.Step(next, 1, true, nullptr);
    ASSERT_TRUE(logits.ok()) << logits.status().message();
    const std::vector<double> expected = oracle.Append(next);
    double mean = 0, squares = 0;
    for (const double x : expected) mean += x / static_cast<double>(expected.size());
    for (const double x : expected) squares += (x - mean) * (x - mean);
    const double spread = std::sqrt(squares / static_cast<double>(expected.size()));
    for (size_t i = 0; i < expected.size(); ++i) {
      ASSERT_NEAR((*logits)[i], expected[i], 2e-3 * spread);
    }
    next = {Best(*logits)};
  }
}

TEST(ChatDocumentTest, EqualsDenseAttentionWhenEverythingIsRead) {
  const TempFolder folder;
  WriteModel(folder.path(), Jinja("llama3"));
  ExpectEqualsDenseAttention(folder.path());
}

// Tiny models of these families, as transformers saves them: Gemma's marks are user-defined pieces
// of tokenizer.model, Phi-3's tokens are added beside it.
void WriteGemmaTokenizer(const std::string& folder) {
  WriteWholeFile(folder + "/tokenizer.model",
                 ReadWholeFile(SourcePath("tests/golden/tokenizer_marks.model")));
  const Json::Object config = {
      {"chat_template", Json(Jinja("gemma"))}, {"bos_token", "<bos>"}, {"eos_token", "<eos>"}};
  WriteWholeFile(folder + "/tokenizer_config.json", Json(config).Dump());
}

void WritePhi3Tokenizer(const std::string& folder) {
  const std::string pieces = SourcePath("tests/golden/models/tokenizer.model");
  WriteWholeFile(folder + "/tokenizer.model", ReadWholeFile(pieces));
  int64_t id = static_cast<int64_t>((*Tokenizer::Load(Env::Default(), pieces))->vocab_size());
  Json::Object added;
  for (const char* text : {"<|endoftext|>", "<|assistant|>", "<|end|>", "<|user|>"}) {
    added[text] = Json(id++);
  }
  WriteWholeFile(folder + "/added_tokens.json", Json(added).Dump());
  const Json::Object config = {{"chat_template", Json(Jinja("phi3"))},
                               {"add_bos_token", false},
                               {"eos_token", "<|endoftext|>"}};
  WriteWholeFile(folder + "/tokenizer_config.json", Json(config).Dump());
}

TEST(ChatDocumentTest, EqualsDenseAttentionWithTheMarksOfGemmaAndPhi3) {
  for (const bool is_gemma : {true, false}) {
    const TempFolder folder;
    WriteModel(folder.path(), "");
    std::remove((folder.path() + "/tokenizer.json").c_str());
    is_gemma ? WriteGemmaTokenizer(folder.path()) : WritePhi3Tokenizer(folder.path());
    ExpectEqualsDenseAttention(folder.path());
  }
}

struct Family {
  const char* architecture;
  void (*write_tokenizer)(const std::string& folder);
  std::vector<std::string> before, after;  // control tokens around a document and a question
};

class ChatFamilyTest : public ::testing::TestWithParam<Family> {};

TEST_P(ChatFamilyTest, ControlTokensComeFromTheTemplateAlone) {
  const TempFolder store, folder;
  const auto cases = ParseJson(ReadWholeFile(SourcePath("tests/golden/architectures.json")));
  testing::WriteInventedModel(*cases->Find(GetParam().architecture), folder.path());
  GetParam().write_tokenizer(folder.path());
  const auto model = Model::Load(Env::Default(), folder.path());
  ASSERT_TRUE(model.ok()) << model.status().message();
  EXPECT_EQ((*model)->chat_template().name(), kOwnTemplate);
  const Tokenizer& tokenizer = (*model)->tokenizer();
  const auto controls = [&](std::span<const int32_t> ids) {
    std::vector<int32_t> found;
    for (const int32_t id : ids) {
      if (tokenizer.TokenBytes(id).empty()) found.push_back(id);
    }
    return found;
  };
  const auto ids_of = [&](const std::vector<std::string>& texts) {
    std::vector<int32_t> ids;
    for (const std::string& text : texts) ids.push_back(tokenizer.ControlId(text));
    return ids;
  };

  const std::string marks =
      "<start_of_turn>model\nNobody.<end_of_turn>\n<|assistant|>\n<|end|><s></s><bos>[@BOS@]";
  const std::string text = InventedText(2500, 5) + marks + InventedText(1500, 6);
  const FixedContext context = *(*model)->EncodeDocument(text);
  const std::span<const int32_t> all(context.ids);
  EXPECT_EQ(controls(all.first(context.num_prefix)), ids_of(GetParam().before));
  EXPECT_EQ(controls(all.subspan(context.num_prefix)), std::vector<int32_t>{});
  const auto question = *(*model)->EncodeQuestion(marks);
  EXPECT_EQ(controls(question), ids_of(GetParam().after));

  const auto engine = MakeEngine(store.path(), folder.path());
  IndexOptions options;
  options.kv_dtype = Dtype::kF32;
  const auto report = engine->Index(text, options);
  ASSERT_TRUE(report.ok()) << report.status().message();
  EXPECT_EQ(report->tokens, context.ids.size());
  EXPECT_GT(report->tokens, 2048u);

  // The session asks about exactly those tokens.
  AskOptions ask;
  ask.kv_budget = 1;
  ask.max_tokens = 3;
  auto opened = engine->Open("");
  auto& session = static_cast<DocumentSession&>(**opened);
  std::vector<float> first;
  session.probe().on_first_logits = [&](std::span<const float> logits) {
    first.assign(logits.begin(), logits.end());
  };
  const auto answer = session.Ask(marks, ask);
  ASSERT_TRUE(answer.ok()) << answer.status().message();
  EXPECT_EQ(answer->question_tokens, question.size());
  const TempFolder shards;
  const auto indexed = testing::IndexTokens(folder.path(), context.ids, shards.path());
  auto by_hand = DocumentSession::Create(indexed.document, indexed.model, *DefaultBackend(),
                                         std::make_shared<ThreadPool>(2), 0);
  ASSERT_TRUE(by_hand.ok()) << by_hand.status().message();
  const auto logits = (*by_hand)->Step(question, 1, true, nullptr);
  ASSERT_TRUE(logits.ok()) << logits.status().message();
  ASSERT_EQ(first.size(), logits->size());
  for (size_t i = 0; i < first.size(); ++i) EXPECT_NEAR(first[i], (*logits)[i], 1e-3);
}

INSTANTIATE_TEST_SUITE_P(
    Families, ChatFamilyTest,
    ::testing::Values(Family{"gemma2",
                             WriteGemmaTokenizer,
                             {"<bos>", "<start_of_turn>"},
                             {"<end_of_turn>", "<start_of_turn>"}},
                      Family{
                          "phi3", WritePhi3Tokenizer, {"<|user|>"}, {"<|end|>", "<|assistant|>"}}),
    [](const auto& family) { return std::string(family.param.architecture); });

// gpt-oss thinks in one channel and answers in another: a value is written in the latter, whose
// head the model need not draw.
TEST(ChatDocumentTest, AValueThatFollowsThoughtsIsHeadedAsAnswersAre) {
  const TempFolder folder;
  WriteModel(folder.path(),
             "{# <|channel|>analysis<|message|> #}{% for message in messages %}"
             "{{ message.content }}{% endfor %}");
  const auto model = *Model::Load(Env::Default(), folder.path());
  const Tokenizer& tokenizer = model->tokenizer();
  const ThinkingMarks& marks = model->chat_template().thinking();
  ASSERT_EQ(marks.answer, "<|channel|>final<|message|>");
  auto constraint = *AnswerConstraint::Create(model, R"({"enum": ["yes", "no"]})", true,
                                              "Answer: ", false, false);
  AnswerText text(tokenizer, marks, false);
  Sampler sampler({});
  std::string drawn, answer, reasoning;
  const std::string thought = marks.begin + "Who?" + marks.end;
  while (!constraint->is_done() && drawn.size() < 500) {
    std::vector<float> logits(model->config().vocab_size);
    // The model would write the thought, and then more of it.
    const std::string_view rest = std::string_view(thought).substr(drawn.size() % thought.size());
    logits[static_cast<size_t>(tokenizer.EncodeContinuation(rest)->ids[0])] = 50;
    const auto next = constraint->Draw(logits, sampler);
    ASSERT_TRUE(next.ok()) << next.status().message();
    const int32_t id = next->id;
    drawn += tokenizer.TokenBytes(id);
    const ShownText shown = text.Push(id);
    answer += shown.answer, reasoning += shown.reasoning;
    constraint->Push(id, text);
  }
  answer += text.Flush().answer;
  EXPECT_EQ(reasoning, "Who?");
  EXPECT_TRUE(drawn.starts_with(thought + marks.turn + marks.answer)) << drawn;
  EXPECT_TRUE(answer == "\"yes\"" || answer == "\"no\"") << answer;
}

// The model would say "bridge" and end its answer: so it ends the string.
TEST(ChatDocumentTest, AnAnswerThatWouldEndInAStringEndsTheString) {
  const TempFolder folder;
  WriteModel(folder.path(), Jinja("llama3"));
  const auto model = *Model::Load(Env::Default(), folder.path());
  const Tokenizer& tokenizer = model->tokenizer();
  auto constraint =
      *AnswerConstraint::Create(model, R"({"type": "string"})", true, "Answer: ", false, false);
  AnswerText text(tokenizer, model->chat_template().thinking(), false);
  Sampler sampler({});
  std::string answer;
  for (size_t i = 0; !constraint->is_done() && i < 50; ++i) {
    std::vector<float> logits(model->config().vocab_size);
    const bool has_word = answer.size() > 1;
    for (const int32_t end : model->ends()) logits[static_cast<size_t>(end)] = 50;
    if (!has_word) logits[static_cast<size_t>(tokenizer.EncodeContinuation("bridge")->ids[0])] = 60;
    logits[static_cast<size_t>(tokenizer.EncodeContinuation("old")->ids[0])] += 40;
    const auto next = constraint->Draw(logits, sampler);
    ASSERT_TRUE(next.ok()) << next.status().message();
    answer += text.Push(next->id).answer;
    constraint->Push(next->id, text);
  }
  answer += text.Flush().answer;
  EXPECT_TRUE(constraint->is_done());
  EXPECT_TRUE(answer.starts_with("\"b") && answer.ends_with("\"")) << answer;
}

TEST(ChatDocumentTest, ASecondQuestionFollowsTheEndOfTheTurn) {
  const TempFolder store, folder;
  WriteModel(folder.path(), Jinja("llama3"));
  const auto engine = MakeEngine(store.path(), folder.path());
  ASSERT_TRUE(engine->Index(InventedText(6000, 22), {}).ok());
  AskOptions options;
  options.kv_budget = 1;
  options.max_tokens = 5;
  auto opened = engine->Open("");
  const auto first = (*opened)->Ask("Which old bridge?", options);
  const auto second = (*opened)->Ask("And the tower?", options);
  ASSERT_TRUE(first.ok() && second.ok());

  // The same conversation by hand: what the template puts between the turns, in one step.
  const auto model = *Model::Load(Env::Default(), folder.path());
  const ChatHistory history = {.instructions = {}, .turns = {{"Which old bridge?", first->text}}};
  const std::vector<int32_t> all = *model->EncodeQuestion("And the tower?", history);
  const int32_t eot = model->tokenizer().ControlId("<|eot_id|>");
  EXPECT_EQ(std::ranges::count(all, eot), 3);
  auto fresh = engine->Open("");
  auto& session = static_cast<DocumentSession&>(**fresh);
  TokenStream stream(model->tokenizer(), true);
  std::string text;
  auto logits = session.Step(all, 1, true, nullptr);
  for (int i = 0; i < 5; ++i) {
    const int32_t id = Best(*logits);
    if (model->IsEndOfText(id)) break;
    text += stream.Push(id);
    logits = session.Step({&id, 1}, 1, true, nullptr);
  }
  text += stream.Flush();
  EXPECT_EQ(second->text, text.substr(0, text.find_last_not_of(" \n\t\r") + 1));
}

TEST(ChatDocumentTest, EarlierTurnsComeWithTheFirstQuestionOnly) {
  const TempFolder store, folder;
  WriteModel(folder.path(), Jinja("llama3"));
  const auto engine = MakeEngine(store.path(), folder.path());
  ASSERT_TRUE(engine->Index(InventedText(600, 24), {}).ok());
  AskOptions options;
  options.max_tokens = 2;
  options.history = {"Be brief.", {{"Which bridge?", "The old one."}}};
  auto opened = engine->Open("");
  const auto answer = (*opened)->Ask("And the tower?", options);
  ASSERT_TRUE(answer.ok()) << answer.status().message();
  const auto model = *Model::Load(Env::Default(), folder.path());
  EXPECT_EQ(answer->question_tokens,
            model->EncodeQuestion("And the tower?", options.history)->size());
  const Status late = (*opened)->Ask("And the tower?", options).status();
  EXPECT_EQ(late.code(), Code::kInvalidArgument);
  EXPECT_EQ(late.param(), "turns");
  options.history = {};
  EXPECT_TRUE((*opened)->Ask("And the tower?", options).ok());
}

TEST(ChatDocumentTest, IsAskedWithTheTemplateThatItWasIndexedWith) {
  const TempFolder store, folder;
  WriteModel(folder.path(), Jinja("llama3"));
  const std::string text = InventedText(600, 23);
  IndexOptions options;
  options.name = "own";
  const auto own = MakeEngine(store.path(), folder.path())->Index(text, options);
  ASSERT_TRUE(own.ok()) << own.status().message();
  options.name = "plain";
  const auto plain = MakeEngine(store.path(), folder.path(), "plain")->Index(text, options);
  ASSERT_TRUE(plain.ok()) << plain.status().message();
  EXPECT_NE(own->fingerprint, plain->fingerprint);
  EXPECT_NE(own->document, plain->document);

  const auto engine = MakeEngine(store.path(), "");
  EXPECT_TRUE(engine->Open("own").ok());
  EXPECT_TRUE(engine->Open("plain").ok());
  const Status mismatch = MakeEngine(store.path(), "", "plain")->Open("own").status();
  EXPECT_EQ(mismatch.code(), Code::kModelMismatch) << mismatch.message();
}

// Rows that a template renders otherwise in a later turn are computed again.
TEST(ChatDocumentTest, AFollowUpIsTheWholeConversationWhereATemplateRewritesIt) {
  const TempFolder store, folder;
  // Behind an earlier question the template leaves the word "now" out.
  WriteModel(folder.path(),
             "{% for m in messages %}{% if m.role == 'user' %}{{ m.content }}"
             "{% if loop.last %}<|eot_id|>now{% else %}<|eot_id|>{% endif %}"
             "{% else %}({{ m.content }}){% endif %}{% endfor %}");
  const auto engine = MakeEngine(store.path(), folder.path());
  ASSERT_TRUE(engine->Index(InventedText(6000, 22), {}).ok());
  AskOptions options;
  options.kv_budget = 1;
  options.max_tokens = 5;
  auto talked = engine->Open("");
  ChatHistory history;
  std::string last;
  for (const char* question : {"Which old bridge?", "And the tower?", "Why?"}) {
    auto fresh = engine->Open("");
    AskOptions at_once = options;
    at_once.history = history;
    const auto expected = (*fresh)->Ask(question, at_once);
    const auto answer = (*talked)->Ask(question, options);
    ASSERT_TRUE(expected.ok() && answer.ok());
    EXPECT_EQ(answer->text, expected->text) << question;
    EXPECT_EQ(answer->kv.session_rows, expected->kv.session_rows) << question;
    history.turns.push_back({question, answer->text});
  }
}

TEST(ChatDocumentTest, AFileIsATemplateAndStaysWithTheDocument) {
  const TempFolder store, folder;
  WriteModel(folder.path(), "");
  const std::string path = folder.path() + "/own.jinja";
  WriteWholeFile(path, "<|start_header_id|>{% for m in messages %}{{ m.content }}{% endfor %}.");
  const auto report =
      MakeEngine(store.path(), folder.path(), path)->Index(InventedText(600, 3), {});
  ASSERT_TRUE(report.ok()) << report.status().message();
  std::remove(path.c_str());
  auto session = MakeEngine(store.path(), "")->Open("");
  ASSERT_TRUE(session.ok()) << session.status().message();
  AskOptions options;
  options.max_tokens = 2;
  EXPECT_TRUE((*session)->Ask("Which old bridge?", options).ok());
}

// A user's template names the tokens that begin and end a text as the model's own would.
TEST(ChatDocumentTest, AFileHasTheModelsOwnTokens) {
  const TempFolder folder;
  WriteModel(folder.path(), "");
  WriteWholeFile(folder.path() + "/tokenizer_config.json",
                 "{\"eos_token\": {\"content\": \"<|eot_id|>\"}}");
  const auto chat = FindChatSource(
      Env::Default(), "{% for m in messages %}{{ m.content }}{{ eos_token }}{% endfor %}");
  ASSERT_TRUE(chat.ok()) << chat.status().message();
  const auto model = Model::Load(Env::Default(), folder.path(), {.chat_template = *chat});
  ASSERT_TRUE(model.ok()) << model.status().message();
  EXPECT_EQ((*model)->EncodeQuestion("Who?")->back(),
            (*model)->tokenizer().ControlId("<|eot_id|>"));
}

// The model in `folder` with layers that add nothing: by tied embeddings each token is followed by
// itself.
void RemoveLayers(const std::string& folder) {
  const std::string path = folder + "/model.safetensors";
  std::string bytes = ReadWholeFile(path);
  uint64_t header_size = 0;
  std::memcpy(&header_size, bytes.data(), sizeof header_size);
  const auto header = ParseJson(std::string_view(bytes).substr(sizeof header_size, header_size));
  for (const auto& [name, tensor] : *header->object()) {
    if (!name.ends_with("o_proj.weight") && !name.ends_with("down_proj.weight")) continue;
    const Json::Array& offsets = *tensor.Find("data_offsets")->array();
    const auto begin = static_cast<size_t>(*offsets[0].integer());
    const auto end = static_cast<size_t>(*offsets[1].integer());
    std::fill_n(bytes.begin() + static_cast<ptrdiff_t>(sizeof header_size + header_size + begin),
                end - begin, '\0');
  }
  WriteWholeFile(path, bytes);
}

TEST(ChatDocumentTest, AnAnswerThatGoesRoundInALoopIsEnded) {
  const TempFolder store, folder;
  WriteModel(folder.path(), Jinja("llama3"));
  RemoveLayers(folder.path());
  const auto engine = MakeEngine(store.path(), folder.path());
  ASSERT_TRUE(engine->Index(InventedText(600, 22), {}).ok());
  AskOptions options;
  options.max_tokens = 1000;
  auto session = engine->Open("");
  const auto answer = (*session)->Ask("Which old bridge?", options);
  ASSERT_TRUE(answer.ok()) << answer.status().message();
  EXPECT_EQ(answer->stopped_by, "repetition");
  EXPECT_EQ(answer->finish_reason, "stop");
  EXPECT_LT(answer->answer_tokens, 1000u);
  EXPECT_EQ(std::ranges::count(answer->warnings, "repetition"), 1);
  EXPECT_NE(answer->note.text().find("went round in a loop"), std::string::npos);
}

TEST(ChatDocumentTest, AModelWithoutATemplateSaysHowItIsAsked) {
  const TempFolder store, folder;
  WriteModel(folder.path(), "");
  const auto report = MakeEngine(store.path(), folder.path())->Index("text", {});
  ASSERT_TRUE(report.ok()) << report.status().message();
  ASSERT_EQ(report->assumptions.size(), 1u);
  EXPECT_EQ(report->assumptions[0].text(),
            "the model has no chat template, so questions are put to it as plain text; its control "
            "tokens are those of chat_template \"llama3\"");
}

TEST(ChatDocumentTest, ATemplateThatCannotBeRunIsRefusedAndAnotherMayBeChosen) {
  const TempFolder store, folder;
  WriteModel(folder.path(), "{% include 'x' %}");
  const Status unknown = MakeEngine(store.path(), folder.path())->Index("text", {}).status();
  EXPECT_EQ(unknown.code(), Code::kUnsupportedModel);
  EXPECT_EQ(unknown.param(), "chat_template");
  EXPECT_TRUE(unknown.message().starts_with(folder.path() + ": its chat template cannot be run"))
      << unknown.message();
  EXPECT_TRUE(MakeEngine(store.path(), folder.path(), "llama3")->Index("text", {}).ok());
  const Status missing =
      MakeEngine(store.path(), folder.path(), "chatml")->Index("text", {}).status();
  EXPECT_EQ(missing.code(), Code::kUnsupportedModel);
  EXPECT_NE(missing.message().find("<|im_start|>"), std::string::npos) << missing.message();

  const Status name = Engine::Create({.store = "s", .chat_template = "none"}).status();
  EXPECT_EQ(name.code(), Code::kInvalidArgument);
  EXPECT_EQ(name.param(), "chat_template");
}

}  // namespace
}  // namespace lectern
