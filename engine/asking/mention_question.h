// Recognises questions that ask which documents mention something, for which words are enough.
#ifndef LECTERN_ENGINE_ASKING_MENTION_QUESTION_H_
#define LECTERN_ENGINE_ASKING_MENTION_QUESTION_H_

#include <optional>
#include <string>
#include <string_view>

namespace lectern {

// The words that are asked for, such as "Ian Murdock" of "Which documents mention Ian Murdock?" and
// of "In which files is Ian Murdock mentioned?"; nothing: it is another question. English alone.
// Any bytes will do. May throw std::bad_alloc.
std::optional<std::string> MentionedWords(std::string_view question);

}  // namespace lectern

#endif  // LECTERN_ENGINE_ASKING_MENTION_QUESTION_H_
