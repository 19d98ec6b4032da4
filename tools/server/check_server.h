// Asks a lectern-server whether it takes questions: for health checks of containers, and scripts.
#ifndef LECTERN_TOOLS_SERVER_CHECK_SERVER_H_
#define LECTERN_TOOLS_SERVER_CHECK_SERVER_H_

#include <optional>
#include <string>

namespace lectern::server {

// GET /ready below `url`, such as "http://127.0.0.1:8017", within a few seconds. Nothing: the server
// takes questions; else why it does not.
std::optional<std::string> CheckServer(const std::string& url);

}  // namespace lectern::server

#endif  // LECTERN_TOOLS_SERVER_CHECK_SERVER_H_
