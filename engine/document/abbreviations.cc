#include "engine/document/abbreviations.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <iterator>
#include <string>
#include <vector>

namespace lectern {
namespace {

// Words between spaces. Those in small letters are found with a capital, too ("fig", "Fig"); those
// with a capital are found only so, because "no." and "art." end English sentences.
constexpr std::string_view kNever =
    // English titles, references and links between words
    "Mr Mrs Ms Mx Messrs Msgr Rt Dr Drs Prof Rev Hon Fr Br Capt Cpt Cmdr Lt Lieut Sgt Cpl Maj Col "
    "Gen Adm "
    "Brig Wm Jas Chas Geo Thos Jos Robt Benj Edw Saml Danl Jno Gov Sen Rep Pres Supt Det Insp Amb "
    "Atty Cllr Mt Ft e.g i.e vs viz cf approx ca resp esp "
    "incl excl Op i.a a.k.a betw n.b N.B P.S P.P.S Attn Govt Natl Intl "
    // German
    "Hr Hrn Frl Dipl Dipl.-Ing Ing Mag Dir Hrsg z.b d.h u.a o.ä z.t i.d.r m.e u.u s.o s.u v.a z.hd "
    "i.a d.i z.zt u.ä i.v.m i.s.d a.d bzw evtl ggf inkl exkl vgl sog geb gest sen jun bes ehem "
    "einschl einschließl zzgl abzgl allg urspr versch insb insbes St.-Nr Pfr Kfm med "
    // French
    "MM Mme Mmes Mlle Mlles Mgr Pr Ste p.ex c.-à-d env éd coll trad "
    // Spanish
    "Sra Srta Sres Sta Sto Dra Dña Ud Uds Vd Vds Lic Arq Mons Gral Cnel p.ej p.e aprox "
    // Italian
    "Sig Sigg Sig.ra Dott Dott.ssa Prof.ssa Avv Arch Geom Rag Cav Comm p.es ad.es dott avv sigg "
    // Portuguese
    "Profa Exmo Exma Ilmo Ilma V.Exa Eng Arqt "
    // Vietnamese
    "TS ThS PGS GS BS KS KTS TP "
    // Hindi, with the names of Latin letters, which are initials; other languages of India
    "डॉ डा श्री सुश्री प्रो पं स्व रु ए बी सी डी एफ जी एच जे के एल एम एन ओ पी क्यू आर एस टी यू वी एक्स वाई जेड "
    "मो "
    "ড ডা মো মোঃ প্রফ এ বি সি ডি এফ জি এইচ জে কে এল এম এন ও পি আর এস টি ভি রু நா டாக் ரூ திரு எஸ் எம் "
    "கே ஆர் என் "
    "డా రూ ડૉ રૂ ಡಾ ರೂ ഡോ രൂ ਡਾ රු "
    // Russian
    "ул просп им проф акад т.е т.к доц инж пер наб пгт г-н г-жа зав";
constexpr std::string_view kNeverElsewhere =
    // Polish, Czech and Slovak, Slovene and Croatian, Hungarian, Romanian
    "np tzw tzn tj m.in ul ks gen płk inż mgr hab św godz por zob mec woj "
    "např tzv popř příp viď napr npr dr pl ún vö özv tzn čp nám tř cca ifj d-na d-l "
    // Dutch, Danish, Norwegian, Swedish, Finnish
    "bijv d.w.z d.m.v m.b.t i.v.m t.o.v o.a a.d.h.v evt dhr mevr drs zgn zog "
    "f.eks bl.a d.v.s jf jfr skt fr.o.m t.ex s.k f.d esim vrt ordf enl ekskl vedr frk "
    // Turkish, Greek, Ukrainian and Bulgarian, Italian, Armenian
    "örn doç sn yrd π.χ βλ δηλ περ напр див вул ім вж cfr пров т.зв պրն տկն "
    // Indonesian
    "bpk sdr jln jend kec kab";
// A number that follows belongs to these. "no" and the like may end a sentence before other words.
constexpr std::string_view kNumber =
    "No Nos Nr Nrn Num Fig Figs fig figs Tab Tbl Eq Eqs eq eqs Ref Refs Sec Sect Ch Chap chap "
    "Vol vol vols Art Arts Par para Cl p pp P PP l ll fol Abb Kap Abs Abschn Bd Bde Ziff Anh "
    "Anm Aufl S Rz Rn pág págs pag pagg núm cap art n.º n.o op Ex App Pt Bk Lot Apt Jan Feb "
    "Mar Apr Jun Jul Aug Sep Sept Oct Nov Dec Okt Dez janv févr avr juil sept oct nov déc "
    "ene abr dic giu lug ott párr párrf núm núms nr č čl odst písm blz pkt kl kap alin ust poz "
    "ст п пп гл αρ σελ άρθ rs N° n° tel Tel Fax Ext ext Rs рис стр табл सं नं क्र "
    "no nos ch sec sect arts par cl reg regs Reg Regs Vols Edn edn vid Cir Suppl Anl Std gem "
    "Stk stk str lit jan feb mar apr maj jun jul aug sep okt dec dez gen mag fev mrt "
    "Lun Mié Jue Vie Sáb Dom max min ediz fn nn vv Ps hlm ps tgl Rp ok dn roz rozp sygn "
    "кв корп оф эт изд ред бл буд січ лют бер квіт трав черв лип серп вер жовт лист груд "
    "παρ άρθρ εδ κεφ τόμ εικ πίν αριθ αριθμ पृ नम्बर নং খ্রি எண் Cad Sok cad sok";
constexpr std::string_view kTime = "a.m p.m A.M P.M";
constexpr std::string_view kMayEnd =
    "St Str Jr Sr Esq Inc Ltd Co Corp Bros Cie Ltda Assn Assoc Dept Univ Inst Ave Av Avda Blvd Rd "
    "Ln Sq Pl Hwy al a.c d.c A.D B.C B.C.E C.E v.chr n.chr J.-C av.J.-C ap.J.-C "
    "Ph.D ph.d M.D B.A M.A D.C U.S U.K U.S.A U.N E.U EE.UU S.p.A S.A S.L e.V Mio Mrd Tsd Jh Jhd "
    "Jhs ed eds et.al rev repr est Est ibid Wash Calif Mass Penn Conn Fla Tex Mon Tue Tues Wed Thu "
    "Thur Thurs Fri Sat Sun गा कि.मी मि.मी से.मी कि.ग्रा मी ग्रा इं т.д т.п др гг тыс млн млрд руб см "
    "m.m "
    "o.s.v osv itp itd vb "
    "κ.λπ т.ч т.н Pvt Bldg Mfg Gdns Fed Crim Civ Proc Soc Roy Phys Lett Acad Bull Trans "
    "l'ing dell'ing all'ing "
    "Chem Biol av bd boul B.V N.V UU Fa sig kath evang hr fr dl jl habil лв грн тис "
    "чел чол ბ ზ ዓ.ም ኪ.ሜ";

constexpr std::string_view kStarters =
    "The An He She It They We You In On At By For From This That These Those His Her Its Their Our "
    "My "
    "There Here When While If As But And Or So Then Thus After Before However Although Though "
    "Since "
    "With To Of No Yes What Who Where How Why Which Each Every All Some Many Most Both Not Another "
    "Such Under During Until Because Between Only Even Once Next Later Today Now Also Any Please "
    "See "
    // German
    "Der Die Das Ein Eine Einen Einem Er Sie Es Wir Ihr Ich Im Am Auf Bei Beim Mit Nach Vom Zu Zum "
    "Zur "
    "Für Dies Diese Dieser Dieses Diesen Aber Und Oder Wenn Als Da Dann Doch Auch Nur Sein Seine "
    "Ihre "
    "Jeder Jede Jedes Alle Seit Über Unter Durch Ohne Dort Hier Heute Man Den Dem Weil Während "
    "Nachdem "
    // French
    "Le La Les Un Une Des Il Elle Ils Elles Nous Vous Je Ce Cette Ces Cet Dans En Sur Pour Par "
    "Avec "
    "Mais Et Si Son Sa Ses Leur Leurs Il Lorsque Quand Depuis Selon Après Avant Au Aux "
    // Spanish, Italian, Portuguese
    "El Los Las Una Él Ella Ellos Ellas Con Por Para Pero Este Esta Estos Estas Su Sus Se Cuando "
    "Según "
    "Al Lo Gli Egli Essa Nel Nella Per Ma Questo Questa Questi Suo Sua Quando Dopo Os As Um Uma "
    "Ele Ela "
    "Em Na Mas Seu Depois Não "
    // Danish, Norwegian, Swedish, Dutch, Russian
    "Det Han Hun Vi Jeg Hvad Hvem Hvor Hvis Jag Hon Vad Het Een Dit Deze Hij Zij Wij Wat Maar "
    "Это Этот Эта Эти Он Она Оно Они Если Для Но При Как Так Не Все Его Её Их Когда После Также";

constexpr std::string_view kDaysAndZones =
    "Mon Tue Tues Wed Thu Thur Thurs Fri Sat Sun Monday Tuesday Wednesday Thursday Friday Saturday "
    "Sunday January February March April May June July August September October November December "
    "Jan Feb Mar Apr Jun Jul Aug Sep Sept Oct Nov Dec EST EDT CST CDT MST MDT PST PDT ET CT MT PT "
    "GMT UTC BST CET CEST IST JST AEST Eastern Central Pacific Mountain Greenwich Local";

constexpr std::string_view kBeforeOrdinals =
    "am der die das dem den des vom zum im zur beim bis ab seit ein eine einen einem einer jeder "
    "jeden "
    "jedem seinen seinem seiner ihren ihrem ihrer unseren diesem diesen und";
constexpr std::string_view kAfterOrdinals =
    "Januar Jänner Februar März April Mai Juni Juli August September Oktober November Dezember "
    "Jan Feb Mär Apr Jun Jul Aug Sep Sept Okt Nov Dez "
    "Jahrhundert Jahrhunderts Jahrtausend Weltkrieg Weltkriegs Geburtstag Stock Klasse Kapitel";

constexpr std::string_view kNeedNext =
    "the a an of in on at by for from to with and or but nor as than that which who whose is are "
    "was "
    "were be been its his her their our my your this these those into onto over under between "
    "through "
    "during about if when while because not no has have had will would can could may must shall "
    "should "
    // German
    "der die das dem den des ein eine einen einem einer eines und oder von vom zu zum zur für mit "
    "bei im "
    "am auf aus nach über unter vor durch ist sind war wird werden hat dass sich nicht als wenn "
    "sein "
    // French, Spanish, Italian, Portuguese
    "le la les un une du de et ou à au aux dans sur pour par avec que qui est sont el los las una "
    "y o en "
    "con por para se del al que su il lo gli di da del della dei che e per nel nella os as um uma "
    "do dos "
    "das em na no com à ao são";

// A set of words, given as one text with spaces between them, to which it keeps views.
struct Words {
  explicit Words(std::string_view list) {
    for (size_t at = 0; at < list.size();) {
      const size_t end = std::min(list.find(' ', at), list.size());
      if (end > at) sorted.push_back(list.substr(at, end - at));
      at = end + 1;
    }
    std::sort(sorted.begin(), sorted.end());
  }
  bool Has(std::string_view word) const {
    return std::binary_search(sorted.begin(), sorted.end(), word);
  }
  std::vector<std::string_view> sorted;
};

bool IsAsciiCapital(char c) { return c >= 'A' && c <= 'Z'; }

// ASCII alone: other capitals of the tables are listed as they are written.
std::string SmallLetters(std::string_view word) {
  std::string small(word);
  for (char& c : small) {
    if (IsAsciiCapital(c)) c = static_cast<char>(c - 'A' + 'a');
  }
  return small;
}

// The lists together; the first one that has a word decides.
struct Abbreviations {
  Words never{kNever}, never_elsewhere{kNeverElsewhere}, number{kNumber}, time{kTime},
      may_end{kMayEnd};
  StopAfter Find(std::string_view word) const {
    if (never.Has(word) || never_elsewhere.Has(word)) return StopAfter::kNever;
    if (number.Has(word)) return StopAfter::kNumber;
    if (time.Has(word)) return StopAfter::kTime;
    if (may_end.Has(word)) return StopAfter::kMayEnd;
    return StopAfter::kEnds;
  }
};

}  // namespace

StopAfter StopAfterWord(std::string_view word) {
  static const Abbreviations abbreviations;
  constexpr size_t kLongest = 16;
  if (word.empty() || word.size() > kLongest) return StopAfter::kEnds;
  const StopAfter found = abbreviations.Find(word);
  if (found != StopAfter::kEnds) return found;
  // "DR." and "Z.B." as "Dr." and "z.B."; "Dipl.-Ing." by its last part.
  if (IsAsciiCapital(word.front()) || word.find('.') != word.npos) {
    std::string small = SmallLetters(word);
    const StopAfter as_small = abbreviations.Find(small);
    if (as_small != StopAfter::kEnds) return as_small;
    if (word.size() > 1 && IsAsciiCapital(word[1])) {
      small[0] = word[0];
      return abbreviations.Find(small);
    }
  }
  const size_t part = word.find_last_of("-'");
  if (part != word.npos) return StopAfterWord(word.substr(part + 1));
  constexpr std::string_view kApostrophe = "’";
  const size_t mark = word.rfind(kApostrophe);
  return mark == word.npos ? StopAfter::kEnds
                           : StopAfterWord(word.substr(mark + kApostrophe.size()));
}

bool ContinuesTime(std::string_view word) {
  static const Words words(kDaysAndZones);
  return words.Has(word);
}

bool IsWithoutVowels(std::string_view word) {
  static constexpr std::string_view kVowels[] = {
      "à", "á", "â", "ã", "ä", "å", "æ", "è", "é", "ê", "ë", "ì", "í", "î", "ï", "ò",
      "ó", "ô", "õ", "ö", "ø", "ù", "ú", "û", "ü", "ý", "ą", "ę", "ě", "ů", "ő", "ű",
      "ı", "ă", "ō", "œ", "а", "е", "ё", "и", "о", "у", "ы", "э", "ю", "я", "і", "ї",
      "є", "α", "ε", "η", "ι", "ο", "υ", "ω", "ά", "έ", "ή", "ί", "ό", "ύ", "ώ"};
  constexpr size_t kMostLetters = 3;
  size_t num_letters = 0;
  for (size_t at = 0; at < word.size(); ++num_letters) {
    const auto byte = static_cast<unsigned char>(word[at]);
    if (byte < 0x80) {
      const char small = SmallLetters(word.substr(at, 1))[0];
      if (small < 'a' || small > 'z' || std::string_view("aeiouy").find(small) != word.npos)
        return false;
      ++at;
      continue;
    }
    const std::string_view letter = word.substr(at, 2);  // all of these scripts have two bytes
    const bool is_european = (byte >= 0xC3 && byte <= 0xC5) || (byte >= 0xCE && byte <= 0xD1);
    if (!is_european || std::ranges::find(kVowels, letter) != std::end(kVowels)) return false;
    at += 2;
  }
  return num_letters > 0 && num_letters <= kMostLetters;
}

bool BeginsSentences(std::string_view word) {
  static const Words starters(kStarters);
  return starters.Has(word);
}

bool IsOrdinalBetween(std::string_view previous, std::string_view next) {
  static const Words before(kBeforeOrdinals), after(kAfterOrdinals);
  if (after.Has(next)) return true;
  return before.Has(SmallLetters(previous)) && !BeginsSentences(next);
}

bool ContinuesThai(std::string_view before, std::string_view after) {
  static constexpr std::string_view kNext[] = {
      "และ", "หรือ", "แต่", "ซึ่ง", "ที่", "โดย", "เพราะ", "เพื่อ", "จาก", "ของ", "คือ", "เป็น", "ว่า", "ถึง",
      "กับ", "ใน", "ได้แก่", "เช่น", "ตั้งแต่", "จน", "รวม", "จะ", "ย่อม", "ต้อง", "อัน", "ทาง", "ตาม", "ด้วย",
      "แห่ง", "ให้",
      // Lao
      "ແລະ", "ຫຼື", "ຫລື", "ທີ່", "ຊຶ່ງ", "ຊື່ງ", "ໂດຍ", "ເພື່ອ", "ໃນ", "ຂອງ", "ວ່າ", "ກັບ"};
  static constexpr std::string_view kBefore[] = {"คือ",  "ว่า", "เช่น", "ได้แก่", "และ", "หรือ",
                                                 "โดย", "ชื่อ", "ແລະ", "ຫຼື",    "ວ່າ",  "ທີ່"};
  return std::ranges::any_of(kNext,
                             [&](std::string_view word) { return after.starts_with(word); }) ||
         std::ranges::any_of(kBefore,
                             [&](std::string_view word) { return before.ends_with(word); });
}

bool NeedsNextWord(std::string_view word) {
  static const Words words(kNeedNext);
  return words.Has(SmallLetters(word));
}

}  // namespace lectern
