// Shards whose bytes verify but whose parts contradict each other.
#include "index/head_index.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <random>

#include "index/calibrate.h"
#include "store/crc32c.h"
#include "store/shard_layout.h"
#include "store/shard_writer.h"
#include "tests/engine/test_documents.h"
#include "tests/store/env_for_tests.h"

namespace lectern {
namespace {

using testing::ReadWholeFile;
using testing::TempFolder;
using testing::TinyModel;
using testing::WriteWholeFile;

constexpr uint32_t kTokens = 2300;

// The bytes of one layer shard, to be changed; checksums are made right when it is loaded.
class PatchedShard {
 public:
  explicit PatchedShard(std::string bytes) : bytes_(std::move(bytes)) {}

  SectionEntry& Entry(SectionKind kind, uint32_t kv_head, uint32_t level) {
    ShardHeader header;
    std::memcpy(&header, bytes_.data(), sizeof header);
    auto* entries = reinterpret_cast<SectionEntry*>(bytes_.data() + header.section_table_offset);
    for (uint32_t i = 0; i < header.num_sections; ++i) {
      if (entries[i].kind == static_cast<uint32_t>(kind) && entries[i].kv_head == kv_head &&
          entries[i].level == level) {
        return entries[i];
      }
    }
    throw std::runtime_error("no such section");
  }
  std::span<uint32_t> Numbers(SectionKind kind, uint32_t kv_head, uint32_t level) {
    const SectionEntry& entry = Entry(kind, kv_head, level);
    return {reinterpret_cast<uint32_t*>(bytes_.data() + entry.offset), entry.bytes / 4};
  }

  void SetWindow(uint32_t window_size) {
    ChangeHeader([&](ShardHeader& header) { header.window_size = window_size; });
  }
  void SetSinksAndWindow(uint32_t num_sinks, uint32_t num_window) {
    ChangeHeader([&](ShardHeader& header) {
      header.num_sinks = num_sinks;
      header.num_window = num_window;
    });
  }

  Result<HeadIndex> Load(uint32_t kv_head) {
    RepairChecksums();
    const std::string path = folder_.path() + "/layer-000.shard";
    WriteWholeFile(path, bytes_);
    ShardReader::Expected expected{};
    expected.kind = ShardKind::kLayer;
    auto reader = ShardReader::Open(Env::Default(), path, expected);
    if (!reader.ok()) return reader.status();
    reader_ = std::move(reader).value();
    return HeadIndex::Load(*reader_, kv_head);
  }

 private:
  template <typename Change>
  void ChangeHeader(const Change& change) {
    ShardHeader header;
    std::memcpy(&header, bytes_.data(), sizeof header);
    change(header);
    std::memcpy(bytes_.data(), &header, sizeof header);
    header.header_crc = HeaderCrc(bytes_.data());
    std::memcpy(bytes_.data(), &header, sizeof header);
    const uint64_t footer = header.payload_bytes + header.num_blocks * sizeof(uint32_t);
    std::memcpy(bytes_.data() + footer + offsetof(ShardFooter, header_crc), &header.header_crc,
                sizeof header.header_crc);
  }
  void RepairChecksums() {
    ShardHeader header;
    std::memcpy(&header, bytes_.data(), sizeof header);
    std::vector<uint32_t> table(header.num_blocks);
    for (uint64_t i = 0; i < header.num_blocks; ++i) {
      table[i] = Crc32c(BlockSeed(header, i), bytes_.data() + i * kBlockBytes, kBlockBytes);
    }
    std::memcpy(bytes_.data() + header.payload_bytes, table.data(), table.size() * 4);
    const uint32_t crc = Crc32c(0, table.data(), table.size() * 4);
    std::memcpy(
        bytes_.data() + header.payload_bytes + table.size() * 4 + offsetof(ShardFooter, table_crc),
        &crc, sizeof crc);
  }

  TempFolder folder_;
  std::string bytes_;
  std::unique_ptr<ShardReader> reader_;
};

// One layer of a document with 2 kv heads and 2 levels, indexed once; `short_document`: no
// clusters.
const std::string& LayerBytes(bool short_document) {
  static std::string bytes[2];
  if (bytes[short_document].empty()) {
    std::mt19937 engine(1);
    std::vector<int32_t> ids(short_document ? 300 : kTokens);
    for (int32_t& id : ids) id = 3 + static_cast<int32_t>(engine() % 390);
    TempFolder folder;
    testing::TokenDocumentOptions options;
    options.kv_dtype = Dtype::kF16;
    options.by_queries = true;
    testing::IndexTokens(TinyModel(), ids, folder.path(), options);
    bytes[short_document] = ReadWholeFile(folder.path() + "/shards/layer-000.shard");
  }
  return bytes[short_document];
}

// One layer of a document of the bundled reader, whose rows are wide enough for a window's copy.
const std::string& WideLayerBytes() {
  static std::string bytes;
  if (bytes.empty()) {
    std::mt19937 engine(1);
    std::vector<int32_t> ids(kTokens);
    for (int32_t& id : ids) id = 3 + static_cast<int32_t>(engine() % 2000);
    TempFolder folder;
    testing::TokenDocumentOptions options;
    options.kv_dtype = Dtype::kF16;
    options.by_queries = true;
    testing::IndexTokens(testing::ReaderModel(), ids, folder.path(), options);
    bytes = ReadWholeFile(folder.path() + "/shards/layer-000.shard");
  }
  return bytes;
}

// Elements of q8 are off by at most half a step of a 127th of the largest of their block, which the
// scale's own rounding widens a little.
TEST(HeadIndexTest, TheWindowsCopyIsTheWindow) {
  PatchedShard shard(WideLayerBytes());
  const auto head = shard.Load(1);
  ASSERT_TRUE(head.ok()) << head.status().message();
  ASSERT_TRUE(head->has_window_copy());
  ASSERT_TRUE(head->VerifyExact(true).ok());
  ASSERT_EQ(head->num_sinks(), 4u);
  EXPECT_EQ(head->ExactBytes(false), 104u * 2 * 128);
  EXPECT_EQ(head->ExactBytes(true), 4u * 2 * 128 + 100u * 2 * 68);
  const IndexRange exact = {0, 104};
  for (const bool is_key : {true, false}) {
    const TypedRows stored = is_key ? head->Keys(exact) : head->Values(exact);
    const TypedRows copy = is_key ? head->WindowCopyKeys() : head->WindowCopyValues();
    ASSERT_EQ(copy.num_rows, 100u);
    const std::vector<float> truth = testing::Floats(stored), copied = testing::Floats(copy);
    EXPECT_EQ(testing::Floats(is_key ? head->SinkKeys() : head->SinkValues()),
              std::vector<float>(truth.begin(), truth.begin() + 4 * 64));
    for (size_t block = 0; block < copied.size(); block += kQ8Block) {
      float largest = 0;
      for (size_t i = 0; i < kQ8Block; ++i) {
        largest = std::max(largest, std::abs(truth[4 * 64 + block + i]));
      }
      for (size_t i = block; i < block + kQ8Block; ++i) {
        ASSERT_NEAR(copied[i], truth[4 * 64 + i], largest * 0.51f / 127);
      }
    }
  }
}

// Older documents have none.
TEST(HeadIndexTest, AWindowNeedsNoCopy) {
  PatchedShard shard(WideLayerBytes());
  shard.Entry(SectionKind::kWindowCopy, 1, 0).kind = 5000;
  const auto head = shard.Load(1);
  ASSERT_TRUE(head.ok()) << head.status().message();
  EXPECT_FALSE(head->has_window_copy());
}

TEST(HeadIndexTest, AWindowsCopyOfAnotherSizeIsRefused) {
  const auto expect_refused = [](PatchedShard& shard) {
    const Status status = shard.Load(1).status();
    EXPECT_EQ(status.code(), Code::kCorrupt);
    EXPECT_NE(status.message().find("copy of its window"), std::string::npos) << status.message();
  };
  PatchedShard cut(WideLayerBytes());
  cut.Entry(SectionKind::kWindowCopy, 1, 0).bytes -= 34;
  expect_refused(cut);
  // Rows of 16 elements have no q8.
  PatchedShard narrow(LayerBytes(false));
  narrow.Entry(SectionKind::kBlockScores, 1, 0).kind =
      static_cast<uint32_t>(SectionKind::kWindowCopy);
  expect_refused(narrow);
}

TEST(HeadIndexTest, LoadsWhatWasWritten) {
  PatchedShard shard(LayerBytes(false));
  for (const uint32_t kv_head : {0u, 1u}) {
    const auto head = shard.Load(kv_head);
    ASSERT_TRUE(head.ok()) << head.status().message();
    EXPECT_EQ(head->num_rows(), kTokens);
    EXPECT_EQ(head->num_exact(), 104u);
    EXPECT_EQ(head->levels().size(), 2u);
    EXPECT_EQ(head->thresholds().size(), 2 * kThresholdsPerLevel);
    EXPECT_TRUE(head->has_row_codes());
    std::vector<bool> seen(kTokens);
    for (const uint32_t position : head->positions()) {
      EXPECT_FALSE(seen[position]);
      seen[position] = true;
    }
    for (uint32_t i = 0; i < 4; ++i) EXPECT_EQ(head->positions()[i], i);  // the sinks
    for (uint32_t i = 4; i < 104; ++i) EXPECT_EQ(head->positions()[i], kTokens - 104 + i);
    for (const HeadIndex::Level& level : head->levels()) {
      for (size_t i = 0; i < level.num_clusters(); ++i) {
        EXPECT_FLOAT_EQ(std::exp(level.log_counts[i]), static_cast<float>(level.key_counts[i]));
      }
    }
  }
}

TEST(HeadIndexTest, ShortDocumentHasExactRowsOnly) {
  PatchedShard shard(LayerBytes(true));
  const auto head = shard.Load(0);
  ASSERT_TRUE(head.ok()) << head.status().message();
  EXPECT_EQ(head->num_rows(), 300u);
  EXPECT_EQ(head->num_exact(), 300u);
  EXPECT_TRUE(head->levels().empty());
  EXPECT_FALSE(head->has_row_codes());
}

// Those of the last W - 1 tokens, in order.
TEST(HeadIndexTest, ALayerWithAWindowHasItsRowsOnly) {
  PatchedShard shard(LayerBytes(true));
  for (const uint32_t window : {301u, 302u, 1u << 31}) {
    shard.SetWindow(window);
    const auto head = shard.Load(0);
    EXPECT_TRUE(head.ok()) << head.status().message();
  }
  for (const uint32_t window : {1u, 2u, 100u, 300u}) {
    shard.SetWindow(window);
    EXPECT_EQ(shard.Load(0).status().code(), Code::kCorrupt) << window;
  }
  shard.SetWindow(400);
  std::swap(shard.Numbers(SectionKind::kPositions, 0, 0)[5],
            shard.Numbers(SectionKind::kPositions, 0, 0)[6]);
  EXPECT_EQ(shard.Load(0).status().code(), Code::kCorrupt);
}

// Their sum is the number of exact rows modulo 2^32.
TEST(HeadIndexTest, SinksAndWindowAreAddedInSixtyFourBits) {
  PatchedShard shard(LayerBytes(false));
  shard.SetSinksAndWindow(UINT32_MAX - 3, 108);
  const auto head = shard.Load(0);
  EXPECT_EQ(head.status().code(), Code::kCorrupt);
}

// Rows that are gathered one by one are those of their blocks.
TEST(HeadIndexTest, GatheredRowsAreThoseOfTheBlocks) {
  PatchedShard shard(LayerBytes(false));
  const auto head = shard.Load(1);
  ASSERT_TRUE(head.ok());
  std::vector<uint32_t> rows;
  std::vector<std::byte> keys, values, gathered_keys, gathered_values;
  for (uint32_t i = 0; i < head->levels().back().num_clusters(); ++i) {
    const IndexRange block = head->ClusterRows(i);
    ASSERT_TRUE(head->VerifyRows(block).ok());
    for (uint32_t row = block.begin; row < block.end; ++row) {
      if ((row + i) % 3 == 0) continue;
      rows.push_back(row);
      const std::byte* key = head->Keys(block).row(row - block.begin);
      const std::byte* value = head->Values(block).row(row - block.begin);
      keys.insert(keys.end(), key, key + head->Keys(block).row_bytes());
      values.insert(values.end(), value, value + head->Values(block).row_bytes());
    }
  }
  ASSERT_TRUE(head->GatherRows(rows, gathered_keys, gathered_values).ok());
  EXPECT_EQ(gathered_keys, keys);
  EXPECT_EQ(gathered_values, values);
  EXPECT_EQ(head->AsRows(gathered_keys).num_rows, rows.size());
}

// Reading ahead of chosen rows asks for all of them, for nothing far away, and for nothing twice.
TEST(HeadIndexTest, ReadsAheadChosenRows) {
  BytesEnv env(LayerBytes(false));
  ShardReader::Expected expected{};
  expected.kind = ShardKind::kLayer;
  const auto shard = ShardReader::Open(env, "x.shard", expected);
  ASSERT_TRUE(shard.ok()) << shard.status().message();
  const auto head = HeadIndex::Load(**shard, 1);
  ASSERT_TRUE(head.ok()) << head.status().message();
  const auto num_clusters = static_cast<uint32_t>(head->levels().back().num_clusters());
  const IndexRange middle = head->ClusterRows(num_clusters / 2),
                   next = head->ClusterRows(num_clusters / 2 + 1),
                   last = head->ClusterRows(num_clusters - 1);
  const auto is_asked_for = [&](const std::byte* row) {
    const auto at = static_cast<uint64_t>(row - (*shard)->data());
    return std::any_of(env.will_need.begin(), env.will_need.end(), [&](const auto& hint) {
      return hint.first <= at && at < hint.first + hint.second;
    });
  };
  env.will_need.clear();
  head->ReadAheadRows(std::vector<uint32_t>{middle.begin, middle.end - 1, next.begin});
  EXPECT_EQ(env.will_need.size(), 1u);
  for (const IndexRange block : {middle, next}) {
    EXPECT_TRUE(is_asked_for(head->Keys(block).row(0)));
    EXPECT_TRUE(is_asked_for(head->Values(block).row(block.size() - 1)));
  }
  EXPECT_FALSE(is_asked_for(head->Keys(head->ClusterRows(0)).row(0)));
  EXPECT_FALSE(is_asked_for(head->Keys(last).row(0)));

  ASSERT_TRUE(head->VerifyRows(middle).ok());
  env.will_need.clear();
  head->ReadAheadRows(std::vector<uint32_t>{middle.begin});
  head->ReadAheadRows({});
  EXPECT_TRUE(env.will_need.empty());
}

struct Contradiction {
  const char* name;
  const char* message;                 // in part
  void (*patch)(PatchedShard& shard);  // of kv head 1
};

void PrintTo(const Contradiction& contradiction, std::ostream* out) { *out << contradiction.name; }

TEST(HeadIndexTest, AVarianceThatIsNoneIsFoundBeforeItIsUsed) {
  for (const float bad : {-1.0f, NAN, INFINITY}) {
    PatchedShard shard(LayerBytes(false));
    std::memcpy(&shard.Numbers(SectionKind::kVariances, 1, 2)[3], &bad, sizeof bad);
    const auto head = shard.Load(1);
    ASSERT_TRUE(head.ok()) << head.status().message();
    EXPECT_TRUE(head->VerifyCentroids(1, {0, 3}).ok());
    const Status status = head->VerifyCentroids(1, {2, 5});
    EXPECT_EQ(status.code(), Code::kCorrupt);
    EXPECT_NE(status.message().find("layer-000.shard"), std::string::npos);
  }
}

// One kv head of two clusters of two rows, 32 columns: wide enough for q8. `scale` is the second
// cluster's in the section `bad`.
std::unique_ptr<ShardReader> WideShard(const std::string& folder, SectionKind bad, float scale) {
  ShardHeader header{};
  header.kind = static_cast<uint32_t>(ShardKind::kLayer);
  header.generation = 1;
  header.num_tokens = 4;
  header.num_layers = header.num_kv_heads = header.num_levels = 1;
  header.head_dim = kQ8Block;
  header.kv_dtype = static_cast<uint32_t>(Dtype::kF16);
  Env& env = Env::Default();
  auto writer = std::move(ShardWriter::Create(env, folder, folder, "x.shard", header)).value();
  const auto add = [&](SectionKind kind, uint32_t level, const auto& data) {
    const size_t bytes = data.size() * sizeof data[0];
    EXPECT_TRUE(writer->AddSection(kind, 0, level, data.data(), bytes).ok());
  };
  std::vector<std::byte> good(2 * RowBytes(Dtype::kQ8, kQ8Block)), changed = good;
  const f16 number = ToF16(scale);
  std::memcpy(changed.data() + RowBytes(Dtype::kQ8, kQ8Block), &number, sizeof number);
  add(SectionKind::kRows, 0, std::vector<std::byte>(4 * 2 * 2 * kQ8Block));
  add(SectionKind::kPositions, 0, std::vector<uint32_t>{0, 1, 2, 3});
  for (const SectionKind kind : {SectionKind::kCentroids, SectionKind::kMeanValues}) {
    add(kind, 1, kind == bad ? changed : good);
  }
  add(SectionKind::kKeyCounts, 1, std::vector<uint32_t>{2, 2});
  add(SectionKind::kRadii, 1, std::vector<float>{1, 1});
  add(SectionKind::kVariances, 1, std::vector<float>{1, 1});
  add(SectionKind::kChildren, 1, std::vector<uint32_t>{0, 2, 4});
  add(SectionKind::kThresholds, 0, std::vector<float>(kThresholdsPerLevel));
  EXPECT_TRUE(writer->Finish().ok());
  ShardReader::Expected expected{};
  expected.kind = ShardKind::kLayer;
  return std::move(ShardReader::Open(env, folder + "/x.shard", expected)).value();
}

TEST(HeadIndexTest, AScaleThatIsNoneIsFoundBeforeItIsUsed) {
  for (const float scale : {0.5f, -INFINITY, NAN}) {
    for (const SectionKind kind : {SectionKind::kCentroids, SectionKind::kMeanValues}) {
      const TempFolder folder;
      const auto shard = WideShard(folder.path(), kind, scale);
      const auto head = HeadIndex::Load(*shard, 0);
      ASSERT_TRUE(head.ok()) << head.status().message();
      const bool of_centroids = kind == SectionKind::kCentroids;
      const auto verify = [&](IndexRange clusters) {
        return of_centroids ? head->VerifyCentroids(0, clusters)
                            : head->VerifyMeanValues(0, clusters);
      };
      EXPECT_TRUE(verify({0, 1}).ok());
      EXPECT_EQ(verify({1, 2}).code(), std::isfinite(scale) ? Code::kOk : Code::kCorrupt);
    }
  }
}

class HeadIndexCorruptTest : public ::testing::TestWithParam<Contradiction> {};

TEST_P(HeadIndexCorruptTest, IsRefusedNamingTheHead) {
  PatchedShard shard(LayerBytes(false));
  ASSERT_TRUE(shard.Load(1).ok());
  GetParam().patch(shard);
  const auto other = shard.Load(0);
  EXPECT_TRUE(other.ok()) << "the other head is whole: " << other.status().message();
  const auto head = shard.Load(1);
  ASSERT_FALSE(head.ok());
  EXPECT_EQ(head.status().code(), Code::kCorrupt) << head.status().message();
  EXPECT_NE(head.status().message().find("layer-000.shard"), std::string::npos);
  EXPECT_NE(head.status().message().find("kv head 1"), std::string::npos)
      << head.status().message();
  EXPECT_NE(head.status().message().find(GetParam().message), std::string::npos)
      << head.status().message();
}

const Contradiction kContradictions[] = {
    {"PositionOutsideTheDocument", "position",
     [](PatchedShard& s) { s.Numbers(SectionKind::kPositions, 1, 0)[700] = kTokens; }},
    {"FewerPositionsThanRows", "position",
     [](PatchedShard& s) { s.Entry(SectionKind::kPositions, 1, 0).bytes -= 4; }},
    {"RowsCutInsideARow", "rows are cut",
     [](PatchedShard& s) { s.Entry(SectionKind::kRows, 1, 0).bytes -= 2; }},
    {"FewerRowsThanPositions", "position",
     [](PatchedShard& s) { s.Entry(SectionKind::kRows, 1, 0).bytes -= 64; }},
    {"EmptyCluster", "empty cluster",
     [](PatchedShard& s) {
       const auto counts = s.Numbers(SectionKind::kKeyCounts, 1, 2);
       counts[1] += counts[0];
       counts[0] = 0;
     }},
    {"FinestCountsDoNotAddUp", "add up",
     [](PatchedShard& s) { ++s.Numbers(SectionKind::kKeyCounts, 1, 2)[3]; }},
    {"CoarseCountsDoNotAddUp", "add up",
     [](PatchedShard& s) { ++s.Numbers(SectionKind::kKeyCounts, 1, 1)[3]; }},
    {"CountsThatWrapAround", "add up",
     [](PatchedShard& s) {
       s.Numbers(SectionKind::kKeyCounts, 1, 2)[0] += 0x80000000u;
       s.Numbers(SectionKind::kKeyCounts, 1, 2)[1] += 0x80000000u;
     }},
    {"FinestCountIsNotItsRows", "count",
     [](PatchedShard& s) {
       ++s.Numbers(SectionKind::kKeyCounts, 1, 2)[3];
       const auto counts = s.Numbers(SectionKind::kKeyCounts, 1, 2);
       for (uint32_t& count : counts.subspan(4)) {
         if (count > 1) {
           --count;
           return;
         }
       }
     }},
    {"CoarseCountIsNotThatOfItsChildren", "count",
     [](PatchedShard& s) {
       ++s.Numbers(SectionKind::kKeyCounts, 1, 1)[0];
       --s.Numbers(SectionKind::kKeyCounts, 1, 1)[1];
     }},
    {"FewerCountsThanCentroids", "differ in number",
     [](PatchedShard& s) { s.Entry(SectionKind::kKeyCounts, 1, 2).bytes -= 4; }},
    {"FewerMeanValuesThanCentroids", "differ in number",
     [](PatchedShard& s) { s.Entry(SectionKind::kMeanValues, 1, 1).bytes -= 32; }},
    {"FewerCentroidsThanCounts", "differ in number",
     [](PatchedShard& s) { s.Entry(SectionKind::kCentroids, 1, 1).bytes -= 32; }},
    {"ChildrenFall", "partition",
     [](PatchedShard& s) {
       const auto children = s.Numbers(SectionKind::kChildren, 1, 1);
       std::swap(children[2], children[3]);
     }},
    {"ChildrenOfNoOne", "partition",
     [](PatchedShard& s) { s.Numbers(SectionKind::kChildren, 1, 1)[0] = 1; }},
    {"ChildrenBeyondTheLevelBelow", "partition",
     [](PatchedShard& s) { s.Numbers(SectionKind::kChildren, 1, 1).back() += 1; }},
    {"ChildInTheMiddleBeyondTheLevelBelow", "partition",
     [](PatchedShard& s) { s.Numbers(SectionKind::kChildren, 1, 1)[4] = 0xFFFFFFFF; }},
    {"ClusterWithoutChildren", "partition",
     [](PatchedShard& s) {
       const auto children = s.Numbers(SectionKind::kChildren, 1, 1);
       children[2] = children[3];
     }},
    {"RowsThatBeginInTheWindow", "partition",
     [](PatchedShard& s) { s.Numbers(SectionKind::kChildren, 1, 2)[0] -= 1; }},
    {"RowsBeyondTheLast", "partition",
     [](PatchedShard& s) { s.Numbers(SectionKind::kChildren, 1, 2).back() += 1; }},
    {"FewerChildren", "partition",
     [](PatchedShard& s) { s.Entry(SectionKind::kChildren, 1, 2).bytes -= 4; }},
    {"FewerThresholds", "thresholds",
     [](PatchedShard& s) { s.Entry(SectionKind::kThresholds, 1, 0).bytes -= 4; }},
    {"FewerRowCodes", "row code",
     [](PatchedShard& s) { s.Entry(SectionKind::kRowCodes, 1, 0).bytes -= 4; }},
    {"FewerFineCodes", "fine code",
     [](PatchedShard& s) { s.Entry(SectionKind::kFineCodes, 1, 0).bytes -= 4; }},
    {"FewerBlockScores", "one score per block",
     [](PatchedShard& s) { s.Entry(SectionKind::kBlockScores, 1, 0).bytes -= 4; }},
    {"BlockScoresFall", "do not ascend",
     [](PatchedShard& s) { s.Numbers(SectionKind::kBlockScores, 1, 0)[3] = 0x7F000000; }},
    {"ABlockScoreIsNoNumber", "do not ascend",
     [](PatchedShard& s) { s.Numbers(SectionKind::kBlockScores, 1, 0).back() = 0x7FC00000; }},
    {"FewerNumbersOfTheMetric", "metric",
     [](PatchedShard& s) { s.Entry(SectionKind::kQueryMetric, 1, 0).bytes -= 4; }},
    {"ANumberOfTheMetricIsNone", "metric",
     [](PatchedShard& s) { s.Numbers(SectionKind::kQueryMetric, 1, 0)[3] = 0x7E007E00; }},
    {"TheMetricIsSingular", "metric",  // its first number, on the diagonal, is 0
     [](PatchedShard& s) { s.Numbers(SectionKind::kQueryMetric, 1, 0)[0] &= 0xFFFF0000; }},
    {"NoFineCodes", "come together",
     [](PatchedShard& s) { s.Entry(SectionKind::kFineCodes, 1, 0).kind = 5000; }},
};

INSTANTIATE_TEST_SUITE_P(Contradictions, HeadIndexCorruptTest, ::testing::ValuesIn(kContradictions),
                         [](const auto& param) { return param.param.name; });

}  // namespace
}  // namespace lectern
