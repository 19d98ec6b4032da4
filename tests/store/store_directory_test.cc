// The store's directory on a real disk: locks, leases, modes, collection, seal, recovery.
#include <gtest/gtest.h>

#include <fstream>

#include "tests/store/env_for_tests.h"
#include "tests/store/sample_shard.h"
#include "tests/store/sample_store.h"
#include "tests/system_differences.h"

namespace lectern {
namespace {

class StoreDirectoryTest : public testing::Test {
 protected:
  CatalogEntry Add(uint8_t id, const std::string& name) {
    auto entry = AddSampleDocument(env_, store_, SampleId(id), name, "Text of " + name);
    EXPECT_TRUE(entry.ok()) << entry.status().message();
    return *entry;
  }
  std::unique_ptr<Catalog> Open() {
    auto catalog = Catalog::Open(env_, CatalogPath(store_), Catalog::Mode::kReadWrite);
    EXPECT_TRUE(catalog.ok()) << catalog.status().message();
    return *std::move(catalog);
  }
  std::string Directory(const CatalogEntry& entry) const {
    return DocumentDirectory(store_, entry.row.id, entry.row.generation);
  }
  bool Exists(const std::string& path) { return *env_.Exists(path); }

  Env& env_ = Env::Default();
  TempDirectory dir_;
  const std::string store_ = dir_ / "store";
};

TEST_F(StoreDirectoryTest, EverythingBelongsToTheOwnerAlone) {
  Add(1, "a");
  size_t num_files = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(dir_.path())) {
    EXPECT_TRUE(IsPrivate(entry.path())) << entry.path();
    ++num_files;
  }
  EXPECT_EQ(num_files,
            10u);  // store, tmp, docs, id, generation, two shards, catalog, journal, lock
}

TEST_F(StoreDirectoryTest, TheQuotaCountsEveryFileOfTheStore) {
  const CatalogEntry entry = Add(1, "a");
  Add(2, "b");
  WriteBytes(store_ + "/tmp/leftover", std::string(1000, 'x'));
  uint64_t used = 0;
  for (const auto& file : std::filesystem::recursive_directory_iterator(store_)) {
    if (file.is_regular_file()) used += file.file_size();
  }
  EXPECT_EQ(*StoreBytes(env_, store_), used);
  EXPECT_TRUE(CheckQuota(env_, store_, 0, UINT64_MAX).ok());
  EXPECT_TRUE(CheckQuota(env_, store_, used + 5, 5).ok());
  for (const auto& [quota, needed] : {std::pair<uint64_t, uint64_t>(used + 4, 5),
                                      {used - 1, 0},
                                      {1, 1},
                                      {UINT64_MAX, UINT64_MAX}}) {
    const Status status = CheckQuota(env_, store_, quota, needed);
    EXPECT_EQ(status.code(), Code::kNoSpace) << quota << " " << needed;
    EXPECT_EQ(status.param(), "quota");
    for (const uint64_t number : {quota, needed, used}) {
      EXPECT_NE(status.message().find(" " + std::to_string(number) + " "), std::string::npos)
          << status.message();
    }
  }
  // The part of the document itself that is there already counts once.
  const uint64_t part = entry.row.bytes_on_disk;
  EXPECT_TRUE(CheckQuota(env_, store_, used + 5, part + 5, Directory(entry)).ok());
  EXPECT_FALSE(CheckQuota(env_, store_, used + 4, part + 5, Directory(entry)).ok());
  EXPECT_EQ(*StoreBytes(env_, dir_ / "none"), 0u);
}

// Given by mistake: a home, a project, the root of the file system.
TEST_F(StoreDirectoryTest, ADirectoryOfOtherThingsIsLeftAlone) {
  const std::string project = dir_ / "project";
  ASSERT_TRUE(env_.MakeDirectory(project + "/tmp").ok());
  WriteBytes(project + "/tmp/download.part", "not ours");
  const Status refused = LockStore(env_, project).status();
  EXPECT_EQ(refused.code(), Code::kInvalidArgument) << refused.message();
  EXPECT_EQ(refused.param(), "store");
  EXPECT_NE(refused.message().find(project), std::string::npos) << refused.message();
  EXPECT_FALSE(IsOpenStore(env_, project));
  EXPECT_EQ(*env_.List(project), std::vector<std::string>{"tmp"});
  EXPECT_EQ(*env_.List(project + "/tmp"), std::vector<std::string>{"download.part"});

  const std::string disk = dir_ / "disk";
  ASSERT_TRUE(env_.MakeDirectory(disk + "/lost+found").ok());
  EXPECT_TRUE(LockStore(env_, disk).ok());
  EXPECT_TRUE(IsOpenStore(env_, disk));
  WriteBytes(disk + "/notes.txt", "beside a store");
  EXPECT_TRUE(LockStore(env_, disk).ok());
}

TEST_F(StoreDirectoryTest, OneWriterAtATime) {
  auto first = LockStore(env_, store_);
  ASSERT_TRUE(first.ok());
  EXPECT_EQ(LockStore(env_, store_).status().code(), Code::kLocked);
  first->reset();
  EXPECT_TRUE(LockStore(env_, store_).ok());
}

TEST_F(StoreDirectoryTest, LookingForAWriterMakesNoFile) {
  Add(1, "a");
  EXPECT_FALSE(IsLocked(env_, store_));
  {
    const auto lock = LockStore(env_, store_);
    EXPECT_TRUE(IsLocked(env_, store_));
  }
  const std::string file = store_ + "/writer.lock";
  EXPECT_TRUE(env_.Remove(file).ok());
  EXPECT_FALSE(IsLocked(env_, store_));
  EXPECT_FALSE(Exists(file));
}

TEST_F(StoreDirectoryTest, ALeaseKeepsTheFilesOfARemovedDocument) {
  const CatalogEntry entry = Add(1, "a");
  auto lease = env_.LockDirectory(Directory(entry), Lease::kShared);
  ASSERT_TRUE(lease.ok());
  const auto catalog = Open();
  ASSERT_TRUE(RemoveDocument(env_, store_, *catalog, SampleId(1)).ok());
  EXPECT_FALSE(*catalog->FindReady(SampleId(1)));
  EXPECT_TRUE(ReadGeneration(env_, Directory(entry), SampleId(1), 1).ok());
  const auto held = CollectGarbage(env_, store_, *catalog);
  ASSERT_TRUE(held.ok());
  EXPECT_EQ(held->in_use, 1u);
  lease->reset();
  const auto freed = CollectGarbage(env_, store_, *catalog);
  ASSERT_TRUE(freed.ok());
  EXPECT_EQ(freed->generations, 1u);
  EXPECT_FALSE(Exists(ParentDirectory(Directory(entry))));
  EXPECT_TRUE(catalog->List()->empty());
}

TEST_F(StoreDirectoryTest, AReaderKeepsItsGenerationWhileANewOneIsMade) {
  const CatalogEntry old = Add(1, "a");
  auto lease = env_.LockDirectory(Directory(old), Lease::kShared);
  const CatalogEntry next = Add(1, "a");
  EXPECT_GT(next.row.generation, old.row.generation);
  EXPECT_EQ((*Open()->FindReadyByName("a"))->generation, next.row.generation);
  ASSERT_TRUE(CollectGarbage(env_, store_, *Open()).ok());
  EXPECT_TRUE(ReadGeneration(env_, Directory(old), SampleId(1), old.row.generation).ok());
  lease->reset();
  ASSERT_TRUE(CollectGarbage(env_, store_, *Open()).ok());
  EXPECT_FALSE(Exists(Directory(old)));
  EXPECT_TRUE(Exists(Directory(next)));
}

TEST_F(StoreDirectoryTest, CollectsLeftoversAndNothingElse) {
  const CatalogEntry entry = Add(1, "a");
  const auto catalog = Open();
  DocumentRow stopped;  // killed before its first checkpoint, and with one
  stopped.id = SampleId(2);
  stopped.generation = *catalog->BeginDocument(stopped);
  DocumentRow resumable = stopped;
  resumable.generation = *catalog->BeginDocument(resumable);
  const std::string kept = DocumentDirectory(store_, resumable.id, resumable.generation);
  const std::string leftover = DocumentDirectory(store_, SampleId(3), 77);
  ASSERT_TRUE(env_.MakeDirectory(kept).ok() && env_.MakeDirectory(leftover).ok());
  WriteBytes(kept + "/checkpoint", "…");
  WriteBytes(Directory(entry) + "/checkpoint", "…");  // killed after its commit
  WriteBytes(leftover + "/spill-000", "…");
  WriteBytes(store_ + "/tmp/x.part", "…");
  WriteBytes(store_ + "/docs/README", "not ours");
  WriteBytes(store_ + "/tmp/README", "not ours");
  ASSERT_TRUE(env_.MakeDirectory(store_ + "/tmp/folder.part.d").ok());
  const auto collected = CollectGarbage(env_, store_, *catalog);
  ASSERT_TRUE(collected.ok()) << collected.status().message();
  EXPECT_EQ(collected->generations, 2u);
  EXPECT_EQ(collected->files, 2u);
  EXPECT_TRUE(collected->unknown.empty());
  EXPECT_FALSE(Exists(Directory(entry) + "/checkpoint"));
  EXPECT_TRUE(Exists(Directory(entry)) && Exists(kept + "/checkpoint") &&
              Exists(store_ + "/docs/README") && Exists(store_ + "/tmp/README") &&
              Exists(store_ + "/tmp/folder.part.d"));
  EXPECT_FALSE(Exists(leftover) || Exists(store_ + "/tmp/x.part"));
  EXPECT_EQ(catalog->List()->size(), 2u);
}

// An index run after the catalog was lost must not sweep away what it does not know.
TEST_F(StoreDirectoryTest, AWholeDocumentThatTheCatalogLacksIsKeptAndRecovered) {
  const CatalogEntry lost = Add(1, "a");
  std::filesystem::remove(CatalogPath(store_));
  std::filesystem::remove(CatalogPath(store_) + "-journal");
  const auto collected = CollectGarbage(env_, store_, *Open());
  ASSERT_TRUE(collected.ok());
  EXPECT_EQ(collected->unknown, std::vector<std::string>{Directory(lost)});
  const auto recovered =
      RecoverCatalog(env_, store_, [](std::string_view) { return std::string("/m"); });
  ASSERT_TRUE(recovered.ok()) << recovered.status().message();
  EXPECT_FALSE(recovered->replaced);
  const auto row = *Open()->FindReadyByName("a");
  ASSERT_TRUE(row);
  EXPECT_EQ(row->model_path, "/m");
  EXPECT_EQ(row->text_bytes, lost.row.text_bytes);
  EXPECT_GT(Add(2, "b").row.generation, lost.row.generation);
}

TEST_F(StoreDirectoryTest, ANumberThatIsTakenIsNotOverwritten) {
  Add(1, "a");
  std::filesystem::remove(CatalogPath(store_));
  Add(2, "b");  // generation 1 again, of another document
  const auto recovered = RecoverCatalog(env_, store_, nullptr);
  ASSERT_TRUE(recovered.ok());
  ASSERT_EQ(recovered->refused.size(), 1u);
  EXPECT_TRUE(*Open()->FindReadyByName("b"));
}

TEST_F(StoreDirectoryTest, ASealedStoreIsReadAndRefusesWriters) {
  Add(1, "a");
  ASSERT_TRUE(SealStore(env_, store_).ok());
  ASSERT_TRUE(SealStore(env_, store_).ok());
  EXPECT_FALSE(Exists(CatalogPath(store_) + "-journal"));
  EXPECT_TRUE(ReadSampleStore(env_, store_).ok());
  const Status refused = LockStore(env_, store_).status();
  EXPECT_EQ(refused.code(), Code::kReadOnly);
  EXPECT_NE(refused.message().find("SEALED"), std::string::npos);
  std::filesystem::remove(store_ + "/SEALED");
  Add(2, "b");
}

TEST_F(StoreDirectoryTest, WhatIsReadIsNotCollected) {
  const auto catalog = [&] {
    Add(1, "a");
    return Open();
  }();
  DocumentRow begun;
  begun.id = SampleId(2);
  begun.generation = *catalog->BeginDocument(begun);
  const std::string directory = DocumentDirectory(store_, begun.id, begun.generation);
  const std::string leftover = DocumentDirectory(store_, SampleId(3), 77);
  ASSERT_TRUE(env_.MakeDirectory(directory).ok() && env_.MakeDirectory(leftover).ok());
  const auto first = env_.LockDirectory(directory, Lease::kShared);
  const auto second = env_.LockDirectory(leftover, Lease::kShared);
  EXPECT_EQ(CollectGarbage(env_, store_, *catalog)->in_use, 2u);
  EXPECT_EQ(DiscardGeneration(env_, store_, *catalog, begun).code(), Code::kLocked);
  EXPECT_TRUE(Exists(directory) && Exists(leftover));
}

TEST_F(StoreDirectoryTest, WhatBecameReadyIsNotDiscarded) {
  const CatalogEntry entry = Add(1, "a");
  ASSERT_TRUE(DiscardGeneration(env_, store_, *Open(), entry.row).ok());
  EXPECT_TRUE(Exists(Directory(entry)));
  EXPECT_TRUE(*Open()->FindReady(SampleId(1)));
}

TEST_F(StoreDirectoryTest, WeightsThatNoDocumentNeedsAreRemoved) {
  const CatalogEntry entry = Add(1, "a");
  const auto catalog = Open();
  Collected collected;
  ASSERT_TRUE(RemoveUnneededWeights(env_, store_, *catalog, &collected).ok());
  EXPECT_EQ(collected.files, 0u) << "there is no such directory";
  const std::string needed = PackedWeightsPath(store_, entry.row.fingerprint);
  Fingerprint other = entry.row.fingerprint;
  other[0] ^= 1;
  const std::string unneeded = PackedWeightsPath(store_, other);
  const std::string foreign = store_ + "/weights/notes.txt";
  ASSERT_TRUE(env_.MakeDirectory(store_ + "/weights").ok());
  for (const std::string& path : {needed, unneeded, foreign}) std::ofstream(path) << "x";
  ASSERT_TRUE(RemoveUnneededWeights(env_, store_, *catalog, &collected).ok());
  EXPECT_EQ(collected.files, 1u);
  EXPECT_TRUE(Exists(needed) && Exists(foreign));
  EXPECT_FALSE(Exists(unneeded));
}

TEST_F(StoreDirectoryTest, OnlyNumbersAreGenerations) {
  const CatalogEntry entry = Add(1, "a");
  const std::string id = ParentDirectory(Directory(entry));
  for (const char* name : {"x", "1x", "01", "+1", "-1", "99999999999999999999"}) {
    ASSERT_TRUE(env_.MakeDirectory(id + "/" + name).ok());
  }
  const auto collected = CollectGarbage(env_, store_, *Open());
  ASSERT_TRUE(collected.ok());
  EXPECT_EQ(collected->generations, 0u);
  EXPECT_EQ(env_.List(id)->size(), 7u);
}

class SmallDisk : public ForwardingEnv {
 public:
  Result<uint64_t> FreeBytes(const std::string&) override { return uint64_t{17} << 20; }
};

TEST_F(StoreDirectoryTest, SpaceIsNeededBeforeAnythingIsWritten) {
  SmallDisk env;
  EXPECT_TRUE(CheckFreeSpace(env, store_, uint64_t{1} << 20).ok());
  const Status full = CheckFreeSpace(env, store_, uint64_t{2} << 20);
  EXPECT_EQ(full.code(), Code::kNoSpace);
  EXPECT_NE(full.message().find("18 MiB"), std::string::npos) << full.message();
}

// Two documents of one number, both unknown: one of them is taken up, the other named.
TEST_F(StoreDirectoryTest, OfTwoUnknownDocumentsOfOneNumberOneIsTakenUp) {
  const CatalogEntry entry = Add(1, "a");
  std::filesystem::remove(CatalogPath(store_));
  ASSERT_TRUE(env_.MakeDirectory(ParentDirectory(DocumentDirectory(store_, SampleId(2), 1))).ok());
  std::filesystem::copy(Directory(entry), DocumentDirectory(store_, SampleId(2), 1));
  const auto recovered = RecoverCatalog(env_, store_, nullptr);
  ASSERT_TRUE(recovered.ok());
  EXPECT_EQ(recovered->documents.size(), 1u);
  EXPECT_EQ(recovered->refused.size(), 1u);
  WriteBytes(CatalogPath(store_), std::string(8192, 'x'));
  EXPECT_TRUE(RecoverCatalog(env_, store_, nullptr)->replaced);
}

// ---- Shards that verify and are not of one document ----

class ReadGenerationTest : public StoreDirectoryTest {
 protected:
  // Writes document and layer with these headers; the document has the first `num_sections` of
  // text, name and model.
  Status ReadWith(const ShardHeader& document, const ShardHeader& layer, size_t num_sections) {
    std::filesystem::remove_all(directory_);
    LECTERN_RETURN_IF_ERROR(env_.MakeDirectory(directory_));
    const SectionKind kinds[] = {SectionKind::kText, SectionKind::kName, SectionKind::kModel};
    LECTERN_ASSIGN(const auto first,
                   ShardWriter::Create(env_, dir_.path(), directory_, kDocumentFile, document));
    for (size_t i = 0; i < num_sections; ++i) {
      LECTERN_RETURN_IF_ERROR(first->AddSection(kinds[i], 0, 0, "{}", 2));
    }
    LECTERN_RETURN_IF_ERROR(first->Finish().status());
    LECTERN_ASSIGN(const auto second,
                   ShardWriter::Create(env_, dir_.path(), directory_, LayerFile(0), layer));
    LECTERN_RETURN_IF_ERROR(second->Finish().status());
    DocumentId id;
    std::copy_n(document.document_id, id.size(), id.begin());
    return ReadGeneration(env_, directory_, id, document.generation).status();
  }
  const std::string directory_ = dir_ / "generation";
};

TEST_F(ReadGenerationTest, ItsShardsAreComplete) {
  ShardHeader document = SampleHeader();
  document.kind = static_cast<uint32_t>(ShardKind::kDocument);
  document.layer = 0;
  document.num_layers = 1;
  document.num_levels = 0;
  ShardHeader layer = document;
  layer.kind = static_cast<uint32_t>(ShardKind::kLayer);
  const Status whole = ReadWith(document, layer, 3);
  EXPECT_TRUE(whole.ok()) << whole.message();
  for (const size_t num_sections : {0, 1, 2}) {
    EXPECT_EQ(ReadWith(document, layer, num_sections).code(), Code::kCorrupt) << num_sections;
  }
  ShardHeader other = layer;
  other.num_tokens += 1;
  EXPECT_EQ(ReadWith(document, other, 3).code(), Code::kCorrupt);
  other = layer;
  other.num_layers += 1;
  EXPECT_EQ(ReadWith(document, other, 3).code(), Code::kCorrupt);
}

}  // namespace
}  // namespace lectern
