#include "engine/document/sentence_breaks.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "engine/document/abbreviations.h"
#include "engine/model/formats/text.h"

namespace lectern {
namespace {

using Sentences = std::vector<std::string>;

Sentences Split(std::string_view text) {
  std::vector<size_t> ends;
  AppendSentenceEnds(text, &ends);
  Sentences sentences;
  size_t begin = 0;
  for (const size_t end : ends) {
    sentences.emplace_back(TrimWhiteSpace(text.substr(begin, end - begin)));
    begin = end;
  }
  EXPECT_EQ(begin, text.size());
  return sentences;
}

// Joins the sentences with a space, or nothing, and expects the same back.
void ExpectSentences(const Sentences& sentences, const std::string& space = " ") {
  std::string text;
  for (const std::string& sentence : sentences) text += (text.empty() ? "" : space) + sentence;
  EXPECT_EQ(Split(text), sentences);
}

TEST(SentenceBreaksTest, QuestionsEndWithTheMarksOfTheirScripts) {
  for (const char* const text :
       {"Who owns it?", "\"Who owns it?\" ", "**Who owns it?**", "Really?!", "誰のもの？",
        "（誰？）", "من يملكه؟", "Ποιος το έχει;", "Ποιος το έχει\u037E", "ማን ነው፧", "Ո՞վ է։",
        "Who⁈"}) {
    EXPECT_TRUE(EndsAsQuestion(text)) << text;
  }
  for (const char* const text :
       {"", "It is old.", "Who? He.", "Wait;", "a = b;", "Το έχω.", "?a"}) {
    EXPECT_FALSE(EndsAsQuestion(text)) << text;
  }
}

TEST(SentenceBreaksTest, EndAtTerminatorsBeforeASpace) {
  ExpectSentences({"The mill is old.", "Who owns it?", "Carrow!", "He pays 400 EUR."});
  ExpectSentences({"He left...", "The door was open.", "Wait… what is it?!", "Nothing."});
  ExpectSentences({"It was built in 1871.", "250 people saw it."});
}

TEST(SentenceBreaksTest, DoNotEndBeforeSmallLettersAndCommas) {
  ExpectSentences({"\"Stop!\" he said.", "Why? asked Ada, and left."});
  ExpectSentences({"Yahoo!, Lund and Co. belong to him."});
}

TEST(SentenceBreaksTest, KeepQuotesBracketsAndFootnotes) {
  ExpectSentences({"\"The mill is old.\"", "(Nobody knows why.)", "It stands.[12]", "It turns.¹",
                   "„Halt!“", "« Bonjour ! »", "**It is bold.**", "The end."});
  ExpectSentences({"It grinds (see Section 2. Stones) all day.", "It rests."});
}

TEST(SentenceBreaksTest, KnowEnglishAbbreviations) {
  ExpectSentences({"The mill was designed by Dr. Ada Brok in 1871.",
                   "Its owner is Prof. B. Carrow of St. Harn.", "See Fig. 3."});
  ExpectSentences({"Mr. Lund, e.g. on Mondays, i.e. Always, pays approx. 400 EUR.",
                   "See No. 5 vs. No. 6.", "The answer is no.", "Bob left."});
  ExpectSentences({"It belongs to Acme Inc.", "The firm moved to Main St.",
                   "In Jan. 2020 it closed at 5 p.m.", "He wept."});
  ExpectSentences(
      {"Brok et al. (2004) and Lund et al. Carrow agree.", "Sales rose, etc.", "The rest fell."});
}

TEST(SentenceBreaksTest, KnowInitials) {
  ExpectSentences({"J. R. Smith lives in the U.S. Virgin Islands.",
                   "J.R.R. Tolvin lives in the U.K.", "He is old."});
  ExpectSentences({"Nobody is older than I.", "Bob knows.", "Take vitamin C.", "It helps."});
}

TEST(SentenceBreaksTest, KnowGermanAbbreviationsAndOrdinals) {
  ExpectSentences({"Der Bau begann am 3. Oktober 1871, z. B. in Harn.",
                   "Das 19. Jahrhundert war gut.", "Er hat 12.", "Die Tür ist rot.",
                   "Ludwig XIV. Baute es, d. h. Dr. Brok.",
                   "Kosten: 3 Mio. Euro, vgl. S. 12 bzw. Abb. 5."});
}

TEST(SentenceBreaksTest, KnowRomanceAbbreviations) {
  ExpectSentences(
      {"M. Dupont et Mme. Brok habitent à Paris, cf. Lyon.", "Voir p. 12.", "Il part."});
  ExpectSentences({"El Sr. García vive en EE.UU. con la Dra. López.", "¿Quién es?", "¡Hola!"});
  ExpectSentences({"Il Sig. Rossi e la Dott.ssa Bianchi, art. 3.", "La casa."});
  ExpectSentences({"O Sr. Silva mora na Av. Brasil, n.º 12.", "Ele paga."});
}

TEST(SentenceBreaksTest, KeepNumbersNamesOfFilesAndListMarks) {
  ExpectSentences(
      {"Version 3.0.1 of lectern.cc is on example.com.", "It takes 3.5 kg.", "Carrow knows."});
  ExpectSentences({"1. The tenant pays.", "He pays on time."});
  ExpectSentences({"§ 3. The tenant heats.", "He does."});
  ExpectSentences({"(ii) The tenant cleans.", "He does."});
}

TEST(SentenceBreaksTest, EndAtCjkStopsWithoutSpaces) {
  ExpectSentences({"磨坊由艾达·布罗克于1871年设计。", "它高40.5米！", "谁拥有它？",
                   "房东说：“房租是400元。”", "他走了｡"},
                  "");
  ExpectSentences({"水車小屋は1871年に建てられた。", "「これは私の家です。」と彼女は言った。",
                   "「雨だ。帰ろう。」", "彼は去った。", "水車（ハルンにある。）は古い。"},
                  "");
}

TEST(SentenceBreaksTest, EndAtStopsOfOtherScripts) {
  ExpectSentences({"صممت آدا بروك الطاحونة عام 1871.", "من يملك الطاحونة؟",
                   "يملكها د. كارو من هارن.", "الإيجار 3.5 دينار، كل شهر!"});
  ExpectSentences({"یہ چکی پرانی ہے۔", "مالک کون ہے؟"});
  ExpectSentences({"चक्की 1871 में डॉ. अदा ब्रोक ने बनाई थी।", "मालिक कौन है?", "प्रो. कैरो हैं॥ १२ ॥",
                   "वह अच्छा है.", "राम आया।"});
  ExpectSentences({"ម្ចាស់គឺលោកការ៉ូ។", "គាត់ចាស់។"});
  ExpectSentences({"Բարեւ։", "Նա եկավ։"});
}

// Thai has no stops: spaces around names and numbers are no ends.
TEST(SentenceBreaksTest, EndThaiAtSpacesBetweenLongRuns) {
  ExpectSentences(
      {"นางสาวมาลี ใจดี เป็นผู้อำนวยการโรงเรียนบ้านหนองบัว", "โรงเรียนตั้งขึ้นเมื่อ พ.ศ. 2541 มีนักเรียน 250 คน"});
}

TEST(SentenceBreaksTest, TellHowLinesEndAndBegin) {
  EXPECT_EQ(EndOf("The mill is old."), TextEnd::kClosed);
  EXPECT_EQ(EndOf("它很旧。"), TextEnd::kClosed);
  EXPECT_EQ(EndOf("It belongs to Prof."), TextEnd::kOpen);
  EXPECT_EQ(EndOf("It belongs to the"), TextEnd::kOpen);
  EXPECT_EQ(EndOf("The mill, the tower,"), TextEnd::kOpen);
  EXPECT_EQ(EndOf("The Lund Mill"), TextEnd::kUnknown);
  EXPECT_EQ(StartOf("(and so on"), TextStart::kSmallLetter);
  EXPECT_EQ(StartOf("¿Quién"), TextStart::kCapital);
  EXPECT_EQ(StartOf("水"), TextStart::kOtherLetter);
  EXPECT_EQ(StartOf("12"), TextStart::kDigit);
}

TEST(AbbreviationsTest, CaseMatters) {
  EXPECT_EQ(StopAfterWord("Dr"), StopAfter::kNever);
  EXPECT_EQ(StopAfterWord("DR"), StopAfter::kNever);
  EXPECT_EQ(StopAfterWord("No"), StopAfter::kNumber);
  EXPECT_EQ(StopAfterWord("no"), StopAfter::kNumber);
  EXPECT_EQ(StopAfterWord("out"), StopAfter::kEnds);
  EXPECT_EQ(StopAfterWord("Sun"), StopAfter::kMayEnd);
  EXPECT_EQ(StopAfterWord("sun"), StopAfter::kEnds);
  EXPECT_EQ(StopAfterWord("Z.B"), StopAfter::kNever);
  EXPECT_EQ(StopAfterWord("mill"), StopAfter::kEnds);
}

TEST(SentenceBreaksTest, KnowGreekQuestionsAndEthiopicStops) {
  ExpectSentences({"Ποιος πλήρωσε το έργο;", "Το πλήρωσε η πόλη· κόστισε 12.500 δραχμές.",
                   "Πότε έκλεισε;", "Το 1955."});
  ExpectSentences({"Buy milk; Then rest."});
  ExpectSentences({"የህዝብ ብዛት 3,384,569 ነው፡፡", "የአፍሪካ ሕብረት መቀመጫ ናት፡፡", "ስሟን ማን አወጣ፧", "እቴጌ ጣይቱ።"});
  ExpectSentences({"ሰው፡ሁሉ፡በሕግ፡ፊት፡እኩል፡ነው።፡", "ሕጉ፡ደህንነቱን፡እንዲጠበቅለት፡መብት፡አለው።"}, "");
  EXPECT_EQ(EndOf("Ποιος πλήρωσε το έργο;"), TextEnd::kClosed);
  EXPECT_EQ(EndOf("መቀመጫ ናት፡፡"), TextEnd::kClosed);
  EXPECT_EQ(EndOf("buy milk;"), TextEnd::kOpen);
}

TEST(SentenceBreaksTest, KnowVietnameseTitles) {
  ExpectSentences({"Cầu do TS. Nguyễn Văn An và PGS. Trần Bình thiết kế.", "Ai đặt tên cầu?"});
}

TEST(SentenceBreaksTest, KnowArmenianColonsAndBurmeseClauses) {
  ExpectSentences({"Մութ է:", "Ես պետք է տուն վերադառնամ:"});
  ExpectSentences({"Անուն: Արմինե։", "Նա եկավ։"});  // its own stop leaves the colon a colon
  ExpectSentences({"၁၉၄၈ ခုနှစ်၊ ဒီဇင်ဘာလ ၁၀ ရက်နေ့ဖြစ်သည်။", "လူတိုင်းဖြစ်သည်။"});
}

TEST(SentenceBreaksTest, LetThaiAndLaoGoOnOverSpaces) {
  ExpectSentences({"เด็กทั้งปวงไม่ว่าจะเกิดในหรือนอกสมรส จะต้องได้รับการคุ้มครองทางสังคม"});
  ExpectSentences({"ກອງປະຊຸມໃຫຍ່ສະຫະປະຊາຊາດໄດ້ຮັບຮອງ ແລະ ປະກາດສິດຂອງມວນມະນຸດນີ້"});
  // Full stops that end sentences are enough.
  ExpectSentences({"ສະຖານສຶກສາໃດໆໂດຍບໍ່ຄຳນືງເຖິງລັດທິ ສະຖານສຶກສາໃດໆໂດຍບໍ່ຄຳນືງ.", "ການເມືອງຂອງເຮົາປະເທດໃດເລີຍ."});
}

TEST(SentenceBreaksTest, KnowAbbreviationsOfOtherLanguages) {
  ExpectSentences({"Młyn, np. Lund, jest stary.", "Stoi tam."});
  ExpectSentences({"Mlýn má tzv. Lundův kámen, např. Osk.", "Je starý."});
  ExpectSentences({"Møllen, f.eks. Lund, er gammel.", "Den står."});
  ExpectSentences({"De molen, bijv. Lund, is oud.", "Hij staat."});
  ExpectSentences({"Подробнее см. Раздел 5.", "Длина 10 см.", "Это мало."});
  ExpectSentences({"Sono l'Avv. Rossi e l’Ing. Bianchi, cfr. Lund.", "La casa."});
}

// A capital alone is an initial, also where it is an abbreviation before numbers.
TEST(SentenceBreaksTest, KnowInitialsThatAreAbbreviationsToo) {
  ExpectSentences({"It is by Edward L. Fox and T. S. Tolvin.", "See S. 12 and p. 5.", "He left."});
  ExpectSentences({"It opens at 10 p.m.", "I'm there."});
}

TEST(SentenceBreaksTest, EndBehindNumbersOfFootnotes) {
  ExpectSentences({"The doctors agree.11 12", "The others differ.3", "It is in lectern.2 files."});
  ExpectSentences({"Read printf.3 Carrow.", "It is old."});
}

TEST(SentenceBreaksTest, DoNotEndBeforeAClosingBracket) {
  ExpectSentences({"ls [ file ... ] lists files.", "[ It is by Ada. ]"});
}

TEST(SentenceBreaksTest, KeepListMarksOfAppendicesAndDoubledLetters) {
  ExpectSentences({
      "B.2.5. Keys of the mill",
  });
  ExpectSentences({"aa. The mill is old.", "It stands."});
}

TEST(SentenceBreaksTest, KeepTheNumberOfASectionWithIt) {
  ExpectSentences({"Section 4. Notices.", "They go to the office, Attn. Carrow, by mail."});
  ExpectSentences({"Beispiel 1. Ausgabe der Liste"});
  ExpectSentences({"The rent is set in Section 4.", "Nobody pays it."});
}

// A time ends a sentence, unless a day, month or zone follows.
TEST(SentenceBreaksTest, EndBehindTimes) {
  ExpectSentences({"It left at 6 a.m.", "Travelers slept.", "It came at 7:05 p.m. EST on Monday.",
                   "Brok left."});
  ExpectSentences({"We meet at 9 A.M. Monday, or at 9 p.m. on Tuesday."});
  ExpectSentences({"It was written by A.M. Kuchling.", "It is old."});
}

TEST(SentenceBreaksTest, KnowAbbreviationsBeforeNumbers) {
  ExpectSentences({"He is no. 5 of vol. II, ch. 4, cl. 2.1.", "The answer is no.", "Bob left."});
  ExpectSentences({"Haftung gem. § 2 BetrKV, Anl. 3, nach i. V. m. Art. 5.", "Der Rat zahlt."});
  ExpectSentences({"Podle stk. 2, azaz kb. 250 euró, tj. ok. 30 zł.", "Koniec."});
  ExpectSentences({"Ev, Atatürk Cad. No. 12 adresinde."});
  // A unit behind a number ends its sentence.
  ExpectSentences({"The box weighs 3 kg.", "12 men carried it."});
  ExpectSentences({"Assign a value to nbpg.", "4096 works."});
}

TEST(SentenceBreaksTest, KnowDatesInNumbers) {
  ExpectSentences({"Der Vertrag vom 1. 4. 2020 gilt bis 30. 6. 2021.", "Er endet."});
  ExpectSentences({"계약서는 2019. 5. 3. 서울에서 서명했다.", "월세는 45만 원이다."});
  ExpectSentences({"It was sold in 2019.", "5 men bought it."});
}

TEST(SentenceBreaksTest, KnowAbbreviationsOfMoreLanguages) {
  ExpectSentences({"Il dott. Rossi e l'avv. Conti votano.", "La casa."});
  ExpectSentences({"EE. UU. no participa.", "Es de Lindner."});
  ExpectSentences(
      {"Sie gehört der Firma Lindner u. Söhne in Halle a. d. Saale.", "Es u. Ä. gilt."});
  ExpectSentences({"Take Option a.", "Carrow takes Option b.", "Lund waits."});
  ExpectSentences({"प्रो. ए. के. वर्मा चाबी रखते हैं।", "वह अच्छा है।"});
  ExpectSentences({"Եկան պրն. Արամը և տկն. Անին եկան։", "Մութ է։"});
  ExpectSentences({"Ключи у г-жи Н. Орловой, ул. Ленина, д. 5, кв. 12.", "Дом построен."});
  ExpectSentences({"In Proc. Roy. Soc. London, by Wm. Hale.", "The rest."});
}

// Georgian letters count as small ones, but begin sentences.
TEST(SentenceBreaksTest, EndGeorgianSentences) {
  ExpectSentences({"ქირა თვეში 500 ლარია.", "ვინ იხდის წყალს?", "წყალს მეპატრონე იხდის."});
  EXPECT_EQ(StartOf("ქირა"), TextStart::kOtherLetter);
}

TEST(SentenceBreaksTest, EndBehindFootnotesOfMoreForms) {
  ExpectSentences({"It lies 148 m high.²", "It was dug in 1972.(4)", "It is old.[^note]",
                   "Today it rests.†", "So says Brok (1987).1", "The end."});
  ExpectSentences({"It calls f.(x) twice."});
}

TEST(SentenceBreaksTest, KeepWhoSpokeWithAQuestion) {
  ExpectSentences(
      {"\"Where is it?\" Maud asked.", "“Who?” Mr. Thorne cried, and left.", "He said no."});
  ExpectSentences({"\"Stop!\" I said.", "“Who?”", "He said that it was gone."});
  ExpectSentences({"“狗不可以养。”他说。", "「水費由誰支付？」他問道。", "见“为什么？”中的解释。",
                   "“好。”", "他走了。"},
                  "");
}

TEST(SentenceBreaksTest, KeepListMarksOfOtherScripts) {
  ExpectSentences({"१. छत मालिक करेगा।", "वह देगा।"});
  ExpectSentences({"١. يدفع المستأجر.", "يصلح المالك السقف."});
  ExpectSentences({"１．钥匙共三把。", "押金为3.5元。"}, "");
  ExpectSentences({"(a) The tenant pays.", "(b) The landlord heats.", "(ii) Nobody cleans."});
  ExpectSentences({"It names the rent. (b) and the term."});
}

TEST(SentenceBreaksTest, LetThaiGoOnBehindShortNumbers) {
  ExpectSentences({"บ้านหลังนี้เป็นบ้านเลขที่ 12 ตั้งอยู่บนถนนสุขุมวิทใกล้กับสถานี"});
}

TEST(SentenceBreaksTest, KeepMeasuresOfTwoUnits) {
  ExpectSentences({"The door is 6 ft. 8 in. high.", "It weighs 92 lb. 4 oz. today."});
  ExpectSentences({"The door is 6 ft.", "8 men carried it."});
}

// A short word behind a number is a unit and no initial, where letters are no Latin ones.
TEST(SentenceBreaksTest, EndBehindUnitsOfOtherScripts) {
  ExpectSentences({"Башня высотой 25,2 м.", "Рост цен за 2019 г. Шухов не знал.",
                   "Площадь — 12 тыс. кв. м.", "См. рис. 3 и с. 44."});
  ExpectSentences({"صممه م. خالد عمر عام 1962 م.", "هل انتهى؟"});
  ExpectSentences({"बाँध 31.4 मी. ऊँचा है और सन् 1962 ई. में बना।", "वह अच्छा है।"});
}

TEST(SentenceBreaksTest, KeepTheTimeOfAProgrammeWithIt) {
  ExpectSentences({"9:30 a.m. Opening, Dr. E. Falk"});
  ExpectSentences({"It was 9:30 a.m.", "Falk came."});
}

TEST(SentenceBreaksTest, EndBehindChineseQuotesThatWereAnnounced) {
  ExpectSentences({"他问：“谁来维修？”", "没有人回答。", "房东说：「由我支付。」", "他答。"}, "");
}

}  // namespace
}  // namespace lectern
