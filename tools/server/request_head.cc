#include "tools/server/request_head.h"

#include <algorithm>
#include <charconv>
#include <optional>

#include "tools/server/ascii.h"

namespace lectern::server {
namespace {

// tchar of RFC 9110, 5.6.2.
bool IsTokenCharacter(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
         std::string_view("!#$%&'*+-.^_`|~").find(c) != std::string_view::npos;
}

bool IsToken(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), IsTokenCharacter);
}

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

bool IsControl(char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; }

// Decodes %-codes (RFC 3986, 2.1). Nothing: a code is broken or stands for NUL. `plus_is_space`: as
// in queries.
std::optional<std::string> Decode(std::string_view text, bool plus_is_space) {
  std::string decoded;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '%') {
      if (text.size() - i < 3) return std::nullopt;
      const int high = HexDigit(text[i + 1]), low = HexDigit(text[i + 2]);
      if (high < 0 || low < 0 || high + low == 0) return std::nullopt;
      decoded += static_cast<char>(high * 16 + low);
      i += 2;
    } else {
      decoded += plus_is_space && text[i] == '+' ? ' ' : text[i];
    }
  }
  return decoded;
}

// Removes "http://" or "https://" from the front of `target`. False: it begins with neither.
bool TakeScheme(std::string_view& target) {
  for (const std::string_view scheme : {"http://", "https://"}) {
    if (Lower(target.substr(0, scheme.size())) != scheme) continue;
    target.remove_prefix(scheme.size());
    return true;
  }
  return false;
}

// Some clients send an empty line after a body; servers skip it (RFC 9112, 2.2).
void SkipEmptyLines(std::string_view& bytes) {
  while (bytes.starts_with("\r\n")) bytes.remove_prefix(2);
}

template <size_t n>
bool IsListed(std::string_view text, const std::string_view (&list)[n]) {
  return std::find(std::begin(list), std::end(list), text) != std::end(list);
}

// Headers that decide something: two of one name are refused unless they have the same value.
constexpr std::string_view kDeciding[] = {"authorization", "content-type", "origin"};
// Headers whose values are lists: several of one name are one list (RFC 9110, 5.3).
constexpr std::string_view kLists[] = {"connection", "expect", "transfer-encoding"};
// Headers that must stand alone, even where two agree: request smuggling lives on proxies and
// servers that let different ones count (RFC 9112, 11.2).
constexpr std::string_view kSingle[] = {"host", "content-length"};

// Parses one head. Methods return false with refusal_ set.
class Parser {
 public:
  Parser(std::string_view bytes, const HeadLimits& limits) : rest_(bytes), limits_(limits) {}

  // Parses the whole head; the first mistake is the refusal. Call it once.
  std::variant<RequestHead, Refusal> Parse() {
    if (rest_.size() > limits_.max_bytes) return TooLarge("the headers are too large");
    SkipEmptyLines(rest_);
    std::string_view line;
    if (!TakeLine(line)) return Bad("the request line does not end with CR and LF");
    if (!ParseRequestLine(line)) return refusal_;
    for (size_t count = 0; TakeLine(line);) {
      if (line.empty()) return rest_.empty() ? Finish() : Bad("bytes follow the headers");
      if (++count > limits_.max_headers) return TooLarge("there are too many headers");
      if (!ParseHeader(line)) return refusal_;
    }
    return Bad("the headers do not end with an empty line of CR and LF");
  }

 private:
  static Refusal Bad(std::string message) { return {400, "bad_request", std::move(message)}; }
  static Refusal TooLarge(std::string message) {
    return {431, "headers_too_large", std::move(message)};
  }
  bool Refuse(Refusal refusal) {
    refusal_ = std::move(refusal);
    return false;
  }

  // Takes a line without its CR LF. False: there is no whole line.
  bool TakeLine(std::string_view& line) {
    const size_t end = rest_.find("\r\n");
    if (end == rest_.npos) return false;
    line = rest_.substr(0, end);
    rest_.remove_prefix(end + 2);
    return true;
  }

  // METHOD SP target SP version, with exactly two spaces (RFC 9112, 3).
  bool ParseRequestLine(std::string_view line) {
    const size_t first = line.find(' '), last = line.rfind(' ');
    const bool has_three = first != line.npos && first != last && line.find(' ', first + 1) == last;
    if (!has_three || std::any_of(line.begin(), line.end(), IsControl)) {
      return Refuse(Bad("the request line is not METHOD /path HTTP/1.1"));
    }
    head_.method = line.substr(0, first);
    if (!IsToken(head_.method)) return Refuse(Bad("the method is no token"));
    return ParseVersion(line.substr(last + 1)) &&
           ParseTarget(line.substr(first + 1, last - first - 1));
  }

  // A later version of HTTP/1 is answered as 1.1 (RFC 9110, 2.5).
  bool ParseVersion(std::string_view version) {
    const bool is_version = version.size() == 8 && version.starts_with("HTTP/") &&
                            IsDigit(version[5]) && version[6] == '.' && IsDigit(version[7]);
    if (!is_version) return Refuse(Bad("the request line is not METHOD /path HTTP/1.1"));
    if (version[5] != '1') {
      return Refuse({505, "version_not_supported", "this server speaks HTTP/1.1 and HTTP/1.0"});
    }
    head_.minor_version = version[7] == '0' ? 0 : 1;
    return true;
  }

  // The forms of RFC 9112, 3.2: a path, an absolute address, or "*" of OPTIONS.
  bool ParseTarget(std::string_view target) {
    if (target.size() > limits_.max_target) {
      return Refuse({414, "target_too_long", "the path is too long"});
    }
    target = target.substr(0, target.find('#'));  // a browser's own business
    if (target == "*" && head_.method == "OPTIONS") {
      head_.path = target;
      return true;
    }
    if (TakeScheme(target)) {
      const size_t end = std::min(target.find_first_of("/?"), target.size());
      authority_ = target.substr(0, end);
      if (authority_.empty()) return Refuse(Bad("the address has no host"));
      target.remove_prefix(end);
    }
    const bool is_path = target.starts_with('/') || !authority_.empty();
    if (!is_path) return Refuse(Bad("the path does not begin with /"));
    const std::string_view path = TakeUntil(target, '?');
    auto decoded = Decode(path.empty() ? "/" : path, false);
    if (!decoded) return Refuse(Bad("the path has a bad percent code"));
    head_.path = std::move(*decoded);
    return ParseQuery(target);
  }

  bool ParseQuery(std::string_view query) {
    while (!query.empty()) {
      std::string_view pair = TakeUntil(query, '&');
      if (pair.empty()) continue;
      auto name = Decode(TakeUntil(pair, '='), true);
      auto value = Decode(pair, true);
      if (!name || !value) return Refuse(Bad("the query has a bad percent code"));
      if (!head_.query.emplace(std::move(*name), std::move(*value)).second) {
        return Refuse(Bad("the query has a name twice"));
      }
    }
    return true;
  }

  // Folded lines begin with a space, which is no character of a name, and fail there.
  bool ParseHeader(std::string_view line) {
    const size_t colon = line.find(':');
    if (colon == line.npos || colon == 0) return Refuse(Bad("a header has no name or no colon"));
    std::string name = Lower(line.substr(0, colon));
    const std::string_view value = Trim(line.substr(colon + 1));
    if (!IsToken(name)) return Refuse(Bad("the name of a header is no token"));
    const bool has_control =
        std::any_of(value.begin(), value.end(), [](char c) { return IsControl(c) && c != '\t'; });
    if (has_control) return Refuse(Bad("a header has a control character"));
    const auto [place, is_first] = head_.headers.emplace(std::move(name), value);
    return is_first || ParseAnother(place->first, value, place->second);
  }

  // A header whose name was there before, with the value `before`.
  bool ParseAnother(std::string_view name, std::string_view value, std::string& before) {
    if (IsListed(name, kSingle) || (IsListed(name, kDeciding) && value != before)) {
      return Refuse(Bad("a header comes twice that may come once"));
    }
    if (IsListed(name, kLists)) before.append(",").append(value);
    return true;
  }

  // Checks the headers together, after all have come.
  std::variant<RequestHead, Refusal> Finish() {
    if (!authority_.empty()) head_.headers["host"] = authority_;
    // HTTP/1.0 has no Host; no browser speaks it, so there is no page whose host could be feigned.
    if (head_.Header("host").empty() && head_.minor_version > 0) {
      return Bad("there is no Host header");
    }
    if (!ParseFraming() || !ParseExpect() || !ParseEncoding()) return refusal_;
    const std::string_view connection = head_.Header("connection");
    head_.keeps_alive = !HasListItem(connection, "close") &&
                        (head_.minor_version > 0 || HasListItem(connection, "keep-alive"));
    return std::move(head_);
  }

  // How long the body is (RFC 9112, 6.3).
  bool ParseFraming() {
    const auto length = head_.headers.find("content-length");
    const auto coding = head_.headers.find("transfer-encoding");
    if (coding == head_.headers.end()) {
      return length == head_.headers.end() || ParseLength(length->second);
    }
    if (length != head_.headers.end()) {
      return Refuse(Bad("a Content-Length and Transfer-Encoding exclude each other"));
    }
    if (head_.minor_version == 0) return Refuse(Bad("HTTP/1.0 has no Transfer-Encoding"));
    if (Lower(coding->second) != "chunked") {
      return Refuse({501, "not_implemented", "the only Transfer-Encoding is chunked"});
    }
    head_.is_chunked = true;
    return true;
  }

  // At most twelve digits, so that the number always fits; a longer body is refused by its limit
  // anyway.
  bool ParseLength(const std::string& text) {
    const bool is_number =
        !text.empty() && text.size() <= 12 && std::all_of(text.begin(), text.end(), IsDigit);
    if (!is_number) return Refuse(Bad("the Content-Length is not a number"));
    std::from_chars(text.data(), text.data() + text.size(), head_.content_length);
    return true;
  }

  // HTTP/1.0 has no Expect (RFC 9110, 10.1.1), so that a proxy's is ignored.
  bool ParseExpect() {
    const std::string_view expect = head_.Header("expect");
    if (expect.empty() || head_.minor_version == 0) return true;
    if (Lower(expect) != "100-continue") {
      return Refuse({417, "expectation_failed", "the only Expect is 100-continue"});
    }
    head_.expects_continue = head_.is_chunked || head_.content_length > 0;
    return true;
  }

  bool ParseEncoding() {
    const std::string_view encoding = head_.Header("content-encoding");
    if (encoding.empty() || Lower(encoding) == "identity") return true;
    return Refuse({415, "unsupported", "send the body without a Content-Encoding"});
  }

  std::string_view rest_;
  const HeadLimits& limits_;
  RequestHead head_;
  std::string_view authority_;  // of an absolute target
  Refusal refusal_;
};

}  // namespace

size_t FindHeadEnd(std::string_view bytes) {
  std::string_view rest = bytes;
  SkipEmptyLines(rest);
  if (rest.empty() || rest == "\r") return 0;
  if (!IsTokenCharacter(rest.front())) return bytes.size();
  // A line that ends badly ends the head; so does the empty line.
  for (size_t begin = 0, end; (end = rest.find('\n', begin)) != rest.npos; begin = end + 1) {
    const bool ends_well = end > begin && rest[end - 1] == '\r';
    if (!ends_well || end - begin == 1) return bytes.size() - rest.size() + end + 1;
  }
  return 0;
}

std::variant<RequestHead, Refusal> ParseHead(std::string_view bytes, const HeadLimits& limits) {
  return Parser(bytes, limits).Parse();
}

bool HasListItem(std::string_view list, std::string_view item) {
  while (!list.empty()) {
    if (Lower(Trim(TakeUntil(list, ','))) == item) return true;
  }
  return false;
}

std::string_view PlainRequestId(const RequestHead& head) {
  const std::string_view id = head.Header("x-request-id");
  const bool is_plain =
      !id.empty() && id.size() <= 64 && std::all_of(id.begin(), id.end(), [](char c) {
        return IsDigit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-';
      });
  return is_plain ? id : std::string_view();
}

}  // namespace lectern::server
