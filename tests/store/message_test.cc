#include "store/message.h"

#include <gtest/gtest.h>

#include "store/status.h"

namespace lectern {
namespace {

TEST(MessageTest, NamesOptionsAsFieldsAndAsFlags) {
  const Message message =
      "use another " + OptionName("chat_template") + ", or " + OptionName("weights", "q4");
  EXPECT_EQ(message.text(), "use another chat_template, or weights \"q4\"");
  EXPECT_EQ(message.cli_text(), "use another --chat-template, or --weights q4");
}

TEST(MessageTest, KeepsBothWordingsWhereMessagesAreJoined) {
  Message message = "a weight is not finite";
  EXPECT_EQ(message.cli_text(), message.text());
  message += "; run on the CPU (" + OptionName("device", "cpu") + ")";
  message += "; or not";
  EXPECT_EQ(message.text(), "a weight is not finite; run on the CPU (device \"cpu\"); or not");
  EXPECT_EQ(message.cli_text(), "a weight is not finite; run on the CPU (--device cpu); or not");
}

TEST(MessageTest, WhatAUserWroteIsNoOption) {
  const Message message = "there is no file device \"cpu\" (max_ram)";
  EXPECT_EQ(message.cli_text(), "there is no file device \"cpu\" (max_ram)");
}

TEST(MessageTest, AStatusHasBothWordings) {
  const Status status(Code::kOutOfMemory, "the limit (" + OptionName("max_ram") + ") is 9 MiB");
  EXPECT_EQ(status.message(), "the limit (max_ram) is 9 MiB");
  EXPECT_EQ(status.wordings().cli_text(), "the limit (--max-ram) is 9 MiB");
}

}  // namespace
}  // namespace lectern
