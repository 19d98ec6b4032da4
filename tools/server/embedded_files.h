// What the server sends as it is: the page and the description of the API, built into the program.
#ifndef LECTERN_TOOLS_SERVER_EMBEDDED_FILES_H_
#define LECTERN_TOOLS_SERVER_EMBEDDED_FILES_H_

#include <string_view>

namespace lectern::server {

extern const std::string_view kPageHtml, kPageCss, kTextJs, kPageJs, kOpenApiJson;

}  // namespace lectern::server

#endif  // LECTERN_TOOLS_SERVER_EMBEDDED_FILES_H_
