// Fuzzes ParseHead: an accepted head keeps the promises of the header, and says the same when it is
// written out anew; a client who is let in has shown what the rules want.
#include "tools/server/request_head.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>

#include "tools/server/access_rules.h"

namespace {

namespace server = lectern::server;
using server::RequestHead;

void Check(bool holds) {
  if (!holds) std::abort();
}

bool HasControl(std::string_view text) {
  return std::any_of(text.begin(), text.end(),
                     [](unsigned char c) { return (c < 0x20 && c != '\t') || c == 0x7f; });
}

std::string Encode(std::string_view text) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string encoded;
  for (const unsigned char c : text) {
    encoded += '%';
    encoded += kDigits[c >> 4];
    encoded += kDigits[c & 15];
  }
  return encoded;
}

std::string Write(const RequestHead& head) {
  std::string text = head.method + ' ';
  text += head.path == "*" ? "*" : '/' + Encode(std::string_view(head.path).substr(1));
  char separator = '?';
  for (const auto& [name, value] : head.query) {
    text += separator + Encode(name) + '=' + Encode(value);
    separator = '&';
  }
  text += head.minor_version == 0 ? " HTTP/1.0\r\n" : " HTTP/1.1\r\n";
  for (const auto& [name, value] : head.headers) text += name + ':' + value + "\r\n";
  return text + "\r\n";
}

void CheckFraming(const RequestHead& head) {
  Check(head.minor_version == 0 || head.minor_version == 1);
  Check(!head.is_chunked || (head.minor_version == 1 && head.content_length == 0));
  Check(head.is_chunked == head.headers.contains("transfer-encoding"));
  Check(!head.is_chunked || !head.headers.contains("content-length"));
  Check(head.content_length == 0 || head.headers.contains("content-length"));
  Check(!head.expects_continue || (head.minor_version == 1 && head.headers.contains("expect") &&
                                   (head.is_chunked || head.content_length > 0)));
}

void CheckAccepted(std::string_view bytes, const RequestHead& head) {
  Check(bytes.ends_with("\r\n\r\n") && bytes.size() <= server::HeadLimits().max_bytes);
  Check(!head.method.empty() && !HasControl(head.method));
  Check(head.path.starts_with('/') || (head.path == "*" && head.method == "OPTIONS"));
  Check(head.path.find('\0') == head.path.npos);
  Check(!head.Header("host").empty() || head.minor_version == 0);
  Check(head.headers.size() <= server::HeadLimits().max_headers + 1);  // Host of the target
  for (const auto& [name, value] : head.headers) {
    Check(!name.empty() && !HasControl(name) && !HasControl(value));
    Check(std::none_of(name.begin(), name.end(), [](char c) { return c >= 'A' && c <= 'Z'; }));
  }
  CheckFraming(head);
}

void CheckSame(const RequestHead& a, const RequestHead& b) {
  Check(a.method == b.method && a.path == b.path && a.query == b.query && a.headers == b.headers &&
        a.minor_version == b.minor_version && a.content_length == b.content_length &&
        a.is_chunked == b.is_chunked && a.expects_continue == b.expects_continue &&
        a.keeps_alive == b.keeps_alive);
}

// A head ends at the same place whatever follows it, and not before it is whole; what ParseHead
// takes is one head.
void CheckEnd(std::string_view bytes, bool is_accepted) {
  const size_t end = server::FindHeadEnd(bytes);
  Check(end <= bytes.size());
  if (is_accepted) Check(end == bytes.size());
  if (end == 0) Check(!is_accepted);
  if (is_accepted) Check(server::FindHeadEnd(std::string(bytes) + "GET / ") == end);
}

// Names and origins that are normal stay as they are.
void CheckNormal(const RequestHead& head) {
  const std::string host = server::NormalHost(head.Header("host"));
  Check(host.empty() || server::NormalHost(host) == host);
  const std::string origin = server::NormalOrigin(head.Header("origin"));
  Check(origin.empty() || server::NormalOrigin(origin) == origin);
}

void CheckRules(const RequestHead& head) {
  const server::AccessRules rules = {
      .hosts = {"lectern.example"}, .origins = {"https://a.example"}, .token = "0123456789abcdef"};
  const auto refusal = server::CheckAccess(head, rules);
  const int status = refusal ? refusal->status : 0;
  Check(status == 0 || status == 401 || status == 403 || status == 415);
  const bool is_public =
      head.method == "OPTIONS" || std::find(rules.public_paths.begin(), rules.public_paths.end(),
                                            head.path) != rules.public_paths.end();
  const bool has_token = head.Header("authorization").ends_with(rules.token) ||
                         head.Header("x-api-key") == rules.token ||
                         head.Header("api-key") == rules.token;
  Check(status != 0 || is_public || has_token);
  for (const auto& [name, value] : server::CorsHeaders(head, rules)) {
    Check(!HasControl(value));
    if (name == "Access-Control-Allow-Origin") {
      Check(server::NormalOrigin(value) == "https://a.example");
    }
  }
  for (const auto& [name, value] : server::PreflightHeaders(head)) Check(!HasControl(value));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const auto parsed = server::ParseHead(bytes);
  const auto* const refusal = std::get_if<server::Refusal>(&parsed);
  CheckEnd(bytes, refusal == nullptr);
  if (refusal) {
    constexpr int kStatuses[] = {400, 414, 415, 417, 431, 501, 505};
    Check(std::find(std::begin(kStatuses), std::end(kStatuses), refusal->status) !=
          std::end(kStatuses));
    Check(!refusal->code.empty() && !refusal->message.empty());
    return 0;
  }
  const RequestHead& head = std::get<RequestHead>(parsed);
  CheckAccepted(bytes, head);
  const auto again = server::ParseHead(
      Write(head), {.max_bytes = 1 << 20, .max_headers = 200, .max_target = 1 << 20});
  Check(std::holds_alternative<RequestHead>(again));
  CheckSame(std::get<RequestHead>(again), head);
  CheckNormal(head);
  CheckRules(head);
  const std::string_view id = server::PlainRequestId(head);
  Check(id.size() <= 64 && !HasControl(id));
  return 0;
}
