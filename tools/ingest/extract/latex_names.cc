#include "tools/ingest/extract/latex_names.h"

#include <algorithm>
#include <initializer_list>
#include <span>
#include <string>
#include <utility>

#include "tools/ingest/characters.h"

namespace lectern::tools {
namespace {

struct NamedText {
  std::string_view name, text;
};
// Commands that stand for a character or a word.
constexpr NamedText kLatexCharacters[] = {{"ldots", "…"},
                                          {"dots", "…"},
                                          {"textellipsis", "…"},
                                          {"textendash", "–"},
                                          {"textemdash", "—"},
                                          {"ss", "ß"},
                                          {"ae", "æ"},
                                          {"AE", "Æ"},
                                          {"oe", "œ"},
                                          {"OE", "Œ"},
                                          {"o", "ø"},
                                          {"O", "Ø"},
                                          {"l", "ł"},
                                          {"L", "Ł"},
                                          {"aa", "å"},
                                          {"AA", "Å"},
                                          {"i", "ı"},
                                          {"j", "ȷ"},
                                          {"S", "§"},
                                          {"P", "¶"},
                                          {"copyright", "©"},
                                          {"pounds", "£"},
                                          {"euro", "€"},
                                          {"texteuro", "€"},
                                          {"EUR", "€"},
                                          {"textbackslash", "\\"},
                                          {"textasciitilde", "~"},
                                          {"textasciicircum", "^"},
                                          {"textbar", "|"},
                                          {"textless", "<"},
                                          {"textgreater", ">"},
                                          {"textunderscore", "_"},
                                          {"textquotesingle", "'"},
                                          {"textquotedbl", "\""},
                                          {"textquotedblleft", "“"},
                                          {"textquotedblright", "”"},
                                          {"textquoteleft", "‘"},
                                          {"textquoteright", "’"},
                                          {"guillemotleft", "«"},
                                          {"guillemotright", "»"},
                                          {"glqq", "„"},
                                          {"grqq", "“"},
                                          {"degree", "°"},
                                          {"textdegree", "°"},
                                          {"texttrademark", "™"},
                                          {"textregistered", "®"},
                                          {"textbullet", "•"},
                                          {"textperiodcentered", "·"},
                                          {"slash", "/"},
                                          {"LaTeX", "LaTeX"},
                                          {"TeX", "TeX"},
                                          {"LaTeXe", "LaTeX2e"},
                                          {"quad", " "},
                                          {"qquad", " "},
                                          {"space", " "},
                                          {"enspace", " "},
                                          {"thinspace", " "},
                                          {"hfill", " "}};

// Accents, which stand before their letter in LaTeX and behind it in Unicode.
constexpr std::pair<char, uint32_t> kAccents[] = {
    {'`', 0x300}, {'\'', 0x301}, {'^', 0x302}, {'~', 0x303}, {'=', 0x304},
    {'u', 0x306}, {'.', 0x307},  {'"', 0x308}, {'r', 0x30A}, {'H', 0x30B},
    {'v', 0x30C}, {'d', 0x323},  {'c', 0x327}, {'k', 0x328}, {'b', 0x331}};

struct NamedNumber {
  std::string_view name;
  int number;
};
// Sections below the title. Books have parts and chapters, articles sections.
constexpr NamedNumber kLatexLevels[] = {{"title", 1},     {"part", 1},        {"chapter", 1},
                                        {"section", 2},   {"subsection", 3},  {"subsubsection", 4},
                                        {"paragraph", 5}, {"subparagraph", 6}};

// Commands that are left out with so many arguments behind the optional ones.
constexpr NamedNumber kLeftOut[] = {{"label", 1},
                                    {"index", 1},
                                    {"glossary", 1},
                                    {"vspace", 1},
                                    {"hspace", 1},
                                    {"includegraphics", 1},
                                    {"bibliographystyle", 1},
                                    {"bibliography", 1},
                                    {"addbibresource", 1},
                                    {"usepackage", 1},
                                    {"RequirePackage", 1},
                                    {"documentclass", 1},
                                    {"usetikzlibrary", 1},
                                    {"pagestyle", 1},
                                    {"thispagestyle", 1},
                                    {"pagenumbering", 1},
                                    {"hypersetup", 1},
                                    {"geometry", 1},
                                    {"graphicspath", 1},
                                    {"input", 1},
                                    {"include", 1},
                                    {"phantomsection", 0},
                                    {"setlength", 2},
                                    {"addtolength", 2},
                                    {"setcounter", 2},
                                    {"addtocounter", 2},
                                    {"newcommand", 2},
                                    {"renewcommand", 2},
                                    {"providecommand", 2},
                                    {"newenvironment", 3},
                                    {"renewenvironment", 3},
                                    {"newtheorem", 2},
                                    {"DeclareMathOperator", 2},
                                    {"addcontentsline", 3},
                                    {"markboth", 2},
                                    {"markright", 1},
                                    {"color", 1},
                                    {"textcolor", 1},
                                    {"colorbox", 1},
                                    {"fontsize", 2},
                                    {"selectlanguage", 1},
                                    {"foreignlanguage", 1},
                                    {"multicolumn", 2},
                                    {"multirow", 2},
                                    {"cline", 1},
                                    {"cmidrule", 1},
                                    {"rule", 2},
                                    {"specialrule", 3},
                                    {"arrayrulecolor", 1},
                                    {"rowcolor", 1},
                                    {"cellcolor", 1},
                                    {"rowcolors", 3},
                                    {"parbox", 1},
                                    {"makebox", 0},
                                    {"raisebox", 1},
                                    {"resizebox", 2},
                                    {"scalebox", 1},
                                    {"rotatebox", 1},
                                    {"hyphenation", 1}};

// Environments with arguments, those of tables' columns among them.
constexpr NamedNumber kEnvironmentArguments[] = {
    {"minted", 1},    {"filecontents", 1},    {"filecontents*", 1}, {"minipage", 1},
    {"multicols", 1}, {"thebibliography", 1}, {"wrapfigure", 2},    {"adjustbox", 1},
    {"subfigure", 1}, {"tabular*", 2},        {"tabularx", 2},      {"tabulary", 2}};

template <typename Known>
const Known* FindNamed(std::span<const Known> all, std::string_view name) {
  const auto found = std::ranges::find(all, name, &Known::name);
  return found == all.end() ? nullptr : &*found;
}

bool IsOneOf(std::string_view name, std::initializer_list<std::string_view> names) {
  return std::ranges::find(names, name) != names.end();
}

std::string_view WithoutStar(std::string_view name) {
  return name.ends_with('*') ? name.substr(0, name.size() - 1) : name;
}

}  // namespace

int LatexLevel(std::string_view name) {
  const auto* const known = FindNamed<NamedNumber>(kLatexLevels, name);
  return known ? known->number : 0;
}

std::string_view LatexCharacters(std::string_view name) {
  const auto* const known = FindNamed<NamedText>(kLatexCharacters, name);
  return known ? known->text : std::string_view();
}

uint32_t LatexAccent(char name) {
  for (const auto& [accent, mark] : kAccents) {
    if (accent == name) return mark;
  }
  return 0;
}

std::optional<int> LatexArgumentsLeftOut(std::string_view name) {
  const auto* const known = FindNamed<NamedNumber>(kLeftOut, name);
  return known ? std::optional<int>(known->number) : std::nullopt;
}

bool IsLatexCode(std::string_view environment) {
  const std::string lower = Lower(WithoutStar(environment));
  return lower.find("verbatim") != lower.npos || lower.find("listing") != lower.npos ||
         lower.ends_with("code") || IsOneOf(lower, {"minted", "alltt", "filecontents"});
}

bool IsLatexFormula(std::string_view environment) {
  return IsOneOf(WithoutStar(environment), {"equation", "align", "alignat", "gather", "multline",
                                            "flalign", "eqnarray", "displaymath", "math"});
}

bool IsLatexTable(std::string_view environment) {
  return IsOneOf(WithoutStar(environment),
                 {"tabular", "tabularx", "tabulary", "longtable", "tabu", "supertabular", "array"});
}

int LatexEnvironmentArguments(std::string_view environment) {
  const auto* const known = FindNamed<NamedNumber>(kEnvironmentArguments, environment);
  return known ? known->number : IsLatexTable(environment) ? 1 : 0;
}

}  // namespace lectern::tools
