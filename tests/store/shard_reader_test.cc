#include "store/shard_reader.h"

#include <gtest/gtest.h>

#include <fstream>
#include <functional>
#include <random>
#include <set>
#include <thread>

#include "tests/store/env_for_tests.h"
#include "tests/store/sample_shard.h"
#include "tests/system_differences.h"

namespace lectern {
namespace {

// Opens these bytes and reads everything in them; the first error.
Status ReadAll(const std::string& bytes, const ShardReader::Expected& expected = SampleExpected()) {
  BytesEnv env(bytes);
  LECTERN_ASSIGN(const auto reader, ShardReader::Open(env, "x.shard", expected));
  for (const SectionEntry& s : reader->sections()) {
    LECTERN_RETURN_IF_ERROR(reader->Section(SectionKind{s.kind}, s.kv_head, s.level).status());
  }
  return reader->VerifyAll();
}

Code OpenCode(const std::string& bytes, const ShardReader::Expected& expected = SampleExpected()) {
  BytesEnv env(bytes);
  return ShardReader::Open(env, "x.shard", expected).status().code();
}

// The code for a shard whose header was changed and whose checksums fit.
template <typename Change>
Code OpenChanged(Change change) {
  std::string bytes = SampleShard();
  ShardHeader header;
  std::memcpy(&header, bytes.data(), sizeof header);
  change(header);
  std::memcpy(bytes.data(), &header, sizeof header);
  RepairShard(bytes);
  return OpenCode(bytes);
}

// The same for section `i`.
template <typename Change>
Code OpenChangedSection(size_t i, Change change) {
  std::string bytes = SampleShard();
  ShardHeader header;
  std::memcpy(&header, bytes.data(), sizeof header);
  char* entry = bytes.data() + header.section_table_offset + i * sizeof(SectionEntry);
  SectionEntry section;
  std::memcpy(&section, entry, sizeof section);
  change(section);
  std::memcpy(entry, &section, sizeof section);
  RepairShard(bytes);
  return OpenCode(bytes);
}

std::string RandomBytes(size_t size, std::mt19937& random) {
  std::string bytes(size, '\0');
  for (char& byte : bytes) byte = static_cast<char>(random());
  return bytes;
}

// Empty ones, odd ones, ones that end exactly at a block edge, ones over many blocks.
std::vector<SampleSection> ManySections() {
  std::mt19937 random(2);
  const size_t sizes[] = {0, 1, 63, 64, 65, 0, 5 * kBlockBytes, 3 * kBlockBytes - 1, 100, 0};
  std::vector<SampleSection> sections;
  sections.push_back({SectionKind::kRows, 0, 0, RandomBytes(kBlockBytes - kHeaderBytes, random)});
  uint32_t kind = 2000;
  for (const size_t size : sizes) {
    sections.push_back({SectionKind{kind++}, 9, 9, RandomBytes(size, random)});
  }
  return sections;
}

TEST(ShardReaderTest, ReadsWhatWasWritten) {
  const auto sections = ManySections();
  BytesEnv env(ShardBytes(SampleHeader(), sections));
  const auto reader = ShardReader::Open(env, "x.shard", SampleExpected());
  ASSERT_TRUE(reader.ok()) << reader.status().message();
  ASSERT_EQ((*reader)->sections().size(), sections.size());
  for (const SampleSection& s : sections) {
    const auto bytes = (*reader)->Section(s.kind, s.kv_head, s.level);
    ASSERT_TRUE(bytes.ok()) << bytes.status().message();
    EXPECT_EQ(std::string(reinterpret_cast<const char*>(bytes->data()), bytes->size()), s.bytes);
    EXPECT_EQ((*reader)->Find(s.kind, s.kv_head, s.level)->offset % kSectionAlignment, 0u);
  }
  EXPECT_TRUE((*reader)->VerifyAll().ok());
  EXPECT_EQ((*reader)->header().generation, 7u);
}

TEST(ShardReaderTest, BytesDoNotDependOnHowTheyWereAppended) {
  const auto sections = ManySections();
  TempDirectory temp, dir;
  auto writer = ShardWriter::Create(Env::Default(), temp.path(), dir.path(), "x", SampleHeader());
  ASSERT_TRUE(writer.ok());
  std::mt19937 random(3);
  for (const SampleSection& s : sections) {
    ASSERT_TRUE((*writer)->BeginSection(s.kind, s.kv_head, s.level).ok());
    for (size_t at = 0; at < s.bytes.size();) {
      const size_t n = std::min<size_t>(s.bytes.size() - at, random() % 100000);
      ASSERT_TRUE((*writer)->Append(s.bytes.data() + at, n).ok());
      at += n;
    }
  }
  ASSERT_TRUE((*writer)->Finish().ok());
  EXPECT_EQ(ReadBytes(dir / "x"), ShardBytes(SampleHeader(), sections));
}

TEST(ShardReaderTest, AShardWithoutSectionsIsFine) {
  EXPECT_TRUE(ReadAll(ShardBytes(SampleHeader(), {})).ok());
}

TEST(ShardReaderTest, MissingSectionsAreNotFound) {
  BytesEnv env(SampleShard());
  const auto reader = ShardReader::Open(env, "x.shard", SampleExpected());
  ASSERT_TRUE(reader.ok());
  EXPECT_EQ((*reader)->Find(SectionKind::kRows, 0, 0), nullptr);
  EXPECT_EQ((*reader)->Section(SectionKind::kRows, 0, 0).status().code(), Code::kCorrupt);
  EXPECT_EQ((*reader)->Array<uint64_t>(SectionKind::kPositions, 0, 0).status().code(),
            Code::kCorrupt);
  EXPECT_EQ((*reader)->Array<uint32_t>(SectionKind::kPositions, 0, 0)->size(), 3u);
}

TEST(ShardReaderTest, RejectsEveryTruncation) {
  const std::string whole = SampleShard();
  for (size_t size = 0; size < whole.size(); ++size) {
    const Status status = ReadAll(whole.substr(0, size));
    ASSERT_EQ(status.code(), Code::kTruncated) << size << ": " << status.message();
  }
  for (const size_t more : {1, 4, 64, 4096, 65536, 65540}) {
    ASSERT_EQ(ReadAll(whole + std::string(more, '\0')).code(), Code::kTruncated) << more;
  }
}

TEST(ShardReaderTest, RejectsEveryFlippedByte) {
  const std::string whole = SampleShard();
  ASSERT_TRUE(ReadAll(whole).ok());
  for (size_t i = 0; i < whole.size(); ++i) {
    std::string bytes = whole;
    bytes[i] = static_cast<char>(bytes[i] ^ (1 << i % 8));
    const Code wanted = i < sizeof kShardMagic ? Code::kCorrupt : Code::kChecksumMismatch;
    ASSERT_EQ(ReadAll(bytes).code(), wanted) << "byte " << i;
  }
}

TEST(ShardReaderTest, NoSectionIsReadFromADamagedBlock) {
  std::string bytes = ShardBytes(SampleHeader(), ManySections());
  bytes[3 * kBlockBytes + 5] ^= 1;
  BytesEnv env(bytes);
  const auto reader = ShardReader::Open(env, "x.shard", SampleExpected());
  ASSERT_TRUE(reader.ok());
  const Status status = (*reader)->Section(SectionKind{2006}, 9, 9).status();
  EXPECT_EQ(status.code(), Code::kChecksumMismatch);
  EXPECT_NE(status.message().find("byte 196608"), std::string::npos) << status.message();
  EXPECT_NE(status.message().find("index the document again"), std::string::npos);
  EXPECT_TRUE((*reader)->Section(SectionKind{2007}, 9, 9).ok());
  EXPECT_TRUE((*reader)->Verify(2 * kBlockBytes, kBlockBytes).ok());
  EXPECT_FALSE((*reader)->Verify(2 * kBlockBytes, kBlockBytes + 1).ok());
  EXPECT_FALSE((*reader)->VerifyAll().ok());
}

TEST(ShardReaderTest, VerifiesARangeOnceAndVerifyAllAgain) {
  BytesEnv env(SampleShard());
  const auto reader = ShardReader::Open(env, "x.shard", SampleExpected());
  ASSERT_TRUE(reader.ok() && (*reader)->Verify(0, 1).ok());
  env.bytes[5000] ^= 1;
  EXPECT_TRUE((*reader)->Verify(0, kBlockBytes).ok());
  EXPECT_EQ((*reader)->VerifyAll().code(), Code::kChecksumMismatch);
}

TEST(ShardReaderTest, ReadsAheadWhatIsNotVerified) {
  using Hints = std::vector<std::pair<uint64_t, uint64_t>>;
  BytesEnv env(ShardBytes(SampleHeader(), ManySections()));
  const auto opened = ShardReader::Open(env, "x.shard", SampleExpected());
  ASSERT_TRUE(opened.ok());
  const ShardReader& reader = **opened;
  const uint64_t num_blocks = reader.header().num_blocks;
  ASSERT_GE(num_blocks, 9u);
  // Opening came to the header, and to what is at the end: the tables and the footer.
  ASSERT_EQ(env.will_need.size(), 2u);
  EXPECT_EQ(env.will_need[0], (std::pair<uint64_t, uint64_t>(0, kHeaderBytes)));
  EXPECT_LE(env.will_need[1].first, reader.header().section_table_offset);
  EXPECT_EQ(env.will_need[1].first + env.will_need[1].second, env.bytes.size());

  const double share = reader.verified_share();
  ASSERT_TRUE(reader.Verify(3 * kBlockBytes, 2 * kBlockBytes).ok());
  EXPECT_NEAR(reader.verified_share() - share, 2.0 / static_cast<double>(num_blocks), 1e-12);
  env.will_need.clear();
  reader.ReadAhead(2 * kBlockBytes + 7, 4 * kBlockBytes);  // blocks 2 to 6, without 3 and 4
  EXPECT_EQ(env.will_need,
            (Hints{{2 * kBlockBytes, kBlockBytes}, {5 * kBlockBytes, 2 * kBlockBytes}}));

  ASSERT_TRUE(reader.Verify(0, num_blocks * kBlockBytes).ok());
  EXPECT_EQ(reader.verified_share(), 1);
  env.will_need.clear();
  reader.ReadAhead(0, num_blocks * kBlockBytes);
  EXPECT_EQ(env.will_need, Hints());
}

TEST(ShardReaderTest, WhatIsDroppedIsLoadedAndVerifiedAgain) {
  TempDirectory dir;
  const std::string bytes = ShardBytes(SampleHeader(), ManySections());
  std::string damaged = bytes;
  damaged[3 * kBlockBytes + 5] ^= 1;
  for (const Io io : {Io::kMmap, Io::kPread}) {
    WriteBytes(dir / "x", bytes);
    const auto opened = ShardReader::Open(Env::Default(), dir / "x", SampleExpected(), io);
    ASSERT_TRUE(opened.ok()) << opened.status().message();
    const ShardReader& reader = **opened;
    reader.Drop();  // the section table's block
    EXPECT_EQ(reader.droppable_bytes(), 0u);
    const auto kept = reader.Section(SectionKind{2007}, 9, 9);  // in blocks 6 to 9
    ASSERT_TRUE(kept.ok());
    EXPECT_EQ(reader.droppable_bytes(), 0u);
    EXPECT_TRUE(reader.Verify(2 * kBlockBytes, 2 * kBlockBytes).ok());
    EXPECT_TRUE(reader.Verify(7 * kBlockBytes, 1).ok());
    EXPECT_EQ(reader.droppable_bytes(), 2 * kBlockBytes);
    EXPECT_EQ(
        std::memcmp(reader.data() + 2 * kBlockBytes, &bytes[2 * kBlockBytes], 2 * kBlockBytes), 0);
    reader.Drop();
    EXPECT_EQ(reader.droppable_bytes(), 0u);
    const std::string section = ManySections()[8].bytes;
    ASSERT_EQ(kept->size(), section.size());
    EXPECT_EQ(std::memcmp(kept->data(), section.data(), section.size()), 0);
    // In its place: Windows lets nobody cut off a file that is mapped.
    std::fstream(dir / "x", std::ios::binary | std::ios::in | std::ios::out) << damaged;
    EXPECT_TRUE(reader.Verify(2 * kBlockBytes, 1).ok());
    EXPECT_EQ(reader.Verify(3 * kBlockBytes, 1).code(), Code::kChecksumMismatch);
  }
}

TEST(ShardReaderTest, RangesOutsideOfThePayloadAreRefused) {
  BytesEnv env(SampleShard());
  const auto reader = ShardReader::Open(env, "x.shard", SampleExpected());
  ASSERT_TRUE(reader.ok());
  EXPECT_TRUE((*reader)->Verify(kBlockBytes, 0).ok());
  EXPECT_EQ((*reader)->Verify(kBlockBytes, 1).code(), Code::kCorrupt);
  EXPECT_EQ((*reader)->Verify(1, ~uint64_t{0}).code(), Code::kCorrupt);
  EXPECT_EQ((*reader)->Verify(~uint64_t{0}, 2).code(), Code::kCorrupt);
}

TEST(ShardReaderTest, ThreadsVerifyTogether) {
  BytesEnv env(ShardBytes(SampleHeader(), ManySections()));
  const auto reader = ShardReader::Open(env, "x.shard", SampleExpected());
  ASSERT_TRUE(reader.ok());
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (const SectionEntry& s : (*reader)->sections()) {
        EXPECT_TRUE((*reader)->Section(SectionKind{s.kind}, s.kv_head, s.level).ok());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// Where the block table begins.
size_t TableOffset(const std::string& bytes) {
  return (bytes.size() - sizeof(ShardFooter)) / (kBlockBytes + 4) * kBlockBytes;
}

// Makes the footer fit the block table.
void RepairFooter(std::string& bytes) {
  const size_t table = TableOffset(bytes), end = bytes.size() - sizeof(ShardFooter);
  const uint32_t crc = Crc32c(0, bytes.data() + table, end - table);
  std::memcpy(bytes.data() + end + offsetof(ShardFooter, table_crc), &crc, sizeof crc);
}

TEST(ShardReaderTest, SwappedBlocksFail) {
  std::string bytes =
      ShardBytes(SampleHeader(), {{SectionKind::kRows, 0, 0, std::string(4 * kBlockBytes, '\0')}});
  // Blocks 1 and 2 hold the same bytes, so only their table entries differ: swap them.
  char* entry = bytes.data() + TableOffset(bytes) + 4;
  std::swap_ranges(entry, entry + 4, entry + 4);
  EXPECT_EQ(OpenCode(bytes), Code::kChecksumMismatch);
  RepairFooter(bytes);
  EXPECT_EQ(OpenCode(bytes), Code::kOk);
  EXPECT_EQ(ReadAll(bytes).code(), Code::kChecksumMismatch);
}

TEST(ShardReaderTest, BlocksOfAnotherGenerationFail) {
  ShardHeader old_header = SampleHeader();
  old_header.generation = 6;
  const std::vector<SampleSection> sections = {
      {SectionKind::kRows, 0, 0, std::string(2 * kBlockBytes, 'k')}};
  const std::string old_bytes = ShardBytes(old_header, sections);
  std::string bytes = ShardBytes(SampleHeader(), sections);
  bytes.replace(kBlockBytes, kBlockBytes, old_bytes, kBlockBytes, kBlockBytes);
  const size_t entry = TableOffset(bytes) + 4;
  bytes.replace(entry, 4, old_bytes, entry, 4);
  RepairFooter(bytes);
  EXPECT_EQ(OpenCode(bytes), Code::kOk);
  EXPECT_EQ(ReadAll(bytes).code(), Code::kChecksumMismatch);
}

TEST(ShardReaderTest, RefusesNewerVersionsAndUnknownFeatures) {
  EXPECT_EQ(OpenChanged([](ShardHeader& h) { h.major = 2; }), Code::kUnsupportedVersion);
  EXPECT_EQ(OpenChanged([](ShardHeader& h) { h.major = 0; }), Code::kCorrupt);
  EXPECT_EQ(OpenChanged([](ShardHeader& h) { h.minor = 9; }), Code::kOk);
  EXPECT_EQ(OpenChanged([](ShardHeader& h) { h.required_features = 2; }),
            Code::kUnsupportedVersion);
  EXPECT_EQ(OpenChanged([](ShardHeader& h) { h.required_features = kInParts; }), Code::kCorrupt)
      << "a layer is not in parts";
  EXPECT_EQ(OpenChanged([](ShardHeader& h) { h.optional_features = ~0ull; }), Code::kOk);
}

TEST(ShardReaderTest, RefusesHeadersThatContradictThemselves) {
  EXPECT_EQ(OpenChanged([](ShardHeader&) {}), Code::kOk);
  EXPECT_EQ(OpenChanged([](ShardHeader& h) { h.kind = 3; }), Code::kCorrupt);
  EXPECT_EQ(OpenChanged([](ShardHeader& h) { h.layer = 2; }), Code::kCorrupt);
  EXPECT_EQ(OpenChanged([](ShardHeader& h) { h.num_layers = 4097; }), Code::kCorrupt);
  EXPECT_EQ(OpenChanged([](ShardHeader& h) { h.num_kv_heads = 0; }), Code::kCorrupt);
  EXPECT_EQ(OpenChanged([](ShardHeader& h) { h.head_dim = 4097; }), Code::kCorrupt);
  EXPECT_EQ(OpenChanged([](ShardHeader& h) { h.kv_dtype = 4; }), Code::kCorrupt);
  EXPECT_EQ(OpenChanged([](ShardHeader& h) { h.kv_dtype = 3; }), Code::kCorrupt);  // 2 % 32
  EXPECT_EQ(OpenChanged([](ShardHeader& h) { h.num_levels = 4; }), Code::kCorrupt);
  EXPECT_EQ(OpenChanged([](ShardHeader& h) { h.num_tokens = 1ull << 32; }), Code::kCorrupt);
  EXPECT_EQ(OpenChanged([](ShardHeader& h) { h.block_bytes = 4096; }), Code::kCorrupt);
  EXPECT_EQ(OpenChanged([](ShardHeader& h) { h.num_blocks = 2; }), Code::kCorrupt);
  EXPECT_EQ(OpenChanged([](ShardHeader& h) { h.payload_bytes = 0; }), Code::kCorrupt);
  EXPECT_EQ(OpenChanged([](ShardHeader& h) {
              h.num_blocks = 1ull << 62;  // times 4 wraps to 0
              h.payload_bytes = h.num_blocks * kBlockBytes;
            }),
            Code::kCorrupt);
  EXPECT_EQ(OpenChanged([](ShardHeader& h) {
              h.num_blocks = 1ull << 47;
              h.payload_bytes = h.num_blocks * kBlockBytes;
            }),
            Code::kTruncated);
  EXPECT_EQ(OpenChanged([](ShardHeader& h) { h.num_sections = ~0u; }), Code::kCorrupt);
  EXPECT_EQ(OpenChanged([](ShardHeader& h) { h.num_sections = 1u << 20; }), Code::kCorrupt);
  EXPECT_EQ(OpenChanged([](ShardHeader& h) { h.section_table_offset += 1; }), Code::kCorrupt);
  EXPECT_EQ(OpenChanged([](ShardHeader& h) { h.section_table_offset = 64; }), Code::kCorrupt);
  EXPECT_EQ(OpenChanged([](ShardHeader& h) { h.section_table_offset = ~0ull - 63; }),
            Code::kCorrupt);
}

// A field, how to set it, and what it may be.
struct HeaderField {
  const char* name;
  std::function<void(ShardHeader&, uint64_t)> set;
  int num_bits;
  uint64_t low, high;
  Code code = Code::kCorrupt;
};

// Powers of two, and what lies one below them, that a field of so many bits can hold.
std::set<uint64_t> ValuesAround(int num_bits) {
  const uint64_t all = num_bits == 64 ? ~uint64_t{0} : (uint64_t{1} << num_bits) - 1;
  std::set<uint64_t> values = {0, all};
  for (int bit = 0; bit < num_bits; ++bit) {
    values.insert(uint64_t{1} << bit);
    if (bit % 8 == 0) values.insert((uint64_t{1} << bit) - 1);
  }
  return values;
}

TEST(ShardReaderTest, EveryFieldRefusesEveryValueOutsideOfItsRange) {
  const ShardHeader sample = [] {
    ShardHeader header;
    const std::string bytes = SampleShard();
    std::memcpy(&header, bytes.data(), sizeof header);
    return header;
  }();
#define FIELD(name) \
#name, [](ShardHeader & h, uint64_t v) { h.name = static_cast<decltype(h.name)>(v); }
  const HeaderField fields[] = {
      {FIELD(major), 16, 0, 1, Code::kUnsupportedVersion},
      {FIELD(kind), 32, 2, 2},
      {FIELD(layer), 32, 1, 1},
      {FIELD(generation), 64, 7, 7},
      {FIELD(num_tokens), 64, 0, kMaxTokens},
      {FIELD(num_layers), 32, 2, kMaxLayers},
      {FIELD(num_kv_heads), 32, 2, kMaxHeads},
      {FIELD(head_dim), 32, 1, kMaxHeadDim},
      {FIELD(kv_dtype), 32, 0, 2},
      {FIELD(num_levels), 32, 2, kMaxLevels},
      {FIELD(block_bytes), 32, sample.block_bytes, sample.block_bytes},
      {FIELD(section_table_offset), 64, sample.section_table_offset, sample.section_table_offset},
      {FIELD(required_features), 64, 0, kInParts, Code::kUnsupportedVersion}};
#undef FIELD
  size_t count = 0;
  for (const HeaderField& field : fields) {
    for (const uint64_t value : ValuesAround(field.num_bits)) {
      if (value >= field.low && value <= field.high) continue;
      const Code code = OpenChanged([&](ShardHeader& h) { field.set(h, value); });
      ASSERT_EQ(CodeName(code), CodeName(field.code)) << field.name << " = " << value;
      ++count;
    }
  }
  std::printf("trust: bad shard headers: %zu, each refused with its code\n", count);
  EXPECT_GE(count, 400u);
}

TEST(ShardReaderTest, EverySectionRefusesEveryPlaceOutsideOfThePayload) {
  size_t count = 0;
  const auto expect = [&](size_t section, const auto& change) {
    ASSERT_EQ(CodeName(OpenChangedSection(section, change)), CodeName(Code::kCorrupt)) << section;
    ++count;
  };
  for (const size_t section : {0, 1, 2}) {
    for (int bit = 0; bit < 64; ++bit) {
      const uint64_t power = uint64_t{1} << bit;
      if (bit < 32) {
        expect(section, [&](SectionEntry& s) { s.reserved = static_cast<uint32_t>(power); });
      }
      if (bit >= 1 && bit < 32) {  // the shard has two heads and two levels
        expect(section, [&](SectionEntry& s) { s.kv_head = static_cast<uint32_t>(power); });
        expect(section, [&](SectionEntry& s) { s.level = static_cast<uint32_t>(power) + 1; });
      }
      if (bit < 6 || bit > 16) {
        expect(section, [&](SectionEntry& s) { s.offset ^= power; });
        if (bit > 16) expect(section, [&](SectionEntry& s) { s.bytes += power; });
      }
    }
  }
  std::printf("trust: bad shard sections: %zu, each refused with its code\n", count);
}

TEST(ShardReaderTest, RefusesSectionsThatLieWrong) {
  EXPECT_EQ(OpenChangedSection(0, [](SectionEntry& s) { s.offset = 0; }), Code::kCorrupt);
  EXPECT_EQ(OpenChangedSection(0, [](SectionEntry& s) { s.offset += 1; }), Code::kCorrupt);
  EXPECT_EQ(OpenChangedSection(0, [](SectionEntry& s) { s.bytes = 65; }), Code::kCorrupt);
  EXPECT_EQ(OpenChangedSection(2, [](SectionEntry& s) { s.bytes = ~0ull; }), Code::kCorrupt);
  EXPECT_EQ(OpenChangedSection(2, [](SectionEntry& s) { s.offset = ~0ull - 63; }), Code::kCorrupt);
  EXPECT_EQ(OpenChangedSection(2, [](SectionEntry& s) { s.offset = kBlockBytes; }), Code::kCorrupt);
  EXPECT_EQ(OpenChangedSection(1, [](SectionEntry& s) { s.reserved = 1; }), Code::kCorrupt);
  EXPECT_EQ(OpenChangedSection(1, [](SectionEntry& s) { s.kv_head = 2; }), Code::kCorrupt);
  EXPECT_EQ(OpenChangedSection(1, [](SectionEntry& s) { s.level = 0; }), Code::kCorrupt);
  EXPECT_EQ(OpenChangedSection(0, [](SectionEntry& s) { s.level = 1; }), Code::kCorrupt);
  EXPECT_EQ(OpenChangedSection(1,
                               [](SectionEntry& s) {
                                 s.kind = static_cast<uint32_t>(
                                     SectionKind::kMeanValues);  // as the next one
                               }),
            Code::kCorrupt);
}

TEST(ShardReaderTest, IgnoresUnknownOptionalKindsAndRefusesOthers) {
  EXPECT_EQ(OpenChangedSection(0, [](SectionEntry& s) { s.kind = 5000; }), Code::kOk);
  for (const uint32_t kind : {0u, 1u, 18u, 23u, 30u, 34u, 1023u}) {
    EXPECT_EQ(OpenChangedSection(0, [&](SectionEntry& s) { s.kind = kind; }), Code::kCorrupt);
  }
}

TEST(ShardReaderTest, RefusesTheShardOfSomeoneElse) {
  const std::string bytes = SampleShard();
  const ShardHeader header = SampleHeader();
  auto expected = SampleExpected();
  expected.document_id = header.document_id;
  expected.fingerprint = header.fingerprint;
  EXPECT_EQ(OpenCode(bytes, expected), Code::kOk);

  uint8_t other[32] = {};
  auto wrong = expected;
  wrong.document_id = other;
  EXPECT_EQ(OpenCode(bytes, wrong), Code::kCorrupt);
  wrong = expected;
  wrong.fingerprint = other;
  EXPECT_EQ(OpenCode(bytes, wrong), Code::kCorrupt);
  wrong = expected;
  wrong.generation = 8;
  EXPECT_EQ(OpenCode(bytes, wrong), Code::kCorrupt);
  wrong = expected;
  wrong.layer = 0;
  EXPECT_EQ(OpenCode(bytes, wrong), Code::kCorrupt);
  wrong = expected;
  wrong.kind = ShardKind::kDocument;
  EXPECT_EQ(OpenCode(bytes, wrong), Code::kCorrupt);
  wrong = expected;
  wrong.table_crc = 1;
  EXPECT_EQ(OpenCode(bytes, wrong), Code::kCorrupt);
}

TEST(ShardReaderTest, OpensRegularFilesOnly) {
  TempDirectory dir;
  WriteBytes(dir / "x", SampleShard());
  std::error_code no_link;
  std::filesystem::create_symlink(dir / "x", dir / "link", no_link);
  const bool has_fifo = MakeFifo(dir / "fifo");
  const auto open = [&](const std::string& name) {
    return ShardReader::Open(Env::Default(), dir / name, SampleExpected()).status().code();
  };
  EXPECT_EQ(open("x"), Code::kOk);
  EXPECT_EQ(open("link"), no_link ? Code::kMissingFile : Code::kIoError);
  EXPECT_EQ(open("fifo"), has_fifo ? Code::kIoError : Code::kMissingFile);
  EXPECT_EQ(open("."), Code::kIoError);
  EXPECT_EQ(open("none"), Code::kMissingFile);
}

}  // namespace
}  // namespace lectern
