#include "engine/asking/evidence.h"

#include <gtest/gtest.h>

#include <string>

namespace lectern {
namespace {

// One token per byte, behind one template token that has no bytes.
std::vector<TokenizedText::Range> BytesAsTokens(std::string_view text) {
  std::vector<TokenizedText::Range> ranges = {{0, 0}};
  for (size_t i = 0; i < text.size(); ++i) ranges.push_back({i, i + 1});
  return ranges;
}

class EvidenceTest : public ::testing::Test {
 protected:
  // `shares`: of the text's mass per sentence, given to the first byte of each.
  std::vector<Evidence> Find(const std::vector<double>& shares, uint32_t max_passages = 3) {
    text_.clear();
    std::vector<double> mass = {1000};  // of the template: no part of the text's
    for (size_t i = 0; i < shares.size(); ++i) {
      const std::string sentence = "Sentence " + std::string(1, static_cast<char>('a' + i)) + ". ";
      text_ += sentence;
      mass.insert(mass.end(), sentence.size(), 0.0);
      mass[mass.size() - sentence.size()] = 2 * shares[i];
    }
    const auto passages = SplitPassages(text_, pages_);
    return FindEvidence({text_, passages, pages_}, BytesAsTokens(text_), mass, max_passages);
  }
  // As many sentences of the same small mass as make up what is left of 1.
  static std::vector<double> WithEvenRest(std::vector<double> shares) {
    double left = 1;
    for (const double share : shares) left -= share;
    shares.insert(shares.begin(), 100, left / 100);
    return shares;
  }
  std::string text_;
  std::vector<PageMapEntry> pages_;
};

TEST_F(EvidenceTest, MassIsTheShareOfWhatTheTextGot) {
  const auto evidence = Find({0.25, 0, 0.75});
  ASSERT_EQ(evidence.size(), 2u);
  EXPECT_EQ(evidence[0].text, "Sentence c.");
  EXPECT_EQ(text_.substr(evidence[0].begin, evidence[0].end - evidence[0].begin), evidence[0].text);
  EXPECT_FLOAT_EQ(evidence[0].mass, 0.75f);
  EXPECT_EQ(evidence[1].text, "Sentence a.");
  EXPECT_FLOAT_EQ(evidence[1].mass, 0.25f);
}

// Scores are a twentieth of the support, so that from 5 on a passage is evidence.
class EvidenceByWordsTest : public EvidenceTest {
 protected:
  std::vector<std::string> Find(const std::vector<double>& shares,
                                const std::vector<double>& support,
                                std::vector<double> scores = {}) {
    (void)EvidenceTest::Find(shares);
    const auto as_mass = [&](const std::vector<double>& of) {
      std::vector<double> mass = {0};
      for (const double share : of) {
        mass.push_back(share);
        mass.insert(mass.end(), text_.size() / of.size() - 1, 0.0);
      }
      return mass;
    };
    const std::vector<double> mass = as_mass(shares), retrieved = as_mass(retrieved_);
    std::vector<std::string> texts;
    const auto passages = SplitPassages(text_, {});
    for (size_t i = scores.size(); i < support.size(); ++i) scores.push_back(support[i] / 20);
    const auto evidence =
        FindEvidence({text_, passages}, BytesAsTokens(text_), mass, 3,
                     {support, scores, retrieved_.empty() ? std::span<const double>() : retrieved});
    for (const Evidence& one : evidence) texts.push_back(one.text);
    has_evidence_ = HasEvidence(evidence);
    return texts;
  }
  bool has_evidence_ = false;
  std::vector<double> retrieved_;  // shares of the sentences; empty: not watched
};

TEST_F(EvidenceByWordsTest, WordsDecideWhereAttentionDoesNot) {
  EXPECT_EQ(Find({0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1},
                 {0, 0, 0, 20, 0, 0, 0, 0.5, 0, 0}),
            (std::vector<std::string>{"Sentence d."}));
  EXPECT_TRUE(has_evidence_);
}

TEST_F(EvidenceByWordsTest, AttentionRanksPassagesOfTheSameWords) {
  EXPECT_EQ(Find({0.1, 0.6, 0.3, 0}, {8, 8, 8, 8}),
            (std::vector<std::string>{"Sentence b.", "Sentence c.", "Sentence a."}));
}

TEST_F(EvidenceByWordsTest, BothRank) {
  EXPECT_EQ(Find({0.6, 0, 0.4, 0}, {12, 15, 15, 0}),
            (std::vector<std::string>{"Sentence c.", "Sentence b.", "Sentence a."}));
}

// A score says how likely a passage supports the answer, which may be wrong; support by the
// question's words, too, ranks.
TEST_F(EvidenceByWordsTest, ScoresDoNotRank) {
  const std::vector<double> support = {9, 8, 7, 6}, scores = {0.1, 0.2, 0.6, 0.7};
  EXPECT_EQ(Find({0.25, 0.25, 0.25, 0.25}, support, scores),
            (std::vector<std::string>{"Sentence a.", "Sentence b.", "Sentence c."}));
  EXPECT_TRUE(has_evidence_);
  EXPECT_EQ(Find({0.25, 0.25, 0.25, 0.25}, support, {0.1, 0.2, 0.01, 0.7}),
            (std::vector<std::string>{"Sentence a.", "Sentence b.", "Sentence c."}));
  EXPECT_FALSE(has_evidence_);  // the passage that has it is not shown
}

TEST_F(EvidenceByWordsTest, PassagesFarBelowTheFirstAreNotShown) {
  EXPECT_EQ(Find({0.25, 0.25, 0.25, 0.25}, {20, 12.1, 11.9, 1}),
            (std::vector<std::string>{"Sentence a.", "Sentence b."}));
}

// Where retrieval heads look counts more than where all heads do, and a tenth of their attention as
// much as log(10) of support. Without any of their attention, all heads decide as ever.
TEST_F(EvidenceByWordsTest, RetrievalHeadsDecideInsteadOfAllHeads) {
  EXPECT_EQ(Find({0.7, 0.1, 0.1, 0.1}, {8, 8, 8, 8}).front(), "Sentence a.");
  retrieved_ = {0.1, 0.1, 0.7, 0.1};
  EXPECT_EQ(Find({0.7, 0.1, 0.1, 0.1}, {8, 8, 8, 8}).front(), "Sentence c.");
  EXPECT_EQ(Find({0.7, 0.1, 0.1, 0.1}, {8, 10.5, 8, 8}).front(), "Sentence b.");
  retrieved_ = {0, 0, 0, 0};
  EXPECT_EQ(Find({0.7, 0.1, 0.1, 0.1}, {8, 8, 8, 8}).front(), "Sentence a.");
}

TEST_F(EvidenceByWordsTest, PassagesWithoutAWordTakeNoPlace) {
  EXPECT_EQ(Find({0.9, 0.05, 0.05, 0}, {0, 0.5, 0, 0}),
            (std::vector<std::string>{"Sentence b."}));
}

// Some models always look at the same few passages.
TEST_F(EvidenceByWordsTest, AttentionAloneIsNoEvidence) {
  EXPECT_EQ(Find({0.9, 0.1, 0, 0}, {1, 4, 3, 0}),
            (std::vector<std::string>{"Sentence b.", "Sentence c.", "Sentence a."}));
  EXPECT_FALSE(has_evidence_);  // these are the nearest ones
}

TEST_F(EvidenceByWordsTest, AttentionDecidesAloneWhereNoWordIsShared) {
  (void)EvidenceTest::Find({0.5, 0.3, 0, 0.2});
  std::vector<double> mass(text_.size() + 1, 0.0);
  mass[1] = 0.5, mass[13] = 0.3, mass[37] = 0.2;
  const auto passages = SplitPassages(text_, {});
  const std::vector<double> none(passages.size(), 0.0);
  const auto evidence =
      FindEvidence({text_, passages}, BytesAsTokens(text_), mass, 3, {none, none});
  ASSERT_EQ(evidence.size(), 2u);
  EXPECT_EQ(evidence[0].text, "Sentence a. Sentence b.");
  EXPECT_EQ(evidence[0].score, 0);
  EXPECT_FALSE(HasEvidence(evidence));
}

TEST_F(EvidenceTest, NeighboursAreOnePassage) {
  const auto evidence = Find({0.5, 0.3, 0, 0.2});
  ASSERT_EQ(evidence.size(), 2u);
  EXPECT_EQ(evidence[0].text, "Sentence a. Sentence b.");
  EXPECT_FLOAT_EQ(evidence[0].mass, 0.8f);
}

TEST_F(EvidenceTest, NeighboursOnTwoPagesAreTwoPassages) {
  pages_ = {{0, 1, 0}, {12, 3, 0}};  // "Sentence b."
  const auto evidence = Find({0.5, 0.3, 0.2});
  ASSERT_EQ(evidence.size(), 2u);
  EXPECT_EQ(evidence[0].text, "Sentence a.");
  EXPECT_EQ(evidence[0].page, 1u);
  EXPECT_EQ(evidence[1].text, "Sentence b. Sentence c.");
  EXPECT_EQ(evidence[1].page, 3u);
}

TEST_F(EvidenceTest, APassageBelowTheThresholdIsLeftOut) {
  std::vector<double> shares = WithEvenRest({0, kMinPassageMass - 0.001, 0, 0.5});
  auto evidence = Find(shares);
  ASSERT_EQ(evidence.size(), 1u);
  EXPECT_FLOAT_EQ(evidence[0].mass, 0.5f);
  shares = WithEvenRest({0, kMinPassageMass + 0.001, 0, 0.5});
  evidence = Find(shares);
  ASSERT_EQ(evidence.size(), 2u);
  EXPECT_FLOAT_EQ(evidence[1].mass, kMinPassageMass + 0.001);
}

// The threshold applies to the joined passage: each half alone would be below it.
TEST_F(EvidenceTest, TheThresholdIsOfWholePassages) {
  const double half = 0.6 * kMinPassageMass;
  const auto evidence = Find(WithEvenRest({0, half, half, 0}), 2);
  ASSERT_EQ(evidence.size(), 1u);
  EXPECT_NEAR(evidence[0].mass, 2 * half, 1e-6);
}

TEST_F(EvidenceTest, FlatMassHasNoPassage) {
  EXPECT_TRUE(Find(WithEvenRest({})).empty());
  EXPECT_TRUE(Find({0, 0, 0}).empty());
}

TEST_F(EvidenceTest, NoPassageWhenNoneIsWanted) { EXPECT_TRUE(Find({1}, 0).empty()); }

// A text whose words each have the mass that is named behind them.
std::vector<Evidence> FindIn(const std::string& text,
                             const std::vector<std::pair<std::string, double>>& masses,
                             const std::vector<PageMapEntry>& pages = {}) {
  std::vector<double> mass(text.size() + 1, 0.0);
  for (const auto& [word, share] : masses) {
    for (size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) {
      mass[1 + at] += share;
    }
  }
  const auto passages = SplitPassages(text, pages);
  return FindEvidence({text, passages, pages}, BytesAsTokens(text), mass, 3);
}

TEST(RepeatedPassagesTest, CountOnceAndNameTheirPlaces) {
  const std::string fact = "The Lund club meets in Osk.";
  const std::string text = "The mill is old. " + fact +
                           " It rains.\n\nSnow is white. The Lund club\n  meets in Osk. " +
                           "Ice is cold.\n\n> The Lund club meets\n> in Osk.\n";
  const auto evidence = FindIn(text, {{"Lund", 0.1}, {"mill", 0.2}, {"Snow", 0.5}});
  ASSERT_EQ(evidence.size(), 3u);
  EXPECT_EQ(evidence[0].text, "Snow is white.");
  EXPECT_EQ(evidence[1].text, fact);
  EXPECT_EQ(evidence[1].begin, text.find(fact));
  EXPECT_FLOAT_EQ(evidence[1].mass, 0.3f);
  ASSERT_EQ(evidence[1].places.size(), 2u);
  const ByteRange& other = evidence[1].places[0];
  EXPECT_EQ(text.substr(other.begin, other.end - other.begin), "The Lund club\n  meets in Osk.");
  EXPECT_EQ(evidence[1].places[1].end, text.size() - 1);
  EXPECT_TRUE(evidence[0].places.empty());
}

TEST(PassagesOfEvidenceTest, SayTheirHeadingsAndPages) {
  const std::string text =
      "# Lease\n\n## Rent\n\nThe rent of flat 7 is due on the first day of every\n\nmonth in "
      "advance.\n";
  const uint64_t second = text.find("month");
  const auto evidence = FindIn(text, {{"rent", 1}}, {{0, 4, 0}, {second, 5, 0}});
  ASSERT_EQ(evidence.size(), 1u);
  EXPECT_EQ(evidence[0].heading, "Lease > Rent");
  EXPECT_EQ(evidence[0].end, text.size() - 1);
  EXPECT_EQ(evidence[0].page, 4u);
  EXPECT_EQ(evidence[0].page_end, 5u);
}

// 2 of mass on the text, of which `best` on one sentence and the rest evenly; 1 on the template.
Spread SpreadOf(double best, double missed) {
  std::string text;
  std::vector<double> mass = {1};
  for (int i = 0; i < 50; ++i) {
    text += "Some words. ";
    mass.insert(mass.end(), 12, 0.0);  // a token per byte
    mass[mass.size() - 12] = i == 20 ? best : (2 - best) / 49;
  }
  return FindSpread(SplitPassages(text, {}), BytesAsTokens(text), mass, 3 + missed);
}

// Shares of the text, unread rows included; the template's mass is no part of it.
TEST(SpreadTest, IsOfWhatTheTextWouldGet) {
  const Spread spread = SpreadOf(1, 0.5);
  EXPECT_NEAR(spread.best_passage, 1 / 2.5, 1e-9);
  EXPECT_NEAR(spread.missed, 0.5 / 2.5, 1e-9);
  EXPECT_EQ(SpreadOf(1, -0.1).missed, 0);  // an estimate may be a little too small
  EXPECT_FALSE(FindSpread({}, {}, {}, 0).IsWide());
}

TEST(SpreadTest, IsWideWithoutAPassageOrWithMuchMissed) {
  EXPECT_FALSE(SpreadOf(1, 0.5).IsWide());
  EXPECT_TRUE(SpreadOf(0.1, 0.5).IsWide());
  EXPECT_FALSE(SpreadOf(0.1, 0.01).IsWide());  // flat, but it was read
  EXPECT_TRUE(SpreadOf(1, 2).IsWide());
}

}  // namespace
}  // namespace lectern
