// Writes a response to a connection as HTTP/1.1 (RFC 9112), or as a client of HTTP/1.0 can read it.
#ifndef LECTERN_TOOLS_SERVER_RESPONSE_WRITER_H_
#define LECTERN_TOOLS_SERVER_RESPONSE_WRITER_H_

#include <ctime>
#include <string>

#include "tools/server/connection.h"
#include "tools/server/http.h"

namespace lectern::server {

// How the request that is answered wants its response. The defaults are those of a request that
// could not be read.
struct ResponseForm {
  int minor_version = 1;
  bool is_head = false;  // headers alone, as GET would have them
  bool keeps_alive = false;
  int idle_seconds = 0;  // how long a connection that is kept waits for the next request
};

// Returns the status line and the headers with the empty line. A stream comes in chunks, or, for
// HTTP/1.0, without a length up to the end of the connection. 204 has no headers about a body. The
// response's own headers come last and are not checked. `now`: for the Date header, in seconds
// since 1970.
std::string ResponseHead(const HttpResponse& response, const ResponseForm& form, std::time_t now);

// Calls connection.Begin, writes head and body, and runs the response's stream, unless the request
// was HEAD or the status is 204. False: the connection must end (the client is gone or takes
// nothing, or the response says close, as a stream to HTTP/1.0 does). Throws the exceptions of the
// stream; the response is then cut off such that the client sees that it is not whole.
bool WriteResponse(Connection& connection, const HttpResponse& response, const ResponseForm& form);

}  // namespace lectern::server

#endif  // LECTERN_TOOLS_SERVER_RESPONSE_WRITER_H_
