#include <gtest/gtest.h>
#include <sqlite3.h>

#include "store/store.h"
#include "tests/store/older_catalog.h"
#include "tests/store/sample_shard.h"
#include "tests/store/sample_store.h"

namespace lectern {
namespace {

constexpr auto kReading = Catalog::Mode::kReadOnly, kWriting = Catalog::Mode::kReadWrite;

class CatalogNamesTest : public testing::Test {
 protected:
  std::unique_ptr<Catalog> Open(Catalog::Mode mode = kWriting) const {
    auto catalog = Catalog::Open(Env::Default(), path_, mode);
    EXPECT_TRUE(catalog.ok()) << catalog.status().message();
    return catalog.ok() ? *std::move(catalog) : nullptr;
  }

  static uint64_t Add(Catalog& catalog, uint8_t id, const NameChange& change) {
    DocumentRow row;
    row.id = SampleId(id);
    row.generation = *catalog.BeginDocument(row);
    const Status status = catalog.CommitDocument(row, {{"document.shard", 1, 2, 3}}, change);
    EXPECT_TRUE(status.ok()) << status.message();
    return row.generation;
  }

  static NameChange Points(std::vector<DocumentName> names, std::vector<DocumentId> replaced = {}) {
    NameChange change;
    change.names = std::move(names);
    change.replaced = std::move(replaced);
    return change;
  }

  static bool IsThere(const Catalog& catalog, uint8_t id) {
    return catalog.FindReady(SampleId(id))->has_value();
  }

  void Sql(const std::string& sql) const {
    sqlite3* db = nullptr;
    ASSERT_EQ(sqlite3_open(path_.c_str(), &db), SQLITE_OK);
    EXPECT_EQ(sqlite3_exec(db, sql.c_str(), nullptr, nullptr, nullptr), SQLITE_OK) << sql;
    sqlite3_close(db);
  }

  TempDirectory dir_;
  const std::string path_ = dir_ / "catalog.db";
};

TEST_F(CatalogNamesTest, ADocumentGoesWithItsLastName) {
  const auto catalog = Open();
  const DocumentName names[] = {{"lease.txt", "/home/a/lease.txt"}, {"zz.txt", "/home/a/zz.txt"}};
  Add(*catalog, 1, Points({names[1], names[0]}));
  EXPECT_EQ((*catalog->FindReady(SampleId(1)))->names, std::vector(names, names + 2));
  EXPECT_EQ((*catalog->FindReadyByName("zz.txt"))->names.size(), 2u);
  EXPECT_EQ(catalog->List()->front().name, "lease.txt");
  EXPECT_FALSE(*catalog->RemoveName("zz.txt"));
  EXPECT_EQ((*catalog->FindReadyByName("lease.txt"))->names, std::vector(names, names + 1));
  EXPECT_FALSE(*catalog->FindReadyByName("zz.txt"));
  EXPECT_EQ(catalog->RemoveName("zz.txt").status().code(), Code::kNotFound);
  EXPECT_TRUE(*catalog->RemoveName("lease.txt"));
  EXPECT_FALSE(IsThere(*catalog, 1));
  EXPECT_EQ(catalog->List()->front().state, DocumentState::kDead);
}

TEST_F(CatalogNamesTest, WhatIsReplacedGoesUnlessANameIsLeftToIt) {
  const auto catalog = Open();
  Add(*catalog, 1, Points({{"a", "/a"}, {"copy", "/copy"}}));
  Add(*catalog, 2, Points({{"a", "/a"}}, {SampleId(1)}));
  EXPECT_EQ((*catalog->FindReadyByName("a"))->id, SampleId(2));
  EXPECT_EQ((*catalog->FindReadyByName("copy"))->id, SampleId(1)) << "a copy of the old text";
  Add(*catalog, 3, Points({{"a", "/a"}}, {SampleId(2)}));
  EXPECT_FALSE(IsThere(*catalog, 2));
  EXPECT_TRUE(catalog->ChangeNames(SampleId(1), Points({{"a", "/a"}}, {SampleId(3)})).ok());
  EXPECT_FALSE(IsThere(*catalog, 3));
  EXPECT_EQ((*catalog->FindReady(SampleId(1)))->names.size(), 2u);
}

TEST_F(CatalogNamesTest, UnfinishedRunsThatAreAbandonedGo) {
  const auto catalog = Open();
  DocumentRow begun;
  begun.id = SampleId(7);
  const uint64_t generation = *catalog->BeginDocument(begun);
  NameChange change = Points({{"a", "/a"}});
  change.abandoned = {generation};
  const uint64_t ready = Add(*catalog, 1, change);
  EXPECT_EQ(catalog->List()->front().state, DocumentState::kDead);
  change.abandoned = {ready};
  EXPECT_TRUE(catalog->ChangeNames(SampleId(1), change).ok());
  EXPECT_TRUE(IsThere(*catalog, 1)) << "a document that is ready is not abandoned";
}

TEST_F(CatalogNamesTest, AFailedChangeChangesNothing) {
  const auto catalog = Open();
  Add(*catalog, 1, Points({{"a", "/a"}}));
  NameChange change = Points({{"b", "/b"}, {"", "/empty"}}, {SampleId(1)});
  EXPECT_EQ(catalog->ChangeNames(SampleId(1), change).code(), Code::kInvalidArgument);
  EXPECT_FALSE(*catalog->FindReadyByName("b"));
  EXPECT_EQ(Open(kReading)->RemoveName("a").status().code(), Code::kReadOnly);
}

TEST_F(CatalogNamesTest, EveryChangedColumnOfANameIsFound) {
  Add(*Open(), 1, Points({{"a", "/a"}}));
  const std::string intact = ReadBytes(path_);
  for (const char* change : {"name='b'", "source='/b'", "source=''", "crc=0"}) {
    WriteBytes(path_, intact);
    Sql(std::string("UPDATE names SET ") + change);
    EXPECT_EQ(Open()->List().status().code(), Code::kCorrupt) << change;
    EXPECT_EQ(Open()->RemoveName("x").status().code(), Code::kCorrupt) << change;
  }
}

TEST_F(CatalogNamesTest, AllNamesOutliveADamagedCatalog) {
  const std::string store = dir_ / "store";
  ASSERT_TRUE(AddSampleDocument(Env::Default(), store, SampleId(1), "a", "text").ok());
  ASSERT_TRUE(AsWriter(Env::Default(), store, [&](Catalog& catalog) {
                return catalog.ChangeNames(SampleId(1), Points({{"b", "/b"}, {"c", "/c"}}));
              }).ok());
  sqlite3* db = nullptr;
  ASSERT_EQ(sqlite3_open(CatalogPath(store).c_str(), &db), SQLITE_OK);
  ASSERT_EQ(sqlite3_exec(db, "UPDATE names SET crc=0 WHERE name='c'", nullptr, nullptr, nullptr), 0);
  sqlite3_close(db);
  ASSERT_TRUE(RecoverCatalog(Env::Default(), store, nullptr)->replaced);
  const auto catalog = *Catalog::Open(Env::Default(), CatalogPath(store), kReading);
  const std::vector<DocumentName> left = {{"a", ""}, {"b", "/b"}};
  EXPECT_EQ(catalog->List()->front().names, left);
}

// --- catalogs of version 1 ---

class OlderCatalogTest : public CatalogNamesTest {
 protected:
  void SetUp() override {
    const auto catalog = Open();
    Add(*catalog, 1, Points({{"a", "/a"}, {"b", "/b"}}));
    Add(*catalog, 2, Points({{std::string("n\xFF\0x", 4), "/c"}}));
    MakeOlder(Env::Default(), path_);
  }
  static std::string Names(const Catalog& catalog) {
    std::string all;
    const auto rows = *catalog.List();
    for (const DocumentRow& row : rows) {
      for (const DocumentName& name : row.names) all += name.name + "=" + name.source + ";";
      all += "\n";
    }
    return all;
  }
  const std::string names_ = "a=;b=;\n" + std::string("n\xFF\0x", 4) + "=;\n";
};

TEST_F(OlderCatalogTest, AReaderReadsItAsItIs) {
  const std::string before = ReadBytes(path_);
  EXPECT_EQ(Names(*Open(kReading)), names_);
  EXPECT_EQ(ReadBytes(path_), before);
}

TEST_F(OlderCatalogTest, AWriterBringsItUpToDateUnderAReader) {
  const auto reader = Open(kReading);
  EXPECT_EQ(Names(*Open()), names_);
  EXPECT_EQ(Names(*reader), names_);
  EXPECT_EQ((*reader->FindReadyByName("b"))->id, SampleId(1));
  EXPECT_EQ(Names(*Open()), names_);
  EXPECT_TRUE(Open()->ChangeNames(SampleId(1), Points({{"a", "/a"}})).ok());
  EXPECT_EQ((*reader->FindReadyByName("a"))->names.front().source, "/a");
}

TEST_F(OlderCatalogTest, ADamagedNameStaysDamaged) {
  for (const char* change : {"crc=crc+1", "id=x'01'"}) {
    const std::string intact = ReadBytes(path_);
    Sql(std::string("UPDATE names SET ") + change + " WHERE name='b'");
    EXPECT_EQ(Open(kReading)->List().status().code(), Code::kCorrupt) << change;
    EXPECT_EQ(Open()->List().status().code(), Code::kCorrupt) << change;
    EXPECT_EQ((*Open()->FindReadyByName("a"))->id, SampleId(1)) << change;
    WriteBytes(path_, intact);
  }
}

TEST_F(OlderCatalogTest, TablesOfAnotherVersionAreNotLecterns) {
  for (const int version : {2, 3, 4}) {
    Sql("PRAGMA user_version=" + std::to_string(version));
    EXPECT_EQ(Catalog::Open(Env::Default(), path_, kReading).status().code(),
              version < 4 ? Code::kCorrupt : Code::kUnsupportedVersion);
  }
}

TEST_F(CatalogNamesTest, AWriterGivesVersion2ItsIndexesUnderAReader) {
  Add(*Open(), 1, Points({{"a", "/a"}, {"b", "/b"}}));
  MakeVersion2(Env::Default(), path_);
  const auto reader = Open(kReading);
  EXPECT_EQ((*reader->FindReadyByName("b"))->names.size(), 2u);
  Add(*Open(), 2, Points({{"c", "/c"}}));
  EXPECT_EQ((*reader->FindReadyByName("c"))->id, SampleId(2));
  EXPECT_EQ(Open(kReading)->List()->size(), 2u);
}

}  // namespace
}  // namespace lectern
