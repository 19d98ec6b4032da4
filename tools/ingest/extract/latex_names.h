// Says which commands and environments of LaTeX are sections, characters, code or layout
// (latex.cc).
#ifndef LECTERN_TOOLS_INGEST_EXTRACT_LATEX_NAMES_H_
#define LECTERN_TOOLS_INGEST_EXTRACT_LATEX_NAMES_H_

#include <cstdint>
#include <optional>
#include <string_view>

namespace lectern::tools {

// Commands that begin a section, with the backslash and a brace.
inline constexpr std::string_view kLatexSections[] = {
    "\\part{",          "\\chapter{",   "\\section{",     "\\subsection{",
    "\\subsubsection{", "\\paragraph{", "\\subparagraph{"};

// The level of the heading that a command without its backslash makes, 1 to 6; 0: it makes none.
int LatexLevel(std::string_view name);
// The characters that a command stands for; empty: none.
std::string_view LatexCharacters(std::string_view name);
// The combining character of an accent's command; 0: it is none.
uint32_t LatexAccent(char name);
// How many arguments are left out with a command, besides those in brackets; nothing: the command's
// arguments are text.
std::optional<int> LatexArgumentsLeftOut(std::string_view name);

// Environments, also with a star. Code: those of packages, and those of authors that have such a
// name.
bool IsLatexCode(std::string_view environment);
bool IsLatexFormula(std::string_view environment);
bool IsLatexTable(std::string_view environment);
// How many arguments stand behind the environment's name and what is in brackets.
int LatexEnvironmentArguments(std::string_view environment);

}  // namespace lectern::tools

#endif  // LECTERN_TOOLS_INGEST_EXTRACT_LATEX_NAMES_H_
