#include "engine/asking/cite.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

namespace lectern {
namespace {

// Passages on lines of their own, and their index.
struct Sample {
  explicit Sample(const std::vector<std::string>& lines) {
    for (const std::string& line : lines) {
      Passage& passage = passages.emplace_back();
      passage.begin = text.size(), passage.end = text.size() + line.size();
      text += line + "\n";
    }
    bytes = *WordIndex::Build(text, passages);
    index = *WordIndex::Open(bytes);
  }
  std::vector<CitedPassage> CiteMost(std::string_view claim, std::string_view question,
                                 size_t most = 3) const {
    const auto words = WordSupport::Create(*index, text, passages, question);
    EXPECT_TRUE(words.ok()) << words.status().message();
    auto citations = Cite(*words, EqualPassages(text, passages), claim, most);
    EXPECT_TRUE(citations.ok()) << citations.status().message();
    return *std::move(citations);
  }
  // The number of the first passage, or -1.
  int First(std::string_view claim, std::string_view question = "") const {
    const auto citations = CiteMost(claim, question, 1);
    return citations.empty() ? -1 : static_cast<int>(citations[0].passage);
  }
  std::string text, bytes;
  std::vector<Passage> passages;
  std::unique_ptr<WordIndex> index;
};

const std::vector<std::string> kTown = {
    "The mill at Osk was designed by Dr. Ada Brok in 1871.",
    "Dr. Ada Brok lived in the house by the bridge until 1899.",
    "Who repaired the roof of the chapel?",
    "The carpenter of the village did it in 1871, with slates from the north.",
    "The roof of the school is made of straw, and the carpenter hates it.",
    "The ferry leaves from the old harbour on Sundays at 9 o'clock.",
    "In the winter the ferry leaves from the new harbour on Mondays.",
    "The owner of the Lund mill is Prof. B. Carrow of St. Harn."};

TEST(CiteTest, FindsThePassageOfAnAnswer) {
  const Sample town(kTown);
  EXPECT_EQ(town.First("Prof. B. Carrow"), 7);
  EXPECT_EQ(town.First("until 1899"), 1);
  EXPECT_EQ(town.First("slates"), 3);
}

TEST(CiteTest, LetsTheQuestionDecideBetweenPassagesThatHaveTheAnswer) {
  const Sample town(kTown);
  EXPECT_EQ(town.First("Ada Brok", "Who designed the mill at Osk?"), 0);
  EXPECT_EQ(town.First("Ada Brok", "Who lived in the house by the bridge?"), 1);
  EXPECT_EQ(town.First("Mondays", "When does the ferry leave in the winter?"), 6);
}

TEST(CiteTest, PrefersTheAnswerToThePassageThatAsks) {
  const Sample town(kTown);
  EXPECT_EQ(town.First("the carpenter", "Who repaired the roof of the chapel?"), 3);
}

// An entry of a table of contents repeats a heading and states nothing: of two passages that are
// equal but for the dots the other one is taken.
TEST(CiteTest, EntriesOfContentsComeBehindOtherPassages) {
  for (const std::string dots : {"....", ". . . . . .", "......"}) {
    const Sample sample({"Opening hours of the town's mill " + dots + " 12",
                         "Prices " + dots + " iv", "The ferry leaves on Sundays.",
                         "A boat goes to the island.", "Nobody may swim here.",
                         "Bread is sold at the gate.", "Opening hours of the town's mill in 12"});
    EXPECT_EQ(sample.First("", "What are the opening hours of the mill?"), 6) << dots;
  }
  const Sample stops({"The opening hours of the mill are ... 12", "A boat goes to the island."});
  EXPECT_EQ(stops.First("", "What are the opening hours of the mill?"), 0);
}

TEST(CiteTest, PrefersANumberWhereTheQuestionAsksForOne) {
  const Sample sample({"The ferry carries bicycles of the guests of the hotel.",
                       "The ferry carries up to forty bicycles, at the stern.",
                       "Every guest of the hotel has a key."});
  EXPECT_EQ(sample.First("", "How many bicycles of guests does the ferry carry?"), 1);
  EXPECT_EQ(sample.First("", "Whose bicycles does the ferry carry, those of guests?"), 0);
  const Sample german({"Die Fähre der Insel wurde in Harn gebaut.",
                       "Die Fähre der Insel wurde dort 1924 gebaut.",
                       "Jeder Gast hat einen Schlüssel."});
  EXPECT_EQ(german.First("", "Wann wurde die Fähre der Insel gebaut?"), 1);
  EXPECT_EQ(german.First("", "Wo wurde die Fähre der Insel gebaut?"), 0);
}

// The passage behind the question's words says more about them than the one before.
TEST(CiteTest, PrefersThePassageBehindTheQuestionsWords) {
  const Sample sample({"Nothing else is known.", "It opens at noon.", "The chapel has a crypt.",
                       "It opens at dusk.", "Nothing else is known."});
  const auto citations = sample.CiteMost("", "At what hour may I open the crypt?", 3);
  ASSERT_EQ(citations.size(), 3u);
  EXPECT_EQ(citations[0].passage, 2u);
  EXPECT_EQ(citations[1].passage, 3u);
  EXPECT_EQ(citations[2].passage, 1u);
  // The one before may be the one that states a claim.
  EXPECT_EQ(sample.First("at noon", "At what hour may I open the crypt?"), 1);
}

TEST(CiteTest, PrefersWordsInTheirOrder) {
  const Sample sample({"The garden of the school feeds the goats of the town.",
                       "The goats of the school feed on the garden of the town.",
                       "Nothing else is in the town but for a well."});
  EXPECT_EQ(sample.First("goats of the school"), 1);
  EXPECT_EQ(sample.First("the garden of the school"), 0);
}

TEST(CiteTest, GivesPassagesAndProbabilitiesBestFirst) {
  const Sample town(kTown);
  const auto citations = town.CiteMost("Dr. Ada Brok", "Who designed the mill at Osk?");
  ASSERT_EQ(citations.size(), 3u);
  EXPECT_EQ(citations[0].passage, 0u);
  for (size_t i = 1; i < citations.size(); ++i) {
    EXPECT_GE(citations[i - 1].score, citations[i].score);
  }
  EXPECT_GT(citations[0].score, 0.9);
  const auto foreign = town.CiteMost("a comet of iron", "Which object fell on the harbour?");
  EXPECT_LT(foreign.empty() ? 0 : foreign[0].score, kLeastScore);
}

TEST(CiteTest, CitesEqualPassagesOnce) {
  std::vector<std::string> lines = kTown;
  for (int i = 0; i < 4; ++i) lines.push_back(kTown[0]);
  const Sample town(lines);
  const auto citations = town.CiteMost("Ada Brok", "Who designed the mill at Osk?");
  ASSERT_EQ(citations.size(), 3u);
  EXPECT_EQ(citations[0].passage, 0u);
  EXPECT_EQ(citations[1].passage, 1u);
}

TEST(CiteTest, LetsTheQuestionDecideIfTheClaimTellsLittle) {
  const Sample sample({"There is no bridge in the east of the town.",
                       "The mayor will not open the ferry on holidays of the church.",
                       "No one lives in the old mill, and no dog is in the yard."});
  EXPECT_EQ(sample.First("No", "Is the ferry open on holidays?"), 1);
}

TEST(CiteTest, FindsNothingForOtherWordsAndNone) {
  const Sample town(kTown);
  EXPECT_EQ(town.First("zeppelin", "quux?"), -1);
  EXPECT_EQ(town.First("zeppelin", "How many zeppelins in which year?"), -1);
  EXPECT_EQ(town.First("", ""), -1);
  EXPECT_TRUE(town.CiteMost("slates", "", 0).empty());
}

TEST(CiteTest, CitesScriptsWithoutSpaces) {
  const Sample chinese({"水车由王明在1871年设计。", "谁修了教堂的屋顶？", "木匠用石板修好了它。",
                        "渡船星期天从旧港出发。"});
  EXPECT_EQ(chinese.First("王明", "水车是谁设计的？"), 0);
  EXPECT_EQ(chinese.First("木匠", "谁修了教堂的屋顶？"), 2);
  EXPECT_EQ(chinese.First("星期天"), 3);
}

TEST(CiteTest, TakesTheBestOfAnAnswersSentences) {
  const Sample town(kTown);
  const auto words =
      WordSupport::Create(*town.index, town.text, town.passages, "Who designed the mill at Osk?");
  const std::string talk = "Let me think about your question and tell you. It was Dr. Ada Brok. ";
  const double alone = words->Of("It was Dr. Ada Brok.")->probability[0];
  EXPECT_LT(words->Of(talk)->probability[0], alone);
  const auto of_answer = words->OfAnswer(talk);
  EXPECT_EQ(of_answer->probability[0], alone);
  EXPECT_EQ(std::ranges::max_element(of_answer->support), of_answer->support.begin());
  EXPECT_EQ(words->OfAnswer(talk + "So it goes. On and on. And so forth.")->probability[0], alone);
  EXPECT_EQ(words->OfAnswer("")->probability, words->Of("")->probability);
}

// A heading has the question's words; the sentence below it has the answer's, too.
TEST(CiteTest, TheLikeliestPassageComesFirst) {
  const Sample lease({"Repairs of the roof and the windows",
                      "The landlord pays for them within 14 days.",
                      "Nobody may keep a goat in the flat."});
  const auto citations = lease.CiteMost("The landlord pays.",
                                        "Who is responsible for repairs of the roof and windows?");
  EXPECT_EQ(citations[0].passage, 1u);
  for (size_t i = 1; i < citations.size(); ++i) {
    EXPECT_LE(citations[i].score, citations[i - 1].score);
  }
}

TEST(CiteTest, AnEmptyAnswerIsNotStated) {
  const Sample town(kTown);
  for (const char* nothing : {"", "\u2026"}) {
    const auto citations = town.CiteMost(nothing, "Who designed the mill at Osk?");
    EXPECT_LT(citations[0].score, kLeastScore) << nothing;
  }
}

TEST(CiteTest, AQuestionOfOtherWordsIsNone) {
  const Sample town(kTown);
  const double alone = town.CiteMost("slates", "")[0].score;
  EXPECT_EQ(town.CiteMost("slates", " ")[0].score, alone);
  EXPECT_EQ(town.CiteMost("slates", "Qu'est-ce?")[0].score, alone);
}

TEST(CiteTest, AQuestionsPassageDoesNotStateEveryAnswer) {
  const Sample town(kTown);
  const std::string question = "In which year was the mill at Osk designed?";
  EXPECT_GT(town.CiteMost("1871", question)[0].score, 0.7);
  for (const char* wrong : {"1872", "Zeppelins.", "The document does not say."}) {
    const auto citations = town.CiteMost(wrong, question);
    EXPECT_EQ(citations[0].passage, 0u) << wrong;  // the nearest one
    EXPECT_LT(citations[0].score, kLeastScore) << wrong;
  }
}

// Small models are mostly wrong, and their words are in the document.
TEST(CiteTest, AModelsWrongAnswerMisleadsLessThanAClaim) {
  const Sample town(kTown);
  const auto words = WordSupport::Create(*town.index, town.text, town.passages,
                                         "Who lived in the house by the bridge?");
  const std::string& wrong = kTown[7];
  const auto claim = words->Of(wrong), answer = words->OfAnswer(wrong);
  ASSERT_TRUE(claim.ok() && answer.ok());
  const auto best = [](const std::vector<double>& support) {
    return std::ranges::max_element(support) - support.begin();
  };
  EXPECT_EQ(best(claim->support), 7);
  EXPECT_EQ(best(answer->support), 1);
  EXPECT_EQ(answer->probability, claim->probability);
}

// "It" stands for the question's subject; the question below has other words.
TEST(CiteTest, AnswersStandBelowTheirQuestions) {
  const Sample faq({"What is the reserve of the northern depot?", "It is kept below the hill.",
                    "Who may open the gate of the southern depot?", "It is kept by the warden.",
                    "Nobody else may do that."});
  const auto citations = faq.CiteMost("", "What is the reserve of the northern depot?", 2);
  EXPECT_EQ(citations[0].passage, 0u);
  EXPECT_EQ(citations[1].passage, 1u);
  EXPECT_EQ(faq.First("It is kept", "Who may open the gate of the southern depot?"), 3);
}

TEST(CiteTest, RefusesPassagesOfAnotherIndex) {
  const Sample town(kTown);
  const auto two = std::span(town.passages).first(2);
  EXPECT_EQ(WordSupport::Create(*town.index, town.text, two, "").status().code(),
            Code::kInvalidArgument);
}

}  // namespace
}  // namespace lectern
