// The widths of a font's letters, found from the widths of words. marked_words.h uses it.
#ifndef LECTERN_TOOLS_INGEST_LETTER_WIDTHS_H_
#define LECTERN_TOOLS_INGEST_LETTER_WIDTHS_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

namespace lectern::tools {

// Whether Arabic writing joins the letter to the next one or the previous one, if that joins too.
// Any thread.
bool JoinsNextLetter(uint32_t letter);
bool JoinsPreviousLetter(uint32_t letter);

// Finds widths by least squares. A letter that joins its neighbours has a width for each of its
// forms: alone, first, middle and last. Not for several threads at once.
class LetterWidths {
 public:
  // The width of several letters in a row.
  struct Equation {
    std::vector<size_t> forms;  // FormsOf
    double width = 0;
    double weight = 1;
    double error = 0;  // set by Solve: how much wider they are than their widths
  };

  // The indexes of the forms that `letters`, in the order in which they are read, have in a row.
  std::vector<size_t> FormsOf(const std::vector<uint32_t>& letters, bool is_joined_before,
                              bool is_joined_behind);
  double WidthOf(size_t form) const { return widths_[form]; }

  // Finds the widths that fit best. Without equations for a form it gets the width that it has in
  // most fonts, scaled to this one.
  void Solve(std::vector<Equation>& equations);

 private:
  void Improve(const std::vector<std::vector<size_t>>& equations_of,
               std::vector<Equation>& equations);

  std::map<std::pair<uint32_t, int>, size_t> forms_;
  std::vector<double> usual_, widths_;  // in mean widths of letters, in units of the equations
  double mean_ = 0.3;                   // the mean width; before Solve that of many fonts
};

}  // namespace lectern::tools

#endif  // LECTERN_TOOLS_INGEST_LETTER_WIDTHS_H_
