// The flags and environment variables that come from a table of options: parsed, checked, and
// described in --help as the rows say (engine/requests/option.h).
#ifndef LECTERN_TOOLS_OPTION_FLAGS_H_
#define LECTERN_TOOLS_OPTION_FLAGS_H_

#include <map>
#include <string>
#include <string_view>

#include "engine/requests/option.h"
#include "tools/command_line.h"

namespace lectern::tools {

// Reads the text of a flag into `value`; an empty text gives nothing. What is wrong with it ("11 is
// not a number from 0 to 10"); empty: nothing.
std::string ReadFlag(const lectern::Option& option, const std::string& text, OptionValue& value);

// Reads the option's environment variable, where it has one that is set and not empty, into
// `value`, unless that has a value. What is wrong with it, after the variable's name and text;
// empty: nothing.
std::string ReadVariable(const lectern::Option& option, OptionValue& value);

// Adds one option; what is given goes to `value`, which outlives the command line.
Option AddOptionFlag(CommandLine& app, const lectern::Option& option, const std::string& help,
                     OptionValue& value);

// Adds a flag for each option of the table that the surface has, and returns them by name.
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
