// Documents of a model with a byte-level BPE vocabulary and a chat template, from files to answers.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "engine/json.h"
#include "tests/engine/dense_oracle.h"
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

TEST(ChatDocumentTest, EqualsDenseAttentionWhenEverythingIsRead) {
  const TempFolder store, folder;
  WriteModel(folder.path(), Jinja("llama3"));
  const std::string text = InventedText(6000, 21);
  const auto engine = MakeEngine(store.path(), folder.path());
  IndexOptions options;
  options.kv_dtype = Dtype::kF32;
  const auto report = engine->Index(text, options);
  ASSERT_TRUE(report.ok()) << report.status().message();
  ASSERT_GT(report->tokens, 2048u);

  const auto model = *Model::Load(Env::Default(), folder.path());
  EXPECT_EQ(model->chat_template().name(), "llama3");
  const FixedContext context = *model->EncodeDocument(text);
  EXPECT_GT(context.num_prefix, 4u);
  EXPECT_EQ(report->tokens, context.ids.size());
  DenseOracle oracle(folder.path(), "f32");
  oracle.Append(context.ids);
  auto opened = engine->Open("");
  auto& session = static_cast<DocumentSession&>(**opened);
  std::vector<int32_t> next = *model->EncodeQuestion("Which old bridge?");
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

TEST(ChatDocumentTest, ASecondQuestionFollowsTheEndOfTheTurn) {
  const TempFolder store, folder;
  WriteModel(folder.path(), Jinja("llama3"));
  const auto engine = MakeEngine(store.path(), folder.path());
  ASSERT_TRUE(engine->Index(InventedText(6000, 22), {}).ok());
  AskOptions options;
  options.kv_budget = 1;
  options.max_tokens = 5;
  auto opened = engine->Open("");
  ASSERT_TRUE((*opened)->Ask("Which old bridge?", options).ok());
  const auto second = (*opened)->Ask("And the tower?", options);
  ASSERT_TRUE(second.ok());

  // The same tokens by hand.
  const auto model = *Model::Load(Env::Default(), folder.path());
  const int32_t eot = model->tokenizer().ControlId("<|eot_id|>");
  std::vector<int32_t> all = *model->EncodeQuestion("Which old bridge?");
  for (int i = 0; i < 5; ++i) {
    auto trial = engine->Open("");
    const int32_t id = Best(*static_cast<DocumentSession&>(**trial).Step(all, 1, true, nullptr));
    if (model->IsEndOfText(id)) break;
    all.push_back(id);
  }
  const auto turn = *model->EncodeNextQuestion(-1, "And the tower?");
  EXPECT_EQ(turn.front(), eot);
  all.insert(all.end(), turn.begin(), turn.end());
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
  EXPECT_EQ(second->text, text + stream.Flush());
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

TEST(ChatDocumentTest, AnUnknownTemplateIsRefusedAndOneMayBeChosen) {
  const TempFolder store, folder;
  WriteModel(folder.path(), "{{ messages }}");
  const Status unknown = MakeEngine(store.path(), folder.path())->Index("text", {}).status();
  EXPECT_EQ(unknown.code(), Code::kUnsupportedModel);
  EXPECT_EQ(unknown.param(), "chat_template");
  EXPECT_TRUE(unknown.message().starts_with(folder.path() + "/tokenizer_config.json: its chat "))
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
