// Asks another lectern-server whether it takes questions: lectern-server --check, for health checks
// of containers and for scripts.
#ifndef LECTERN_TOOLS_SERVER_CHECK_SERVER_H_
#define LECTERN_TOOLS_SERVER_CHECK_SERVER_H_

#include <optional>
#include <string>

namespace lectern::server {

// GET /ready below `url`, such as "http://127.0.0.1:8017" (http alone; a path before it may be a
// proxy's), within 3 s for the connection and 3 s for the answer. Nothing: the server takes
// questions (200); else the reason why it does not, for the user: `url` is no such address, nothing
// answers in time, or the status and body of another answer.
std::optional<std::string> CheckServer(const std::string& url);

}  // namespace lectern::server

#endif  // LECTERN_TOOLS_SERVER_CHECK_SERVER_H_
