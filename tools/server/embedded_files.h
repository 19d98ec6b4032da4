// The files that the server sends as they are, built into the program: the page and the description
// of the API.
#ifndef LECTERN_TOOLS_SERVER_EMBEDDED_FILES_H_
#define LECTERN_TOOLS_SERVER_EMBEDDED_FILES_H_

#include <string_view>

namespace lectern::server {

extern const std::string_view kPageHtml, kPageCss, kTextJs, kPageJs, kOpenApiJson;

}  // namespace lectern::server

#endif  // LECTERN_TOOLS_SERVER_EMBEDDED_FILES_H_
