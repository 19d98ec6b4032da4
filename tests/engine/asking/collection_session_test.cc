// Questions to collections: which documents are indexed and asked for them, and what answers say.
#include "engine/asking/collection_session.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "engine/asking/mention_question.h"
#include "engine/document/collections_folder.h"
#include "engine/engine.h"
#include "engine/model/formats/json.h"
#include "tests/engine/test_documents.h"
#include "tests/system_differences.h"

namespace lectern {
namespace {

namespace fs = std::filesystem;
using testing::InventedText;
using testing::TempFolder;
using testing::TinyModel;

constexpr const char* kSentences[] = {
    "The harbour of Osk was dug by Ada Brok in 1871.", "Quinces are sold on Tuesdays alone.",
    "The observatory has a lens of forty inches.", "Zebras graze behind the glassworks."};

CollectionText Member(int number, const std::string& more = "") {
  CollectionText text;
  text.source = text.path = PathFromRoot("/papers/" + std::to_string(number) + ".txt");
  text.bytes = InventedText(300, 10 + number) + "\n\n" + kSentences[number] + "\n\n" + more +
               InventedText(300, 20 + number) + "\n";
  return text;
}
std::vector<CollectionText> Members() {
  std::vector<CollectionText> members;
  for (int i = 0; i < 4; ++i) members.push_back(Member(i));
  return members;
}

class CollectionSessionTest : public ::testing::Test {
 protected:
  CollectionSessionTest() : engine_(NewEngine(TinyModel())) {}

  std::unique_ptr<Engine> NewEngine(const std::string& model, uint64_t quota = 0) {
    auto engine =
        Engine::Create({.store = Store(), .model = model, .num_threads = 2, .quota_bytes = quota});
    EXPECT_TRUE(engine.ok());
    return std::move(engine).value();
  }
  std::string Store() const { return folder_.path() + "/store"; }
  void AddAll() {
    const auto added = engine_->AddToCollection("papers", Members());
    ASSERT_TRUE(added.ok()) << added.status().message();
  }
  Answer Ask(Session& session, const std::string& question, AskOptions options = {}) {
    options.max_tokens = 8;
    auto answer = session.Ask(question, options);
    EXPECT_TRUE(answer.ok()) << answer.status().message();
    return answer.ok() ? *answer : Answer();
  }
  std::unique_ptr<Session> Open(Engine& engine, const std::string& name = "papers") {
    auto session = engine.OpenCollection(name);
    EXPECT_TRUE(session.ok()) << session.status().message();
    return session.ok() ? std::move(session).value() : nullptr;
  }

  TempFolder folder_;
  std::unique_ptr<Engine> engine_;
};

TEST_F(CollectionSessionTest, IndexesADocumentForItsFirstQuestion) {
  AddAll();
  EXPECT_TRUE(engine_->List()->empty());
  EXPECT_EQ(engine_->Collections()->front().num_indexed, 0u);
  std::vector<std::string> indexed;
  AskOptions options;
  options.on_index = [&](std::string_view document, const IndexProgress&) {
    if (indexed.empty() || indexed.back() != document) indexed.emplace_back(document);
    return true;
  };
  const auto session = Open(*engine_);
  const Answer answer = Ask(*session, "Who dug the harbour of Osk?", options);
  EXPECT_EQ(indexed, std::vector<std::string>{"0.txt"});
  EXPECT_EQ(answer.collection, "papers");
  EXPECT_EQ(answer.num_documents, 4u);
  ASSERT_EQ(answer.documents.size(), 1u);
  EXPECT_EQ(answer.documents[0].name, "0.txt");
  EXPECT_EQ(answer.documents[0].source, PathFromRoot("/papers/0.txt"));
  EXPECT_EQ(answer.documents[0].document, answer.document);
  EXPECT_TRUE(answer.documents[0].is_chosen);
  EXPECT_TRUE(answer.documents[0].is_new);
  EXPECT_GT(answer.documents[0].probability, 0.9);
  ASSERT_EQ(answer.texts.size(), 1u);
  EXPECT_EQ(*answer.texts[0].text, Member(0).bytes);
  ASSERT_FALSE(answer.evidence.empty());
  for (const Evidence& one : answer.evidence) {
    EXPECT_EQ(one.document, "0.txt");
    EXPECT_EQ(Member(0).bytes.substr(one.begin, one.end - one.begin), one.text);
  }
  // It is a document of the store now, and is not indexed again.
  EXPECT_EQ(engine_->Find("0.txt")->names.front().source, PathFromRoot("/papers/0.txt"));
  EXPECT_EQ(engine_->Collections()->front().num_indexed, 1u);
  const Answer again = Ask(*Open(*NewEngine("")), "Who dug the harbour of Osk?");
  EXPECT_EQ(again.text, answer.text);
  EXPECT_FALSE(again.documents[0].is_new);
  // It answers as the document does when it is asked by its name.
  EXPECT_EQ(Ask(**engine_->Open("0.txt"), "Who dug the harbour of Osk?").text, answer.text);
}

TEST_F(CollectionSessionTest, FollowUpsStayWithTheDocument) {
  AddAll();
  const auto session = Open(*engine_);
  const Answer first = Ask(*session, "Who dug the harbour of Osk?");
  const Answer second = Ask(*session, "And when?");
  ASSERT_FALSE(second.documents.empty());
  EXPECT_EQ(second.documents[0].name, "0.txt");
  EXPECT_GT(second.question_tokens, 0u);
  // Turns from elsewhere stand before the first question alone.
  AskOptions options;
  options.history.turns = {{"Where are quinces sold?", "On Tuesdays.", ""}};
  EXPECT_EQ(session->Ask("And when?", options).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(Ask(*Open(*engine_), "And when?", options).documents[0].name, "1.txt");
}

TEST_F(CollectionSessionTest, SeveralDocumentsAreAskedWhereWordsDoNotDecide) {
  std::vector<CollectionText> members = Members();
  for (int i = 0; i < 4; ++i) {
    members[i] = Member(i, "The gate is painted in colour number " + std::to_string(i) + ".\n\n");
  }
  ASSERT_TRUE(engine_->AddToCollection("papers", members).ok());
  std::string shown;
  AskOptions options;
  options.on_text = [&](std::string_view piece) {
    shown += piece;
    return true;
  };
  const Answer answer = Ask(*Open(*engine_), "What colour is the gate?", options);
  EXPECT_EQ(answer.documents.size(), 4u);
  EXPECT_EQ(std::ranges::count(answer.documents, true, &AskedDocument::is_chosen), 1);
  EXPECT_EQ(shown, answer.text);
  const auto chosen = std::ranges::find(answer.documents, true, &AskedDocument::is_chosen);
  EXPECT_EQ(chosen->answer, answer.text);
  EXPECT_EQ(chosen->document, answer.document);
  EXPECT_EQ(answer.texts[0].document, chosen->name);
}

// Each value is asked of the document that has its words, which is indexed for it.
TEST_F(CollectionSessionTest, EachValueOfAnObjectChoosesItsDocument) {
  AddAll();
  const auto session = Open(*engine_);
  AskOptions options;
  options.max_tokens = 200, options.kv_budget = 1, options.max_evidence = 4;
  options.json_schema = R"({"type": "object", "required": ["digger", "day"], "properties": {
      "kind": {"const": "report"},
      "digger": {"type": "string", "maxLength": 9, "description": "Who dug the harbour of Osk?"},
      "day": {"type": "string", "maxLength": 9, "description": "When are quinces sold?"}}})";
  const auto answer = session->Ask("Xyzzy.", options);
  ASSERT_TRUE(answer.ok()) << answer.status().message();
  options.json_schema = R"({"type": "string", "maxLength": 9})";
  const auto of_document = [&](const char* name, const char* question) {
    const auto alone = (*engine_->Open(name))->Ask(question, options);
    return alone.ok() ? alone->text : alone.status().message();
  };
  EXPECT_EQ(answer->text, R"({"kind": "report", "digger": )" +
                              of_document("0.txt", "Who dug the harbour of Osk?") + R"(, "day": )" +
                              of_document("1.txt", "When are quinces sold?") + "}");
  EXPECT_EQ(answer->collection, "papers");
  EXPECT_EQ(answer->num_documents, 4u);
  ASSERT_EQ(answer->documents.size(), 2u);
  for (const AskedDocument& asked : answer->documents) {
    EXPECT_TRUE(asked.is_chosen) << asked.name;
    EXPECT_TRUE(asked.is_new) << asked.name;
    EXPECT_TRUE(asked.answer.starts_with(asked.name == "0.txt" ? R"("digger": )" : R"("day": )"))
        << asked.answer;
  }
  // Each gave one value: the first one's is the object's.
  EXPECT_EQ(answer->document, engine_->Find("0.txt").ok() ? ToHex(engine_->Find("0.txt")->id) : "");
  for (int i = 0; i < 2; ++i) {
    const std::string name = std::to_string(i) + ".txt", bytes = Member(i).bytes;
    const auto text = std::ranges::find(answer->texts, name, &Answer::TextOf::document);
    ASSERT_NE(text, answer->texts.end()) << name;
    EXPECT_EQ(*text->text, bytes);
    EXPECT_TRUE(std::ranges::any_of(answer->evidence, [&](const Evidence& one) {
      return one.document == name && one.text == kSentences[i] &&
             bytes.substr(one.begin, one.end - one.begin) == one.text;
    })) << name;
  }
  // A follow-up knows the object.
  AskOptions free;
  free.kv_budget = 1;
  const Answer next = Ask(*session, "And who sells quinces?", free);
  free.history.turns = {{"Xyzzy.", answer->text, ""}};
  const Answer told = Ask(*Open(*engine_), "And who sells quinces?", free);
  EXPECT_EQ(next.text, told.text);
  EXPECT_EQ(next.question_tokens, told.question_tokens);
}

// Where all documents have a value's words, those of the whole question tell which one is meant.
TEST_F(CollectionSessionTest, TheWholeQuestionHelpsValuesToChoose) {
  std::vector<CollectionText> members = Members();
  for (int i = 0; i < 4; ++i) {
    members[i] = Member(i, "The gate is painted in colour number " + std::to_string(i) + ".\n\n");
  }
  ASSERT_TRUE(engine_->AddToCollection("papers", members).ok());
  AskOptions options;
  options.max_tokens = 100;
  options.json_schema = R"({"type": "object", "required": ["color", "state"], "properties": {
      "color": {"type": "string", "maxLength": 9, "description": "What colour is the gate?"},
      "state": {"type": "string", "maxLength": 9, "description": "How is the gate painted?"}}})";
  const auto answer = Open(*engine_)->Ask("Who dug the harbour of Osk, and when?", options);
  ASSERT_TRUE(answer.ok()) << answer.status().message();
  ASSERT_FALSE(answer->documents.empty());
  EXPECT_EQ(answer->documents.front().name, "0.txt");
}

TEST_F(CollectionSessionTest, AnObjectOfWordsThatNoTextHasIsRefused) {
  AddAll();
  AskOptions options;
  options.json_schema = R"({"type": "object", "properties": {
      "xyzzy": {"type": "string", "description": "Xyzzy?"},
      "plugh": {"type": "string", "description": "Plugh?"}}})";
  const auto refused = Open(*engine_)->Ask("Zzyzx?", options);
  EXPECT_EQ(refused.status().code(), Code::kInvalidArgument);
  EXPECT_EQ(refused.status().param(), "question");
  EXPECT_TRUE(engine_->List()->empty());
}

TEST_F(CollectionSessionTest, MentionsNeedNoModel) {
  AddAll();
  const auto engine = NewEngine("");
  const auto session = Open(*engine);
  const Answer answer = Ask(*session, "Which documents mention zebras?");
  EXPECT_EQ(answer.text, "1 document mentions “zebras”: 3.txt.");
  EXPECT_EQ(answer.kv.rule, "words");
  ASSERT_EQ(answer.evidence.size(), 1u);
  EXPECT_EQ(answer.evidence[0].text, kSentences[3]);
  EXPECT_EQ(answer.evidence[0].document, "3.txt");
  EXPECT_EQ(answer.documents[0].num_passages, 1u);
  EXPECT_EQ(Ask(*session, "Which files mention unicorns?").text,
            "No document of the collection mentions “unicorns”.");
  const auto found = engine->FindMentions("papers", "the observatory", 5);
  ASSERT_EQ(found->documents.size(), 1u);
  EXPECT_EQ(found->documents[0].passage.text, kSentences[2]);
  // Without a model and without an indexed document nothing else can be answered.
  const auto refused = session->Ask("Who dug the harbour?", {});
  EXPECT_EQ(refused.status().code(), Code::kInvalidArgument);
  EXPECT_EQ(refused.status().param(), "model");
  EXPECT_EQ(session->Tokenize("a").status().code(), Code::kNotReady);
}

TEST_F(CollectionSessionTest, AQuestionWithoutCommonWordsIsAnsweredWithoutAModel) {
  AddAll();
  const Answer answer = Ask(*Open(*engine_), "xyzzy?");
  EXPECT_EQ(answer.text, "No document of the collection has a word of the question.");
  EXPECT_EQ(answer.warnings, std::vector<std::string>{"no_evidence"});
  EXPECT_TRUE(engine_->List()->empty());
}

// A request that cannot be served costs no indexing, and its error does not depend on whether a
// document has words of the question.
TEST_F(CollectionSessionTest, OptionsAreCheckedBeforeADocumentIsIndexed) {
  AddAll();
  const auto session = Open(*engine_);
  for (const std::string question : {"Where does the red heron sleep?", "xyzzy?"}) {
    AskOptions options;
    options.max_tokens = 0;
    const Result<Answer> without_tokens = session->Ask(question, options);
    EXPECT_EQ(without_tokens.status().code(), Code::kInvalidArgument);
    EXPECT_EQ(without_tokens.status().param(), "max_tokens");
    options = {};
    options.stop_texts = {""};
    const Result<Answer> without_stop = session->Ask(question, options);
    EXPECT_EQ(without_stop.status().code(), Code::kInvalidArgument);
    EXPECT_EQ(without_stop.status().param(), "stop_texts");
  }
  EXPECT_TRUE(engine_->List()->empty());
}

// A file that was indexed before it came into the collection needs no model to be found.
TEST_F(CollectionSessionTest, TakesTheDocumentOfTheSameFile) {
  const CollectionText member = Member(0);
  IndexOptions options;
  options.source = member.source;
  const auto report = engine_->Index(member.bytes, options);
  ASSERT_TRUE(report.ok()) << report.status().message();
  AddAll();
  const Answer answer = Ask(*Open(*NewEngine("")), "Who dug the harbour of Osk?");
  ASSERT_FALSE(answer.documents.empty());
  EXPECT_EQ(answer.documents[0].document, report->document);
  EXPECT_FALSE(answer.documents[0].is_new);
  EXPECT_EQ(engine_->Collections()->front().num_indexed, 1u);
}

TEST_F(CollectionSessionTest, AChangedTextIsIndexedAgain) {
  AddAll();
  const Answer before = Ask(*Open(*engine_), "Who dug the harbour of Osk?");
  CollectionText changed = Member(0);
  changed.bytes = "The harbour of Osk was dug by Ida Krob.\n\n" + InventedText(400, 5);
  const auto added = engine_->AddToCollection("papers", {&changed, 1});
  EXPECT_EQ(added->front().change, AddedToCollection::Change::kRenewed);
  const Answer after = Ask(*Open(*engine_), "Who dug the harbour of Osk?");
  EXPECT_NE(after.document, before.document);
  EXPECT_EQ(*after.texts[0].text, changed.bytes);
  EXPECT_EQ(engine_->List()->size(), 1u);  // the version before is gone
}

TEST_F(CollectionSessionTest, ARemovedDocumentIsIndexedAgain) {
  AddAll();
  const auto session = Open(*engine_);
  const Answer before = Ask(*session, "Who dug the harbour of Osk?");
  ASSERT_TRUE(engine_->Remove("0.txt").ok());
  EXPECT_EQ(engine_->CollectionDocuments("papers")->front().document, "");
  const Answer after = Ask(*Open(*engine_), "Who dug the harbour of Osk?");
  EXPECT_TRUE(after.documents[0].is_new);
  EXPECT_EQ(after.text, before.text);
}

TEST_F(CollectionSessionTest, IndexesAllWithinTheQuota) {
  AddAll();
  ASSERT_TRUE(engine_->RemoveFromCollection("papers", "3.txt").ok());
  std::vector<std::string> told;
  const auto indexed = engine_->IndexCollection(
      "papers", {}, [&](std::string_view name, uint64_t number, uint64_t count, const auto&) {
        const std::string one =
            std::string(name) + " " + std::to_string(number) + "/" + std::to_string(count);
        if (told.empty() || told.back() != one) told.push_back(one);
        return true;
      });
  ASSERT_TRUE(indexed.ok()) << indexed.status().message();
  EXPECT_EQ(indexed->indexed, 3u);
  EXPECT_EQ(told, (std::vector<std::string>{"0.txt 1/3", "1.txt 2/3", "2.txt 3/3"}));
  const auto again = engine_->IndexCollection("papers", {}, nullptr);
  EXPECT_EQ(again->indexed, 0u);
  EXPECT_EQ(again->existed, 3u);

  const CollectionText fourth = Member(3);
  ASSERT_TRUE(engine_->AddToCollection("papers", {&fourth, 1}).ok());
  const auto full = NewEngine(TinyModel(), *StoreBytes(Env::Default(), Store()) + 1000)
                        ->IndexCollection("papers", {}, nullptr);
  ASSERT_TRUE(full.ok()) << full.status().message();
  EXPECT_EQ(full->indexed, 0u);
  EXPECT_EQ(full->left, 1u);
  EXPECT_NE(full->note.text().find("quota"), std::string::npos);
}

TEST_F(CollectionSessionTest, AllDocumentsAreACollectionThatFollowsTheStore) {
  IndexOptions options;
  options.name = "first";
  ASSERT_TRUE(engine_->Index(Member(0).bytes, options).ok());
  EXPECT_EQ(Ask(*Open(*engine_, "all"), "Who dug the harbour?").documents[0].name, "first");
  options.name = "second";
  ASSERT_TRUE(engine_->Index(Member(1).bytes, options).ok());
  EXPECT_EQ(Ask(*Open(*engine_, "all"), "When are quinces sold?").documents[0].name, "second");
  ASSERT_TRUE(engine_->Remove("first").ok());
  const auto documents = engine_->CollectionDocuments("all");
  ASSERT_EQ(documents->size(), 1u);
  EXPECT_EQ(documents->front().name, "second");
  EXPECT_EQ(engine_->AddDocumentToCollection("papers", "second")->name, "second");
  EXPECT_EQ(Ask(*Open(*engine_), "When are quinces sold?").documents[0].is_new, false);
}

TEST_F(CollectionSessionTest, CollectionsAreRenamedRemovedAndChecked) {
  AddAll();
  EXPECT_EQ(engine_->OpenCollection("books").status().code(), Code::kNotFound);
  EXPECT_EQ(engine_->OpenCollection("books").status().param(), "collection");
  EXPECT_EQ(engine_->RemoveFromCollection("papers", "x").param(), "document");
  EXPECT_TRUE(engine_->RenameInCollection("papers", "3.txt", "zebras").ok());
  EXPECT_TRUE(engine_->RenameCollection("papers", "essays").ok());
  EXPECT_EQ(engine_->OpenCollection("papers").status().code(), Code::kNotFound);
  EXPECT_EQ(engine_->CollectionDocuments("essays")->back().name, "zebras");
  ASSERT_TRUE(engine_->AddToCollection("papers", Members()).ok());
  EXPECT_EQ(engine_->RenameCollection("papers", "essays").param(), "name");
  EXPECT_EQ(engine_->Collections()->size(), 2u);
  EXPECT_TRUE(engine_->VerifyCollection("papers").ok());
  EXPECT_TRUE(engine_->RemoveCollection("papers").ok());
  EXPECT_EQ(engine_->Collections()->size(), 1u);
  EXPECT_EQ(engine_->RemoveCollection("papers").code(), Code::kNotFound);
  CollectionText empty;
  empty.name = "nothing";
  empty.bytes = " \n";
  EXPECT_EQ(engine_->AddToCollection("essays", {&empty, 1}).status().code(), Code::kEmptyDocument);
}

// The way out that the error names is there.
TEST_F(CollectionSessionTest, ADamagedCollectionIsToldAndCanBeRemoved) {
  AddAll();
  const std::string path = *FindCollection(Env::Default(), Store(), "papers");
  testing::WriteWholeFile(path, std::string(8192, 'x'));
  const auto opened = engine_->OpenCollection("papers");
  EXPECT_EQ(opened.status().code(), Code::kCorrupt);
  EXPECT_NE(opened.status().message().find(path), std::string::npos);
  EXPECT_TRUE(engine_->RemoveCollection("papers").ok());
  AddAll();
  EXPECT_EQ(engine_->CollectionDocuments("papers")->size(), 4u);
}

// A document that cannot be read does not keep the store's others from being asked.
TEST_F(CollectionSessionTest, AllDocumentsAreThoseThatCanBeRead) {
  IndexOptions options;
  for (int i = 0; i < 2; ++i) {
    options.name = i == 0 ? "whole" : "damaged";
    ASSERT_TRUE(engine_->Index(Member(i).bytes, options).ok());
  }
  const DocumentRow row = *engine_->Find("damaged");
  const std::string file = DocumentDirectory(Store(), row.id, row.generation) + "/" + kDocumentFile;
  testing::WriteWholeFile(file, "x");
  const auto documents = NewEngine(TinyModel())->CollectionDocuments("all");
  ASSERT_TRUE(documents.ok()) << documents.status().message();
  ASSERT_EQ(documents->size(), 1u);
  EXPECT_EQ(documents->front().name, "whole");
}

TEST(MentionQuestion, IsToldFromOtherQuestions) {
  for (const char* question :
       {"Which documents mention Ian Murdock?", "what files contain the words \"Ian Murdock\"?",
        "In which documents is Ian Murdock mentioned?", "List all texts that mention Ian Murdock.",
        "Which of the manuals talk about Ian Murdock", "which man pages refer to “Ian Murdock”?"}) {
    EXPECT_EQ(MentionedWords(question), "Ian Murdock") << question;
  }
  for (const char* question :
       {"Who is Ian Murdock?", "Which document is the oldest?", "What does the document mention?",
        "Which documents mention?", "", "Mention Ian Murdock.", "In which year was Debian founded?",
        "What files does dpkg write?", "documents mention Ian"}) {
    EXPECT_EQ(MentionedWords(question), std::nullopt) << question;
  }
}

}  // namespace
}  // namespace lectern
