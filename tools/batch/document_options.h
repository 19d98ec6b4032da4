// The options of one document of a corpus: how its file is read, and how it is indexed. They stand
// as a JSON object in the manifest and in the database.
#ifndef LECTERN_TOOLS_BATCH_DOCUMENT_OPTIONS_H_
#define LECTERN_TOOLS_BATCH_DOCUMENT_OPTIONS_H_

#include <optional>
#include <string>
#include <string_view>

#include "engine/lectern.h"
#include "engine/model/formats/json.h"
#include "engine/requests/options.h"

namespace lectern::batch {

struct DocumentOptions {
  std::string format = "auto", encoding = "auto";  // IngestOptions
  std::optional<std::string> ocr = {};             // IngestOptions; "auto" in the JSON is empty
  GivenIndexOptions index{IndexOptionRows()};      // all flags of index-document but --name
};

// Reads the members of an object: "format", "encoding", "ocr", and the flags of index-document by
// their names with underscores ("kv_budget", "keep"), with text, number or boolean values.
// INVALID_ARGUMENT (param: the member): there is no such option, or it may not have this value.
api::Result<DocumentOptions> ReadDocumentOptions(const Json::Object& members);
// The same of a text that is to be such an object; INVALID_ARGUMENT (param "options"): it is none.
api::Result<DocumentOptions> ReadDocumentOptions(std::string_view json);

}  // namespace lectern::batch

#endif  // LECTERN_TOOLS_BATCH_DOCUMENT_OPTIONS_H_
