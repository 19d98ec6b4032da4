// Rows that do not verify, or that verify and cannot be, found wherever they are met; catalogs on
// media that cannot be written.
#include <gtest/gtest.h>
#include <sqlite3.h>
#include <sys/stat.h>
#include <unistd.h>

#include "store/catalog.h"
#include "tests/store/env_for_tests.h"
#include "tests/store/sample_shard.h"
#include "tests/store/sample_store.h"

namespace lectern {
namespace {

constexpr auto kReadOnly = Catalog::Mode::kReadOnly;
constexpr auto kReadWrite = Catalog::Mode::kReadWrite;

class CatalogDamageTest : public testing::Test {
 protected:
  void SetUp() override {
    const auto catalog = Open();
    for (const uint8_t id : {uint8_t{1}, uint8_t{2}}) {
      DocumentRow row;
      row.id = SampleId(id);
      row.name = id == 1 ? "a" : "";
      row.generation = *catalog->BeginDocument(row);
      ASSERT_TRUE(catalog->CommitDocument(row, {{"document.shard", 1, 2, 3}}, Named(row.name)).ok());
    }
  }
  std::unique_ptr<Catalog> Open() {
    auto catalog = Catalog::Open(Env::Default(), path_, kReadWrite);
    EXPECT_TRUE(catalog.ok()) << catalog.status().message();
    return *std::move(catalog);
  }
  Code OpenCode(Catalog::Mode mode = kReadWrite) {
    return Catalog::Open(Env::Default(), path_, mode).status().code();
  }
  // Runs SQL without any of our checks.
  void Sql(const std::string& sql) const {
    sqlite3* db = nullptr;
    ASSERT_EQ(sqlite3_open(path_.c_str(), &db), SQLITE_OK);
    EXPECT_EQ(sqlite3_exec(db, sql.c_str(), nullptr, nullptr, nullptr), SQLITE_OK) << sql;
    sqlite3_close(db);
  }

  TempDirectory dir_;
  const std::string path_ = dir_ / "catalog.db";
};

TEST_F(CatalogDamageTest, ANameIsNotLookedForBehindADamagedOne) {
  for (const char* change : {"crc=0", "id=x'01'", "id=x''"}) {
    Sql(std::string("UPDATE names SET ") + change);
    const auto catalog = Open();
    EXPECT_EQ(catalog->FindReadyByName("a").status().code(), Code::kCorrupt) << change;
    EXPECT_EQ(catalog->FindReadyByName("other").status().code(), Code::kCorrupt) << change;
    EXPECT_EQ(catalog->FindReady(SampleId(2)).status().code(), Code::kCorrupt) << change;
    EXPECT_TRUE(catalog->Salvage()->damaged) << change;
    EXPECT_EQ(catalog->Salvage()->documents.size(), 2u) << change;
  }
}

TEST_F(CatalogDamageTest, ADocumentIsNotLookedForBehindADamagedOne) {
  for (const char* change : {"state=0", "crc=0", "fingerprint=x''"}) {
    Sql(std::string("UPDATE documents SET ") + change + " WHERE generation=1");
    const auto catalog = Open();
    EXPECT_EQ(catalog->Shards(99).status().code(), Code::kCorrupt) << change;
    EXPECT_EQ(catalog->MarkDead(SampleId(9)).code(), Code::kCorrupt) << change;
    EXPECT_EQ(catalog->ChangeNames(SampleId(9), Named("b")).code(), Code::kCorrupt) << change;
    EXPECT_EQ(catalog->Shards(2)->size(), 1u) << change;
    EXPECT_EQ(catalog->Salvage()->documents.size(), 1u) << change;
  }
}

TEST_F(CatalogDamageTest, LostAndDamagedShardsAreSalvagedWithTheirDocument) {
  for (const char* change : {"UPDATE shards SET header_crc=header_crc+4294967296",
                             "UPDATE shards SET crc=0", "DELETE FROM shards"}) {
    Sql(change);
    EXPECT_EQ(Open()->Shards(1).status().code(), Code::kCorrupt) << change;
    EXPECT_TRUE(Open()->Salvage()->damaged) << change;
  }
}

// Its row verifies, but the file would lie elsewhere.
TEST_F(CatalogDamageTest, AShardIsAPlainName) {
  CatalogEntry entry;
  entry.row.id = SampleId(3);
  entry.row.generation = 7;
  entry.row.state = DocumentState::kReady;
  entry.shards = {{"../x", 1, 2, 3}};
  const auto catalog = Open();
  ASSERT_TRUE(catalog->Adopt({entry}).ok());
  EXPECT_EQ(catalog->Shards(7).status().code(), Code::kCorrupt);
}

TEST_F(CatalogDamageTest, ACounterThatIsLostIsFound) {
  Sql("DELETE FROM counters");
  EXPECT_EQ(Open()->BeginDocument({}).status().code(), Code::kCorrupt);
  EXPECT_EQ(Open()->Adopt({}).code(), Code::kCorrupt);
  EXPECT_TRUE(Open()->Salvage()->damaged);
}

TEST_F(CatalogDamageTest, ANameWithoutDocumentIsNone) {
  Sql("DELETE FROM documents WHERE generation=1");
  EXPECT_FALSE(*Open()->FindReadyByName("a"));
  EXPECT_EQ(Open()->ChangeNames(SampleId(1), Named("b")).code(), Code::kNotFound);
  EXPECT_EQ(Open()->ChangeNames(SampleId(2), {{{"", ""}}, {}, {}, {}}).code(), Code::kInvalidArgument);
}

TEST_F(CatalogDamageTest, SizesBeyondWhatSqliteHoldsAreRefused) {
  const auto catalog = Open();
  for (uint64_t DocumentRow::*const field :
       {&DocumentRow::num_tokens, &DocumentRow::text_bytes, &DocumentRow::replaced_bytes,
        &DocumentRow::bytes_on_disk}) {
    CatalogEntry entry;
    entry.row.*field = uint64_t{1} << 63;
    EXPECT_EQ(catalog->BeginDocument(entry.row).status().code(), Code::kLimitExceeded);
    EXPECT_EQ(catalog->CommitDocument(entry.row, {}).code(), Code::kLimitExceeded);
    EXPECT_EQ(catalog->Adopt({entry}).code(), Code::kLimitExceeded);
  }
}

TEST_F(CatalogDamageTest, OnlyTheDocumentThatWasBegunIsCommitted) {
  const auto catalog = Open();
  DocumentRow row;
  row.id = SampleId(3);
  row.generation = *catalog->BeginDocument(row);
  row.id = SampleId(4);
  EXPECT_EQ(catalog->CommitDocument(row, {}).code(), Code::kNotFound);
  const auto reader = *Catalog::Open(Env::Default(), path_, kReadOnly);
  EXPECT_EQ(reader->Adopt({}).code(), Code::kReadOnly);
}

TEST_F(CatalogDamageTest, WhatIsNearlyOurs) {
  const std::string intact = ReadBytes(path_);
  for (const char* change : {"PRAGMA user_version=0", "PRAGMA user_version=-1",
                             "PRAGMA application_id=1", "DROP TABLE shards"}) {
    WriteBytes(path_, intact);
    Sql(change);
    EXPECT_EQ(OpenCode(), Code::kCorrupt) << change;
    EXPECT_EQ(OpenCode(kReadOnly), Code::kCorrupt) << change;
  }
  EXPECT_EQ(Catalog::Open(Env::Default(), std::string("a\0b", 3), kReadOnly).status().code(),
            Code::kInvalidArgument);
}

// ---- Media ----

class ReadOnlyMedia : public ForwardingEnv {
 public:
  Access AccessTo(const std::string&) override { return Access::kReadOnlyMedia; }
};

TEST_F(CatalogDamageTest, IsReadOnReadOnlyMediaWhateverItsPath) {
  const auto before = std::filesystem::current_path();
  for (const std::string name : {"Plain-9_.x", "50% #1?mode=memory&x", "\xC3\xA9~[`{@/:"}) {
    const std::string odd = dir_ / name;
    ASSERT_TRUE(Env::Default().MakeDirectory(odd).ok());
    std::filesystem::copy_file(path_, odd + "/catalog.db");
    ReadOnlyMedia env;
    std::filesystem::current_path(odd);
    for (const std::string& path : {odd + "/catalog.db", std::string("catalog.db")}) {
      const auto catalog = Catalog::Open(env, path, kReadOnly);
      ASSERT_TRUE(catalog.ok()) << catalog.status().message();
      EXPECT_EQ((*catalog)->List()->size(), 2u);
      EXPECT_TRUE(Catalog::Open(Env::Default(), path, kReadWrite).ok());
    }
    std::filesystem::current_path(before);
    EXPECT_EQ(Catalog::Open(env, odd + "/catalog.db", kReadWrite).status().code(), Code::kReadOnly);
    // Without its journal an unfinished write would be believed.
    WriteBytes(odd + "/catalog.db-journal", "x");
    EXPECT_EQ(Catalog::Open(env, odd + "/catalog.db", kReadOnly).status().code(), Code::kLocked);
  }
}

TEST_F(CatalogDamageTest, AFileThatCannotBeWrittenIsNotOpenedForWriting) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs another user";
  ASSERT_EQ(::chmod(dir_.path().c_str(), 0777), 0);
  ASSERT_EQ(::chmod(path_.c_str(), 0444), 0);
  ASSERT_EQ(::seteuid(65534), 0);
  const Code code = OpenCode();
  ASSERT_EQ(::seteuid(0), 0);
  EXPECT_EQ(code, Code::kReadOnly);
}

}  // namespace
}  // namespace lectern
