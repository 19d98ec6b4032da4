#include "engine/indexing/index_progress.h"

#include <gtest/gtest.h>

#include <vector>

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

}  // namespace
}  // namespace lectern
