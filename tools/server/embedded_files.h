// The files of the server that are built into the program, as string literals that CMake makes of
// them: the page with its style and scripts, and the description of the API as it is written
// (ApiDescription of option_fields.h completes it).
#ifndef LECTERN_TOOLS_SERVER_EMBEDDED_FILES_H_
#define LECTERN_TOOLS_SERVER_EMBEDDED_FILES_H_

#include <string_view>

namespace lectern::server {

extern const std::string_view kPageHtml, kPageCss, kTextJs, kMarkdownJs, kLinkJs, kCiteJs, kPageJs,
    kOpenApiJson;

}  // namespace lectern::server

#endif  // LECTERN_TOOLS_SERVER_EMBEDDED_FILES_H_
