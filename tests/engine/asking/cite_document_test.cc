// Texts cited from a stored document.
#include <gtest/gtest.h>

#include <filesystem>

#include "engine/asking/cite.h"
#include "engine/engine.h"
#include "tests/engine/test_documents.h"

namespace lectern {
namespace {

using testing::TempFolder;
using testing::TinyModel;

constexpr char kText[] =
    "# The town\n\n"
    "The mill at Osk was designed by Dr. Ada Brok in 1871. Its wheel is made of oak.\n\n"
    "# The harbour\n\n"
    "The ferry leaves from the old harbour on Sundays. In the winter the bridges of the town are "
    "closed to all of the carts.\n";

class CiteDocumentTest : public ::testing::Test {
 protected:
  CiteDocumentTest() {
    const auto engine = Engine::Create({.store = folder_.path(), .model = TinyModel(),
                                        .num_threads = 2});
    IndexOptions options;
    options.name = "town";
    const size_t second = std::string_view(kText).find("# The harbour");
    options.pages = {{0, 1, 0}, {second, 2, 0}};
    const auto report = engine.value()->Index(kText, options);
    EXPECT_TRUE(report.ok()) << report.status().message();
    engine_ = std::move(Engine::Create({.store = folder_.path()})).value();  // without a model
  }
  Result<CitedText> CiteText(const std::string& text, const std::string& question = "",
                             uint32_t most = 1) {
    return engine_->Cite("town", {text, question, most});
  }

  TempFolder folder_;
  std::unique_ptr<Engine> engine_;
};

TEST_F(CiteDocumentTest, CitesEachSentenceWithoutAModel) {
  const std::string claim = "Dr. Ada Brok designed the mill. And the ferry leaves on Sundays.";
  const auto cited = CiteText(claim);
  ASSERT_TRUE(cited.ok()) << cited.status().message();
  EXPECT_EQ(cited->document, ToHex(engine_->Find("town")->id));
  EXPECT_EQ(cited->document_text, kText);
  ASSERT_EQ(cited->sentences.size(), 2u);
  const CitedSentence& first = cited->sentences[0];
  EXPECT_EQ(claim.substr(first.begin, first.end - first.begin), "Dr. Ada Brok designed the mill.");
  EXPECT_TRUE(first.IsSupported());
  ASSERT_EQ(first.evidence.size(), 1u);
  ASSERT_EQ(cited->sentences[1].evidence.size(), 1u);
  const Evidence &mill = first.evidence[0], &ferry = cited->sentences[1].evidence[0];
  EXPECT_EQ(mill.text, "The mill at Osk was designed by Dr. Ada Brok in 1871.");
  EXPECT_EQ(std::string_view(kText).substr(mill.begin, mill.end - mill.begin), mill.text);
  EXPECT_EQ(mill.page, 1u);
  EXPECT_EQ(mill.heading, "The town");
  EXPECT_EQ(ferry.text, "The ferry leaves from the old harbour on Sundays.");
  EXPECT_EQ(ferry.page, 2u);
  EXPECT_EQ(ferry.heading, "The harbour");
  EXPECT_GT(ferry.score, 0);
  EXPECT_LT(ferry.score, 1);
}

// Words of claim and question, by their stems, and no stop words.
TEST_F(CiteDocumentTest, HighlightsTheWordsThatCarriedIt) {
  const auto cited = CiteText("Ada Brok did it.", "Who designs the mill?");
  ASSERT_TRUE(cited.ok()) << cited.status().message();
  std::vector<std::string_view> words;
  for (const ByteRange& range : cited->sentences[0].evidence[0].highlights) {
    words.push_back(std::string_view(kText).substr(range.begin, range.end - range.begin));
  }
  EXPECT_EQ(words, (std::vector<std::string_view>{"mill", "designed", "Ada", "Brok"}));
}

TEST_F(CiteDocumentTest, TakesAQuestionAndManyPassages) {
  const auto cited = CiteText("Oak", "What is the wheel of the mill made of?", 2);
  ASSERT_TRUE(cited.ok()) << cited.status().message();
  ASSERT_EQ(cited->sentences.size(), 1u);
  ASSERT_EQ(cited->sentences[0].evidence.size(), 2u);
  EXPECT_EQ(cited->sentences[0].evidence[0].text, "Its wheel is made of oak.");
}

TEST_F(CiteDocumentTest, HasNoCitationsForNoWords) {
  EXPECT_TRUE(CiteText("")->sentences.empty());
  const auto cited = CiteText("Zeppelin, zeppelin!");
  ASSERT_EQ(cited->sentences.size(), 1u);
  EXPECT_TRUE(cited->sentences[0].evidence.empty());
  EXPECT_FALSE(cited->sentences[0].IsSupported());
}

TEST_F(CiteDocumentTest, RefusesWhatItCannotCite) {
  EXPECT_EQ(CiteText("\xFF").status().code(), Code::kInvalidArgument);
  EXPECT_EQ(CiteText("\xFF").status().param(), "text");
  EXPECT_EQ(CiteText("ferry", "\xC3").status().param(), "question");
  EXPECT_EQ(CiteText("ferry", "", 0).status().param(), "max_evidence");
  EXPECT_EQ(CiteText("ferry", "", 101).status().param(), "max_evidence");
  std::string many;
  for (size_t i = 0; i <= kMaxCitedSentences; ++i) many += "a\n\n";
  EXPECT_EQ(CiteText(many).status().code(), Code::kLimitExceeded);
  EXPECT_EQ(CiteText(std::string(kMaxCitedBytes + 1, 'a')).status().code(), Code::kLimitExceeded);
  EXPECT_EQ(engine_->Cite("village", {"ferry", "", 1}).status().code(), Code::kNotFound);
}

}  // namespace
}  // namespace lectern
