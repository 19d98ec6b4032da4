#include "tools/server/messages.h"

#include <gtest/gtest.h>

#include "tools/terminal.h"

namespace lectern::server {
namespace {

TEST(MessagesTest, TellNoPathOfTheMachine) {
  api::Error error;
  error.message =
      "document \"a\" was indexed with model 01ab (/srv/models/tiny, weights stored), but "
      "/home/u/.ollama/models/blobs/sha256-12, weights q8, is 02cd; see /store/docs/x and "
      "/v1/documents/a or /metrics: 3/4 done, and/or /";
  EXPECT_EQ(WithoutPaths(error, "/store", "/srv/models/other").message,
            "document \"a\" was indexed with model 01ab (tiny, weights stored), but "
            "sha256-12, weights q8, is 02cd; see the store/docs/x and "
            "/v1/documents/a or /metrics: 3/4 done, and/or /");
}

TEST(MessagesTest, ReplaceWhatTheServerWasGiven) {
  api::Error error;
  error.message = "/tmp/upload-1: /srv/m/config.json: \"vocab_size\" is missing";
  EXPECT_EQ(WithoutPaths(error, "/store", "/srv/m", "/tmp/upload-1").message,
            "the upload: the model/config.json: \"vocab_size\" is missing");
}

TEST(MessagesTest, ToolsNameFlagsWhereTheLibraryNamesFields) {
  EXPECT_EQ(tools::WithFlags("use a smaller model, or weights of fewer bits (weights \"q4\")"),
            "use a smaller model, or weights of fewer bits (--weights q4)");
  EXPECT_EQ(tools::WithFlags("free some or give another store"),
            "free some or give another --store");
  EXPECT_EQ(tools::WithFlags("chat_template \"llama3\"; device \"cpu\""),
            "--chat-template llama3; --device cpu");
  for (const char* const same :
       {"LECTERN_weights \"x\"", "stats \"open", "the store is empty", ""}) {
    EXPECT_EQ(tools::WithFlags(same), same);
  }
}

}  // namespace
}  // namespace lectern::server
