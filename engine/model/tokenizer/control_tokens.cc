#include "engine/model/tokenizer/control_tokens.h"

#include <algorithm>

namespace lectern {

// texts_ views the key in ids_: a map's keys stay where they are, also when the map is moved.
void ControlTokens::Add(int32_t id, std::string_view text) {
  if (text.empty()) return;
  const auto at = ids_.try_emplace(std::string(text), id).first;
  texts_.try_emplace(id, at->first);
}

int32_t ControlTokens::Find(std::string_view text) const {
  const auto at = ids_.find(text);
  return at == ids_.end() ? -1 : at->second;
}

std::string_view ControlTokens::Text(int32_t id) const {
  const auto at = texts_.find(id);
  return at == texts_.end() ? std::string_view() : at->second;
}

std::optional<ControlToken> ControlTokens::FindPrefix(std::string_view text) const {
  // Every prefix of `text` sorts before it. The last token before it is one of them, or shares
  // fewer bytes with it; a token that is a prefix lies within those bytes.
  while (!text.empty()) {
    auto at = ids_.upper_bound(text);
    if (at == ids_.begin()) return std::nullopt;
    const std::string_view token = (--at)->first;
    const auto differ = std::mismatch(token.begin(), token.end(), text.begin(), text.end()).first;
    if (differ == token.end()) return ControlToken{at->second, token.size()};
    text = text.substr(0, static_cast<size_t>(differ - token.begin()));
  }
  return std::nullopt;
}

}  // namespace lectern
