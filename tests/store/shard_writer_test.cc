#include "store/shard_writer.h"

#include <gtest/gtest.h>

#include "kernels/types.h"
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
  const auto summary = WriteShard(Env::Default(), temp, dir, SampleHeader(), LargeSections());
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
  EXPECT_EQ(begin(SectionKind::kThresholds, 1, 0), Code::kOk);
  header = SampleHeader();
  header.kv_dtype = static_cast<uint32_t>(Dtype::kQ8);
  EXPECT_EQ(create("x", header).status().code(), Code::kInternal);  // head_dim 2
  header.head_dim = kQ8Block;
  header.kind = static_cast<uint32_t>(ShardKind::kDocument);
  header.layer = 0;
  EXPECT_EQ((*create("x", header))->BeginSection(SectionKind::kRows).code(), Code::kInternal);
  EXPECT_EQ((*create("x", header))->BeginSection(SectionKind{99}).code(), Code::kInternal);
  EXPECT_EQ((*create("x", header))->BeginSection(SectionKind::kText).code(), Code::kOk);
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

// Blocks fill up at any call: sections that end just before a block does, and many of them.
TEST(ShardWriterTest, AnyFailingCallOfManySectionsGivesItsCode) {
  ShardHeader header = SampleHeader();
  header.num_kv_heads = 1000;
  std::vector<SampleSection> sections = {
      {SectionKind::kRows, 0, 0, std::string(kBlockBytes - kHeaderBytes - 1, 'a')},
      {SectionKind::kRows, 1, 0, std::string(kBlockBytes, 'b')},
      {SectionKind::kRows, 2, 0, std::string(kBlockBytes - 1, 'c')}};
  for (uint32_t head = 3; head < 999; ++head) {
    sections.push_back({SectionKind::kRows, head, 0, "d"});
  }
  const size_t left = kBlockBytes - 996 * kSectionAlignment % kBlockBytes;
  sections.push_back({SectionKind::kRows, 999, 0, std::string(left - 1, 'e')});
  TempDirectory temp, dir;
  FaultEnv counting;
  ASSERT_TRUE(WriteShard(counting, temp, dir, header, sections).ok());
  for (int call = 0; call < counting.num_calls; ++call) {
    std::filesystem::remove(dir / "layer-001.shard");
    FaultEnv env;
    env.fail_at = call;
    EXPECT_EQ(WriteShard(env, temp, dir, header, sections).status().code(), Code::kNoSpace) << call;
    EXPECT_EQ(temp.num_files() + dir.num_files(), 0u) << call;
  }
}

}  // namespace
}  // namespace lectern
