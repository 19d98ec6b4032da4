// What ParseHead accepts keeps the promises of its header, and written out anew says the same.
#include "tools/server/request_head.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>

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
  std::string text = head.method + " /" + Encode(std::string_view(head.path).substr(1));
  char separator = '?';
  for (const auto& [name, value] : head.query) {
    text += separator + Encode(name) + '=' + Encode(value);
    separator = '&';
  }
  text += " HTTP/1.1\r\n";
  for (const auto& [name, value] : head.headers) text += name + ':' + value + "\r\n";
  return text + "\r\n";
}

void CheckAccepted(std::string_view bytes, const RequestHead& head) {
  Check(bytes.ends_with("\r\n\r\n") && bytes.size() <= server::HeadLimits().max_bytes);
  Check(!head.method.empty() && !HasControl(head.method));
  Check(head.path.starts_with('/') && head.path.find('\0') == head.path.npos);
  Check(!head.Header("host").empty() && head.headers.size() <= server::HeadLimits().max_headers);
  for (const char* const name : {"transfer-encoding", "content-encoding", "expect", "upgrade"}) {
    Check(!head.headers.contains(name));
  }
  for (const auto& [name, value] : head.headers) {
    Check(!name.empty() && !HasControl(name) && !HasControl(value));
    Check(std::none_of(name.begin(), name.end(), [](char c) { return c >= 'A' && c <= 'Z'; }));
  }
  Check(head.method != "POST" || head.headers.contains("content-length"));
}

void CheckSame(const RequestHead& a, const RequestHead& b) {
  Check(a.method == b.method && a.path == b.path && a.query == b.query && a.headers == b.headers &&
        a.content_length == b.content_length);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const auto parsed = server::ParseHead(bytes);
  if (const auto* const refusal = std::get_if<server::Refusal>(&parsed)) {
    constexpr int kStatuses[] = {400, 411, 414, 415, 431};
    Check(std::find(std::begin(kStatuses), std::end(kStatuses), refusal->status) !=
          std::end(kStatuses));
    Check(!refusal->code.empty() && !refusal->message.empty());
    return 0;
  }
  const RequestHead& head = std::get<RequestHead>(parsed);
  CheckAccepted(bytes, head);
  const auto again = server::ParseHead(Write(head), {.max_bytes = 1 << 20, .max_target = 1 << 20});
  Check(std::holds_alternative<RequestHead>(again));
  CheckSame(std::get<RequestHead>(again), head);

  const server::AccessRules rules = {.hosts = {"localhost", "[::1]"},
                                     .origins = {"https://a.example"},
                                     .token = "0123456789abcdef"};
  const server::Refusal refusal = server::CheckAccess(head, rules);
  Check(refusal.status == 0 || refusal.status == 401 || refusal.status == 403);
  const bool is_public = std::find(rules.public_paths.begin(), rules.public_paths.end(),
                                   head.path) != rules.public_paths.end();
  Check(refusal.status != 0 || is_public ||
        head.Header("authorization") == "Bearer " + rules.token);
  const std::string_view id = server::PlainRequestId(head);
  Check(id.size() <= 64 && !HasControl(id));
  return 0;
}
