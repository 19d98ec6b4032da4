// Recognises questions that ask for a number, a year or an address (of mail or of the web), in
// thirteen languages, and finds the passages that have one.
#ifndef LECTERN_ENGINE_ASKING_ASKED_VALUE_H_
#define LECTERN_ENGINE_ASKING_ASKED_VALUE_H_

#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

namespace lectern {

// The kind of value that a question asks for. Immutable. Any bytes will do, here and in IsIn. The
// languages and their phrases: asked_value.cc.
class AskedValue {
 public:
  // May throw std::bad_alloc, as IsIn may.
  explicit AskedValue(std::string_view question);

  // Whether the question asks for a number ("How many …", "Which version …"), for a year ("When
  // was …", "In which year …") or for an address ("To which address …").
  bool is_asked() const { return number_ || year_ || address_; }
  // Whether the passage has a value of the kind that is asked for; a number or year that the
  // question names itself does not count. False if none is asked for. Linear.
  bool IsIn(std::string_view passage) const;

 private:
  bool number_ = false, year_ = false, address_ = false;
  std::unordered_set<std::string_view> words_;  // number words of the question's language
  std::vector<std::string_view> parts_;         // the same, where words have no spaces between them
  std::unordered_set<std::string> named_;       // numbers and number words of the question
};

}  // namespace lectern

#endif  // LECTERN_ENGINE_ASKING_ASKED_VALUE_H_
