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
  const auto engine = api::Engine::Create({.store = "s", .weights = "q5"});
  ASSERT_FALSE(engine.ok());
  EXPECT_EQ(engine.error().message, "weights must be stored, q8 or q4, not \"q5\"");
  EXPECT_EQ(tools::CliMessage(engine.error()), "--weights must be stored, q8 or q4, not \"q5\"");
  EXPECT_EQ(tools::CliMessage({LECTERN_NOT_FOUND, "weights \"x\"", "model"}), "weights \"x\"");
}

}  // namespace
}  // namespace lectern::server
