#include "store/message.h"

#include <algorithm>

namespace lectern {

std::string FlagName(std::string_view option) {
  std::string flag = "--" + std::string(option);
  std::ranges::replace(flag, '_', '-');
  return flag;
}

Message OptionName(std::string_view option) { return {std::string(option), FlagName(option)}; }

Message OptionName(std::string_view option, std::string_view value) {
  return {std::string(option) + " \"" + std::string(value) + "\"",
          FlagName(option) + " " + std::string(value)};
}

}  // namespace lectern
