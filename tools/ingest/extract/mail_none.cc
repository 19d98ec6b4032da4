// For builds without GMime (Windows).
#include "tools/ingest/extract/readers.h"

namespace lectern::tools {

api::Result<Extracted> ReadMail(std::string_view) {
  return api::Error{LECTERN_INVALID_ARGUMENT,
                    "is a mail, which this program was built without; save it as text and index "
                    "that, or index it on Linux and copy the store",
                    "file"};
}

}  // namespace lectern::tools
