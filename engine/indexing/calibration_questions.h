// Makes the questions that a document is asked while it is indexed, so that its estimates and
// budgets are measured before a user asks anything.
#ifndef LECTERN_ENGINE_INDEXING_CALIBRATION_QUESTIONS_H_
#define LECTERN_ENGINE_INDEXING_CALIBRATION_QUESTIONS_H_

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace lectern {

// Four questions of the kinds that documents are asked, but about none of them. Live forever.
std::span<const char* const> GenericQuestions();

// Four questions: the first generic one, and one each about a word from the first, the second and
// the last third of the text ("What does the text say about mutexes?"), a word that the text has a
// few times. A generic question takes the place of one where a third has no such word, as in an
// empty text. The same text gives the same questions. Time: linear in the text. `text`: UTF-8.
std::vector<std::string> CalibrationQuestions(std::string_view text);

}  // namespace lectern

#endif  // LECTERN_ENGINE_INDEXING_CALIBRATION_QUESTIONS_H_
