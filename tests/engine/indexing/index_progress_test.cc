#include "engine/indexing/index_progress.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "engine/engine.h"
#include "tests/engine/test_documents.h"

namespace lectern {
namespace {

// Asking whether to stop also reports progress, once a tenth of a second has passed.
TEST(IndexProgressTest, NeverTellsMoreThanThereIs) {
  std::vector<IndexProgress> told;
  IndexOptions options;
  options.on_progress = [&](const IndexProgress& progress) {
    told.push_back(progress);
    return true;
  };
  ModelConfig config;
  config.num_layers = config.num_heads = config.num_kv_heads = 2;
  config.hidden_size = config.intermediate_size = 8;
  config.head_dim = 4;
  IndexProgressMeter meter(options, config, 5000, 1);
  const auto wait = [] { std::this_thread::sleep_for(std::chrono::milliseconds(110)); };
  meter.Begin(IndexProgress::Stage::kCluster, 0, 4);
  for (int i = 0; i < 4; ++i) meter.Clustered();
  wait();
  EXPECT_FALSE(meter.Stopped());
  ASSERT_EQ(told.size(), 2u);
  EXPECT_EQ(told.back().done, 4u);
  // Clustered heads are no part of what is written.
  meter.Begin(IndexProgress::Stage::kWrite, 0, 1);
  wait();
  EXPECT_FALSE(meter.Stopped());
  ASSERT_EQ(told.size(), 4u);
  EXPECT_EQ(told.back().done, 0u);
  EXPECT_EQ(told.back().total, 1u);
}

// A run that goes on where another one stopped has done what that one did.
TEST(IndexProgressTest, LayersOfAnEarlierRunCount) {
  const testing::TempFolder store;
  const auto engine =
      std::move(
          Engine::Create({.store = store.path(), .model = testing::TinyModel(), .num_threads = 2}))
          .value();
  const std::string text = testing::InventedText(9000, 1);
  IndexOptions options;
  options.on_progress = [](const IndexProgress& progress) {
    return progress.stage != IndexProgress::Stage::kWrite;  // all layers are clustered by then
  };
  ASSERT_EQ(engine->Index(text, options).status().code(), Code::kCancelled);
  std::vector<IndexProgress> told;
  options.on_progress = [&](const IndexProgress& progress) {
    if (progress.stage == IndexProgress::Stage::kCluster) told.push_back(progress);
    return true;
  };
  const auto report = engine->Index(text, options);
  ASSERT_TRUE(report.ok()) << report.status().message();
  EXPECT_EQ(report->resumed_tokens, report->tokens);
  ASSERT_GE(told.size(), 2u);
  EXPECT_EQ(told.front().total, 4u);  // two layers of two kv heads
  for (size_t i = 1; i < told.size(); ++i) EXPECT_GE(told[i].done, told[i - 1].done);
  EXPECT_EQ(told.back().done, told.back().total);
}

}  // namespace
}  // namespace lectern
