// Writes the parts of a formula that stand above and below each other in one line, for the readers
// of MathML and of Office's formulas.
#ifndef LECTERN_TOOLS_INGEST_LINEAR_MATH_H_
#define LECTERN_TOOLS_INGEST_LINEAR_MATH_H_

#include <string>

namespace lectern::tools {

// The text in parentheses, unless it is one number, letter or word, or has them already.
std::string MathGroup(const std::string& text);
// "(a + b)/c".
std::string MathFraction(const std::string& above, const std::string& below);
// "x₁" is written "x_1", and "x" with a 2 above it "x²", with an n "x^n". `below` and `above` may
// be empty.
std::string MathScripts(const std::string& base, const std::string& below,
                        const std::string& above);
// "√x", or "x^(1/3)" for the degree 3. `degree` may be empty.
std::string MathRoot(const std::string& inside, const std::string& degree);

}  // namespace lectern::tools

#endif  // LECTERN_TOOLS_INGEST_LINEAR_MATH_H_
