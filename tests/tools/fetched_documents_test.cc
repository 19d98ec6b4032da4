// Which documents of a bucket stay in the server's store.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "tools/server/fetched_documents.h"

namespace lectern::server {
namespace {

using Ids = std::vector<std::string>;

TEST(FetchedDocumentsTest, TheLongestUnusedGoesFirst) {
  FetchedDocuments fetched(100);
  fetched.Add("a", 40);
  fetched.Add("b", 30);
  fetched.Add("c", 20);
  EXPECT_EQ(fetched.Victims(10), Ids());
  EXPECT_EQ(fetched.Victims(11), Ids{"a"});
  fetched.Use("a");
  fetched.Use("unknown");
  EXPECT_EQ(fetched.Victims(11), Ids{"b"});
  EXPECT_EQ(fetched.Victims(50), (Ids{"b", "c"}));
  EXPECT_EQ(fetched.Victims(100), (Ids{"b", "c", "a"}));
  EXPECT_EQ(fetched.bytes(), 90u);  // nothing was removed by asking
  fetched.Remove("b");
  EXPECT_EQ(fetched.bytes(), 60u);
  EXPECT_FALSE(fetched.Has("b"));
}

TEST(FetchedDocumentsTest, WhatCannotFitIsRefused) {
  FetchedDocuments fetched(100);
  EXPECT_FALSE(fetched.Victims(101));
  EXPECT_FALSE(fetched.Victims(~uint64_t{0}));
  EXPECT_EQ(fetched.Victims(100), Ids());
}

TEST(FetchedDocumentsTest, OpenDocumentsStay) {
  FetchedDocuments fetched(100);
  fetched.Add("a", 50);
  fetched.Add("b", 50);
  auto open = std::make_shared<int>(1), again = std::make_shared<int>(2);
  fetched.AddOpen("a", open);
  fetched.AddOpen("a", again);
  fetched.AddOpen("unknown", open);
  open.reset();
  EXPECT_EQ(fetched.Victims(50), Ids{"b"});
  EXPECT_FALSE(fetched.Victims(51));
  again.reset();
  EXPECT_EQ(fetched.Victims(51), (Ids{"a", "b"}));
}

TEST(FetchedDocumentsTest, IsReadAsItWasWrittenInTheOrderOfUse) {
  FetchedDocuments fetched(100);
  fetched.Add("a", 50);
  fetched.Add("b", 40);
  fetched.Use("a");
  FetchedDocuments read(100);
  read.Read(fetched.Text() + "\nno number x\n no-id 5\nc\nd 18446744073709551616\n");
  EXPECT_EQ(read.documents(), (Ids{"b", "a"}));
  EXPECT_EQ(read.bytes(), 90u);
  EXPECT_EQ(read.Victims(20), Ids{"b"});
}

}  // namespace
}  // namespace lectern::server
