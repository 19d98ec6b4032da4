#include <algorithm>
#include <cerrno>
#include <string_view>

#include "store/env.h"
#include "tools/file_state.h"

namespace lectern::tools {
namespace {

// Letters are equal in either case, as for Windows itself; others than ASCII's are not looked at.
char Small(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

// The bytes of the character at the start of valid UTF-8.
size_t CharacterBytes(std::string_view text) {
  size_t bytes = 1;
  while (bytes < text.size() && (static_cast<uint8_t>(text[bytes]) & 0xC0) == 0x80) ++bytes;
  return bytes;
}

// Whether `c` is in the set behind a '[', which is taken off `pattern`. A set without an end is no
// set: then false, and nothing is taken.
bool TakeSet(std::string_view& pattern, char c, bool& is_set) {
  const bool is_negated = pattern.size() > 1 && (pattern[1] == '!' || pattern[1] == '^');
  const size_t first = is_negated ? 2 : 1;
  const size_t end = pattern.find(']', first + 1);  // a ']' in the first place is a member
  is_set = end != pattern.npos;
  if (!is_set) return false;
  bool is_member = false;
  for (size_t at = first; at < end; ++at) {
    const bool is_range = at + 2 < end && pattern[at + 1] == '-';
    const char low = Small(pattern[at]), high = is_range ? Small(pattern[at + 2]) : low;
    is_member = is_member || (low <= Small(c) && Small(c) <= high);
    if (is_range) at += 2;
  }
  pattern.remove_prefix(end + 1);
  return is_member != is_negated;
}

bool Fits(std::string_view pattern, std::string_view name) {
  while (!pattern.empty()) {
    if (pattern.front() == '*') {
      pattern.remove_prefix(std::min(pattern.find_first_not_of('*'), pattern.size()));
      if (pattern.empty()) return true;
      for (size_t at = 0; at <= name.size(); ++at) {
        if (Fits(pattern, name.substr(at))) return true;
      }
      return false;
    }
    if (name.empty()) return false;
    bool is_set = false;
    if (pattern.front() == '?') {
      pattern.remove_prefix(1);
      name.remove_prefix(CharacterBytes(name));
      continue;
    }
    if (pattern.front() == '[') {
      const bool is_member = TakeSet(pattern, name.front(), is_set);
      if (is_set && !is_member) return false;
      if (is_set) {
        name.remove_prefix(CharacterBytes(name));
        continue;
      }
    }
    if (Small(pattern.front()) != Small(name.front())) return false;
    pattern.remove_prefix(1);
    name.remove_prefix(1);
  }
  return name.empty();
}

}  // namespace

std::optional<FileState> StateOf(const std::string& path) {
  Env& env = Env::Default();
  auto info = env.Info(path);
  // Only a link is followed, because that opens it twice more, for each file of a large folder.
  if (info.ok() && info->type == FileInfo::Type::kOther) info = env.Info(env.Resolve(path));
  if (!info.ok() || info->type == FileInfo::Type::kNone) {
    errno = info.ok() ? ENOENT : EACCES;
    return std::nullopt;
  }
  return FileState{.is_folder = info->type == FileInfo::Type::kDirectory,
                   .is_regular = info->type == FileInfo::Type::kRegular,
                   .stamp = {.device = info->device,
                             .inode = info->inode,
                             .bytes = info->bytes,
                             .modified_ns = info->modified_ns}};
}

bool FitsPattern(const std::string& pattern, const std::string& name) {
  if (name.starts_with('.') && !pattern.starts_with('.')) return false;
  return Fits(pattern, name);
}

}  // namespace lectern::tools
