#include "store/shard_writer.h"

#include <gtest/gtest.h>

#include "tests/store/env_for_tests.h"
#include "tests/store/sample_shard.h"

namespace lectern {
namespace {

// Enough for several blocks and writes.
std::vector<SampleSection> LargeSections() {
  return {{SectionKind::kRows, 0, 0, std::string(3 * kBlockBytes + 17, 'k')},
          {SectionKind::kRows, 1, 0, std::string(100, 'v')}};
}

TEST(ShardWriterTest, AWriterWithoutFinishLeavesNothing) {
  TempDirectory temp, dir;
  {
    auto writer = ShardWriter::Create(Env::Default(), temp.path(), dir.path(), "x", SampleHeader());
    ASSERT_TRUE(writer.ok());
    const std::string bytes(200000, 'k');
    EXPECT_TRUE((*writer)->AddSection(SectionKind::kRows, 0, 0, bytes.data(), bytes.size()).ok());
    EXPECT_EQ(temp.num_files(), 1u);
  }
  EXPECT_EQ(temp.num_files(), 0u);
  EXPECT_EQ(dir.num_files(), 0u);
}

TEST(ShardWriterTest, FinishLeavesJustTheShard) {
  TempDirectory temp, dir;
  const auto summary =
      WriteShard(Env::Default(), temp, dir, SampleHeader(), LargeSections());
  ASSERT_TRUE(summary.ok());
  EXPECT_EQ(summary->file, "layer-001.shard");
  EXPECT_EQ(summary->bytes, ReadBytes(dir / "layer-001.shard").size());
  EXPECT_EQ(temp.num_files(), 0u);
  EXPECT_EQ(dir.num_files(), 1u);
}

TEST(ShardWriterTest, AnyFailingCallGivesItsCodeAndNoFile) {
  FaultEnv counting;
  {
    TempDirectory temp, dir;
    ASSERT_TRUE(WriteShard(counting, temp, dir, SampleHeader(), LargeSections()).ok());
  }
  ASSERT_GT(counting.num_calls, 8);
  for (const Code code : {Code::kNoSpace, Code::kIoError}) {
    for (const bool sticky : {false, true}) {
      for (int call = 0; call < counting.num_calls; ++call) {
        TempDirectory temp, dir;
        FaultEnv env;
        env.fail_at = call;
        env.sticky = sticky;
        env.code = code;
        const auto summary = WriteShard(env, temp, dir, SampleHeader(), LargeSections());
        ASSERT_EQ(summary.status().code(), code) << "call " << call;
        EXPECT_EQ(temp.num_files() + dir.num_files(), 0u) << "call " << call;
      }
    }
  }
}

TEST(ShardWriterTest, CallsAfterAnErrorRepeatIt) {
  TempDirectory temp, dir;
  FaultEnv env;
  env.fail_at = 1;  // the first write
  auto writer = ShardWriter::Create(env, temp.path(), dir.path(), "x", SampleHeader());
  ASSERT_TRUE(writer.ok());
  const std::string bytes(300000, 'k');
  EXPECT_EQ((*writer)->AddSection(SectionKind::kRows, 0, 0, bytes.data(), bytes.size()).code(),
            Code::kNoSpace);
  EXPECT_EQ((*writer)->BeginSection(SectionKind::kRows, 1).code(), Code::kNoSpace);
  EXPECT_EQ((*writer)->Append("x", 1).code(), Code::kNoSpace);
  EXPECT_EQ((*writer)->Finish().status().code(), Code::kNoSpace);
}

TEST(ShardWriterTest, RefusesWhatAReaderWouldRefuse) {
  TempDirectory temp, dir;
  const auto create = [&](const std::string& file, const ShardHeader& header) {
    return ShardWriter::Create(Env::Default(), temp.path(), dir.path(), file, header);
  };
  EXPECT_EQ(create("../x", SampleHeader()).status().code(), Code::kInternal);
  ShardHeader header = SampleHeader();
  header.head_dim = 0;
  EXPECT_EQ(create("x", header).status().code(), Code::kInternal);
  const auto begin = [&](SectionKind kind, uint32_t kv_head, uint32_t level) {
    auto writer = create("x", SampleHeader());
    EXPECT_TRUE((*writer)->BeginSection(SectionKind::kRows, 0, 0).ok());
    return (*writer)->BeginSection(kind, kv_head, level).code();
  };
  EXPECT_EQ(begin(SectionKind::kRows, 1, 0), Code::kOk);
  EXPECT_EQ(begin(SectionKind::kRows, 0, 0), Code::kInternal);       // twice
  EXPECT_EQ(begin(SectionKind::kRows, 2, 0), Code::kInternal);       // no such head
  EXPECT_EQ(begin(SectionKind::kCentroids, 0, 3), Code::kInternal);  // no such level
  EXPECT_EQ(begin(SectionKind::kText, 0, 0), Code::kInternal);       // not in a layer
  EXPECT_EQ(begin(SectionKind{99}, 0, 0), Code::kInternal);
  auto writer = create("x", SampleHeader());
  EXPECT_EQ((*writer)->Append("x", 1).code(), Code::kInternal);
  EXPECT_EQ(temp.num_files(), 0u);
}

TEST(ShardWriterTest, NothingComesAfterFinish) {
  TempDirectory temp, dir;
  auto writer = ShardWriter::Create(Env::Default(), temp.path(), dir.path(), "x", SampleHeader());
  ASSERT_TRUE(writer.ok() && (*writer)->Finish().ok());
  EXPECT_EQ((*writer)->BeginSection(SectionKind::kRows).code(), Code::kInternal);
  EXPECT_EQ((*writer)->Finish().status().code(), Code::kInternal);
}

}  // namespace
}  // namespace lectern
