// Questions that draw on a whole text, such as "Summarise …", "List all …" and "How many …", of a
// text in parts: recognises them, and puts the answers of all parts together.
#ifndef LECTERN_ENGINE_ASKING_WHOLE_QUESTION_H_
#define LECTERN_ENGINE_ASKING_WHOLE_QUESTION_H_

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace lectern {

// How the answers of parts become one.
enum class WholeKind {
  kNone,   // the question does not ask for the whole text, as far as its words tell
  kJoin,   // they are said one after the other: lists, summaries
  kCount,  // the model counts or decides with all of them before it
};
// By the first words of a question, in English alone. Any bytes will do.
WholeKind WholeKindOf(std::string_view question);

// Answers one after the other, each once, without those that another one holds. May throw
// std::bad_alloc.
std::string JoinAnswers(std::span<const std::string> answers);

// Splits answers into groups in their order, each of at most `most_bytes`, but of two at least, so
// that putting groups together comes to an end. May throw std::bad_alloc.
std::vector<std::vector<std::string>> GroupAnswers(std::span<const std::string> answers,
                                                   size_t most_bytes);

// The question to the model after the answers of parts. May throw std::bad_alloc.
std::string QuestionAfterAnswers(std::string_view question, std::span<const std::string> answers);

}  // namespace lectern

#endif  // LECTERN_ENGINE_ASKING_WHOLE_QUESTION_H_
