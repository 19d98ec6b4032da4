// A call of the engine whose cancel flag is set ends with kCancelled, wherever it looks next.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <thread>

#include "engine/engine.h"
#include "engine/indexing/index_cost.h"
#include "engine/model/formats/json.h"
#include "tests/engine/test_documents.h"

namespace lectern {
namespace {

namespace fs = std::filesystem;
using testing::IndexToAsk;
using testing::InventedText;
using testing::ReadWholeFile;
using testing::TempFolder;
using testing::TinyModel;
using testing::WriteWholeFile;

class CancelCallsTest : public ::testing::Test {
 protected:
  std::unique_ptr<Engine> NewEngine(const std::string& model) {
    auto engine = Engine::Create({.store = store_.path(), .model = model, .num_threads = 2});
    EXPECT_TRUE(engine.ok());
    return std::move(engine).value();
  }
  TempFolder store_;
};

TEST_F(CancelCallsTest, AnEngineWhoseModelIsThereEndsThemToo) {
  const auto engine = NewEngine(TinyModel());
  const std::string text = InventedText(700, 1);
  IndexToAsk(store_.path(), TinyModel(), text);
  ASSERT_TRUE(engine->Open("").ok());  // which loads the model
  const CancelFlag cancel = true;
  IndexOptions cancelled;
  cancelled.cancel = &cancel;
  EXPECT_EQ(engine->Open("", &cancel).status().code(), Code::kCancelled);
  EXPECT_EQ(engine->Estimate(text, cancelled).status().code(), Code::kCancelled);
  for (const uint64_t seed : {1, 2}) {  // a text that is there, and another
    const auto report = engine->Index(InventedText(700, seed), cancelled);
    EXPECT_EQ(report.status().code(), Code::kCancelled);
  }
  EXPECT_EQ(engine->List()->size(), 1u);
  EXPECT_TRUE(engine->Open("").ok());
}

// The same conversation, asked after another call ended with an exception of a callback, and in a
// session in which none did. lectern_c.h forbids exceptions; C++ programs may overlook that.
TEST_F(CancelCallsTest, AnExceptionOfACallbackLeavesTheSessionAsItWas) {
  const auto engine = NewEngine(TinyModel());
  IndexToAsk(store_.path(), TinyModel(), InventedText(9000, 1));
  const auto ask = [](Session& session, const AskOptions& options) {
    const auto answer = session.Ask("Who crossed the river?", options);
    EXPECT_TRUE(answer.ok()) << answer.status().message();
    return answer.ok() ? answer->text : "";
  };
  AskOptions options;
  options.max_tokens = 4;
  options.kv_budget = 0.2f;
  const auto undisturbed = std::move(engine->Open("")).value();
  const std::string first = ask(*undisturbed, options), second = ask(*undisturbed, options);
  struct Thrown {};
  for (const int callback : {0, 1, 2}) {
    SCOPED_TRACE(callback);
    const auto session = std::move(engine->Open("")).value();
    EXPECT_EQ(ask(*session, options), first);
    AskOptions throws = options;
    int num_pieces = 0;
    if (callback == 0) {
      throws.on_text = [&](std::string_view) -> bool {
        if (++num_pieces == 2) throw Thrown();
        return true;
      };
    } else if (callback == 1) {
      throws.on_token = [&](const SampledToken&) { throw Thrown(); };
    } else {
      throws.on_warning = [](std::string_view, const Message&) { throw Thrown(); };
      throws.max_evidence = 1;
    }
    EXPECT_THROW((void)session->Ask("Another question?", throws), Thrown);
    EXPECT_EQ(ask(*session, options), second);
  }
}

TEST_F(CancelCallsTest, AnExceptionOfProgressLeavesTheStoreFree) {
  const auto engine = NewEngine(TinyModel());
  const std::string text = InventedText(9000, 1);
  struct Thrown {};
  const auto throw_at = [](IndexProgress::Stage stage) {
    IndexOptions options;
    options.on_progress = [stage](const IndexProgress& progress) -> bool {
      if (progress.stage == stage) throw Thrown();
      return true;
    };
    return options;
  };
  // Reading is reported only where it takes a tenth of a second, so a fast machine throws nothing.
  try {
    EXPECT_TRUE(engine->Index(InventedText(9000, 3), throw_at(IndexProgress::Stage::kRead)).ok());
  } catch (const Thrown&) {
  }
  for (const auto stage : {IndexProgress::Stage::kPrefill, IndexProgress::Stage::kCluster,
                           IndexProgress::Stage::kWrite}) {
    EXPECT_THROW((void)engine->Index(text, throw_at(stage)), Thrown);
  }
  EXPECT_TRUE(engine->Index(text, {}).ok());
  EXPECT_TRUE(NewEngine(TinyModel())->Index(InventedText(700, 2), {}).ok());
}

TEST_F(CancelCallsTest, ATrialEndsEarly) {
  const CancelFlag cancel = true;
  EXPECT_EQ(TrialFlopsPerSecond(*DefaultBackend(), &cancel), 0);
  EXPECT_GT(TrialFlopsPerSecond(*DefaultBackend()), 0);
}

TEST_F(CancelCallsTest, NothingIsCommittedAfterTheStageOfWritingIsRefused) {
  const auto engine = NewEngine(TinyModel());
  const std::string text = InventedText(700, 1);
  IndexOptions options;
  options.name = "half";
  options.on_progress = [](const IndexProgress& progress) {
    return progress.stage != IndexProgress::Stage::kWrite;
  };
  EXPECT_EQ(engine->Index(text, options).status().code(), Code::kCancelled);
  EXPECT_EQ(engine->Open("half").status().code(), Code::kNotReady);
  options.on_progress = {};
  const auto report = engine->Index(text, options);
  ASSERT_TRUE(report.ok()) << report.status().message();
  EXPECT_EQ(report->resumed_tokens, report->tokens);
  EXPECT_TRUE(engine->Open("").ok());
}

// Replaces the tiny model in `folder` by one that takes a second or two to hash: embeddings and
// head have 512 MiB each. All weights are 0, in a hole of the file.
void MakeSlow(const std::string& folder) {
  const auto replace = [](std::string& text, const std::string& from, const std::string& to) {
    const size_t at = text.find(from);
    ASSERT_NE(at, std::string::npos) << from;
    text.replace(at, from.size(), to);
  };
  std::string config = ReadWholeFile(folder + "/config.json");
  replace(config, "400", "4194304");
  replace(config, R"("num_hidden_layers": 2)", R"("num_hidden_layers": 1)");
  replace(config, R"("tie_word_embeddings": true)", R"("tie_word_embeddings": false)");
  WriteWholeFile(folder + "/config.json", config);
  Json::Object header;
  uint64_t end = 0;
  const auto add = [&](const std::string& name, const std::vector<uint64_t>& shape) {
    const uint64_t begin = end;
    uint64_t bytes = sizeof(float);
    Json::Array sizes;
    for (const uint64_t size : shape) {
      bytes *= size;
      sizes.push_back(Json(size));
    }
    end += bytes;
    header[name] = Json(Json::Object{{"dtype", Json("F32")},
                                     {"shape", Json(std::move(sizes))},
                                     {"data_offsets", Json(Json::Array{Json(begin), Json(end)})}});
  };
  add("model.embed_tokens.weight", {4194304, 32});
  add("lm_head.weight", {4194304, 32});
  add("model.norm.weight", {32});
  const std::string layer = "model.layers.0.";
  for (const char* norm : {"input_layernorm", "post_attention_layernorm"}) {
    add(layer + norm + ".weight", {32});
  }
  for (const char* part : {"gate", "up"}) add(layer + "mlp." + part + "_proj.weight", {64, 32});
  add(layer + "mlp.down_proj.weight", {32, 64});
  add(layer + "self_attn.q_proj.weight", {64, 32});
  add(layer + "self_attn.o_proj.weight", {32, 64});
  for (const char* part : {"k", "v"}) add(layer + "self_attn." + part + "_proj.weight", {32, 32});
  std::string json = Json(std::move(header)).Dump();
  json.resize((json.size() + 7) / 8 * 8, ' ');
  const uint64_t length = json.size();
  const std::string path = folder + "/model.safetensors";
  WriteWholeFile(path, std::string(reinterpret_cast<const char*>(&length), sizeof length) + json);
  fs::resize_file(path, sizeof length + length + end);
}

TEST_F(CancelCallsTest, WhoWaitsForTheModelOfAnotherIsNotKept) {
  const std::string text = InventedText(700, 1);
  IndexOptions name;
  name.name = "quick";
  IndexToAsk(store_.path(), TinyModel(), text, name);
  const TempFolder model;
  for (const auto& file : fs::directory_iterator(TinyModel())) fs::copy(file, model.path());
  name.name = "slow";
  IndexToAsk(store_.path(), model.path(), InventedText(700, 2), name);
  MakeSlow(model.path());

  const auto engine = NewEngine("");
  ASSERT_TRUE(engine->Open("quick").ok());
  // A loaded machine may need longer than `patience` for a call that waits for nobody. Then the other
  // call has not begun to read, and both are made again, with more patience.
  std::chrono::milliseconds patience(20);
  Status loaded;
  for (int attempt = 0; attempt < 6; ++attempt, patience *= 2) {
    CancelFlag cancel_loading = false;
    std::atomic<bool> is_loaded = false;
    std::jthread loading([&] {
      loaded = engine->Open("slow", &cancel_loading).status();
      is_loaded = true;
    });
    // Until the other call loads, this one comes through.
    Status waited;
    while (waited.ok() && !is_loaded) {
      CancelFlag cancel = false;
      std::jthread later([&] {
        std::this_thread::sleep_for(patience);
        cancel = true;
      });
      waited = engine->Open("quick", &cancel).status();
    }
    EXPECT_FALSE(is_loaded) << loaded.message();
    EXPECT_EQ(waited.code(), Code::kCancelled) << waited.message();
    cancel_loading = true;
    loading.join();
    ASSERT_EQ(loaded.code(), Code::kCancelled) << loaded.message();
    if (loaded.message().find("reading the model") != std::string::npos) break;
  }
  // It was still loading.
  EXPECT_NE(loaded.message().find("reading the model"), std::string::npos) << loaded.message();
  EXPECT_TRUE(engine->Open("quick").ok());
}

}  // namespace
}  // namespace lectern
