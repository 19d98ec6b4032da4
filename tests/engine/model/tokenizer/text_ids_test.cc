#include "engine/model/tokenizer/text_ids.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <string>

namespace lectern {
namespace {

TEST(TextIdsTest, FindsWhatAMapFinds) {
  std::mt19937 random(1);
  std::map<std::string, int32_t> expected;  // its nodes stay where they are
  for (const bool has_room : {true, false}) {
    TextIds ids;
    expected.clear();
    EXPECT_EQ(ids.Find("a"), -1);
    if (has_room) ids.Reserve(5000);
    for (int32_t id = 0; id < 5000; ++id) {
      std::string text;
      for (size_t n = random() % 4; n > 0; --n) text += static_cast<char>(random() % 40);
      const auto [at, is_new] = expected.insert_or_assign(text, id);
      ids.Set(at->first, id);
      if (!is_new) ids.Set(std::string(text), id);  // the key that is there stays
    }
    for (const auto& [text, id] : expected) EXPECT_EQ(ids.Find(text), id);
    for (int i = 0; i < 5000; ++i) {
      std::string text;
      for (size_t n = random() % 4; n > 0; --n) text += static_cast<char>(random() % 60);
      const auto at = expected.find(text);
      EXPECT_EQ(ids.Find(text), at == expected.end() ? -1 : at->second);
    }
  }
}

}  // namespace
}  // namespace lectern
