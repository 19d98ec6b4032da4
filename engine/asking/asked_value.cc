#include "engine/asking/asked_value.h"

#include <algorithm>

#include "engine/asking/word_scan.h"
#include "engine/model/tokenizer/unicode_classes.h"

namespace lectern {
namespace {

// How a language asks for values. Every list has '|' between its entries, which are in small
// letters. A phrase that begins with '^' counts at the beginning of a question alone: elsewhere
// "quand il pleut" is a condition. Number words that are common in other senses, such as articles,
// are left out.
struct AskingLanguage {
  std::string_view numbers;    // phrases that ask for a number
  std::string_view years;      // phrases that ask for a time, of which years are recognised
  std::string_view words;      // number words
  std::string_view addresses;  // phrases that ask for an address
  bool has_spaces = true;      // false: words stand within other characters
};
// English was measured (kWeights in cite.cc; addresses: tools/evaluate/RESULTS.md); the others
// follow it, by hand.
constexpr AskingLanguage kLanguages[] = {
    {"how many|how much|how long|how often|how old|how far|how large|how big|how high|how small|"
     "how fast|how wide|how deep|how tall|how late|how early|how soon|how short|how few|how heavy|"
     "by how|number of|what number|what amount|what percentage|what percent|what share|"
     "what fraction|what proportion|what rate|what size|what age|what price|what version|what port|"
     "what value|which number|which version|which port",
     "when was|when were|when did|when is|when are|when will|when has|when had|what year|"
     "which year|what date|which date|what day|which day|what month|which month|what century|"
     "which century|what decade|which decade|since when|until when|how long ago",
     "one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|thirteen|fourteen|fifteen|"
     "sixteen|seventeen|eighteen|nineteen|twenty|thirty|forty|fifty|sixty|seventy|eighty|ninety|"
     "hundred|thousand|million|billion|half|once|twice|dozen|zero|third|quarter",
     "which address|which addresses|what address|what addresses|address of|address for|"
     "addresses for|^address|mail address|which e mail|what e mail|which email|what email|"
     "email for|email of|which url|what url|url of|url for|which website|what website|"
     "which web site|what web site|which mailing list|what mailing list|main site|home page of|"
     "homepage of|whom do i mail|whom do i write|whom do i contact|whom should i write|"
     "whom should i contact|who do i contact|who should i contact|who should i write|"
     "to whom should i|to whom do i|where do i mail|where do i write|where do i report|"
     "where do i send|where should i send|where can i report|where are bugs"},
    // German
    {"wie viel|wie viele|wie vielen|wieviel|wieviele|wie lang|wie lange|wie oft|wie alt|wie weit|"
     "wie groß|wie hoch|wie schnell|wie schwer|wie tief|wie breit|um wie|welche nummer|"
     "welche version|welcher anteil|welchen anteil|wie teuer|anzahl|prozentsatz",
     "wann|welchem jahr|welches jahr|welchem jahrhundert|welchem tag",
     "zwei|drei|vier|fünf|sechs|sieben|acht|neun|zehn|elf|zwölf|fünfzehn|zwanzig|dreißig|vierzig|"
     "fünfzig|sechzig|siebzig|achtzig|neunzig|hundert|tausend|million|millionen|halb|hälfte|"
     "einmal|zweimal|dreimal|drittel|viertel|dutzend|null",
     "welche adresse|welcher adresse|adresse von|adresse für|mailadresse|welche e mail|welche url|"
     "welche webseite|welche website|wem schreibe ich|wo melde ich"},
    // French
    {"combien|quel nombre|quel pourcentage|quel âge|quelle taille|quelle version|quel prix|"
     "quelle part|quelle distance|quelle durée",
     "^quand|depuis quand|jusqu à quand|quelle année|quelle date|quel siècle|quel jour",
     "deux|trois|quatre|cinq|six|sept|huit|neuf|dix|onze|douze|treize|quatorze|quinze|seize|vingt|"
     "trente|quarante|cinquante|soixante|cent|cents|mille|million|millions|milliard|moitié|tiers|"
     "quart|douzaine|zéro",
     "quelle adresse|adresse de|adresse du|adresse pour|quelle url|quel site|à qui écrire"},
    // Spanish
    {"cuánto|cuánta|cuántos|cuántas|cuantos|cuantas|qué porcentaje|qué número|"
     "qué versión|qué edad|qué tamaño|qué precio|qué distancia|número de",
     "cuándo|^cuando|qué año|que año|qué fecha|qué siglo|qué día",
     "dos|tres|cuatro|cinco|seis|siete|ocho|nueve|diez|once|doce|trece|catorce|quince|veinte|"
     "treinta|cuarenta|cincuenta|sesenta|setenta|ochenta|noventa|cien|ciento|cientos|mil|millón|"
     "millones|mitad|tercio|docena|cero",
     "qué dirección|dirección de|dirección del|qué url|qué sitio|a quién escribo"},
    // Italian
    {"quanto|quanta|quanti|quante|quale percentuale|che percentuale|quale numero|quale versione|"
     "che età|numero di",
     "^quando|da quando|che anno|quale anno|quale data|che giorno|quale secolo|che secolo",
     "due|tre|quattro|cinque|sei|sette|otto|nove|dieci|undici|dodici|quindici|venti|trenta|"
     "quaranta|cinquanta|sessanta|settanta|ottanta|novanta|cento|mille|mila|milione|milioni|metà|"
     "terzo|quarto|dozzina|zero",
     "quale indirizzo|che indirizzo|indirizzo di|indirizzo del|quale url|quale sito|a chi scrivo"},
    // Portuguese
    {"quanto|quanta|quantos|quantas|que porcentagem|que percentagem|qual a percentagem|"
     "qual porcentagem|que número|qual número|que versão|qual versão|que idade|qual a idade",
     "^quando|desde quando|que ano|qual ano|que data|qual data|que século|que dia",
     "dois|duas|três|quatro|cinco|seis|sete|oito|nove|dez|onze|doze|treze|quinze|vinte|trinta|"
     "quarenta|cinquenta|sessenta|setenta|oitenta|noventa|cem|cento|mil|milhão|milhões|metade|"
     "terço|dúzia|zero",
     "qual endereço|que endereço|qual o endereço|endereço de|endereço do|qual url|qual site"},
    // Dutch
    {"hoeveel|hoe lang|hoe vaak|hoe oud|hoe ver|hoe groot|hoe hoog|hoe snel|hoe zwaar|hoe diep|"
     "hoe breed|welk percentage|welk nummer|welke versie|welk aantal|aantal",
     "^wanneer|sinds wanneer|tot wanneer|welk jaar|welke datum|welke eeuw|welke dag",
     "twee|drie|vier|vijf|zes|zeven|acht|negen|tien|elf|twaalf|vijftien|twintig|dertig|veertig|"
     "vijftig|zestig|zeventig|tachtig|negentig|honderd|duizend|miljoen|half|helft|tweemaal|"
     "dozijn|nul",
     "welk adres|adres van|adres voor|welke url|welke website|wie moet ik schrijven"},
    // Polish
    {"ile|ilu|iloma|jak długo|jak często|jak daleko|jak duży|jak duża|jak duże|jak wysoki|"
     "jak wysoka|w jakim wieku|jaki procent|jaka liczba|jaka część|która wersja|liczba",
     "^kiedy|od kiedy|do kiedy|którym roku|jakim roku|który rok|którego roku|jaka data|którym "
     "wieku",
     "dwa|dwie|dwóch|trzy|trzech|cztery|czterech|pięć|pięciu|sześć|siedem|osiem|dziewięć|dziesięć|"
     "jedenaście|dwanaście|piętnaście|dwadzieścia|trzydzieści|czterdzieści|pięćdziesiąt|sto|"
     "dwieście|trzysta|pięćset|tysiąc|tysiące|tysięcy|milion|miliony|milionów|połowa|połowę|tuzin|"
     "zero",
     "jaki adres|jakim adresem|który adres|jaka strona internetowa|której stronie internetowej"},
    // Russian
    {"сколько|скольких|скольким|насколько|как долго|как часто|как далеко|какой процент|"
     "какова доля|какое число|какая версия|какой версии|какого размера|какой возраст|"
     "какого возраста|число",
     "^когда|с каких пор|каком году|какой год|какого года|какая дата|каком веке|какого числа",
     "два|две|двух|три|трёх|трех|четыре|четырёх|четырех|пять|пяти|шесть|шести|семь|семи|восемь|"
     "девять|десять|десяти|одиннадцать|двенадцать|пятнадцать|двадцать|тридцать|сорок|пятьдесят|"
     "шестьдесят|сто|ста|двести|триста|пятьсот|тысяча|тысячи|тысяч|миллион|миллиона|миллионов|"
     "половина|половину|треть|четверть|дюжина|ноль",
     "какой адрес|какому адресу|какого адреса|адрес для|какой сайт|каком сайте|кому писать"},
    // Arabic
    {"كم|بكم|ما عدد|ما نسبة|ما هي نسبة|ما هو عدد", "متى|منذ متى|أي عام|أي سنة|أي قرن|أي تاريخ",
     "اثنان|اثنين|اثنتان|ثلاثة|ثلاث|أربعة|أربع|خمسة|خمس|ستة|ست|سبعة|سبع|ثمانية|ثماني|تسعة|تسع|"
     "عشرة|عشر|عشرون|عشرين|ثلاثون|ثلاثين|أربعون|أربعين|خمسون|خمسين|مئة|مائة|ألف|آلاف|مليون|نصف|"
     "ثلث|ربع",
     "ما عنوان|ما هو عنوان|أي عنوان|ما هو البريد|أي موقع"},
    // Hindi
    {"कितना|कितनी|कितने|कितनों|कितनी बार|कौन सा संस्करण|किस संस्करण",
     "कब|किस वर्ष|किस साल|कौन सा वर्ष|किस तारीख|किस सदी|किस दिन",
     "दो|तीन|चार|पाँच|पांच|छह|छः|सात|आठ|नौ|दस|ग्यारह|बारह|पंद्रह|बीस|तीस|चालीस|पचास|साठ|"
     "सत्तर|अस्सी|नब्बे|सौ|हज़ार|हजार|लाख|करोड़|आधा|आधे|तिहाई|चौथाई|शून्य",
     "कौन सा पता|किस पते|ईमेल पता|कौन सी वेबसाइट|किस वेबसाइट"},
    // Chinese
    {"多少|几个|几次|几年|几天|几种|几人|几岁|多久|多长|多大|多高|多远|多快|多重|多深|哪个版本|"
     "幾個|幾次|"
     "幾天|幾種|幾人|幾歲|多長|多遠|哪個版本",
     "什么时候|何时|哪一年|哪年|几月|哪一天|什麼時候|何時|幾月",
     "二|三|四|五|六|七|八|九|十|百|千|半",
     "什么地址|哪个地址|地址是|邮箱是|网址是|哪个网站|什麼地址|哪個地址|信箱是|網址是|哪個網站",
     false},
    // Japanese
    {"いくつ|いくら|何個|何人|何回|何本|何枚|何年|何日|何時間|何分|何歳|何台|何件|何度|"
     "何パーセント|どのくらい|"
     "どれくらい|どれだけ",
     "いつ|何年|何月|何世紀", "二|三|四|五|六|七|八|九|十|百|千|半",
     "どのアドレス|アドレスは|どのサイト|宛先は", false},
};

// Calls `take` with each entry of a list.
void ForEachEntry(std::string_view list, auto take) {
  while (!list.empty()) {
    const size_t end = std::min(list.find('|'), list.size());
    take(list.substr(0, end));
    list.remove_prefix(std::min(end + 1, list.size()));
  }
}

// Whether a spaced question has one of these phrases.
bool HasPhrase(std::string_view spaced, std::string_view phrases, bool has_spaces) {
  bool has = false;
  ForEachEntry(phrases, [&](std::string_view phrase) {
    const bool begins = phrase.starts_with('^');
    std::string wanted(phrase.substr(begins));
    if (has_spaces) wanted = " " + wanted + " ";
    has = has || (begins ? spaced.starts_with(wanted) : spaced.find(wanted) != spaced.npos);
  });
  return has;
}

// Passes the numbers and the words of a text on: number(digits, stands_alone) and word(letters).
// Ends when either returns true, and returns that. A number stands alone if it touches no letter,
// but those of Chinese and Japanese, which write the word for "year" right behind it.
bool AnyNumberOrWord(std::string_view text, auto number, auto word) {
  std::string taken;
  const auto is_letter = [](uint32_t c) { return c < 0x2E80 && IsOfWord(c); };
  bool is_behind_letter = false;
  for (size_t at = 0, length; at < text.size();) {
    taken.clear();
    const uint32_t c = DecodeChar(text, at, &length);
    if (DigitOf(c) >= 0) {
      TakeNumber(text, at, &taken);
      const bool is_before_letter = at < text.size() && is_letter(DecodeChar(text, at, &length));
      if (number(std::string_view(taken), !is_behind_letter && !is_before_letter)) return true;
      is_behind_letter = false;
    } else if (IsOfWord(c)) {
      TakeWord(text, at, &taken);
      if (word(std::string_view(taken))) return true;
      is_behind_letter = is_letter(c);
    } else {
      is_behind_letter = false;
      at += length;
    }
  }
  return false;
}

// Whether a text has an address of mail ("me@example.org", "<number>@example.org") or of the web.
bool HasAddress(std::string_view text) {
  if (text.find("://") != text.npos || text.find("www.") != text.npos) return true;
  const auto is_part = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
  };
  for (size_t at = text.find('@'); at != text.npos; at = text.find('@', at + 1)) {
    const bool has_name = at > 0 && (is_part(text[at - 1]) || text[at - 1] == '>');
    if (has_name && at + 1 < text.size() && is_part(text[at + 1])) return true;
  }
  return false;
}

// 1000 to 2099.
bool IsYear(std::string_view digits) {
  return digits.size() == 4 && digits.find_first_of(".,") == digits.npos &&
         (digits[0] == '1' || digits.starts_with("20"));
}

}  // namespace

AskedValue::AskedValue(std::string_view question) {
  const std::string spaced = SpacedWords(question);
  for (const AskingLanguage& language : kLanguages) {
    year_ = year_ || HasPhrase(spaced, language.years, language.has_spaces);
    address_ = address_ || HasPhrase(spaced, language.addresses, language.has_spaces);
    if (!HasPhrase(spaced, language.numbers, language.has_spaces)) continue;
    number_ = true;
    ForEachEntry(language.words, [&](std::string_view word) {
      if (language.has_spaces) {
        words_.insert(word);
      } else if (spaced.find(word) == spaced.npos) {
        parts_.push_back(word);
      }
    });
  }
  if (!is_asked()) return;
  const auto note = [&](std::string_view one, bool = true) {
    named_.emplace(one);
    return false;
  };
  (void)AnyNumberOrWord(question, note, note);
}

bool AskedValue::IsIn(std::string_view passage) const {
  if (address_ && HasAddress(passage)) return true;
  if (!number_ && !year_) return false;
  const auto is_new = [&](std::string_view one) { return !named_.contains(std::string(one)); };
  return AnyNumberOrWord(
      passage,
      [&](std::string_view digits, bool stands_alone) {
        return (number_ || (stands_alone && IsYear(digits))) && is_new(digits);
      },
      [&](std::string_view word) {
        if (!number_) return false;
        if (words_.contains(word)) return is_new(word);
        return std::ranges::any_of(
            parts_, [&](std::string_view part) { return word.find(part) != word.npos; });
      });
}

}  // namespace lectern
