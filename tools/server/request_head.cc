#include "tools/server/request_head.h"

#include <algorithm>
#include <charconv>
#include <optional>

namespace lectern::server {
namespace {

bool IsTokenCharacter(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
         std::string_view("!#$%&'*+-.^_`|~").find(c) != std::string_view::npos;
}

char Lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

std::string Lower(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) c = Lower(c);
  return lower;
}

std::string_view Trim(std::string_view text) {
  const size_t begin = text.find_first_not_of(" \t");
  if (begin == text.npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t") - begin + 1);
}

int HexDigit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  const char lower = Lower(c);
  return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

// Nothing where a code is broken or hides a NUL.
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

class Parser {
 public:
  Parser(std::string_view bytes, const HeadLimits& limits) : rest_(bytes), limits_(limits) {}

  std::variant<RequestHead, Refusal> Parse() {
    if (rest_.size() > limits_.max_bytes) return TooLarge("the headers are too large");
    std::string_view line;
    if (!TakeLine(line)) return Bad("the request line does not end");
    if (!ParseRequestLine(line)) return refusal_;
    for (size_t count = 0; TakeLine(line);) {
      if (line.empty()) return rest_.empty() ? Finish() : Bad("bytes follow the headers");
      if (++count > limits_.max_headers) return TooLarge("there are too many headers");
      if (!ParseHeader(line)) return refusal_;
    }
    return Bad("the headers do not end");
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

  bool TakeLine(std::string_view& line) {
    const size_t end = rest_.find("\r\n");
    if (end == rest_.npos) return false;
    line = rest_.substr(0, end);
    rest_.remove_prefix(end + 2);
    return true;
  }

  bool ParseRequestLine(std::string_view line) {
    const size_t first = line.find(' '), last = line.rfind(' ');
    const bool has_three = first != line.npos && first != last && line.find(' ', first + 1) == last;
    if (!has_three || line.substr(last + 1) != "HTTP/1.1") {
      return Refuse(Bad("the request line is not METHOD /path HTTP/1.1"));
    }
    const bool is_visible =
        std::all_of(line.begin(), line.end(), [](char c) { return c >= 0x20 && c <= 0x7e; });
    if (!is_visible) return Refuse(Bad("the request line has other than visible ASCII"));
    head_.method = line.substr(0, first);
    if (head_.method.empty() ||
        !std::all_of(head_.method.begin(), head_.method.end(), IsTokenCharacter)) {
      return Refuse(Bad("the method is no token"));
    }
    return ParseTarget(line.substr(first + 1, last - first - 1));
  }

  bool ParseTarget(std::string_view target) {
    if (target.size() > limits_.max_target) {
      return Refuse({414, "target_too_long", "the path is too long"});
    }
    if (!target.starts_with('/')) return Refuse(Bad("the path does not begin with /"));
    const size_t question = target.find('?');
    auto path = Decode(target.substr(0, question), false);
    if (!path) return Refuse(Bad("the path has a bad percent code"));
    head_.path = std::move(*path);
    return question == target.npos || ParseQuery(target.substr(question + 1));
  }

  bool ParseQuery(std::string_view query) {
    while (!query.empty()) {
      const size_t end = std::min(query.find('&'), query.size());
      const std::string_view pair = query.substr(0, end);
      query.remove_prefix(std::min(end + 1, query.size()));
      const size_t equals = std::min(pair.find('='), pair.size());
      auto name = Decode(pair.substr(0, equals), true);
      auto value = Decode(pair.substr(std::min(equals + 1, pair.size())), true);
      if (!name || !value) return Refuse(Bad("the query has a bad percent code"));
      if (!head_.query.emplace(std::move(*name), std::move(*value)).second) {
        return Refuse(Bad("the query has a name twice"));
      }
    }
    return true;
  }

  bool ParseHeader(std::string_view line) {
    const size_t colon = line.find(':');
    if (colon == line.npos || colon == 0) return Refuse(Bad("a header has no name or no colon"));
    std::string name = Lower(line.substr(0, colon));
    const std::string_view value = Trim(line.substr(colon + 1));
    if (!std::all_of(name.begin(), name.end(), IsTokenCharacter)) {
      return Refuse(Bad("the name of a header is no token"));
    }
    const bool has_control = std::any_of(value.begin(), value.end(), [](char c) {
      return (static_cast<unsigned char>(c) < 0x20 && c != '\t') || c == 0x7f;
    });
    if (has_control) return Refuse(Bad("a header has a control character"));
    if (name == "transfer-encoding") {
      return Refuse({411, "length_required", "send a Content-Length, not Transfer-Encoding"});
    }
    if (name == "content-encoding" || name == "expect" || name == "upgrade") {
      return Refuse({415, "unsupported", "Content-Encoding, Expect and Upgrade are not served"});
    }
    constexpr std::string_view kOnce[] = {"host", "content-length", "authorization", "content-type",
                                          "origin"};
    const bool is_once = std::find(std::begin(kOnce), std::end(kOnce), name) != std::end(kOnce);
    if (!head_.headers.emplace(std::move(name), value).second && is_once) {
      return Refuse(Bad("a header comes twice that may come once"));
    }
    return true;
  }

  std::variant<RequestHead, Refusal> Finish() {
    if (head_.Header("host").empty()) return Bad("there is no Host header");
    const auto length = head_.headers.find("content-length");
    if (length != head_.headers.end()) {
      const std::string& text = length->second;
      const bool is_number =
          !text.empty() && text.size() <= 12 && text.find_first_not_of("0123456789") == text.npos;
      if (!is_number) return Bad("the Content-Length is not a number");
      std::from_chars(text.data(), text.data() + text.size(), head_.content_length);
    } else if (head_.method == "POST") {
      return Refusal{411, "length_required", "a POST needs a Content-Length"};
    }
    return std::move(head_);
  }

  std::string_view rest_;
  const HeadLimits& limits_;
  RequestHead head_;
  Refusal refusal_;
};

std::string_view WithoutPort(std::string_view host) {
  const size_t colon = host.rfind(':');
  const size_t bracket = host.rfind(']');
  const bool has_port = colon != host.npos && (bracket == host.npos || colon > bracket);
  return has_port ? host.substr(0, colon) : host;
}

bool Contains(const std::vector<std::string>& list, std::string_view item) {
  return std::find(list.begin(), list.end(), item) != list.end();
}

// In a time that does not depend on where they differ.
bool SameSecret(std::string_view given, std::string_view wanted) {
  unsigned char difference = given.size() == wanted.size() ? 0 : 1;
  for (size_t i = 0; i < given.size(); ++i) {
    difference |= static_cast<unsigned char>(given[i] ^ wanted[i % wanted.size()]);
  }
  return difference == 0;
}

// A page of this very server: its origin is what the browser sends as Host.
bool IsOwnOrigin(std::string_view origin, std::string_view host) {
  return origin.starts_with("http://") && origin.substr(7) == host;
}

}  // namespace

std::variant<RequestHead, Refusal> ParseHead(std::string_view bytes, const HeadLimits& limits) {
  return Parser(bytes, limits).Parse();
}

Refusal CheckAccess(const RequestHead& head, const AccessRules& rules) {
  const std::string_view host = head.Header("host");
  if (!Contains(rules.hosts, Lower(WithoutPort(host)))) {
    return {403, "host_not_allowed", "this server is not known under that Host; see --allow-host"};
  }
  const std::string_view origin = head.Header("origin");
  if (!origin.empty() && !IsOwnOrigin(origin, host) &&
      !Contains(rules.origins, std::string(origin))) {
    return {403, "origin_not_allowed", "pages of that origin may not ask here; see --allow-origin"};
  }
  // A link to the page is fine, everything else is not.
  if (origin.empty() && head.Header("sec-fetch-site") == "cross-site" && head.path != "/") {
    return {403, "origin_not_allowed", "other sites may not ask here"};
  }
  if (!rules.token.empty() && !Contains(rules.public_paths, head.path)) {
    constexpr std::string_view kScheme = "Bearer ";
    const std::string_view given = head.Header("authorization");
    if (!given.starts_with(kScheme) || !SameSecret(given.substr(kScheme.size()), rules.token)) {
      return {401, "unauthorized", "send Authorization: Bearer with the server's token"};
    }
  }
  return {.status = 0, .code = {}, .message = {}};
}

std::string_view PlainRequestId(const RequestHead& head) {
  const std::string_view id = head.Header("x-request-id");
  const bool is_plain =
      !id.empty() && id.size() <= 64 && std::all_of(id.begin(), id.end(), [](char c) {
        return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
               c == '-';
      });
  return is_plain ? id : std::string_view();
}

}  // namespace lectern::server
