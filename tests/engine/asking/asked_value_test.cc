#include "engine/asking/asked_value.h"

#include <gtest/gtest.h>

#include <string>

namespace lectern {
namespace {

bool HasValue(std::string_view question, std::string_view passage) {
  return AskedValue(question).IsIn(passage);
}

// A question, a passage with the value that it asks for, and one without.
struct Asked {
  const char *question, *with, *without;
};

TEST(AskedValueTest, FindsNumbersInManyLanguages) {
  const Asked cases[] = {
      {"How many boats does the club own?", "It owns Three boats.", "It owns some boats."},
      {"Which version added the switch?", "It came with 2.4.", "It came with a later release."},
      {"Wie viele Boote hat der Verein?", "Es sind zwölf.", "Es sind einige."},
      {"Wie lange darf man sie leihen?", "Höchstens 14 Tage.", "Höchstens eine Weile."},
      {"Combien de bateaux y a-t-il ?", "Il y en a quinze.", "Il y en a peu."},
      {"¿Cuántos barcos tiene el club?", "Tiene ocho barcos.", "Tiene algunos barcos."},
      {"Quante barche ha il club?", "Ne ha sette.", "Ne ha alcune."},
      {"Quantos barcos tem o clube?", "Tem três barcos.", "Tem alguns barcos."},
      {"Hoeveel boten heeft de club?", "Het zijn er vijf.", "Het zijn er enkele."},
      {"Ile łodzi ma klub?", "Ma pięć łodzi.", "Ma kilka łodzi."},
      {"Сколько лодок у клуба?", "Двадцать лодок.", "Несколько лодок."},
      {"كم عدد القوارب؟", "يملك النادي ٢٥ قاربا", "يملك النادي قوارب"},
      {"क्लब के पास कितनी नावें हैं?", "उसके पास १२ नावें हैं", "उसके पास नावें हैं"},
      {"俱乐部有多少条船？", "它有十二条船。", "它有几条船。"},
      {"クラブには船が何台ありますか。", "船は１２台ある。", "船がある。"}};
  for (const Asked& c : cases) {
    EXPECT_TRUE(HasValue(c.question, c.with)) << c.question;
    EXPECT_FALSE(HasValue(c.question, c.without)) << c.question;
  }
}

TEST(AskedValueTest, FindsYearsInManyLanguages) {
  const Asked cases[] = {
      {"When was the mill built?", "It was built in 1871.", "It was built in 40 days."},
      {"In which year did it burn?", "It burnt in 1899, at night.",
       "File x1899y and 1.1899 burnt."},
      {"Wann wurde die Mühle gebaut?", "Im Jahr 1871.", "In 300 Tagen."},
      {"Quand le moulin a-t-il été bâti ?", "En 1871.", "En 300 jours."},
      {"¿Cuándo se construyó el molino?", "En 1871.", "En 300 días."},
      {"Quando fu costruito il mulino?", "Nel 1871.", "In 300 giorni."},
      {"Desde quando existe o moinho?", "Desde 1871.", "Desde sempre, 12 meses."},
      {"Wanneer werd de molen gebouwd?", "In 1871.", "In 300 dagen."},
      {"W którym roku zbudowano młyn?", "W 1871 roku.", "W 300 dni."},
      {"Когда построили мельницу?", "В 1871 году.", "За 300 дней."},
      {"متى بنيت الطاحونة؟", "بنيت عام ١٨٧١", "بنيت في ٣٠٠ يوم"},
      {"चक्की कब बनी?", "१८७१ में", "३०० दिनों में"},
      {"磨坊是什么时候建的？", "建于1871年。", "用了300天。"},
      {"水車はいつ建てられましたか。", "1871年に建てられた。", "300日かかった。"}};
  for (const Asked& c : cases) {
    EXPECT_TRUE(HasValue(c.question, c.with)) << c.question;
    EXPECT_FALSE(HasValue(c.question, c.without)) << c.question;
  }
}

TEST(AskedValueTest, FindsAddressesInManyLanguages) {
  const Asked cases[] = {
      {"To which address do bugs go?", "Send them to <number>@bugs.example.org.",
       "Send them soon."},
      {"Whom should I write to when in doubt?", "Mail legal@example.org.",
       "Mail @ once, at 5 @ a."},
      {"What is the URL of the manual?", "See https://example.org/manual.",
       "See the manual: it is."},
      {"Which website shows the boats?", "It is www.example.org.", "It shows the boats."},
      {"An welche Adresse gehen Fehler?", "An fehler@example.org.", "An den Verein."},
      {"À quelle adresse faut-il écrire ?", "À aide@example.org.", "À la direction."},
      {"¿A qué dirección escribo?", "A ayuda@example.org.", "A la casa."},
      {"A quale indirizzo scrivo?", "A aiuto@example.org.", "Alla sede."},
      {"Para qual endereço escrevo?", "Para ajuda@example.org.", "Para a sede."},
      {"Naar welk adres schrijf ik?", "Naar hulp@example.org.", "Naar de club."},
      {"Pod jaki adres pisać?", "Na pomoc@example.org.", "Do klubu."},
      {"На какой адрес писать?", "На help@example.org.", "В клуб."},
      {"ما هو البريد الإلكتروني؟", "البريد help@example.org", "البريد سريع"},
      {"किस पते पर लिखें?", "help@example.org पर", "क्लब को"},
      {"邮箱是什么？", "发到help@example.org。", "发给俱乐部。"},
      {"メールアドレスは何ですか。", "help@example.orgです。", "クラブです。"},
  };
  for (const Asked& c : cases) {
    EXPECT_TRUE(HasValue(c.question, c.with)) << c.question;
    EXPECT_FALSE(HasValue(c.question, c.without)) << c.question;
  }
  // It names an address, and asks for something else.
  EXPECT_FALSE(AskedValue("Who complained that the address was wrong?").is_asked());
}

TEST(AskedValueTest, PassesOverTheQuestionsOwnNumbers) {
  const char* question = "How many of the 12 boats are older than two years?";
  EXPECT_FALSE(HasValue(question, "All 12 boats are older than two years."));
  EXPECT_TRUE(HasValue(question, "Of 12 boats 7 are older."));
  EXPECT_TRUE(HasValue(question, "It is 1,200 in all."));
  EXPECT_FALSE(HasValue("俱乐部的十条船有多少年了？", "十条船都很旧。"));
}

TEST(AskedValueTest, AsksForNothingWithOtherQuestions) {
  for (const char* question :
       {"", "Who owns 3 boats?", "What happens when a boat sinks?", "Was passiert, wenn es regnet?",
        "Que faire quand il pleut ?", "Show many boats", "\xFF how \xC3"}) {
    EXPECT_FALSE(AskedValue(question).is_asked()) << question;
    EXPECT_FALSE(HasValue(question, "In 1871 there were three boats.")) << question;
  }
  // "eight" is no number word of a German question.
  EXPECT_FALSE(HasValue("Wie viele sind es?", "eight"));
}

TEST(AskedValueTest, TakesAnyBytes) {
  const AskedValue asked("How many?");
  EXPECT_FALSE(asked.IsIn(""));
  EXPECT_FALSE(asked.IsIn("\xFF\xC3\xE2\x82"));
  EXPECT_TRUE(asked.IsIn("\xFF 7."));
  EXPECT_TRUE(asked.IsIn("1,"));
}

}  // namespace
}  // namespace lectern
