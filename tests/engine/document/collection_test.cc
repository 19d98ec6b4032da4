// Collections: files of texts and their words, and how texts are found by words alone.
#include "engine/document/collection.h"

#include <gtest/gtest.h>
#include <sqlite3.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <set>
#include <thread>

#include "engine/document/collections_folder.h"
#include "engine/document/word_index.h"
#include "tests/engine/test_documents.h"
#include "tests/system_differences.h"

namespace lectern {
namespace {

namespace fs = std::filesystem;
using testing::InventedText;
using testing::TempFolder;

NewText Text(const std::string& path, const std::string& text) {
  NewText made;
  made.source = made.path = PathFromRoot(path);
  made.text = text;
  return made;
}

class CollectionTest : public ::testing::Test {
 protected:
  CollectionTest() : path_(folder_.path() + "/c.db") {}

  std::unique_ptr<Collection> Open(Collection::Mode mode = Collection::Mode::kReadWrite) {
    auto opened = Collection::Open(Env::Default(), path_, "papers", mode);
    EXPECT_TRUE(opened.ok()) << opened.status().message();
    return opened.ok() ? std::move(opened).value() : nullptr;
  }
  static std::vector<std::string> Names(Collection& collection) {
    std::vector<std::string> names;
    const auto texts = collection.texts();
    EXPECT_TRUE(texts.ok()) << texts.status().message();
    for (const CollectedText& text : **texts) names.push_back(text.name);
    return names;
  }
  // The names of the texts that share words with the question, the best first.
  static std::vector<std::string> Found(Collection& collection, std::string_view question) {
    const auto scores = collection.Score(question, 10);
    EXPECT_TRUE(scores.ok()) << scores.status().message();
    std::vector<std::string> names;
    for (const TextScore& score : scores->scores) {
      names.push_back((*scores->texts)[score.text].name);
    }
    return names;
  }
  static std::vector<std::string> Mentioning(Collection& collection, std::string_view words) {
    const auto found = collection.FindMentions(words);
    EXPECT_TRUE(found.ok()) << found.status().message();
    std::vector<std::string> names;
    for (const auto& one : found->mentions) names.push_back((*found->texts)[one.text].name);
    return names;
  }

  TempFolder folder_;
  const std::string path_;
};

using List = std::vector<std::string>;

TEST_F(CollectionTest, AddsRenewsAndRemovesTextsWithTheirWords) {
  const auto collection = Open();
  const NewText texts[] = {Text("/a/one.txt", "The harbour was dug by Ada Brok."),
                           Text("/b/one.txt", "Quinces are sold on Tuesdays alone."),
                           Text("/b/two.txt", "A ferry named Walrus leaves at dawn.")};
  const auto added = collection->Add(texts);
  ASSERT_TRUE(added.ok()) << added.status().message();
  EXPECT_EQ((*added)[0].name, "one.txt");
  EXPECT_EQ((*added)[1].name, "b/one.txt");
  EXPECT_EQ((*added)[1].change, AddedText::Change::kNew);
  EXPECT_EQ(Found(*collection, "Who dug the harbour?"), List{"one.txt"});
  EXPECT_EQ(Found(*collection, "a ferry at dawn on a Tuesday"), (List{"two.txt", "b/one.txt"}));

  // The same again changes nothing; another text of the source takes the place of the first.
  EXPECT_EQ(collection->Add({texts, 1})->front().change, AddedText::Change::kUnchanged);
  const NewText renewed = Text("/a/one.txt", "The canal was dug by Ida Brok.");
  EXPECT_EQ(collection->Add({&renewed, 1})->front().change, AddedText::Change::kRenewed);
  EXPECT_EQ(List({"b/one.txt", "two.txt", "one.txt"}), Names(*collection));
  EXPECT_EQ(Found(*collection, "Who dug the harbour?"), List{"one.txt"});  // by "dug"
  EXPECT_EQ(Mentioning(*collection, "harbour"), List{});
  EXPECT_EQ(Mentioning(*collection, "canals"), List{"one.txt"});

  EXPECT_TRUE(*collection->Remove("b/one.txt"));
  EXPECT_FALSE(*collection->Remove("b/one.txt"));
  EXPECT_EQ(Mentioning(*collection, "quinces"), List{});
  EXPECT_TRUE(collection->Verify().ok());
}

TEST_F(CollectionTest, KeepsTextPagesAndPassages) {
  NewText text = Text("/a/pages.txt", "First page here.\fSecond page there.");
  text.pages = {{0, 1, 0}, {17, 2, 0}};
  text.page_labels = "i\nii\n";
  text.document = DocumentId{1, 2, 3};
  ASSERT_TRUE(Open()->Add({&text, 1}).ok());
  const auto collection = Open(Collection::Mode::kReadOnly);
  const auto texts = collection->texts();
  ASSERT_EQ((*texts)->size(), 1u);
  const auto stored = collection->Read((*texts)->front());
  ASSERT_TRUE(stored.ok()) << stored.status().message();
  EXPECT_EQ(stored->text, text.text);
  EXPECT_EQ(stored->pages, text.pages);
  EXPECT_EQ(stored->page_labels, text.page_labels);
  EXPECT_EQ(stored->passages, SplitPassages(text.text, text.pages));
  EXPECT_EQ((*texts)->front().document, text.document);
  EXPECT_EQ(collection->Add({&text, 1}).status().code(), Code::kReadOnly);
}

// The words of texts in several languages are found in their own forms.
TEST_F(CollectionTest, FindsWordsOfEveryLanguage) {
  const auto collection = Open();
  const NewText texts[] = {
      Text("/en", "It is said that the ships were sailing to the islands of the south."),
      Text("/de", "Die Schiffe segelten nach Süden, weil der Wind günstig stand."),
      Text("/zh", "中国的首都是北京，上海是最大的城市。")};
  ASSERT_TRUE(collection->Add(texts).ok());
  EXPECT_EQ(Found(*collection, "the ship sails"), List{"en"});
  EXPECT_EQ(Found(*collection, "Wann segelten Schiffe?"), List{"de"});
  EXPECT_EQ(Found(*collection, "首都"), List{"zh"});
  EXPECT_EQ(Found(*collection, "\"AND\" NEAR( * -"), List{});
  EXPECT_EQ(Found(*collection, ""), List{});
}

// The score of one text by its whole and its passages is that of WordIndex where every word occurs
// once in a passage.
TEST_F(CollectionTest, ScoresAsTheIndexOfADocumentDoes) {
  std::string text = "# Harbours\n\nThe harbour was dug by Ada.\n\n# Fruit\n\n";
  for (int i = 0; i < 30; ++i) {
    text += "It is said that the " + InventedText(40, i) + " was there for all of us.\n\n";
  }
  text += "Quinces are sold near the harbour on Tuesdays.\n";
  const auto collection = Open();
  const NewText added = Text("/x", text);
  ASSERT_TRUE(collection->Add({&added, 1}).ok());
  const auto passages = SplitPassages(text, {});
  const auto bytes = WordIndex::Build(text, passages);
  ASSERT_TRUE(bytes.ok());
  const auto index = WordIndex::Open(*bytes);
  for (const char* question : {"Who dug the harbour?", "Where are quinces sold on Tuesdays?"}) {
    const auto expected = (*index)->Score(question);
    float best = 0;
    for (size_t i = 0; i < passages.size(); ++i) {
      best = std::max(best, expected->bm25[i] + expected->covered[i] + expected->around[i]);
    }
    const auto scores = collection->Score(question, 10);
    ASSERT_EQ(scores->scores.size(), 1u);
    EXPECT_NEAR(scores->scores[0].best, best, 1e-5) << question;
  }
}

TEST_F(CollectionTest, FindsPassagesThatHaveAllWords) {
  const auto collection = Open();
  const NewText texts[] = {
      Text("/many", "Ian Murdock began it. Later Ian left. Murdock came back with Ian again."),
      Text("/one", "It was Murdock, Ian by first name."),
      Text("/apart", "Ian was here. Murdock was there.")};
  ASSERT_TRUE(collection->Add(texts).ok());
  const auto found = collection->FindMentions("Murdock and Ian");
  ASSERT_EQ(found->mentions.size(), 2u);
  EXPECT_EQ((*found->texts)[found->mentions[0].text].name, "many");
  EXPECT_EQ(found->mentions[0].num_passages, 2u);
  EXPECT_EQ(found->mentions[0].first, 0u);
  EXPECT_EQ((*found->texts)[found->mentions[1].text].name, "one");
}

// Words that stand together somewhere are looked for together.
TEST_F(CollectionTest, FindsPhrasesBeforePassagesThatHaveTheWords) {
  const auto collection = Open();
  const NewText texts[] = {
      Text("/together", "It is said that a symbolic link was there. The link is not symbolic."),
      Text("/apart", "It is said that symbols are linked by the linker to the library.")};
  ASSERT_TRUE(collection->Add(texts).ok());
  const auto found = collection->FindMentions("symbolic links");
  ASSERT_EQ(found->mentions.size(), 1u);
  EXPECT_EQ((*found->texts)[found->mentions[0].text].name, "together");
  EXPECT_EQ(found->mentions[0].num_passages, 1u);
  EXPECT_EQ(Mentioning(*collection, "link symbolic"), (List{"together", "apart"}));
}

TEST_F(CollectionTest, RenamesTextsAndItself) {
  const auto collection = Open();
  const NewText texts[] = {Text("/a", "One text."), Text("/b", "Another text.")};
  ASSERT_TRUE(collection->Add(texts).ok());
  EXPECT_TRUE(collection->RenameText("a", "first").ok());
  EXPECT_EQ(Names(*collection), (List{"first", "b"}));
  EXPECT_EQ(collection->RenameText("b", "first").code(), Code::kInvalidArgument);
  EXPECT_EQ(collection->RenameText("a", "x").code(), Code::kNotFound);
  EXPECT_EQ(collection->RenameText("b", "").code(), Code::kInvalidArgument);
  // A text of a known source keeps the name that it was given.
  const NewText renewed = Text("/a", "One text, renewed.");
  EXPECT_EQ(collection->Add({&renewed, 1})->front().name, "first");
  EXPECT_TRUE(collection->SetName("essays").ok());
  EXPECT_EQ(*Open()->name(), "essays");
  // A name that is asked for replaces the text that has it.
  NewText named = Text("/c", "A third text.");
  named.name = "b";
  ASSERT_TRUE(collection->Add({&named, 1}).ok());
  EXPECT_EQ(Names(*collection), (List{"first", "b"}));
  EXPECT_EQ(Mentioning(*collection, "another"), List{});
}

// Another process's changes are seen by the next call.
TEST_F(CollectionTest, SeesWhatOthersCommit) {
  const auto reader = Open(), writer = Open();
  EXPECT_TRUE((*reader->texts())->empty());
  const NewText text = Text("/a", "The harbour.");
  ASSERT_TRUE(writer->Add({&text, 1}).ok());
  EXPECT_EQ(Found(*reader, "harbour"), List{"a"});
  const CollectedText before = (*reader->texts())->front();
  const NewText renewed = Text("/a", "The canal.");
  ASSERT_TRUE(writer->Add({&renewed, 1}).ok());
  EXPECT_EQ(reader->Read(before).status().code(), Code::kNotFound);
  EXPECT_EQ(Found(*reader, "harbour"), List{});
  EXPECT_TRUE(writer->SetDocument(before, DocumentId{9}).ok());  // it is gone: nothing happens
  EXPECT_FALSE((*reader->texts())->front().document);
}

TEST_F(CollectionTest, NoticesDamage) {
  {
    const auto collection = Open();
    const NewText text = Text("/a", "The harbour was dug by Ada Brok in eighteen seventy-one.");
    ASSERT_TRUE(collection->Add({&text, 1}).ok());
  }
  sqlite3* db = nullptr;
  ASSERT_EQ(sqlite3_open(path_.c_str(), &db), SQLITE_OK);
  ASSERT_EQ(sqlite3_exec(db, "UPDATE texts SET text=replace(text, 'Ada', 'Ida')", nullptr, nullptr,
                         nullptr),
            SQLITE_OK);
  const auto collection = Open();
  const auto read = collection->Read((*collection->texts())->front());
  EXPECT_EQ(read.status().code(), Code::kCorrupt);
  EXPECT_NE(read.status().message().find("add its files again"), std::string::npos);
  EXPECT_EQ(collection->Verify().code(), Code::kCorrupt);
  ASSERT_EQ(sqlite3_exec(db, "UPDATE members SET name='b'", nullptr, nullptr, nullptr), SQLITE_OK);
  sqlite3_close(db);
  EXPECT_EQ(collection->texts().status().code(), Code::kCorrupt);

  testing::WriteWholeFile(folder_.path() + "/d.db", "no database, but a text that is long enough");
  EXPECT_EQ(
      Collection::Open(Env::Default(), folder_.path() + "/d.db", "d", Collection::Mode::kReadWrite)
          .status()
          .code(),
      Code::kCorrupt);
  EXPECT_EQ(
      Collection::Open(Env::Default(), folder_.path() + "/e.db", "e", Collection::Mode::kReadOnly)
          .status()
          .code(),
      Code::kNotFound);
}

// Two threads that add and one that searches see whole texts.
TEST_F(CollectionTest, TakesCallsOfSeveralThreads) {
  const auto collection = Open();
  std::vector<std::thread> threads;
  for (int t = 0; t < 2; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 20; ++i) {
        const std::string name = "/" + std::to_string(t) + "-" + std::to_string(i);
        const NewText text = Text(name, "The harbour number " + std::to_string(i) + " is deep.");
        EXPECT_TRUE(collection->Add({&text, 1}).ok());
      }
    });
  }
  size_t most = 0;
  while (most < 40) {
    const auto scores = collection->Score("harbour", 4);
    ASSERT_TRUE(scores.ok()) << scores.status().message();
    ASSERT_GE(scores->scores.size(), most);
    most = scores->scores.size();
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(CollectionsFolder, NamesBecomeFilesThatDiffer) {
  const TempFolder store;
  Env& env = Env::Default();
  std::set<std::string> files;
  for (const std::string name : {"man", "MAN", "Man pages", "日本語", "a/b", "..", "a.b"}) {
    ASSERT_TRUE(CheckCollectionName(name).ok()) << name;
    const auto path = NewCollectionPath(env, store.path(), name);
    ASSERT_TRUE(path.ok());
    std::string lower = *path;
    std::ranges::transform(lower, lower.begin(), [](unsigned char c) { return std::tolower(c); });
    EXPECT_TRUE(files.insert(lower).second) << name;
    ASSERT_TRUE(Collection::Open(env, *path, name, Collection::Mode::kReadWrite).ok());
  }
  for (const std::string name : {"man", "MAN", "日本語", "a/b", ".."}) {
    EXPECT_FALSE(FindCollection(env, store.path(), name)->empty()) << name;
  }
  EXPECT_TRUE(FindCollection(env, store.path(), "mAn")->empty());
  // A collection that is renamed keeps its file, and another one can have its old name.
  const std::string path = *FindCollection(env, store.path(), "man");
  auto man = Collection::Open(env, path, "", Collection::Mode::kReadWrite);
  ASSERT_TRUE((*man)->SetName("manuals").ok());
  EXPECT_EQ(*FindCollection(env, store.path(), "manuals"), path);
  EXPECT_TRUE(FindCollection(env, store.path(), "man")->empty());
  EXPECT_NE(*NewCollectionPath(env, store.path(), "man"), path);
  man->reset();
  EXPECT_TRUE(RemoveCollectionFile(env, path).ok());
  EXPECT_TRUE(FindCollection(env, store.path(), "manuals")->empty());

  for (const std::string& name :
       {std::string(), std::string(81, 'a'), std::string("a\nb"), std::string("\xff")}) {
    EXPECT_EQ(CheckCollectionName(name).code(), Code::kInvalidArgument);
  }
}

}  // namespace
}  // namespace lectern
