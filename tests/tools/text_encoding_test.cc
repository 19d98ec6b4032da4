// Texts in many encodings. The texts are article 1 of the Universal Declaration of Human Rights and
// phrases; their bytes come from iconv(3) and, where they are written out, from Python's codecs.
#include "tools/ingest/text_encoding.h"

#include <gtest/gtest.h>
#include <iconv.h>

#include <chrono>
#include <sstream>

#include "engine/model/formats/text.h"
#include "tests/system_differences.h"
#include "tools/ingest/charset_conversion.h"
#include "tools/ingest/encoding_guess.h"
#include "tools/ingest/file_kind.h"
#include "tools/ingest/ingest.h"

namespace lectern::tools {
namespace {

using std::string_literals::operator""s;

const iconv_t kNoIconv = reinterpret_cast<iconv_t>(-1);

// Whether the system can read and write texts in this encoding. Windows has fewer than glibc, and
// writes no Vietnamese in its own one, because that takes letters apart.
bool IsKnown(const std::string& encoding) {
  const iconv_t descriptor = iconv_open(encoding.c_str(), "UTF-8");
  if (descriptor != kNoIconv) iconv_close(descriptor);
  const bool is_known = descriptor != kNoIconv && !EncodingOfLabel(encoding).empty();
  EXPECT_TRUE(kIsWindows || is_known) << encoding;
  return is_known && !(kIsWindows && encoding == "CP1258");
}

// The bytes of a text in an encoding; empty, and a failure, if a character is not in it.
std::string Encoded(const std::string& text, const char* encoding) {
  const iconv_t descriptor = iconv_open(encoding, "UTF-8");
  EXPECT_NE(descriptor, kNoIconv) << encoding;
  if (descriptor == kNoIconv) return "";
  std::string bytes(4 * text.size() + 64, '\0');
  char *from = const_cast<char*>(text.data()), *to = bytes.data();
  size_t left = text.size(), room = bytes.size();
  EXPECT_EQ(iconv(descriptor, &from, &left, &to, &room), 0u) << encoding << ": " << text;
  iconv(descriptor, nullptr, nullptr, &to, &room);
  iconv_close(descriptor);
  bytes.resize(bytes.size() - room);
  return bytes;
}

DecodedText Decoded(const std::string& bytes, const char* encoding = "auto") {
  auto decoded = DecodeText(bytes, encoding);
  EXPECT_TRUE(decoded.ok());
  return decoded.ok() ? *decoded : DecodedText{};
}

struct Sample {
  const char* encodings;  // parted by spaces
  const char* text;
};

constexpr Sample kSamples[] = {
    {"CP1252 ISO-8859-1",
     "Alle Menschen sind frei und gleich an Würde und Rechten geboren. Sie sind mit "
     "Vernunft und Gewissen begabt und sollen einander im Geist der Brüderlichkeit "
     "begegnen.\n"},
    {"CP1252 ISO-8859-1",
     "Tous les êtres humains naissent libres et égaux en dignité et en droits. Ils "
     "sont doués de raison et de conscience et doivent agir les uns envers les "
     "autres dans un esprit de fraternité.\n"},
    {"CP1252 ISO-8859-1",
     "Tutti gli esseri umani nascono liberi ed eguali in dignità e diritti. Essi sono "
     "dotati di ragione e di coscienza e devono agire gli uni verso gli altri in "
     "spirito di fratellanza. Perciò è così.\n"},
    {"CP1252 ISO-8859-1",
     "Todos os seres humanos nascem livres e iguais em dignidade e em direitos. "
     "Dotados de razão e de consciência, devem agir uns para com os outros em "
     "espírito de fraternidade.\n"},
    {"CP1252 ISO-8859-1",
     "Alla människor är födda fria och lika i värde och rättigheter. De är utrustade "
     "med förnuft och samvete och bör handla gentemot varandra i en anda av "
     "broderskap.\n"},
    {"CP1252", "The café’s owner said: “It costs £5 – or €6”, and left it at that.\n"},
    {"CP1250 ISO-8859-2",
     "Wszyscy ludzie rodzą się wolni i równi pod względem swej godności i swych praw. "
     "Są oni obdarzeni rozumem i sumieniem i powinni postępować wobec innych w duchu "
     "braterstwa.\n"},
    {"CP1250 ISO-8859-2",
     "Všichni lidé rodí se svobodní a sobě rovní co do důstojnosti a práv. Jsou "
     "nadáni rozumem a svědomím a mají spolu jednat v duchu bratrství.\n"},
    {"CP1250 ISO-8859-2",
     "Minden emberi lény szabadon születik és egyenlő méltósága és joga van. Az "
     "emberek, ésszel és lelkiismerettel bírván, egymással szemben testvéri "
     "szellemben kell hogy viseltessenek.\n"},
    {"CP1251 KOI8-R ISO-8859-5 CP866",
     "Все люди рождаются свободными и равными в своем достоинстве и правах. Они наделены разумом и "
     "совестью и должны поступать в отношении друг друга в духе братства.\n"},
    {"CP1251 KOI8-U CP1125",
     "Всі люди народжуються вільними і рівними у своїй гідності та правах. Вони "
     "наділені розумом і совістю і повинні діяти у відношенні один до одного в дусі "
     "братерства. Її їжак є ґречний.\n"},
    {"CP1253 ISO-8859-7 CP737 CP869",
     "Όλοι οι άνθρωποι γεννιούνται ελεύθεροι και ίσοι στην αξιοπρέπεια και τα "
     "δικαιώματα. Είναι προικισμένοι με λογική και συνείδηση.\n"},
    {"CP1254 ISO-8859-9 CP857",
     "Bütün insanlar hür, haysiyet ve haklar bakımından eşit doğarlar. Akıl ve "
     "vicdana sahiptirler ve birbirlerine karşı kardeşlik zihniyeti ile hareket "
     "etmelidirler.\n"},
    {"CP1255 ISO-8859-8",
     "כל בני האדם נולדו בני חורין ושווים בערכם ובזכויותיהם. כולם חוננו בתבונה "
     "ובמצפון.\n"},
    {"CP1256 ISO-8859-6",
     "يولد جميع الناس أحرارا متساوين في الكرامة والحقوق. وقد وهبوا عقلا وضميرا "
     "وعليهم أن يعامل بعضهم بعضا بروح الإخاء.\n"},
    {"CP1257 ISO-8859-13 CP775",
     "Visi žmonės gimsta laisvi ir lygūs savo orumu ir teisėmis. Jiems suteiktas "
     "protas ir sąžinė ir jie turi elgtis vienas kito atžvilgiu kaip broliai.\n"},
    {"CP1258", "Tất cả mọi người sinh ra đều được tự do và bình đẳng về nhân phẩm và quyền.\n"},
    {"TIS-620",
     "มนุษย์ทั้งหลายเกิดมามีอิสระและเสมอภาคกันในเกียรติศักดิ์"
     "และสิทธิ ต่างมีเหตุผลและมโนธรรม\n"},
    {"GB18030 GBK GB2312",
     "人人生而自由，在尊严和权利上一律平等。他们赋有理性和良心，并应以兄弟关系的精神"
     "相对待。\n"},
    {"BIG5",
     "人人生而自由，在尊嚴和權利上一律平等。他們賦有理性和良心，並應以兄弟關係的精神相對待。\n"},
    {"CP932 EUC-JP ISO-2022-JP",
     "すべての人間は、生まれながらにして自由であり、かつ、尊厳と権利とについて"
     "平等である。人間は、理性と良心とを授けられている。\n"},
    {"CP949 EUC-KR JOHAB",
     "모든 인간은 태어날 때부터 자유로우며 그 존엄과 권리에 있어 동등하다. 인간은 천부적으로 "
     "이성과 양심을 부여받았다.\n"},
    // Only one letter is not in windows-1252.
    {"CP1250 ISO-8859-2",
     "A kikötő irodája minden hajót nyilvántart, amely három éjszakánál tovább marad. A díj "
     "egy éjszakára tizennégy euró; a gyermekek ingyen maradhatnak.\n"},
    {"CP1250 ISO-8859-2", "Kedves Éva! A számlát átküldtem, a díjat jövő hétfőig kérjük.\n"},
};

TEST(TextEncodingTest, TextsOfManyLanguagesAreReadFromTheirEncodings) {
  for (const Sample& sample : kSamples) {
    std::istringstream encodings(sample.encodings);
    for (std::string encoding; encodings >> encoding;) {
      if (!IsKnown(encoding)) continue;
      const DecodedText decoded = Decoded(Encoded(sample.text, encoding.c_str()));
      EXPECT_EQ(decoded.text, sample.text) << encoding << " as " << decoded.encoding;
      EXPECT_EQ(decoded.note, "read as " + decoded.encoding + ", which was assumed");
      EXPECT_TRUE(decoded.is_assumed);
    }
  }
}

// Many times the text: it is longer than the sample that is looked at, with ASCII before it.
TEST(TextEncodingTest, LongTextsBehindAsciiAreReadToo) {
  std::string ascii;
  for (int i = 0; i < 20000; ++i) ascii += "plain words ";
  for (const Sample& sample : kSamples) {
    std::string text = ascii + "\n";
    for (int i = 0; i < 300; ++i) text += sample.text;
    const std::string encoding =
        std::string(sample.encodings).substr(0, std::string(sample.encodings).find(' '));
    if (!IsKnown(encoding)) continue;
    const DecodedText decoded = Decoded(Encoded(text, encoding.c_str()));
    EXPECT_TRUE(decoded.text == text) << encoding << " as " << decoded.encoding;
  }
}

TEST(TextEncodingTest, UnicodeIsReadWithAndWithoutAMark) {
  for (const Sample& sample : kSamples) {
    for (const char* encoding : {"UTF-16LE", "UTF-16BE", "UTF-32LE", "UTF-32BE"}) {
      const DecodedText bare = Decoded(Encoded(sample.text, encoding));
      EXPECT_EQ(bare.text, sample.text) << encoding << " as " << bare.encoding;
      EXPECT_TRUE(bare.is_assumed);
      const DecodedText marked = Decoded(Encoded("\uFEFF"s + sample.text, encoding));
      EXPECT_EQ(marked.text, sample.text);
      EXPECT_EQ(marked.note, "");
    }
    const DecodedText utf8 = Decoded(sample.text);
    EXPECT_EQ(utf8.text, sample.text);
    EXPECT_EQ(utf8.note, "");
    EXPECT_FALSE(utf8.is_assumed);
  }
  // Short ones: Python's "…".encode("utf-16-le") and "utf-16-be".
  EXPECT_EQ(Decoded("\x60\x4F\x7D\x59\x16\x4E\x4C\x75").text, "你好世界");
  EXPECT_EQ(Decoded("\x4F\x60\x59\x7D\x4E\x16\x75\x4C").text, "你好世界");
  EXPECT_EQ(Decoded("H\0i\0"s).text, "Hi");
  EXPECT_EQ(Decoded("\0H\0i\0\n"s).text, "Hi\n");
  EXPECT_EQ(Decoded("").text, "");
}

TEST(TextEncodingTest, AMarkIsNoText) {
  for (const char* const encoding : {"auto", "utf-8"}) {
    EXPECT_EQ(Decoded("\xEF\xBB\xBFText", encoding).text, "Text") << encoding;
    EXPECT_EQ(Decoded("\xEF\xBB\xBF", encoding).text, "") << encoding;
  }
}

TEST(TextEncodingTest, BytesOfPythonsCodecs) {
  EXPECT_EQ(Decoded("J\xE9r\xF4me owns it.\n").text, "Jérôme owns it.\n");
  EXPECT_EQ(Decoded("\xCF\xF0\xE8\xE2\xE5\xF2, \xEC\xE8\xF0!").text, "Привет, мир!");
  EXPECT_EQ(
      Decoded("\xBA\xCF\xCD\xAC\xD3\xC9\xBC\xD7\xB7\xBD\xC7\xA9\xCA\xF0\xA3\xAC\xD7\xD4\xC7\xA9"
              "\xD7\xD6\xD6\xAE\xC8\xD5\xC6\xF0\xC9\xFA\xD0\xA7\xA1\xA3\n")
          .text,
      "合同由甲方签署，自签字之日起生效。\n");
  // Python's "mac_roman", with lines as on old Macs, and "cp850", as under DOS.
  EXPECT_EQ(Decoded("F\x9Fr Gr\x9A\xA7"
                    "e und L\x8Ange, \xD2M\x9F"
                    "ller\xD3 h\x8Atte M\x9Fhe.\r"
                    "Er ist f\x9Fr sp\x8Ate \x80nderungen.\r")
                .text,
            "Für Größe und Länge, “Müller” hätte Mühe.\nEr ist für späte Änderungen.\n");
  EXPECT_EQ(Decoded("F\x81r Gr\x94\xE1"
                    "e und L\x84nge h\x84tte M\x81ller M\x81he. Er ist f\x81r sp\x84te "
                    "\x8Enderungen.\n")
                .text,
            "Für Größe und Länge hätte Müller Mühe. Er ist für späte Änderungen.\n");
  if (IsKnown("ISO-2022-JP")) {
    EXPECT_EQ(Decoded("\x1B$B%F%9%H\x1B(B ok").text, "テスト ok");
  }
  if (IsKnown("ISO-2022-KR")) {
    const std::string korean = "\x1B$)C\n\x0EGQ1[\x0F ok \x0EGQ1[\x0F\n";
    EXPECT_EQ(Decoded(korean).text, "\n한글 ok 한글\n");
    EXPECT_FALSE(KindOfBinary(korean));
  }
  EXPECT_EQ(Decoded("\x1B[1mbold\x1B(B\x1B[m").encoding, "UTF-8");  // of a terminal
}

TEST(TextEncodingTest, MostlyUtf8StaysUtf8) {
  const std::string french = kSamples[1].text, russian = kSamples[9].text;
  EXPECT_EQ(Decoded(french + "caf\xE9").encoding, "UTF-8");
  EXPECT_EQ(Decoded(russian + "\xFF" + russian).text, russian + "\xFF" + russian);
  EXPECT_EQ(Decoded(russian.substr(0, 11)).encoding, "UTF-8");  // cut inside of a character
  EXPECT_EQ(Decoded("na\u00EFve caf\xE9.").encoding, "windows-1252");
  EXPECT_TRUE(CountUtf8("a\u00E9\xE2\x82").is_cut_off);
  EXPECT_EQ(CountUtf8("a\u00E9\xE2\x82z\xFF").invalid, 2u);
  EXPECT_EQ(CountUtf8("a\u00E9\u20AC\U0001F600").multibyte, 3u);
}

TEST(TextEncodingTest, NamesOfTheStandardAndOfIconv) {
  // The labels of encoding.spec.whatwg.org by encoding, as a browser reads them.
  constexpr std::pair<const char*, const char*> kLabels[] = {
      {"CP866", "866 cp866 csibm866 ibm866"},
      {"ISO-8859-2", "csisolatin2 iso-8859-2 iso-ir-101 iso8859-2 iso88592 iso_8859-2 latin2 l2"},
      {"ISO-8859-7", "csisolatingreek ecma-118 elot_928 greek greek8 iso_8859-7:1987 sun_eu_greek"},
      {"ISO-8859-8", "csiso88598e hebrew iso-8859-8-e visual csiso88598i iso-8859-8-i logical"},
      {"KOI8-R", "cskoi8r koi koi8 koi8-r koi8_r"},
      {"KOI8-U", "koi8-ru KOI8-U"},
      {"CP874", "dos-874 iso-8859-11 tis-620 windows-874"},
      {"CP1252", "ansi_x3.4-1968 ascii cp1252 iso-8859-1 iso8859-1 l1 latin1 us-ascii x-cp1252"},
      {"CP1254", "csisolatin5 iso-8859-9 l5 latin5 windows-1254"},
      {"GB18030", "chinese csgb2312 gb2312 gb_2312-80 gbk x-gbk gb18030"},
      {"BIG5-HKSCS", "big5 big5-hkscs cn-big5 csbig5 x-x-big5"},
      {"EUC-JP-MS", "cseucpkdfmtjapanese euc-jp x-euc-jp"},
      {"CP932", "csshiftjis ms932 ms_kanji shift-jis shift_jis sjis windows-31j x-sjis"},
      {"JOHAB", "johab cp1361 ks_c_5601-1992"},
      {"CP949", "cseuckr euc-kr korean ks_c_5601-1987 ksc5601 windows-949"},
      {"MACINTOSH", "csmacintosh mac macintosh x-mac-roman"},
  };
  const std::string bytes = "\xB5\xC4 \xB8\xE5\xA4\xE2 \xD2\xBB \xE1\xE9";
  for (const auto& [encoding, labels] : kLabels) {
    std::istringstream words(labels);
    for (std::string label; words >> label;) {
      const std::string name = EncodingOfLabel(label);
      ASSERT_NE(name, "") << label;
      EXPECT_EQ(ConvertToUtf8(bytes, name).text, ConvertToUtf8(bytes, encoding).text) << label;
    }
  }
  EXPECT_EQ(EncodingOfLabel(" \tUTF8\n"), "UTF-8");
  for (const char* none : {"", " ", "no-such", "iso-2022-cn", "ibm037", "utf-8//IGNORE", "l1 l2"}) {
    EXPECT_EQ(EncodingOfLabel(none), "") << none;
  }
  EXPECT_EQ(EncodingOfIconv("ibm037"), "IBM037");
  EXPECT_EQ(EncodingOfIconv("utf-8//IGNORE"), "");
  EXPECT_EQ(EncodingOfIconv(""), "");
}

TEST(TextEncodingTest, ANameOverridesTheBytes) {
  EXPECT_EQ(Decoded("caf\xC3\xA9", "latin1").text, "cafÃ©");
  EXPECT_EQ(Decoded("\xC8\x85\x93\x93\x96", "ibm037").text, "Hello");  // EBCDIC
  EXPECT_EQ(Decoded("\xFE\xFF\0H\0i"s, "utf-16").text, "Hi");
  EXPECT_EQ(Decoded("H\0i\0"s, "utf-16").text, "Hi");
  EXPECT_EQ(Decoded("caf\xE9", "cp1252").note, "");
  auto unknown = DecodeText("x", "no-such");
  ASSERT_FALSE(unknown.ok());
  EXPECT_EQ(unknown.error().code, LECTERN_INVALID_ARGUMENT);
  EXPECT_EQ(unknown.error().param, "encoding");
  EXPECT_NE(unknown.error().message.find("iconv -l"), std::string::npos);
}

TEST(TextEncodingTest, BadBytesAreReplacedAndCounted) {
  const DecodedText decoded = Decoded("\x82\xB1\x82\xF1\xFF!\x82", "shift_jis");
  EXPECT_EQ(decoded.text, "こん\uFFFD!\uFFFD");
  EXPECT_EQ(decoded.note, "2 places that are no CP932 became U+FFFD");
  EXPECT_EQ(ConvertToUtf8("a\0\xDC\xD8z\0b"s, "UTF-16LE").num_replaced, 2u);
  EXPECT_EQ(ConvertToUtf8("a\0\x00\xDC"s
                          "b\0"s,
                          "UTF-16LE")
                .text,
            "a\uFFFDb");
  // An encoding whose converter holds the last character back: Python's "ê".encode("big5hkscs").
  // Windows' Big5 has a character of private use there.
  EXPECT_EQ(ConvertToUtf8("\x88\xA7", "BIG5-HKSCS").text, kIsWindows ? "\uF348" : "ê");
}

TEST(TextEncodingTest, AnEncodingThatTheSystemCannotReadLosesNoText) {
  EXPECT_EQ(EncodingOfLabel("viscii").empty(), kIsWindows);
  const ConvertedText converted = ConvertToUtf8("caf\xE9 ok", "no-such");
  EXPECT_EQ(converted.text, "caf\uFFFD ok");
  EXPECT_EQ(converted.num_replaced, 1u);
}

TEST(TextEncodingTest, NulsAndLineEnds) {
  const DecodedText list = Decoded("one\0two\0\0\0three\n"s);
  EXPECT_EQ(list.text, "one two three\n");
  EXPECT_EQ(list.note, "4 NUL bytes became spaces");
  EXPECT_EQ(Decoded("one\rtwo\r").text, "one\ntwo\n");  // old Mac
  EXPECT_EQ(Decoded("one\r\ntwo\rover\n").text, "one\r\ntwo\rover\n");
  EXPECT_EQ(Decoded("one\n\ftwo").text, "one\n\ftwo");
  EXPECT_EQ(Decoded("o\0n\0e\0\r\0t\0w\0o\0"s).text, "one\ntwo");
}

// The printed form of a manual page, a coloured log, a screen's title: what `col -b` and a terminal
// make of them.
TEST(TextEncodingTest, CodesOfTerminalsGo) {
  const DecodedText page = Decoded("N\bNA\bAM\bME\bE\n  _\bd_\bi_\br é\bé\n");
  EXPECT_EQ(page.text, "NAME\n  dir é\n");
  EXPECT_EQ(page.note, "8 codes of terminals were left out");
  EXPECT_EQ(Decoded("\x1B[1;31merror\x1B[0m: \x1B[4mno\x1B[m file\x1B[K\n").text,
            "error: no file\n");
  EXPECT_EQ(Decoded("\x1B]0;title\atext \x1B]8;;http://x.org\x1B\\link\x1B]8;;\x1B\\.\n").text,
            "text link.\n");
  EXPECT_EQ(Decoded("\x1B(Bplain\x1B=\n").text, "plain\n");
  // A backspace takes no end of a line, and what begins as a code and is none loses no text.
  EXPECT_EQ(Decoded("a\n\bb\x1B]no end\nc\x1B").text, "a\nb]no end\nc");
  EXPECT_EQ(Decoded("no codes\n").note, "");
}

TEST(TextEncodingTest, OneLongLineIsReadInSeconds) {
  std::string bytes;
  while (bytes.size() < (size_t{100} << 20))
    bytes +=
        "Gr\xF6\xDF"
        "e und L\xE4nge ";
  const auto begin = std::chrono::steady_clock::now();
  const DecodedText decoded = Decoded(bytes);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  EXPECT_EQ(decoded.encoding, "windows-1252");
  EXPECT_EQ(decoded.text.substr(0, 18), "Größe und Länge");
  EXPECT_LT(took.count(), 60);  // 1 s on two cores; sanitizers take longer
}

TEST(TextEncodingTest, PagesAreReadAsTheyAreAndNotAsTheySay) {
  const auto text = [](const std::string& html) {
    auto ingested = Ingest(html, {.format = "html"});
    return ingested.ok() ? ingested->text : ingested.error().message;
  };
  EXPECT_EQ(text("<meta charset=shift_jis><p>" + Encoded("契約書", "CP932")), "契約書\n");
  EXPECT_EQ(text("<meta charset=gb2312><p>" + Encoded("朱镕基", "GBK")), "朱镕基\n");
  EXPECT_EQ(text("<meta charset=koi8-r><p>" + Encoded("мир", "KOI8-R")), "мир\n");
  EXPECT_EQ(text("<meta charset=euc-kr><p>" + Encoded("계약서", "CP949")), "계약서\n");
  EXPECT_EQ(text("<meta charset=big5><p>" + Encoded("合約", "BIG5")), "合約\n");
  EXPECT_EQ(text("<meta charset=iso-8859-15><p>\xA4"), "€\n");
  EXPECT_EQ(text(Encoded("<p>\u5951\u7D04 ok", "UTF-16")), "契約 ok\n");
  EXPECT_EQ(text(Encoded("<html><p>Größe ok", "UTF-16LE")), "Größe ok\n");
  EXPECT_EQ(text("<p>" + Encoded(kSamples[9].text, "CP1251")), kSamples[9].text);
  // Declarations that the bytes contradict.
  EXPECT_EQ(text("<meta charset=utf-8><p>caf\xE9"), "café\n");
  EXPECT_EQ(text("<meta charset=iso-8859-1><p>café €"), "café €\n");
  EXPECT_EQ(text("<meta charset=euc-jp><p>naïve Größe ž"), "naïve Größe ž\n");
  EXPECT_EQ(text("<meta charset=utf-16><p>café"), "café\n");
  EXPECT_EQ(text("<meta charset=no-such><p>caf\xE9"), "café\n");
  EXPECT_EQ(Ingest("<p>caf\xC3\xA9", {.format = "html", .encoding = "latin1"})->text, "cafÃ©\n");
}

TEST(TextEncodingTest, NotesSayHowToNameAnother) {
  auto ingested = Ingest("J\xE9r\xF4me owns it.\n", {});
  ASSERT_TRUE(ingested.ok());
  EXPECT_EQ(IngestNote(*ingested, "--encoding"),
            "read as windows-1252, which was assumed (--encoding names another)");
  EXPECT_EQ(IngestNote(*Ingest("Jérôme", {}), "--encoding"), "");
  EXPECT_TRUE(IsEncodingLabel("auto") && IsEncodingLabel("Shift_JIS"));
  EXPECT_FALSE(IsEncodingLabel("ibm037") || IsEncodingLabel(""));
}

}  // namespace
}  // namespace lectern::tools
