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

TEST(MessagesTest, ShortPathsAreReplacedWhereTheyStandAlone) {
  api::Error error;
  error.message = "s/docs: the question has no text; s: a store, see s";
  EXPECT_EQ(WithoutPaths(error, "s", "t").message,
            "the store/docs: the question has no text; the store: a store, see the store");
  error.message = "/srv/store2 is another one than /srv/store";
  EXPECT_EQ(WithoutPaths(error, "/srv/store", "").message, "store2 is another one than the store");
}

TEST(MessagesTest, PathsMayEndWithASlashAndFollowASign) {
  api::Error error;
  error.message = "/srv/models/ and DIR=/home/u/x, / and // and /tmp/ and /v1/jobs/1";
  EXPECT_EQ(WithoutPaths(error, "", "").message,
            "models/ and DIR=x, / and // and /tmp/ and /v1/jobs/1");
  error.message = "/srv/models///";
  EXPECT_EQ(WithoutPaths(error, "", "").message, "models///");
  error.message = "";
  EXPECT_EQ(WithoutPaths(error, "/a", "/b").message, "");
}

TEST(MessagesTest, DocumentsTellNoPathOfTheMachine) {
  const auto json = ParseJson(
      R"({"documents":[{"model":"/home/u/models/tiny.gguf","adapter":"/srv/a/",)"
      R"("source":"/x/y.txt",)"
      R"("name":"/a/b","names":[{"name":"/a/b","source":"docs/y.txt"}],"tokens":3},)"
      R"({"model":"/usr/share/lectern/reader","adapter":"/x/reader/model/","source":null},)"
      R"({"model":"/model","adapter":"/","source":""}]})");
  ASSERT_TRUE(json.ok());
  EXPECT_EQ(WithoutPaths(*json).Dump(),
            R"({"documents":[{"adapter":"a","model":"tiny.gguf","name":"/a/b",)"
            R"("names":[{"name":"/a/b","source":"docs/y.txt"}],"source":"y.txt","tokens":3},)"
            R"({"adapter":"reader/model","model":"lectern/reader","source":null},)"
            R"({"adapter":"","model":"model","source":""}]})");
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
