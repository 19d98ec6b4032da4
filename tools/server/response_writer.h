// Writes responses as HTTP/1.1, or as a client of HTTP/1.0 can read them.
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

// Status line and headers with the empty line. A stream comes in chunks, or, for HTTP/1.0, up to
// the end of the connection.
std::string ResponseHead(const HttpResponse& response, const ResponseForm& form, std::time_t now);

// False: the connection cannot go on to another request. Throws what the response's stream throws,
// with the response cut off such that the client sees it.
bool WriteResponse(Connection& connection, const HttpResponse& response, const ResponseForm& form);

}  // namespace lectern::server

#endif  // LECTERN_TOOLS_SERVER_RESPONSE_WRITER_H_
