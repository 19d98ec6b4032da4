#include "engine/document/document_names.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "engine/document/find_document.h"
#include "engine/document/parts.h"
#include "engine/indexing/estimate_index.h"
#include "engine/indexing/index_document.h"
#include "engine/indexing/index_input.h"
#include "engine/model/formats/path_text.h"
#include "engine/requests/absolute_path.h"
#include "store/store.h"
#include "tests/engine/test_documents.h"
#include "tests/store/older_catalog.h"
#include "tests/store/sample_shard.h"
#include "tests/system_differences.h"

namespace lectern {
namespace {

using testing::InventedText;
using testing::TinyModel;

constexpr char kNfc[] = "Caf\xC3\xA9.txt", kNfd[] = "Cafe\xCC\x81.txt";

DocumentId Id(uint8_t first) { return DocumentId{first, 1, 2, 3}; }

// Sources in these tests begin with a slash. The code under test gets absolute paths of the system.
std::string Rooted(const std::string& path) {
  return path.starts_with('/') ? PathFromRoot(path) : path;
}
// The same way back, for names and messages.
std::string Unrooted(std::string text) {
  const std::string root = PathFromRoot("/");
  for (size_t at = text.find(root); at != text.npos; at = text.find(root, at + 1)) {
    text.replace(at, root.size(), "/");
  }
  return text;
}

DocumentRow Row(uint8_t id, std::vector<DocumentName> names) {
  for (DocumentName& name : names) name.source = Rooted(name.source);
  DocumentRow row;
  row.id = Id(id);
  row.generation = id;
  row.state = DocumentState::kReady;
  row.names = std::move(names);
  if (!row.names.empty()) row.name = row.names.front().name;
  return row;
}

NamePlan Plan(const std::vector<DocumentRow>& rows, uint8_t id, const std::string& source,
              const std::string& name = "", const std::string& path = "") {
  NamePlan plan =
      PlanNames(rows, {.name = name, .source = Rooted(source), .path = Rooted(path)}, Id(id));
  plan.note = Unrooted(plan.note);
  for (DocumentName& given : plan.change.names) given.source = Unrooted(given.source);
  for (auto& [given, other] : plan.change.others) given.source = Unrooted(given.source);
  return plan;
}

std::string Given(const NamePlan& plan) {
  std::string all;
  for (const DocumentName& name : plan.change.names) {
    all += (all.empty() ? "" : " ") + name.name + "=" + name.source;
  }
  return all;
}

TEST(NameFormTest, NamesAreOneInNfcAndHaveNoInvalidBytes) {
  EXPECT_EQ(NameForm(kNfd), kNfc);
  EXPECT_EQ(NameForm(kNfc), kNfc);
  EXPECT_EQ(NameForm("caf\xE9"), "caf\xEF\xBF\xBD");
  EXPECT_TRUE(IsEndOfPath("b/x.txt", "/a/b/x.txt"));
  EXPECT_TRUE(IsEndOfPath(kNfc, std::string("/a/") + kNfd));
  EXPECT_TRUE(IsEndOfPath("/a/x", "/a/x"));
  for (const char* other : {"", "/x.txt", "bb/x.txt", "a/x.txt", ".txt"}) {
    EXPECT_FALSE(IsEndOfPath(other, "/a/b/x.txt") && std::string(other) != "/x.txt") << other;
  }
}

TEST(PathTextTest, SlashesAtTheEndGoButThoseOfTheRootStay) {
  EXPECT_EQ(WithoutEndSlashes("a/b//"), "a/b");
  EXPECT_EQ(WithoutEndSlashes("/a/"), "/a");
  EXPECT_EQ(WithoutEndSlashes("/"), "/");
  EXPECT_EQ(WithoutEndSlashes(""), "");
  EXPECT_EQ(WithoutEndSlashes("C:/"), kIsWindows ? "C:/" : "C:");
  EXPECT_EQ(WithoutEndSlashes("//server/share/"), "//server/share");
  EXPECT_EQ(WithoutEndSlashes("//"), kIsWindows ? "//" : "/");
  EXPECT_EQ(TextOf(PathOf("//server/share/a").parent_path()),
            kIsWindows ? "//server/share" : "/server/share");
  EXPECT_EQ(ForwardSlashes("C:\\a/b"), kIsWindows ? "C:/a/b" : "C:\\a/b");
}

TEST(PathTextTest, PathsOfWindowsKeepTheirDriveOrMachine) {
  if (!kIsWindows) GTEST_SKIP() << "names with backslashes are names here";
  EXPECT_EQ(AbsolutePath("C:\\a\\..\\b\\"), "C:/b");
  EXPECT_EQ(AbsolutePath("C:\\"), "C:/");
  EXPECT_EQ(AbsolutePath("\\\\server\\share\\a\\..\\b"), "//server/share/b");
  EXPECT_EQ(AbsolutePath("\\\\?\\C:\\a"), "C:/a");
  EXPECT_EQ(AbsolutePath("\\\\?\\UNC\\server\\share\\a"), "//server/share/a");
  EXPECT_EQ(RootOf("C:/a"), "C:/");
  EXPECT_EQ(RootOf("C:a"), "C:");
  EXPECT_EQ(RootOf("//server/a"), "//");
  EXPECT_EQ(RootOf("/a"), "/");
}

TEST(PlanNamesTest, AFileIsNamedAfterItsBaseName) {
  const NamePlan plan = Plan({}, 1, "/a/x.txt");
  EXPECT_EQ(Given(plan), "x.txt=/a/x.txt");
  EXPECT_EQ(plan.name, "x.txt");
  EXPECT_EQ(plan.note, "");
  EXPECT_FALSE(Plan({Row(1, {{"x.txt", "/a/x.txt"}})}, 1, "/a/x.txt").IsChange());
}

TEST(PlanNamesTest, ATextWithoutNameAndSourceHasNone) {
  EXPECT_FALSE(Plan({}, 1, "").IsChange());
  EXPECT_EQ(Plan({Row(1, {{"x", "/x"}})}, 1, "").name, "x");
}

TEST(PlanNamesTest, AnotherFileOfThatNameHasItsFolders) {
  std::vector<DocumentRow> rows = {Row(1, {{"x.txt", "/a/x.txt"}})};
  const NamePlan plan = Plan(rows, 2, "/w/b/x.txt");
  EXPECT_EQ(Given(plan), "b/x.txt=/w/b/x.txt");
  EXPECT_EQ(plan.note, "named \"b/x.txt\", as \"x.txt\" is /a/x.txt");
  EXPECT_TRUE(plan.change.replaced.empty());
  // The folder would not tell it from the first.
  EXPECT_EQ(Plan(rows, 2, "/v/a/x.txt").name, "v/a/x.txt");
  EXPECT_EQ(Plan(rows, 2, "/v/w/a/x.txt").name, "w/a/x.txt");
  rows.push_back(Row(2, {{"b/x.txt", "/w/b/x.txt"}}));
  EXPECT_EQ(Plan(rows, 3, "/v/b/x.txt").name, "v/b/x.txt");
  // It has a name, and keeps it also when the shorter one is free.
  EXPECT_FALSE(Plan({rows[1]}, 2, "/w/b/x.txt").IsChange());
}

TEST(PlanNamesTest, TheNextVersionTakesOverTheNames) {
  const std::vector<DocumentRow> rows = {
      Row(1, {{"contract", "/a/x.txt"}, {"copy", "/c/copy"}, {"x.txt", "/a/x.txt"}})};
  const NamePlan plan = Plan(rows, 2, "/a/x.txt");
  EXPECT_EQ(Given(plan), "contract=/a/x.txt x.txt=/a/x.txt");
  EXPECT_EQ(plan.name, "x.txt");
  ASSERT_TRUE(plan.before);
  EXPECT_EQ(plan.before->id, Id(1));
  EXPECT_EQ(plan.change.replaced, std::vector<DocumentId>{Id(1)});
  EXPECT_EQ(Plan(rows, 2, "/a/x.txt", "contract").name, "contract");
  EXPECT_EQ(Given(Plan(rows, 2, "/a/x.txt", "contract")), Given(plan));
}

TEST(PlanNamesTest, AnotherNameForAFileStandsBesideIt) {
  const std::vector<DocumentRow> rows = {Row(1, {{"x.txt", "/a/x.txt"}})};
  const NamePlan plan = Plan(rows, 2, "/a/x.txt", "draft");
  EXPECT_EQ(Given(plan), "draft=/a/x.txt");
  EXPECT_FALSE(plan.before);
  EXPECT_EQ(Given(Plan(rows, 1, "/a/x.txt", "draft")), "draft=/a/x.txt");
}

TEST(PlanNamesTest, TheSameBytesFromElsewhereAreAnotherName) {
  const std::vector<DocumentRow> rows = {Row(1, {{"lease.txt", "/a/lease.txt"}})};
  EXPECT_EQ(Given(Plan(rows, 1, "/a/zz.txt")), "zz.txt=/a/zz.txt");
  EXPECT_EQ(Given(Plan(rows, 1, "/b/lease.txt")), "b/lease.txt=/b/lease.txt");
  EXPECT_TRUE(Plan(rows, 1, "/a/zz.txt").change.replaced.empty());
}

TEST(PlanNamesTest, ALinkIsAnotherNameOfTheFile) {
  const std::vector<DocumentRow> rows = {Row(1, {{"x.txt", "/a/x.txt"}})};
  EXPECT_EQ(Given(Plan(rows, 1, "/a/x.txt", "", "/l/current.txt")), "current.txt=/a/x.txt");
  const NamePlan next = Plan(rows, 2, "/a/x.txt", "", "/l/current.txt");
  EXPECT_EQ(Given(next), "x.txt=/a/x.txt current.txt=/a/x.txt");
  EXPECT_EQ(next.name, "current.txt");
  // A store of blobs: the link has the name.
  EXPECT_EQ(Plan({}, 2, "/blobs/3f2a", "", "/l/doc.txt").name, "doc.txt");
}

TEST(PlanNamesTest, AnotherFormOfUnicodeIsTheSameName) {
  const std::vector<DocumentRow> rows = {Row(1, {{kNfc, std::string("/a/") + kNfc}})};
  EXPECT_EQ(Plan(rows, 2, std::string("/a/") + kNfd).name, std::string(kNfc) + " (2)");
  EXPECT_EQ(Plan(rows, 2, std::string("/b/") + kNfd).name, std::string("b/") + kNfc);
  EXPECT_EQ(Plan({}, 2, "/a/caf\xE9").name, "caf\xEF\xBF\xBD");
}

TEST(PlanNamesTest, ANameThatIsItsOwnSourceIsReplacedUnderIt) {
  const std::vector<DocumentRow> rows = {Row(1, {{kNfc, kNfc}})};
  const NamePlan plan = Plan(rows, 2, "", kNfd);
  EXPECT_EQ(Given(plan), std::string(kNfc) + "=" + kNfc);
  EXPECT_EQ(plan.change.replaced, std::vector<DocumentId>{Id(1)});
}

TEST(PlanNamesTest, ANameAlonePushesNoFileAside) {
  std::vector<DocumentRow> rows = {Row(1, {{"x.txt", "/a/x.txt"}})};
  EXPECT_EQ(Given(Plan(rows, 2, "", "x.txt")), "x.txt (2)=x.txt");
  EXPECT_FALSE(Plan(rows, 1, "", "x.txt").IsChange()) << "the same bytes have the name";
  rows.push_back(Row(2, {{"x.txt (2)", "x.txt"}}));
  EXPECT_EQ(Given(Plan(rows, 3, "", "x.txt")), "x.txt (2)=x.txt");
  EXPECT_EQ(Plan(rows, 3, "", "x.txt").change.replaced, std::vector<DocumentId>{Id(2)});
  EXPECT_FALSE(Plan(rows, 2, "", "x.txt").IsChange());
}

TEST(PlanNamesTest, ANameThatIsAskedForIsTakenAndItsDocumentNamedAfterItsFile) {
  const std::vector<DocumentRow> rows = {Row(1, {{"contract", "/a/v1.txt"}})};
  const NamePlan plan = Plan(rows, 2, "/a/v2.txt", "contract");
  EXPECT_EQ(Given(plan), "contract=/a/v2.txt");
  ASSERT_EQ(plan.change.others.size(), 1u);
  EXPECT_EQ(plan.change.others[0].first, (DocumentName{"v1.txt", "/a/v1.txt"}));
  EXPECT_EQ(plan.change.others[0].second, Id(1));
  EXPECT_EQ(plan.note, "\"contract\" was /a/v1.txt, which is named \"v1.txt\" now");
  EXPECT_TRUE(plan.change.replaced.empty());
  // One with another name needs no new one; one whose file has that name gets its folder.
  EXPECT_TRUE(Plan({Row(1, {{"contract", "/a/v1"}, {"v1", "/a/v1"}})}, 2, "/a/v2", "contract")
                  .change.others.empty());
  EXPECT_EQ(Plan({Row(1, {{"x", "/a/x"}})}, 2, "/b/y", "x").change.others[0].first.name, "a/x");
}

TEST(PlanNamesTest, ANameOfUnknownSourceMovesAndItsDocumentStays) {
  const std::vector<DocumentRow> rows = {Row(1, {{"x.txt", ""}})};
  const NamePlan same = Plan(rows, 1, "/a/x.txt");
  EXPECT_EQ(Given(same), "x.txt=/a/x.txt");
  EXPECT_EQ(same.note, "");
  for (const NamePlan& plan : {Plan(rows, 2, "/a/x.txt"), Plan(rows, 2, "", "x.txt")}) {
    EXPECT_EQ(plan.name, "x.txt");
    EXPECT_TRUE(plan.change.replaced.empty());
    EXPECT_NE(plan.note.find(ToHex(Id(1))), std::string::npos);
  }
}

// Every catalog of two documents with up to two names each, of names and sources that get into each
// other's way: where the document alone tells the plan, it is the plan of the whole catalog.
TEST(PlanNamesTest, AKnownNameIsPlannedAsFromTheWholeCatalog) {
  const std::vector<std::string> names = {"x.txt", "b/x.txt", "lease", "d.txt"};
  const std::vector<std::string> sources = {"/a/x.txt", "/w/b/x.txt", "", "lease"};
  const std::vector<std::string> paths = {"", "/l/d.txt", "b/x.txt", "/w/b/x.txt"};
  std::vector<DocumentName> all;
  for (const std::string& name : names) {
    for (const std::string& source : sources) all.push_back({name, source});
  }
  size_t num_known = 0;
  for (size_t code = 0; code < all.size() * all.size() * all.size(); ++code) {
    const DocumentName &first = all[code % 16], &second = all[code / 16 % 16],
                       &other = all[code / 256];
    if (first.name >= second.name || other.name == first.name || other.name == second.name)
      continue;
    const std::vector<DocumentRow> rows = {Row(1, {first, second}), Row(2, {other})};
    for (const std::string& source : sources) {
      for (const std::string& path : paths) {
        const auto known =
            PlanKnownName(rows[0], {.name = "", .source = Rooted(source), .path = Rooted(path)});
        if (!known) continue;
        ++num_known;
        const NamePlan plan = Plan(rows, 1, source, "", path);
        EXPECT_FALSE(plan.IsChange()) << code;
        EXPECT_EQ(known->name, plan.name) << code;
        EXPECT_EQ(known->source, plan.source) << code;
        EXPECT_EQ(plan.note, "") << code;
        EXPECT_FALSE(plan.before) << code;
      }
    }
  }
  EXPECT_GT(num_known, 500u);
  const DocumentRow row = Row(1, {{"x.txt", "/a/x.txt"}});
  EXPECT_TRUE(PlanKnownName(row, {.name = "", .source = Rooted("/a/x.txt"), .path = ""}));
  EXPECT_FALSE(PlanKnownName(row, {.name = "x.txt", .source = Rooted("/a/x.txt"), .path = ""}));
  EXPECT_FALSE(PlanKnownName(row, {.name = "", .source = Rooted("/b/x.txt"), .path = ""}));
}

TEST(PlanNamesTest, NamesThatWouldBeIdsOrAreTooLongHaveFolders) {
  const std::string hex = ToHex(Id(1)), long_name(1100, 'x');
  EXPECT_EQ(Plan({}, 2, "/a/" + hex).name, "a/" + hex);
  EXPECT_LE(Plan({}, 2, "/a/" + long_name).name.size(), 1024u);
  EXPECT_FALSE(CheckName(hex).ok());
  EXPECT_FALSE(CheckName(long_name).ok());
  EXPECT_FALSE(CheckName("\xFF").ok());
  EXPECT_TRUE(CheckName("").ok());
}

TEST(PlanNamesTest, AFileCalledLikeAPartIsNoPart) {
  const std::string part = PartName(Id(1), 0);
  const NamePlan plan = Plan({}, 2, "/a/" + part);
  EXPECT_FALSE(WholeOf(plan.name)) << plan.name;
  EXPECT_TRUE(CheckName(plan.name).ok());
}

TEST(FindByNameTest, ANameOrTheEndOfAPathThatFitsOne) {
  const std::vector<DocumentRow> rows = {Row(1, {{"x.txt", "/w/a/x.txt"}}),
                                         Row(2, {{"b/x.txt", "/w/b/x.txt"}}),
                                         Row(3, {{"c/b/x.txt", "/w/c/b/x.txt"}}),
                                         Row(4, {{kNfd, ""}}), Row(5, {{"lease", "/w/y.txt"}})};
  const auto find = [&](const std::string& text) -> int {
    const auto found = FindByName(rows, text);
    EXPECT_TRUE(found.ok()) << found.status().message();
    return found.ok() && *found ? (*found)->id[0] : 0;
  };
  EXPECT_EQ(find("x.txt"), 1);
  EXPECT_EQ(find("b/x.txt"), 2);
  EXPECT_EQ(find("a/x.txt"), 1);
  EXPECT_EQ(find("/w/b/x.txt"), 2);
  EXPECT_EQ(find(kNfc), 4);
  EXPECT_EQ(find("w/y.txt"), 5);
  EXPECT_EQ(find("y.txt"), 0) << "a base name alone may have been another document's";
  EXPECT_EQ(find("z/x.txt"), 0);
  EXPECT_EQ(find("b\\x.txt"), kIsWindows ? 2 : 0) << "a backslash parts folders on Windows alone";
  EXPECT_EQ(find("w\\y.txt"), kIsWindows ? 5 : 0);
  const auto which = FindByName({rows[1], rows[2]}, "x.txt");
  EXPECT_EQ(which.status().code(), Code::kAmbiguous);
  for (const char* name : {"\"b/x.txt\" (/w/b/x.txt)", "\"c/b/x.txt\" (/w/c/b/x.txt)"}) {
    EXPECT_NE(Unrooted(which.status().message()).find(name), std::string::npos);
  }
}

// --- indexing under names, in a store ---

class NamedDocumentsTest : public ::testing::Test {
 protected:
  Result<IndexReport> Index(const std::string& source, uint64_t seed,
                            const std::function<void(IndexOptions&)>& change = {},
                            size_t bytes = 250) {
    IndexOptions options;
    options.source = Rooted(source);
    options.checkpoint_seconds = 0;
    if (change) change(options);
    const IndexContext context = {.env = Env::Default(),
                                  .store = store_,
                                  .model = *model_,
                                  .backend = *DefaultBackend(),
                                  .threads = threads_};
    return IndexDocument(context, InventedText(bytes, seed), options);
  }
  std::vector<DocumentRow> Rows() const {
    return *(*Catalog::Open(Env::Default(), CatalogPath(store_), Catalog::Mode::kReadOnly))->List();
  }
  Result<Removed> Remove(const std::string& text) {
    LECTERN_ASSIGN(const auto lock, LockStore(Env::Default(), store_));
    const auto catalog =
        *Catalog::Open(Env::Default(), CatalogPath(store_), Catalog::Mode::kReadWrite);
    return RemoveNamed(Env::Default(), store_, *catalog, text);
  }
  bool HasFiles(const IndexReport& report) const {
    return std::filesystem::exists(store_ + "/docs/" + report.document);
  }

  TempDirectory dir_;
  const std::string store_ = dir_ / "store";
  const std::shared_ptr<const Model> model_ = *Model::Load(Env::Default(), TinyModel());
  ThreadPool threads_{1};
};

TEST_F(NamedDocumentsTest, TheVersionBeforeGoesWithItsFiles) {
  const IndexReport first = *Index("/a/log.txt", 1);
  const IndexReport second = *Index("/a/log.txt", 2);
  EXPECT_EQ(second.name, "log.txt");
  EXPECT_EQ(second.replaced, first.document);
  EXPECT_FALSE(second.is_replaced_kept);
  EXPECT_FALSE(HasFiles(first));
  EXPECT_EQ(Rows().size(), 1u);
  const IndexReport again = *Index("/a/log.txt", 2);
  EXPECT_TRUE(again.existed);
  EXPECT_EQ(again.replaced, "");
}

TEST_F(NamedDocumentsTest, VersionsAreKeptWhereThatIsAskedFor) {
  const IndexReport first = *Index("/a/log.txt", 1);
  const auto keeps = [](IndexOptions& options) { options.keep_versions = true; };
  const IndexReport second = *Index("/a/log.txt", 2, keeps);
  EXPECT_EQ(second.replaced, first.document);
  EXPECT_TRUE(second.is_replaced_kept);
  EXPECT_NE(second.note.text().find("stays, as document " + first.document), std::string::npos);
  EXPECT_TRUE(HasFiles(first));
  // The first text once more: it is there.
  const IndexReport third = *Index("/a/log.txt", 1);
  EXPECT_TRUE(third.existed);
  EXPECT_EQ(third.replaced, second.document);
  EXPECT_FALSE(HasFiles(second));
}

TEST_F(NamedDocumentsTest, TheSameTextWithOtherOptionsReplacesNothing) {
  const IndexReport first = *Index("/a/log.txt", 1);
  const auto wide = [](IndexOptions& options) { options.kv_dtype = Dtype::kF32; };
  const IndexReport second = *Index("/a/log.txt", 1, wide);
  EXPECT_EQ(second.replaced, first.document);
  EXPECT_TRUE(second.is_replaced_kept);
  EXPECT_TRUE(HasFiles(first));
}

TEST_F(NamedDocumentsTest, AReaderKeepsTheVersionBeforeUntilItIsDone) {
  const IndexReport first = *Index("/a/log.txt", 1);
  {
    const auto lease = Env::Default().LockDirectory(
        DocumentDirectory(store_, *ParseDocumentId(first.document), first.generation),
        Lease::kShared);
    ASSERT_TRUE(lease.ok());
    ASSERT_TRUE(Index("/a/log.txt", 2).ok());
    EXPECT_TRUE(HasFiles(first));
  }
  ASSERT_TRUE(Index("/a/log.txt", 3).ok());
  EXPECT_FALSE(HasFiles(first));
}

TEST_F(NamedDocumentsTest, ABegunVersionGoesWithTheNextOne) {
  ASSERT_TRUE(Index("/a/log.txt", 1).ok());
  const auto stops = [](IndexOptions& options) {
    options.on_progress = [](const IndexProgress& progress) {
      return progress.stage != IndexProgress::Stage::kPrefill || progress.done == 0;
    };
  };
  EXPECT_EQ(Index("/a/log.txt", 2, stops, 2500).status().code(), Code::kCancelled);
  ASSERT_EQ(Rows().size(), 2u);
  EXPECT_EQ(Rows()[1].state, DocumentState::kBuilding);
  ASSERT_TRUE(Index("/b/other.txt", 3).ok());
  EXPECT_EQ(Rows().size(), 3u) << "another file's run leaves it";
  ASSERT_TRUE(Index("/a/log.txt", 4).ok());
  EXPECT_EQ(Rows().size(), 2u);
}

TEST_F(NamedDocumentsTest, WhatIsNotIndexedToTheEndCanBeRemoved) {
  const auto stops = [](IndexOptions& options) {
    options.name = "begun";
    options.on_progress = [](const IndexProgress& progress) {
      return progress.stage != IndexProgress::Stage::kPrefill || progress.done == 0;
    };
  };
  EXPECT_EQ(Index("/a/log.txt", 2, stops, 2500).status().code(), Code::kCancelled);
  EXPECT_TRUE(Remove("begun")->is_document_gone);
  EXPECT_TRUE(Rows().empty());
}

TEST_F(NamedDocumentsTest, RemovingByNameAndById) {
  const IndexReport report = *Index("/a/lease.txt", 1);
  EXPECT_TRUE(Index("/a/zz.txt", 1)->existed);
  EXPECT_EQ(Remove("a/zz.txt").status().code(), Code::kNotFound) << "names as they stand";
  const Removed name = *Remove("zz.txt");
  EXPECT_FALSE(name.is_document_gone);
  EXPECT_EQ(name.left, std::vector<std::string>{"lease.txt"});
  EXPECT_TRUE(HasFiles(report));
  EXPECT_TRUE(Index("/a/zz.txt", 1)->existed);
  const Removed all = *Remove(report.document);
  EXPECT_TRUE(all.is_document_gone);
  EXPECT_EQ(all.names, (std::vector<std::string>{"lease.txt", "zz.txt"}));
  EXPECT_FALSE(HasFiles(report));
}

TEST_F(NamedDocumentsTest, AStoreOfAnOlderLecternKeepsItsDocuments) {
  const IndexReport old = *Index("/a/lease.txt", 1);
  MakeOlder(Env::Default(), CatalogPath(store_));
  const IndexReport same = *Index("/a/lease.txt", 1);
  EXPECT_TRUE(same.existed);
  EXPECT_EQ(Rows()[0].names.front().source, Rooted("/a/lease.txt"));
  MakeOlder(Env::Default(), CatalogPath(store_));
  const IndexReport next = *Index("/a/lease.txt", 2);
  EXPECT_EQ(next.name, "lease.txt");
  EXPECT_EQ(next.replaced, "");
  EXPECT_TRUE(HasFiles(old));
  EXPECT_NE(next.note.text().find(old.document), std::string::npos);
}

TEST_F(NamedDocumentsTest, RecoveryKnowsNameAndSource) {
  const IndexReport report = *Index("/a/lease.txt", 1);
  std::filesystem::remove(CatalogPath(store_));
  ASSERT_TRUE(RecoverCatalog(Env::Default(), store_, nullptr).ok());
  EXPECT_EQ(Rows()[0].names, (std::vector<DocumentName>{{"lease.txt", Rooted("/a/lease.txt")}}));
  EXPECT_EQ(Index("/a/lease.txt", 2)->replaced, report.document);
}

// --- room for a question, and files ---

// The tiny model with as many positions.
std::shared_ptr<const Model> ModelWithPositions(const std::string& folder, uint32_t positions) {
  std::filesystem::copy(TinyModel(), folder);
  std::string config = ReadBytes(folder + "/config.json");
  const std::string key = "\"max_position_embeddings\": ";
  const size_t at = config.find(key) + key.size();
  config.replace(at, config.find_first_not_of("0123456789", at) - at, std::to_string(positions));
  std::filesystem::remove(folder + "/config.json");
  WriteBytes(folder + "/config.json", config);
  return *Model::Load(Env::Default(), folder);
}

TEST_F(NamedDocumentsTest, ADocumentThatLeavesNoRoomIsRefusedAtOnce) {
  constexpr uint32_t kPositions = 1200;
  const auto model = ModelWithPositions(dir_ / "model", kPositions);
  // Without words that could be asked about, the room is the same for every length.
  std::string all;
  for (int i = 0; i < 800; ++i) all += std::to_string(i % 7) + " is. ";
  const uint64_t room = *LeastRoom(model->chat_template(), model->tokenizer(), "", all);
  EXPECT_GT(room, 8u);
  const auto tokens = [&](size_t bytes) {
    return model->EncodeDocument(all.substr(0, bytes))->ids.size();
  };
  size_t bytes = 1;  // of the longest beginning that leaves the room
  while (tokens(bytes + 1) <= kPositions - room) ++bytes;
  const IndexContext context = {.env = Env::Default(),
                                .store = store_,
                                .model = *model,
                                .backend = *DefaultBackend(),
                                .threads = threads_};
  EXPECT_TRUE(EstimateIndex(context, all.substr(0, bytes), {}).ok());
  const std::string longer = all.substr(0, bytes + 1);
  const auto refused = EstimateIndex(context, longer, {});
  EXPECT_EQ(refused.status().code(), Code::kContextTooLong);
  const std::string left = std::to_string(kPositions - tokens(bytes + 1));
  EXPECT_NE(refused.status().message().find(
                " tokens leave " + left + " of 1,200 positions for a question and its answer"),
            std::string::npos)
      << refused.status().message();
  EXPECT_EQ(IndexDocument(context, longer, {}).status().message(), refused.status().message());
  EXPECT_FALSE(std::filesystem::exists(store_)) << "before anything was done";
  // A document that leaves just the room is indexed.
  EXPECT_TRUE(IndexDocument(context, all.substr(0, bytes), {}).ok());
  EXPECT_EQ(EstimateIndex(context, all, {}).status().code(), Code::kContextTooLong);
}

}  // namespace
}  // namespace lectern
