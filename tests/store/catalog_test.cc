#include "store/catalog.h"
#include "store/catalog_rows.h"

#include <gtest/gtest.h>
#include <sqlite3.h>
#include <sys/stat.h>
#include <unistd.h>

#include <functional>

#include "store/env.h"
#include "tests/store/sample_shard.h"
#include "tests/store/sample_store.h"

namespace lectern {
namespace {

DocumentId Id(uint8_t first) { return DocumentId{first, 1, 2, 3}; }

DocumentRow Row(uint8_t id, const std::string& name) {
  DocumentRow row;
  row.id = Id(id);
  row.name = name;
  row.fingerprint = Fingerprint{9, 8, 7};
  row.model_path = "/models/reader";
  row.num_tokens = 1000u + id;
  row.text_bytes = 5000;
  row.replaced_bytes = 2;
  row.bytes_on_disk = 1u << 20;
  row.report_json = "{\"seconds\":1}";
  return row;
}

std::vector<ShardSummary> SampleShards() {
  return {{"document.shard", 65604, 1, 2}, {"layer-000.shard", 131208, 0xFFFFFFFF, 4}};
}

void ExpectSameRow(const DocumentRow& a, const DocumentRow& b) {
  EXPECT_EQ(a.id, b.id);
  EXPECT_EQ(a.generation, b.generation);
  EXPECT_EQ(a.name, b.name);
  EXPECT_EQ(a.state, b.state);
  EXPECT_EQ(a.fingerprint, b.fingerprint);
  EXPECT_EQ(a.model_path, b.model_path);
  EXPECT_EQ(a.num_tokens, b.num_tokens);
  EXPECT_EQ(a.text_bytes, b.text_bytes);
  EXPECT_EQ(a.replaced_bytes, b.replaced_bytes);
  EXPECT_EQ(a.bytes_on_disk, b.bytes_on_disk);
  EXPECT_EQ(a.report_json, b.report_json);
}

class CatalogTest : public testing::Test {
 protected:
  std::unique_ptr<Catalog> Open(Catalog::Mode mode = Catalog::Mode::kReadWrite) const {
    auto catalog = Catalog::Open(Env::Default(), path_, mode);
    EXPECT_TRUE(catalog.ok()) << catalog.status().message();
    return catalog.ok() ? *std::move(catalog) : nullptr;
  }
  Code OpenCode(Catalog::Mode mode = Catalog::Mode::kReadWrite) const {
    return Catalog::Open(Env::Default(), path_, mode).status().code();
  }

  // Indexes a document; its generation.
  static uint64_t Add(Catalog& catalog, DocumentRow row) {
    const auto generation = catalog.BeginDocument(row);
    EXPECT_TRUE(generation.ok()) << generation.status().message();
    row.generation = *generation;
    const Status status = catalog.CommitDocument(row, SampleShards(), Named(row.name));
    EXPECT_TRUE(status.ok()) << status.message();
    return row.generation;
  }

  // Runs SQL on a connection of its own, without any of our checks.
  void Sql(const std::string& sql) const {
    sqlite3* db = nullptr;
    ASSERT_EQ(sqlite3_open(path_.c_str(), &db), SQLITE_OK);
    char* error = nullptr;
    EXPECT_EQ(sqlite3_exec(db, sql.c_str(), nullptr, nullptr, &error), SQLITE_OK)
        << sql << ": " << (error != nullptr ? error : "");
    sqlite3_free(error);
    sqlite3_close(db);
  }

  TempDirectory dir_;
  const std::string path_ = dir_ / "catalog.db";
};

TEST(DocumentIdTest, HexIsReadAsItIsWritten) {
  const DocumentId id = Id(0xAB);
  EXPECT_EQ(ToHex(id), "ab010203000000000000000000000000");
  EXPECT_EQ(ParseDocumentId(ToHex(id)), id);
  for (const std::string bad : {"", "ab", "AB010203000000000000000000000000",
                                "ab01020300000000000000000000000g",
                                "ab0102030000000000000000000000000"}) {
    EXPECT_EQ(ParseDocumentId(bad), std::nullopt) << bad;
  }
}

TEST_F(CatalogTest, ADocumentIsInvisibleUntilItIsCommitted) {
  auto catalog = Open();
  DocumentRow row = Row(1, "contract.pdf");
  row.generation = *catalog->BeginDocument(row);
  EXPECT_EQ(row.generation, 1u);
  EXPECT_FALSE(*catalog->FindReady(row.id));
  EXPECT_FALSE(*catalog->FindReadyByName("contract.pdf"));
  ASSERT_EQ(catalog->List()->size(), 1u);
  EXPECT_EQ(catalog->List()->front().state, DocumentState::kBuilding);
  EXPECT_TRUE(catalog->Shards(row.generation)->empty());

  ASSERT_TRUE(catalog->CommitDocument(row, SampleShards(), Named(row.name)).ok());
  row.state = DocumentState::kReady;
  for (int reopened = 0; reopened < 2; ++reopened, catalog.reset(), catalog = Open()) {
    ExpectSameRow(**catalog->FindReady(row.id), row);
    ExpectSameRow(**catalog->FindReadyByName("contract.pdf"), row);
    ExpectSameRow(catalog->List()->front(), row);
    const auto shards = *catalog->Shards(row.generation);
    ASSERT_EQ(shards.size(), 2u);
    EXPECT_EQ(shards[1].file, "layer-000.shard");
    EXPECT_EQ(shards[1].bytes, 131208u);
    EXPECT_EQ(shards[1].table_crc, 0xFFFFFFFFu);
    EXPECT_EQ(shards[1].header_crc, 4u);
  }
}

TEST_F(CatalogTest, FilesBelongToTheOwnerAlone) {
  auto catalog = Open();
  Add(*catalog, Row(1, "a"));
  for (const char* name : {"catalog.db", "catalog.db-journal"}) {
    struct stat info {};
    ASSERT_EQ(::stat((dir_ / name).c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 0777, 0600u) << name;
  }
}

TEST_F(CatalogTest, IndexingAgainReplacesTheOlderGeneration) {
  auto catalog = Open();
  const uint64_t first = Add(*catalog, Row(1, "a"));
  const uint64_t second = Add(*catalog, Row(1, ""));
  EXPECT_GT(second, first);
  const auto rows = *catalog->List();
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0].state, DocumentState::kDead);
  EXPECT_EQ(rows[0].name, "");
  EXPECT_EQ(rows[1].state, DocumentState::kReady);
  EXPECT_EQ((*catalog->FindReadyByName("a"))->generation, second);
  EXPECT_EQ((*catalog->FindReady(Id(1)))->name, "a");
}

TEST_F(CatalogTest, ANameMovesToTheDocumentThatTakesIt) {
  auto catalog = Open();
  Add(*catalog, Row(1, "a"));
  Add(*catalog, Row(2, "a"));
  EXPECT_EQ((*catalog->FindReadyByName("a"))->id, Id(2));
  EXPECT_EQ((*catalog->FindReady(Id(1)))->name, "");
  EXPECT_TRUE(catalog->ChangeNames(Id(1), Named("a")).ok());
  EXPECT_EQ((*catalog->FindReadyByName("a"))->id, Id(1));
  EXPECT_EQ(catalog->ChangeNames(Id(3), Named("a")).code(), Code::kNotFound);
  EXPECT_EQ(catalog->ChangeNames(Id(1), {{{"", ""}}, {}, {}, {}}).code(), Code::kInvalidArgument);
}

TEST_F(CatalogTest, NamesAreBytesAndNeverSql) {
  auto catalog = Open();
  const std::string names[] = {"'; DROP TABLE names; --", "ünï\xFF", std::string("a\0b", 3), "a"};
  for (uint8_t i = 0; i < 4; ++i) Add(*catalog, Row(i, names[i]));
  for (uint8_t i = 0; i < 4; ++i) EXPECT_EQ((*catalog->FindReadyByName(names[i]))->id, Id(i));
}

TEST_F(CatalogTest, ADeadDocumentIsGoneAndItsNameFree) {
  auto catalog = Open();
  const uint64_t generation = Add(*catalog, Row(1, "a"));
  EXPECT_TRUE(catalog->MarkDead(Id(1)).ok());
  EXPECT_EQ(catalog->MarkDead(Id(1)).code(), Code::kNotFound);
  EXPECT_FALSE(*catalog->FindReady(Id(1)));
  EXPECT_FALSE(*catalog->FindReadyByName("a"));
  EXPECT_EQ(catalog->List()->front().state, DocumentState::kDead);
  EXPECT_EQ(catalog->Shards(generation)->size(), 2u);
  EXPECT_TRUE(catalog->Forget(generation).ok());
  EXPECT_TRUE(catalog->Forget(generation).ok());
  EXPECT_TRUE(catalog->List()->empty());
  EXPECT_EQ(catalog->Shards(generation).status().code(), Code::kNotFound);
}

TEST_F(CatalogTest, GenerationsAreNeverUsedTwice) {
  auto catalog = Open();
  const uint64_t first = *catalog->BeginDocument(Row(1, "a"));
  EXPECT_TRUE(catalog->Forget(first).ok());
  catalog.reset();
  EXPECT_EQ(*Open()->BeginDocument(Row(1, "a")), first + 1);
}

TEST_F(CatalogTest, WhatWasRemovedMeanwhileCannotBeCommitted) {
  auto catalog = Open();
  DocumentRow row = Row(1, "a");
  row.generation = *catalog->BeginDocument(row);
  EXPECT_TRUE(catalog->MarkDead(row.id).ok());
  EXPECT_EQ(catalog->CommitDocument(row, SampleShards(), Named(row.name)).code(), Code::kNotFound);
  row.generation = 99;
  EXPECT_EQ(catalog->CommitDocument(row, SampleShards(), Named(row.name)).code(), Code::kNotFound);
}

TEST_F(CatalogTest, AFailedCommitChangesNothing) {
  auto catalog = Open();
  Add(*catalog, Row(1, "a"));
  DocumentRow row = Row(2, "a");
  row.generation = *catalog->BeginDocument(row);
  const ShardSummary twice{"document.shard", 1, 2, 3};
  EXPECT_FALSE(catalog->CommitDocument(row, {twice, twice}).ok());
  EXPECT_FALSE(*catalog->FindReady(Id(2)));
  EXPECT_EQ((*catalog->FindReadyByName("a"))->id, Id(1));
  EXPECT_TRUE(catalog->Shards(row.generation)->empty());
  row.text_bytes = ~uint64_t{0};
  EXPECT_EQ(catalog->CommitDocument(row, {}).code(), Code::kLimitExceeded);
  row.text_bytes = 1;
  EXPECT_TRUE(catalog->CommitDocument(row, SampleShards(), Named(row.name)).ok());
}

TEST_F(CatalogTest, TwoConnectionsSeeEachOther) {
  auto writer = Open();
  auto reader = Open(Catalog::Mode::kReadOnly);
  EXPECT_TRUE(reader->List()->empty());
  Add(*writer, Row(1, "a"));
  EXPECT_TRUE((*reader->FindReadyByName("a")).has_value());
  EXPECT_EQ(reader->BeginDocument(Row(2, "b")).status().code(), Code::kReadOnly);
  EXPECT_EQ(reader->MarkDead(Id(1)).code(), Code::kReadOnly);
  EXPECT_EQ(reader->ChangeNames(Id(1), Named("b")).code(), Code::kReadOnly);
  EXPECT_EQ(reader->Forget(1).code(), Code::kReadOnly);
  EXPECT_EQ(reader->CommitDocument(Row(1, "a"), {}).code(), Code::kReadOnly);
  auto second = Open();
  EXPECT_EQ(Add(*second, Row(2, "b")), 2u);
  EXPECT_EQ(Add(*writer, Row(3, "c")), 3u);
  EXPECT_EQ(reader->List()->size(), 3u);
}

TEST_F(CatalogTest, AReaderNeedsAStore) {
  EXPECT_EQ(OpenCode(Catalog::Mode::kReadOnly), Code::kNotFound);
  EXPECT_EQ(Catalog::Open(Env::Default(), dir_ / "none/catalog.db", Catalog::Mode::kReadOnly).status().code(),
            Code::kNotFound);
  EXPECT_EQ(Catalog::Open(Env::Default(), "", Catalog::Mode::kReadOnly).status().code(), Code::kInvalidArgument);
  WriteBytes(path_, "");  // killed before the schema was there
  EXPECT_EQ(OpenCode(Catalog::Mode::kReadOnly), Code::kNotFound);
  EXPECT_EQ(OpenCode(), Code::kOk);
}

TEST_F(CatalogTest, PathsAreNotUris) {
  const std::string odd = dir_ / "50% #1?mode=memory&x";
  ASSERT_TRUE(Env::Default().MakeDirectory(odd).ok());
  const std::string path = odd + "/catalog.db";
  auto catalog = Catalog::Open(Env::Default(), path, Catalog::Mode::kReadWrite);
  ASSERT_TRUE(catalog.ok()) << catalog.status().message();
  Add(**catalog, Row(1, "a"));
  EXPECT_TRUE(std::filesystem::is_regular_file(path));
}

// -- What is not ours, or not any more --

TEST_F(CatalogTest, RefusesForeignDatabases) {
  Sql("CREATE TABLE notes(text); PRAGMA journal_mode=WAL; INSERT INTO notes VALUES('mine')");
  const std::string before = ReadBytes(path_);
  EXPECT_EQ(OpenCode(), Code::kCorrupt);
  EXPECT_EQ(OpenCode(Catalog::Mode::kReadOnly), Code::kCorrupt);
  EXPECT_EQ(ReadBytes(path_), before);
}

TEST_F(CatalogTest, RefusesWhatIsNoDatabase) {
  WriteBytes(path_, std::string(8192, 'x'));
  EXPECT_EQ(OpenCode(), Code::kCorrupt);
  std::filesystem::remove(path_);
  std::filesystem::create_directory(path_);
  EXPECT_EQ(OpenCode(), Code::kCorrupt);
  std::filesystem::remove(path_);
  std::filesystem::create_symlink(dir_ / "elsewhere", path_);
  EXPECT_EQ(OpenCode(), Code::kCorrupt);
}

TEST_F(CatalogTest, RefusesANewerVersion) {
  Open();
  Sql("PRAGMA user_version=4");
  const auto catalog = Catalog::Open(Env::Default(), path_, Catalog::Mode::kReadOnly);
  EXPECT_EQ(catalog.status().code(), Code::kUnsupportedVersion);
  EXPECT_NE(catalog.status().message().find("catalog 4, this build reads up to 3"),
            std::string::npos);
}

TEST_F(CatalogTest, TheSchemaIsTheOneInTheDocument) {
  Open();
  const std::string document = ReadBytes(LECTERN_SOURCE_DIR "/store/FORMAT.md");
  sqlite3* db = nullptr;
  ASSERT_EQ(sqlite3_open(path_.c_str(), &db), SQLITE_OK);
  int num_objects = 0;
  sqlite3_stmt* statement = nullptr;
  ASSERT_EQ(sqlite3_prepare_v2(db, "SELECT sql FROM sqlite_schema", -1, &statement, nullptr), 0);
  for (; sqlite3_step(statement) == SQLITE_ROW; ++num_objects) {
    const std::string sql = reinterpret_cast<const char*>(sqlite3_column_text(statement, 0));
    EXPECT_NE(document.find(sql + "\n"), std::string::npos) << sql;
  }
  EXPECT_EQ(num_objects, 6);
  sqlite3_finalize(statement);
  sqlite3_close(db);
}

// A query with a key searches by an index, whatever the size of the store.
TEST_F(CatalogTest, QueriesWithAKeyScanNoTable) {
  Open();
  sqlite3* db = nullptr;
  ASSERT_EQ(sqlite3_open(path_.c_str(), &db), SQLITE_OK);
  const auto plan_of = [&](const std::string& sql) {
    sqlite3_stmt* statement = nullptr;
    EXPECT_EQ(
        sqlite3_prepare_v2(db, ("EXPLAIN QUERY PLAN " + sql).c_str(), -1, &statement, nullptr),
        SQLITE_OK);
    std::string plan;
    while (sqlite3_step(statement) == SQLITE_ROW) {
      plan += reinterpret_cast<const char*>(sqlite3_column_text(statement, 3));
      plan += "\n";
    }
    sqlite3_finalize(statement);
    return plan;
  };
  for (const auto& [sql, plan] : {
           std::pair(kSelectDocument, "SEARCH documents USING INTEGER PRIMARY KEY (rowid=?)\n"),
           std::pair(kSelectDocumentsById, "SEARCH documents USING INDEX documents_id (id=?)\n"),
           std::pair(kSelectName, "SEARCH names USING PRIMARY KEY (name=?)\n"),
           std::pair(kSelectNamesById, "SEARCH names USING INDEX names_id (id=?)\n"),
           std::pair(kSelectShards, "SEARCH shards USING PRIMARY KEY (generation=?)\n"),
           // Lists, which need no sorting.
           std::pair(kSelectDocuments, "SCAN documents\n"),
           std::pair(kSelectNames, "SCAN names\n"),
       }) {
    EXPECT_EQ(plan_of(sql), plan) << sql;
  }
  sqlite3_close(db);
}

TEST_F(CatalogTest, RefusesATriggerAViewOrATableOfSomeoneElse) {
  for (const std::string sql :
       {"CREATE TRIGGER t AFTER INSERT ON documents BEGIN DELETE FROM names; END",
        "CREATE VIEW v AS SELECT 1", "CREATE TABLE x(y)", "CREATE INDEX i ON documents(id)",
        "DROP TABLE names"}) {
    std::filesystem::remove(path_);
    Open();
    Sql(sql);
    EXPECT_EQ(OpenCode(), Code::kCorrupt) << sql;
    EXPECT_EQ(OpenCode(Catalog::Mode::kReadOnly), Code::kCorrupt) << sql;
  }
}

// Everything that the catalog can be asked, in one text, or the first error.
Result<std::string> Everything(const Catalog& catalog) {
  std::string all;
  LECTERN_ASSIGN(const auto rows, catalog.List());
  for (const DocumentRow& row : rows) {
    LECTERN_ASSIGN(const auto ready, catalog.FindReady(row.id));
    LECTERN_ASSIGN(const auto named, catalog.FindReadyByName(row.name));
    for (const DocumentRow* r :
         {&row, ready ? &*ready : nullptr, named ? &*named : nullptr}) {
      if (r == nullptr) {
        all += "none\n";
        continue;
      }
      all += ToHex(r->id) + ToHex(r->fingerprint) + r->name + r->model_path + r->report_json;
      for (const uint64_t n : {r->generation, static_cast<uint64_t>(r->state), r->num_tokens,
                               r->text_bytes, r->replaced_bytes, r->bytes_on_disk}) {
        all += " " + std::to_string(n);
      }
    }
    LECTERN_ASSIGN(const auto shards, catalog.Shards(row.generation));
    for (const ShardSummary& s : shards) {
      all += s.file + " " + std::to_string(s.bytes) + " " + std::to_string(s.table_crc) + " " +
             std::to_string(s.header_crc) + "\n";
    }
  }
  return all;
}

Result<std::string> Everything(const std::string& path) {
  LECTERN_ASSIGN(const auto catalog, Catalog::Open(Env::Default(), path, Catalog::Mode::kReadOnly));
  return Everything(*catalog);
}

TEST_F(CatalogTest, EveryChangedColumnIsFound) {
  Add(*Open(), Row(1, "a"));
  const std::string intact = ReadBytes(path_);
  const std::string changes[] = {
      "UPDATE documents SET id=x'ff010203000000000000000000000000'",
      "UPDATE documents SET id=x'0101'",
      "UPDATE documents SET state=1",
      "UPDATE documents SET state=7",
      "UPDATE documents SET fingerprint=x'00'",
      "UPDATE documents SET model_path='/models/other'",
      "UPDATE documents SET num_tokens=1",
      "UPDATE documents SET text_bytes=-1",
      "UPDATE documents SET replaced_bytes=0",
      "UPDATE documents SET bytes_on_disk=0",
      "UPDATE documents SET report_json='{}'",
      "UPDATE documents SET num_shards=3",
      "UPDATE documents SET crc=crc+1",
      "UPDATE documents SET crc=crc+4294967296",
      "UPDATE documents SET generation=5",
      "UPDATE names SET name='b'",
      "UPDATE names SET id=x'ff010203000000000000000000000000'",
      "UPDATE names SET crc=0",
      "UPDATE shards SET generation=2 WHERE file='document.shard'",
      "UPDATE shards SET file='../x' WHERE file='document.shard'",
      "UPDATE shards SET bytes=1",
      "UPDATE shards SET table_crc=7",
      "UPDATE shards SET table_crc=table_crc+4294967296",
      "UPDATE shards SET header_crc=7",
      "UPDATE shards SET crc=7",
      "DELETE FROM shards WHERE file='document.shard'"};
  for (const std::string& change : changes) {
    WriteBytes(path_, intact);
    Sql(change);
    const Status status = Everything(path_).status();
    EXPECT_EQ(status.code(), Code::kCorrupt) << change;
    EXPECT_NE(status.message().find("lectern-store recover"), std::string::npos);
  }
  WriteBytes(path_, intact);
  Sql("UPDATE counters SET value=0");
  EXPECT_EQ(Open()->BeginDocument(Row(2, "b")).status().code(), Code::kCorrupt);
}

TEST_F(CatalogTest, ADamagedRowHidesNoIntactOne) {
  auto catalog = Open();
  Add(*catalog, Row(1, "a"));
  Add(*catalog, Row(2, "b"));
  Sql("UPDATE documents SET num_tokens=0 WHERE generation=1");
  EXPECT_EQ(catalog->FindReady(Id(1)).status().code(), Code::kCorrupt);
  EXPECT_NE(catalog->FindReady(Id(1)).status().message().find("table documents, row 1"),
            std::string::npos);
  EXPECT_EQ((*catalog->FindReadyByName("b"))->id, Id(2));
  EXPECT_EQ(catalog->Shards(2)->size(), 2u);
  EXPECT_EQ(catalog->MarkDead(Id(1)).code(), Code::kCorrupt);
  EXPECT_EQ(catalog->List().status().code(), Code::kCorrupt);
  EXPECT_TRUE(catalog->Forget(1).ok());
  EXPECT_EQ(catalog->List()->size(), 1u);
}

// -- Journals and media that cannot be written --

// Copies of the catalog and its journal as a writer killed inside a commit leaves them.
void LeaveHotJournal(const std::string& path) {
  sqlite3* db = nullptr;
  ASSERT_EQ(sqlite3_open(path.c_str(), &db), SQLITE_OK);
  const auto run = [&](const char* sql) {
    ASSERT_EQ(sqlite3_exec(db, sql, nullptr, nullptr, nullptr), SQLITE_OK) << sql;
  };
  run("PRAGMA journal_mode=TRUNCATE; PRAGMA cache_size=1; BEGIN; DELETE FROM shards");
  run("UPDATE documents SET report_json=hex(zeroblob(100000))");  // spills to the file
  const std::string database = ReadBytes(path), journal = ReadBytes(path + "-journal");
  run("ROLLBACK");
  sqlite3_close(db);
  ASSERT_FALSE(journal.empty());
  WriteBytes(path, database);
  WriteBytes(path + "-journal", journal);
}

TEST_F(CatalogTest, AReaderRollsBackWhatAKilledWriterLeft) {
  Add(*Open(), Row(1, "a"));
  const std::string answer = *Everything(path_);
  LeaveHotJournal(path_);
  EXPECT_EQ(*Everything(path_), answer);
}

// Runs `check` as a user who may not write dir_.
void AsOtherUser(const std::string& directory, const std::function<void()>& check) {
  ASSERT_EQ(::chmod(directory.c_str(), 0555), 0);
  const bool is_root = ::geteuid() == 0;
  ASSERT_EQ(is_root ? ::seteuid(65534) : 0, 0);
  check();
  ASSERT_EQ(is_root ? ::seteuid(0) : 0, 0);
  ASSERT_EQ(::chmod(directory.c_str(), 0755), 0);
}

TEST_F(CatalogTest, AStoreThatCannotBeWrittenIsStillRead) {
  Add(*Open(), Row(1, "a"));
  ASSERT_EQ(::chmod(path_.c_str(), 0444), 0);
  ASSERT_EQ(::chmod((path_ + "-journal").c_str(), 0444), 0);
  const std::string answer = *Everything(path_);
  AsOtherUser(dir_.path(), [&] {
    EXPECT_EQ(OpenCode(), Code::kReadOnly);
    const auto all = Everything(path_);
    ASSERT_TRUE(all.ok()) << all.status().message();
    EXPECT_EQ(*all, answer);
  });
}

TEST_F(CatalogTest, AnUnfinishedWriteInAReadOnlyStoreIsNotIgnored) {
  Add(*Open(), Row(1, "a"));
  LeaveHotJournal(path_);
  ASSERT_EQ(::chmod(path_.c_str(), 0444), 0);
  ASSERT_EQ(::chmod((path_ + "-journal").c_str(), 0444), 0);
  AsOtherUser(dir_.path(), [&] {
    const auto all = Everything(path_);
    EXPECT_EQ(all.status().code(), Code::kLocked);
    EXPECT_NE(all.status().message().find("a write was not finished"), std::string::npos)
        << all.status().message();
  });
}

}  // namespace
}  // namespace lectern
