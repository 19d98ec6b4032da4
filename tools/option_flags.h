// Makes flags and environment variables of the options of a table (engine/requests/option.h): each
// row says how the option is named, parsed, checked and described in --help. The tools use it for
// every option that is also a field of the API, so that one row changes all of them.
//
// The table's rows are static. One thread at a time.
#ifndef LECTERN_TOOLS_OPTION_FLAGS_H_
#define LECTERN_TOOLS_OPTION_FLAGS_H_

#include <map>
#include <string>
#include <string_view>

#include "engine/requests/option.h"
#include "tools/command_line.h"

namespace lectern::tools {

// Parses the text that a flag was given and puts it into `value`; for an option that may be given
// several times (kTexts) it adds it to those before. An empty text of a kText makes `value` "not
// given", so that the default holds; where the option is_never_empty it is wrong. Returns what is
// wrong ("11 is not a number from 0 to 10"), with `value` unchanged except for kTexts, which has
// the text all the same; empty: nothing. Not for kFlag, which has no text.
std::string ReadFlag(const lectern::Option& option, const std::string& text, OptionValue& value);

// Parses the option's environment variable into `value`. Does nothing where the option has no
// variable, the variable is unset or empty, or `value` is given already: flags win. Returns what is
// wrong, with the variable's name and text (LECTERN_IO="x" is neither mmap nor pread), and leaves
// `value` as it is; empty: nothing. Options of kind kFlag and kTexts may not have a variable.
std::string ReadVariable(const lectern::Option& option, OptionValue& value);

// Adds the flag of one option, with `help` as its text. The value that the user gives goes to
// `value`, for a kFlag the opposite of its default; `option` and `value` must outlive the command
// line.
Option AddOptionFlag(CommandLine& app, const lectern::Option& option, const std::string& help,
                     OptionValue& value);

// Adds a flag for each option of `given`'s table that users meet on this surface, and returns the
// flags by the options' names (kv_budget, not --kv-budget), so that one tool can lengthen a help or
// add an exclusion. `given` must outlive the command line. An option that is on by default gets a
// --no-NAME flag and the help of that.
template <typename Given>
std::map<std::string, Option> AddOptionFlags(CommandLine& app, Given& given,
                                             OptionSurface surface = kCommandLine) {
  const auto flag_of = [&given](std::string_view name) { return FlagOf(given.option(name)); };
  std::map<std::string, Option> flags;
  for (size_t i = 0; i < given.size(); ++i) {
    const lectern::Option& option = given.option(i);
    if (!option.is_in(surface)) continue;
    const char* const text = option.is_on ? option.help_off : option.help;
    const std::string help = HelpText(option, text, flag_of);
    flags.emplace(option.name, AddOptionFlag(app, option, help, given.value(i)));
  }
  return flags;
}

}  // namespace lectern::tools

#endif  // LECTERN_TOOLS_OPTION_FLAGS_H_
