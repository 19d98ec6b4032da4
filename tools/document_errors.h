// Tells errors of one document from those that would come for every other, too: for tools that
// index many.
#ifndef LECTERN_TOOLS_DOCUMENT_ERRORS_H_
#define LECTERN_TOOLS_DOCUMENT_ERRORS_H_

#include "engine/lectern.h"

namespace lectern::tools {

// Whether an error of the engine concerns this one text, so that others may be indexed: it is too
// long, needs too much memory, or an option that depends on the text's length does not fit it.
inline bool IsOfOneText(const api::Error& error) {
  switch (error.code) {
    case LECTERN_EMPTY_DOCUMENT:
    case LECTERN_CONTEXT_TOO_LONG:
    case LECTERN_LIMIT_EXCEEDED:
    case LECTERN_OUT_OF_MEMORY:
    case LECTERN_BUDGET_TOO_SMALL:
    case LECTERN_INTERNAL:
      return true;
    case LECTERN_INVALID_ARGUMENT:
      return error.param == "file" || error.param == "pages" || error.param == "keep";
    default:
      return false;
  }
}

}  // namespace lectern::tools

#endif  // LECTERN_TOOLS_DOCUMENT_ERRORS_H_
