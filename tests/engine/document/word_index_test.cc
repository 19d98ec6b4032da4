#include "engine/document/word_index.h"

#include <gtest/gtest.h>
#include <sqlite3.h>

#include <algorithm>
#include <random>
#include <thread>

#include "engine/document/word_tokenizer.h"

namespace lectern {
namespace {

// A text of the given passages, each on a line, and its index. A line that begins with "# " is a
// heading over all lines up to the next.
struct SampleIndex {
  explicit SampleIndex(const std::vector<std::string>& lines) {
    std::vector<Passage> passages;
    uint32_t heading = 0;
    for (const std::string& line : lines) {
      const bool is_heading = line.starts_with("# ");
      if (is_heading) heading = static_cast<uint32_t>(passages.size() + 1);
      Passage& passage = passages.emplace_back();
      passage.begin = text.size() + (is_heading ? 2 : 0);
      passage.end = text.size() + line.size();
      passage.heading = is_heading ? 0 : heading;
      passage.kind = is_heading ? PassageKind::kHeading : PassageKind::kSentence;
      passage.level = is_heading;
      text += line + "\n";
    }
    auto built = WordIndex::Build(text, passages);
    EXPECT_TRUE(built.ok()) << built.status().message();
    bytes = *std::move(built);
    auto opened = WordIndex::Open(bytes);
    EXPECT_TRUE(opened.ok()) << opened.status().message();
    index = *std::move(opened);
  }
  // Numbers of the passages found, best first.
  std::vector<uint32_t> Find(std::string_view words, size_t most = 10) const {
    const auto scores = index->Score(words);
    EXPECT_TRUE(scores.ok()) << scores.status().message();
    std::vector<uint32_t> numbers;
    for (uint32_t p = 0; p < scores->covered.size(); ++p) {
      if (scores->covered[p] > 0) numbers.push_back(p);
    }
    const auto score = [&](uint32_t p) { return scores->bm25[p] + scores->around[p]; };
    std::ranges::stable_sort(numbers, std::greater{}, score);
    numbers.resize(std::min(numbers.size(), most));
    return numbers;
  }
  std::vector<std::string> Words(std::string_view words) const {
    const auto found = index->Split(words);
    EXPECT_TRUE(found.ok()) << found.status().message();
    return *found;
  }
  std::string text, bytes;
  std::unique_ptr<WordIndex> index;
};

using Numbers = std::vector<uint32_t>;
using Strings = std::vector<std::string>;

const Strings kEnglish = {
    "The mill at Osk was designed by Ada Brok, and the river drives it.",
    "The owner of the Lund mill is the grandson of a miller from the north.",
    "In the winter the bridges of the town are closed to all of the carts.",
    "The roof of the chapel was repaired with slates that came by boat.",
    "A ferry to the island leaves from the old harbour on Sundays.",
    "The school has a garden, and the children grow beans in it."};

TEST(WordIndexTest, FindsEnglishWordsByTheirStemsWhateverTheirCaseAndAccents) {
  const SampleIndex sample(kEnglish);
  EXPECT_EQ(sample.Find("Who DESIGNS mills?", 1), Numbers{0});
  EXPECT_EQ(sample.Find("repairing", 1), Numbers{3});
  EXPECT_EQ(sample.Find("h\u00e1rbour", 1), Numbers{4});
  EXPECT_EQ(sample.Find("zeppelin"), Numbers{});
  EXPECT_EQ(sample.Find(""), Numbers{});
}

TEST(WordIndexTest, PrefersRareWordsAndManyOfThem) {
  const SampleIndex sample(kEnglish);
  EXPECT_EQ(sample.Find("the owner of the Lund mill", 1), Numbers{1});
  EXPECT_EQ(sample.Find("mill river", 2), (Numbers{0, 1}));
  const auto scores = sample.index->Score("mill river");
  EXPECT_GT(scores->bm25[0], scores->bm25[1]);
  EXPECT_EQ(sample.Find("mill river", 1).size(), 1u);
}

TEST(WordIndexTest, PassesOverStopWordsUnlessThereIsNothingElse) {
  const SampleIndex sample(kEnglish);
  EXPECT_EQ(sample.Find("What is the ferry?"), Numbers{4});
  // "with" alone: passage 3 has it.
  EXPECT_EQ(sample.Find("with", 1), Numbers{3});
}

TEST(WordIndexTest, TakesTheSyntaxOfQueriesForPlainText) {
  const SampleIndex sample(kEnglish);
  for (const std::string text :
       {"\"ferry", "ferry*", "ferry AND zeppelin", "NEAR(ferry zeppelin, 2)", "NOT ferry",
        "passage : ferry", "{heading} : ferry", "^ferry", "ferry'; DROP TABLE words; --", "-ferry",
        "(((ferry", "ferry + zeppelin"}) {
    EXPECT_EQ(sample.Find(text, 1), Numbers{4}) << text;
  }
  EXPECT_EQ(sample.Find("\"*():^+-'"), Numbers{});
}

TEST(WordIndexTest, CountsHeadingsAndNeighboursALittle) {
  const Strings under_headings = {"# Valves", "Nothing.", "It costs 45.",  "Nothing.", "Nothing.",
                                  "Nothing.", "# Pumps",  "Nothing.", "It costs 120.", "Nothing."};
  const SampleIndex headed(under_headings);
  const auto is_before = [&](const char* question, uint32_t first, uint32_t second) {
    const Numbers found = headed.Find(question);
    return std::find(found.begin(), found.end(), first) <
           std::find(found.begin(), found.end(), second);
  };
  EXPECT_TRUE(is_before("What do pumps cost?", 8, 2));
  EXPECT_TRUE(is_before("What do valves cost?", 2, 8));
  const SampleIndex near({"Nothing.", "It costs 45.", "Nothing.", "Nothing.", "The pump.",
                          "It costs 120.", "Nothing."});
  EXPECT_EQ(near.Find("costs pump", 2), (Numbers{4, 5}));
  const auto scores = near.index->Score("pump costs");
  ASSERT_TRUE(scores.ok());
  EXPECT_GT(scores->around[5], 0);
  EXPECT_LE(scores->around[5], 0.7f);
  EXPECT_LT(scores->around[1], scores->around[5]);
  // It is known how much the passages behind a passage count.
  const auto pump = near.index->Score("pump");
  ASSERT_TRUE(pump.ok());
  EXPECT_EQ(pump->around[3], pump->around[5]);
  EXPECT_FLOAT_EQ(pump->behind[3], pump->around[3] / 2);
  EXPECT_EQ(pump->behind[5], 0);
}

TEST(WordIndexTest, CountsRelatedWordsOfAQuestionALittle) {
  struct Case {
    Strings lines;
    const char* question;
    uint32_t passage;
  };
  const Case cases[] = {
      {{"The mill is old.", "The authorised persons.", "The auto stops."}, "Which authority?", 1},
      {{"Die Brücke ist alt.", "Der Versicherungsnehmer zahlt.", "Der Versuch."},
       "Welche Versicherungen?",
       1},
      {{"Most jest stary.", "Wysokość mostów.", "Rower kosztuje mało."}, "Który rowerem?", 2},
      {{"Мост старый.", "Мельница стоит у реки.", "Крыша новая."}, "Кто был на мельницу?", 1}};
  for (const Case& c : cases) {
    const SampleIndex sample(c.lines);
    const auto scores = sample.index->ScoreQuestion(c.question);
    ASSERT_TRUE(scores.ok()) << scores.status().message();
    for (uint32_t p = 0; p < c.lines.size(); ++p) {
      EXPECT_EQ(scores->covered[p], 0) << c.question;
      EXPECT_EQ(scores->around[p] > 0, p == c.passage) << c.question << " " << p;
    }
    const auto as_text = sample.index->Score(c.question);
    ASSERT_TRUE(as_text.ok());
    EXPECT_EQ(as_text->around, std::vector<float>(c.lines.size())) << c.question;
  }
  // Numbers and short words that begin alike are others.
  const SampleIndex numbers({"In 10001 cases.", "It is an ore.", "Nothing."});
  EXPECT_EQ(numbers.index->ScoreQuestion("10000 orb")->around, std::vector<float>(3));
}

TEST(WordIndexTest, WordsThatTellLittleCountHalfInQuestions) {
  const SampleIndex sample({"The many happen.", "The ferry.", "Nothing of it."});
  const auto text = sample.index->Score("many ferry"),
             question = sample.index->ScoreQuestion("many ferry");
  ASSERT_TRUE(text.ok() && question.ok());
  EXPECT_NEAR(text->covered[0], 0.5, 1e-6);
  EXPECT_NEAR(question->covered[0], 1.0 / 3, 1e-6);
  EXPECT_NEAR(question->covered[1], 2.0 / 3, 1e-6);
}

// Passages 1 to 13 are at most six away from the seventh.
TEST(WordIndexTest, KnowsTheWordsOfAWindowAndOfHeadings) {
  std::string text = "# Quarry\n\n";
  for (int i = 1; i <= 16; ++i) {
    text += i == 7 ? "The ferry waits.\n\n" : "Sentence number " + std::to_string(i) + ".\n\n";
  }
  const std::vector<Passage> passages = SplitPassages(text, {});
  ASSERT_EQ(passages.size(), 17u);
  const auto bytes = WordIndex::Build(text, passages);
  const auto index = WordIndex::Open(*bytes);
  const auto ferry = (*index)->Score("ferry"), both = (*index)->Score("ferry quarry");
  ASSERT_TRUE(ferry.ok() && both.ok());
  for (size_t p = 0; p < passages.size(); ++p) {
    EXPECT_EQ(ferry->window[p], p >= 1 && p <= 13 ? 1.0f : 0.0f) << p;
    EXPECT_EQ(ferry->heading[p], 0) << p;
    EXPECT_NEAR(both->heading[p], p == 0 ? 0 : 0.5, 0.01) << p;
    EXPECT_LE(both->window[p], 1.0f + 1e-6f) << p;
  }
}

// Each language's passages, and a question with the passage that has its words.
struct Spaceless {
  Strings lines;
  std::string question;
  uint32_t passage;
};

TEST(WordIndexTest, FindsWordsOfScriptsWithoutSpaces) {
  const Spaceless cases[] = {
      {{"东京都的人口是一千四百万。", "大阪以食物闻名。", "京都有许多寺庙。"}, "京都的寺庙", 2},
      {{"水車は川の近くにある。", "屋根は大工が直した。", "カタカナのテスト。"}, "誰が屋根を直したか", 1},
      {{"방앗간은 강 옆에 있다.", "지붕을 고친 사람은 목수이다.", "다리는 겨울에 닫힌다."}, "누가 지붕은 고쳤나", 1},
      {{"โรงสีอยู่ใกล้แม่น้ำ", "หลังคาซ่อมโดยช่างไม้", "สะพานปิดในฤดูหนาว"}, "ใครซ่อมหลังคา", 1},
      {{"ໂຮງສີຢູ່ໃກ້ແມ່ນ້ຳ", "ຫຼັງຄາຖືກສ້ອມແປງ"}, "ຫຼັງຄາ", 1},
      {{"ផ្ទះនៅជិតទន្លេ", "ដំបូលត្រូវបានជួសជុល"}, "ដំបូល", 1},
      {{"မြစ်အနီးတွင်ရှိသည်", "အမိုးကိုပြုပြင်ခဲ့သည်"}, "အမိုး", 1}};
  for (const Spaceless& c : cases) {
    EXPECT_EQ(SampleIndex(c.lines).Find(c.question, 1), Numbers{c.passage}) << c.question;
  }
}

TEST(WordIndexTest, CutsEachScriptOfATextByItsOwnRules) {
  const SampleIndex sample(kEnglish);
  EXPECT_EQ(sample.Words("Mills使用OpenSSL库 3.0"),
            (Strings{"mill", "使用", "openssl", "库", "3", "0"}));
  EXPECT_EQ(sample.Words("東京都"), (Strings{"東京", "京都"}));
  EXPECT_EQ(sample.Words("\U00020000\U00020001"), (Strings{"\U00020000\U00020001"}));
}

TEST(WordIndexTest, LeavesWordsOfOtherLanguagesWhole) {
  const SampleIndex german({"Die Mühle wurde von Ada Brok gebaut.", "Das Dach ist aus Schiefer."});
  EXPECT_EQ(german.Words("Die MÜHLEN"), (Strings{"die", "muhlen"}));
  EXPECT_EQ(german.Find("Muhle", 1), Numbers{0});
  // Vowel signs are part of a word of Hindi.
  const SampleIndex hindi({"चक्की नदी के पास है।", "छत की मरम्मत बढ़ई ने की।"});
  EXPECT_EQ(hindi.Words("चक्की नदी"), (Strings{"चक्की", "नदी"}));
  EXPECT_EQ(hindi.Find("छत किसने", 1), Numbers{1});
  const SampleIndex arabic({"الطاحونة بالقرب من النهر", "أصلح النجار السقف"});
  EXPECT_EQ(arabic.Find("من أصلح السقف", 1), Numbers{1});
}

TEST(WordIndexTest, TellsEnglishFromOtherLanguages) {
  EXPECT_TRUE(IsEnglish(kEnglish[0] + kEnglish[1]));
  EXPECT_FALSE(IsEnglish("Die Mühle an der Osk wurde von Ada Brok in den Jahren gebaut."));
  EXPECT_FALSE(IsEnglish("In de winter is de brug van het dorp gesloten, en was dat ook in 1871."));
  EXPECT_FALSE(IsEnglish("Le moulin a été construit par Ada Brok, et le toit est en ardoise."));
  EXPECT_FALSE(IsEnglish("东京都的人口是一千四百万。"));
  EXPECT_FALSE(IsEnglish(""));
}

TEST(WordIndexTest, WeighsRareWordsMoreAndStopWordsLittle) {
  const SampleIndex sample(kEnglish);
  const auto weights = sample.index->Weigh(sample.Words("the mill ferry"));
  ASSERT_TRUE(weights.ok());
  ASSERT_EQ(weights->size(), 3u);
  EXPECT_EQ((*weights)[0], kStopWordWeight);
  EXPECT_GT((*weights)[1], kStopWordWeight);
  EXPECT_GT((*weights)[2], (*weights)[1]);
}

TEST(WordIndexTest, TakesEmptyAndOddTexts) {
  EXPECT_EQ(SampleIndex({}).Find("anything"), Numbers{});
  const std::string odd("a\0mill \xFF\xE4\xB8 \xF0\x9F", 12);
  const SampleIndex sample({odd, "", "plain mill"});
  EXPECT_EQ(sample.index->num_passages(), 3u);
  EXPECT_EQ(sample.Find("plain", 1), Numbers{2});
  EXPECT_EQ(sample.Find(odd, 1), Numbers{0});
  EXPECT_TRUE(sample.index->Score("\xE4\xB8").ok());
  for (const std::string& question : {std::string("\xE4\xB8"), odd, odd + odd, std::string()}) {
    EXPECT_TRUE(sample.index->ScoreQuestion(question).ok());
  }
}

TEST(WordIndexTest, IsTheSameForTheSameText) {
  EXPECT_EQ(SampleIndex(kEnglish).bytes, SampleIndex(kEnglish).bytes);
}

TEST(WordIndexTest, AnswersSeveralThreadsAlike) {
  const SampleIndex sample(kEnglish);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 50; ++i) EXPECT_EQ(sample.Find("mill river", 2), (Numbers{0, 1}));
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// Damage ---------------------------------------------------------------------------------------

// Opens bytes and uses everything; what comes back is a valid answer or a typed error.
void UseDamaged(const std::string& bytes) {
  const auto check = [](const Status& status) {
    const Code code = status.code();
    EXPECT_TRUE(code == Code::kCorrupt || code == Code::kUnsupportedVersion) << status.message();
  };
  const auto index = WordIndex::Open(bytes);
  if (!index.ok()) return check(index.status());
  const size_t passages = (*index)->num_passages();
  for (const char* text : {"the owner of the mill", "ferry harbour roof winter with"}) {
    const auto scores = (*index)->Score(text);
    if (!scores.ok()) check(scores.status());
    if (scores.ok()) {
      EXPECT_EQ(scores->bm25.size(), passages);
    }
    if (const auto question = (*index)->ScoreQuestion(text); !question.ok()) {
      check(question.status());
    }
    const auto words = (*index)->Split(text);
    ASSERT_TRUE(words.ok());
    const auto weights = (*index)->Weigh(*words);
    if (!weights.ok()) check(weights.status());
  }
}

TEST(WordIndexTest, RefusesEveryTruncation) {
  const std::string bytes = SampleIndex(kEnglish).bytes;
  for (size_t size = 0; size < bytes.size(); size += size < 200 ? 1 : 97) {
    const std::string cut = bytes.substr(0, size);
    UseDamaged(cut);
  }
  EXPECT_EQ(WordIndex::Open("").status().code(), Code::kCorrupt);
  EXPECT_EQ(WordIndex::Open(std::string(4096, 'x')).status().code(), Code::kCorrupt);
}

TEST(WordIndexTest, SurvivesEveryFlippedByte) {
  const std::string bytes = SampleIndex(kEnglish).bytes;
  for (size_t at = 0; at < bytes.size(); ++at) {
    std::string damaged = bytes;
    damaged[at] = static_cast<char>(damaged[at] ^ (1 << at % 8));
    UseDamaged(damaged);
  }
}

TEST(WordIndexTest, SurvivesRandomDamage) {
  const std::string bytes = SampleIndex(kEnglish).bytes;
  std::mt19937 random(38);
  for (int round = 0; round < 1500; ++round) {
    std::string damaged = bytes;
    for (uint32_t flips = 1 + random() % 8; flips > 0; --flips) {
      damaged[random() % damaged.size()] = static_cast<char>(random());
    }
    if (random() % 4 == 0) damaged.resize(random() % damaged.size());
    UseDamaged(damaged);
  }
}

TEST(WordIndexTest, RefusesOtherDatabasesAndLaterVersions) {
  const auto made = [](const std::string& base, const char* sql) {
    sqlite3* db = nullptr;
    EXPECT_EQ(sqlite3_open(":memory:", &db), SQLITE_OK);
    if (!base.empty()) {
      auto* copy = static_cast<unsigned char*>(sqlite3_malloc64(base.size()));
      std::copy(base.begin(), base.end(), copy);
      const auto size = static_cast<sqlite3_int64>(base.size());
      EXPECT_EQ(sqlite3_deserialize(db, "main", copy, size, size,
                                    SQLITE_DESERIALIZE_FREEONCLOSE | SQLITE_DESERIALIZE_RESIZEABLE),
                SQLITE_OK);
    }
    EXPECT_EQ(sqlite3_exec(db, sql, nullptr, nullptr, nullptr), SQLITE_OK) << sqlite3_errmsg(db);
    sqlite3_int64 size = 0;
    unsigned char* data = sqlite3_serialize(db, "main", &size, 0);
    const std::string bytes(reinterpret_cast<char*>(data), static_cast<size_t>(size));
    sqlite3_free(data);
    sqlite3_close(db);
    return bytes;
  };
  const std::string ours = SampleIndex(kEnglish).bytes;
  const auto code = [&](const std::string& base, const char* sql) {
    return WordIndex::Open(made(base, sql)).status().code();
  };
  EXPECT_EQ(code("", "CREATE TABLE words(x); PRAGMA user_version=1"), Code::kCorrupt);
  EXPECT_EQ(code(ours, "PRAGMA user_version=2"), Code::kUnsupportedVersion);
  EXPECT_EQ(code(ours, "PRAGMA user_version=0"), Code::kCorrupt);
  EXPECT_EQ(code(ours, "UPDATE lengths SET words=x'010203'"), Code::kCorrupt);
  EXPECT_EQ(code(ours, "DROP TABLE lengths"), Code::kCorrupt);
  // Fewer lengths than passages: a word of a passage that is not there is refused.
  const std::string fewer = made(ours, "UPDATE lengths SET words=x'0100'");
  const auto index = WordIndex::Open(fewer);
  ASSERT_TRUE(index.ok());
  EXPECT_EQ((*index)->Score("ferry").status().code(), Code::kCorrupt);
}

}  // namespace
}  // namespace lectern
