// The text of an error or a note, which may name options of Lectern. The library names an option as
// its field (weights "q4"), the command-line tools as their flag (--weights q4): a message carries
// both wordings, and the program that shows it takes the one that its readers know.
#ifndef LECTERN_STORE_MESSAGE_H_
#define LECTERN_STORE_MESSAGE_H_

#include <string>
#include <string_view>
#include <utility>

namespace lectern {

// Texts without options convert implicitly. Adding messages keeps both wordings.
class Message {
 public:
  Message() = default;
  Message(std::string text) : text_(std::move(text)) {}
  Message(const char* text) : text_(text) {}  // not nullptr
  // The two wordings; an empty `cli_text` means that both are `text`.
  Message(std::string text, std::string cli_text)
      : text_(std::move(text)), cli_text_(std::move(cli_text)) {}

  bool empty() const { return text_.empty(); }
  const std::string& text() const { return text_; }
  // The text that the command-line tools print.
  const std::string& cli_text() const { return cli_text_.empty() ? text_ : cli_text_; }

  Message& operator+=(const Message& more) {
    if (!cli_text_.empty() || !more.cli_text_.empty()) cli_text_ = cli_text() + more.cli_text();
    text_ += more.text_;
    return *this;
  }
  friend Message operator+(Message first, const Message& second) {
    first += second;
    return first;
  }

 private:
  std::string text_;
  std::string cli_text_;  // empty: no option is named, both are `text_`
};

// The flag of an option, dashes in the place of underscores: --kv-budget for kv_budget.
std::string FlagName(std::string_view option);
// The name of an option: max_ram, for command lines --max-ram.
Message OptionName(std::string_view option);
// An option with a value: weights "q4", for command lines --weights q4. Neither wording escapes
// anything in the value.
Message OptionName(std::string_view option, std::string_view value);

}  // namespace lectern

#endif  // LECTERN_STORE_MESSAGE_H_
