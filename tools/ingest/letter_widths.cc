#include "tools/ingest/letter_widths.h"

#include <fribidi.h>

#include <string_view>

namespace lectern::tools {
namespace {

// How wide letters are in most fonts, against the mean of the letters of their script: alone, as a
// word's first letter, in its middle and as its last one. Measured in eight Arabic and ten Hebrew
// fonts, which differ by a tenth.
struct UsualWidths {
  std::u32string_view letters;
  double widths[4];
};
constexpr UsualWidths kUsualWidths[] = {{U"بتثپ", {1.4, 0.45, 0.5, 1.45}},
                                        {U"جحخچ", {1, 1.05, 1.1, 1.05}},
                                        {U"سش", {1.7, 1.15, 1.15, 1.75}},
                                        {U"صض", {1.95, 1.4, 1.4, 1.95}},
                                        {U"طظ", {1.3, 1.05, 1.1, 1.3}},
                                        {U"عغ", {0.9, 0.85, 0.7, 0.8}},
                                        {U"ف", {1.5, 0.65, 0.7, 1.55}},
                                        {U"ق", {1.1, 0.65, 0.7, 1.05}},
                                        {U"كکگ", {1.4, 0.95, 1, 1.45}},
                                        {U"ل", {1, 0.4, 0.45, 1}},
                                        {U"م", {0.75, 0.75, 0.85, 0.9}},
                                        {U"ن", {0.95, 0.45, 0.5, 1.05}},
                                        {U"ه", {0.6, 0.85, 0.7, 0.7}},
                                        {U"يئیى", {1.15, 0.45, 0.5, 1.1}},
                                        {U"اأإآ", {0.4, 0.4, 0.45, 0.45}},
                                        {U"دذ", {0.75, 0.75, 0.8, 0.8}},
                                        {U"رزژوؤ", {0.7, 0.7, 0.7, 0.7}},
                                        {U"ةء", {0.6, 0.6, 0.7, 0.7}},
                                        {U"אהחטםמסקת", {1.15, 1.15, 1.15, 1.15}},
                                        {U"גזנ", {0.7, 0.7, 0.7, 0.7}},
                                        {U"ויןʼ", {0.55, 0.55, 0.55, 0.55}},
                                        {U"ש", {1.3, 1.3, 1.3, 1.3}},
                                        {U".,:;'!-־،؛", {0.5, 0.5, 0.5, 0.5}}};

double UsualWidth(uint32_t letter, bool is_joined_before, bool is_joined_behind) {
  const size_t form = is_joined_before ? (is_joined_behind ? 2 : 3) : (is_joined_behind ? 1 : 0);
  for (const UsualWidths& usual : kUsualWidths) {
    if (usual.letters.find(static_cast<char32_t>(letter)) != std::u32string_view::npos) {
      return usual.widths[form];
    }
  }
  return 1;
}

}  // namespace

bool JoinsNextLetter(uint32_t letter) {
  return FRIBIDI_JOINS_LEFT(fribidi_get_joining_type(letter)) != 0;
}
bool JoinsPreviousLetter(uint32_t letter) {
  return FRIBIDI_JOINS_RIGHT(fribidi_get_joining_type(letter)) != 0;
}

std::vector<size_t> LetterWidths::FormsOf(const std::vector<uint32_t>& letters,
                                          bool is_joined_before, bool is_joined_behind) {
  std::vector<size_t> forms;
  bool before = is_joined_before;
  for (size_t i = 0; i < letters.size(); ++i) {
    const bool is_last = i + 1 == letters.size();
    const bool behind = is_last
                            ? is_joined_behind
                            : JoinsNextLetter(letters[i]) && JoinsPreviousLetter(letters[i + 1]);
    const std::pair key(letters[i], (before ? 1 : 0) + (behind ? 2 : 0));
    const auto [known, is_new] = forms_.try_emplace(key, forms_.size());
    forms.push_back(known->second);
    if (is_new) {
      usual_.push_back(UsualWidth(letters[i], before, behind));
      widths_.push_back(mean_ * usual_.back());
    }
    before = behind;
  }
  return forms;
}

void LetterWidths::Solve(std::vector<Equation>& equations) {
  double width = 0, usual = 0;
  for (const Equation& equation : equations) {
    width += equation.width;
    for (const size_t form : equation.forms) usual += usual_[form];
  }
  if (usual == 0) return;
  mean_ = width / usual;
  for (size_t i = 0; i < widths_.size(); ++i) widths_[i] = mean_ * usual_[i];
  std::vector<std::vector<size_t>> equations_of(widths_.size());
  for (size_t i = 0; i < equations.size(); ++i) {
    equations[i].error = equations[i].width;
    for (const size_t form : equations[i].forms) {
      equations_of[form].push_back(i);
      equations[i].error -= widths_[form];
    }
  }
  constexpr int kRounds = 30;
  for (int round = 0; round < kRounds; ++round) Improve(equations_of, equations);
}

// One round of coordinate descent: the best width of each form beside those of the others.
void LetterWidths::Improve(const std::vector<std::vector<size_t>>& equations_of,
                           std::vector<Equation>& equations) {
  constexpr double kPrior = 0.3;     // the weight of the usual width, in equations
  constexpr double kOutlier = 0.06;  // equations with such an error have half the weight
  for (size_t form = 0; form < widths_.size(); ++form) {
    double sum = kPrior * (mean_ * usual_[form] - widths_[form]), weights = kPrior;
    for (const size_t i : equations_of[form]) {
      const double error = equations[i].error / kOutlier;
      const double weight = equations[i].weight / (1 + error * error);
      sum += weight * equations[i].error;
      weights += weight;
    }
    const double change = sum / weights;
    widths_[form] += change;
    for (const size_t i : equations_of[form]) equations[i].error -= change;
  }
}

}  // namespace lectern::tools
