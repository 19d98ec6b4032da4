#include "tools/ingest/divided_address.h"

#include <algorithm>
#include <iterator>

#include "tools/ingest/characters.h"

namespace lectern::tools {
namespace {

constexpr size_t kLongestAddress = 2048;  // bytes: what browsers and servers commonly take

bool IsLetterOrDigit(char c) { return IsAsciiLetter(c) || IsAsciiDigit(c); }

// Characters of addresses (RFC 3986, appendix A) but the brackets of numeric hosts.
bool IsOfAddress(char c) {
  return IsLetterOrDigit(c) ||
         std::string_view("-._~:/?#@!$&'()*+,;=%").find(c) != std::string_view::npos;
}

// The word that ends a text.
std::string_view LastWord(std::string_view text) {
  text.remove_prefix(text.size() - std::min(text.size(), kLongestAddress));
  const size_t space = text.find_last_of(" \t\n|");
  return space == std::string_view::npos ? text : text.substr(space + 1);
}

// The characters of an address that begin a line, without punctuation behind them.
std::string_view FirstPart(std::string_view line) {
  line = line.substr(0, kLongestAddress);
  const auto end = std::find_if_not(line.begin(), line.end(), IsOfAddress);
  line = line.substr(0, static_cast<size_t>(end - line.begin()));
  const size_t last = line.find_last_not_of(".,;:!?)'*");
  return line.substr(0, last == std::string_view::npos ? 0 : last + 1);
}

// A full stop between two characters of a name on either side: "example.org", but not "e.g".
bool HasNameWithStop(std::string_view part) {
  const auto is_name = [&](size_t at) {
    return at < part.size() && (IsLetterOrDigit(part[at]) || part[at] == '-' || part[at] == '_');
  };
  for (size_t dot = part.find('.'); dot != std::string_view::npos; dot = part.find('.', dot + 1)) {
    if (dot >= 2 && is_name(dot - 1) && is_name(dot - 2) && is_name(dot + 1) && is_name(dot + 2)) {
      return true;
    }
  }
  return false;
}

// Whether a word looks like a part of an address. Words with a slash that prose has are none.
bool LooksLikeAddress(std::string_view part) {
  constexpr std::string_view kProse[] = {"and/or", "he/she", "his/her", "s/he", "I/O", "TCP/IP"};
  return std::find(std::begin(kProse), std::end(kProse), part) == std::end(kProse) &&
         (part.find_first_of("/=&#%_~") != std::string_view::npos || HasNameWithStop(part));
}

// The name behind the last full stop of an address, by itself.
bool IsEndOfName(std::string_view part) {
  constexpr std::string_view kEnds[] = {"com", "edu", "gov", "htm", "html", "net",
                                        "org", "pdf", "php", "txt", "xml"};
  return std::find(std::begin(kEnds), std::end(kEnds), part) != std::end(kEnds);
}

}  // namespace

bool AddressGoesOn(std::string_view text, std::string_view next) {
  std::string_view address = LastWord(text);
  const size_t scheme = address.find("://");
  const size_t name = std::min(address.find_first_not_of("(<[\"'"), address.size());
  const std::string_view part = FirstPart(next);
  const std::string_view opened = address.substr(name);
  if (opened == "https:" || opened == "http:" || opened == "ftp:") {
    return part.starts_with("//") && part.size() > 2 && IsLetterOrDigit(part[2]);
  }
  if (scheme != std::string_view::npos && scheme > 0 && IsAsciiLetter(address[scheme - 1])) {
    address.remove_prefix(scheme + 2);  // what is left begins with the scheme's last slash
    if (address.size() > 1 && !IsLetterOrDigit(address[1])) return false;
  } else if (!opened.starts_with("www.")) {
    return false;
  }
  if (part.empty() || part.find("://") != std::string_view::npos) return false;
  const std::string_view kBefore = "/?&=";  // signs before which an address may be broken
  if (kBefore.find(part.front()) != std::string_view::npos) return part.size() > 1;
  if (!IsLetterOrDigit(part.front()) && part.front() != '_' && part.front() != '~') return false;
  const char last = address.back();
  if (std::string_view("&=#_~-+").find(last) != std::string_view::npos) return true;
  if (last == '.') return LooksLikeAddress(part) || IsEndOfName(part);
  return (last == '/' || last == '?') && LooksLikeAddress(part);
}

}  // namespace lectern::tools
