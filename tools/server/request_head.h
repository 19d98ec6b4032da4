// Parses the request line and headers of HTTP/1.0 and 1.1 (RFC 9110, 9112). Takes what conforming
// clients send, and refuses whatever two programs could read differently, because a proxy in front
// may be the other one. Pure functions over bytes.
#ifndef LECTERN_TOOLS_SERVER_REQUEST_HEAD_H_
#define LECTERN_TOOLS_SERVER_REQUEST_HEAD_H_

#include <cstddef>
#include <string_view>
#include <variant>

#include "tools/server/http.h"

namespace lectern::server {

// Limits above which a head is refused.
struct HeadLimits {
  size_t max_bytes = 32 * 1024;  // with the empty line; cookies of a whole localhost fit
  size_t max_headers = 100;
  size_t max_target = 8000;  // RFC 9112 asks for at least this
};

// Returns the size of the head that `bytes` begin with, with its empty line and any empty lines
// before it; 0: more bytes are needed. Bytes that cannot become a head (a line that ends without a
// carriage return, TLS) count as a head as soon as that shows, and ParseHead refuses them: the
// client is told at once instead of after a timeout.
size_t FindHeadEnd(std::string_view bytes);

// `bytes`: up to and with the empty line, as FindHeadEnd says. Any method is taken: whether a path
// has it is for others to say. An absolute target's host replaces the Host header (RFC
// 9112, 3.2.2). Headers that come several times are joined with "," where they are lists that
// matter here (Connection, Expect, Transfer-Encoding); of others the first counts.
//
// Refused, with 400 where no other status is named: other versions than HTTP/1 (505), control
// characters, bad percent codes and a decoded NUL, names that are no tokens, folded lines, a name
// twice in the query, no Host in HTTP/1.1, two different values of a header that decides (Host and
// Content-Length: two of any kind), a Content-Length that is no number of at most twelve digits,
// Transfer-Encoding in HTTP/1.0 or beside a Content-Length, other codings than chunked (501),
// Content-Encoding other than identity (415), expectations other than 100-continue (417; ignored in
// HTTP/1.0), bytes behind the empty line, and a head beyond `limits` (414, 431).
std::variant<RequestHead, Refusal> ParseHead(std::string_view bytes, const HeadLimits& limits = {});

// Whether a header's comma-separated `list` has `item` (in lower case), in whatever case.
bool HasListItem(std::string_view list, std::string_view item);

// The client's X-Request-Id where it is 1 to 64 letters, digits and '-', a view of `head`; else
// empty.
std::string_view PlainRequestId(const RequestHead& head);

}  // namespace lectern::server

#endif  // LECTERN_TOOLS_SERVER_REQUEST_HEAD_H_
