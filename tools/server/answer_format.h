// Reads the form that a request asks of its answer: plain text, any JSON object, or JSON that fits
// a schema. The member names are OpenAI's, llama.cpp's and vLLM's. OPENAI.md lists them.
#ifndef LECTERN_TOOLS_SERVER_ANSWER_FORMAT_H_
#define LECTERN_TOOLS_SERVER_ANSWER_FORMAT_H_

#include <string>

#include "engine/lectern.h"
#include "tools/server/request_fields.h"

namespace lectern::server {

// Sets options.json_schema and options.strict_schema from the body's members. Schemas are taken
// from the text of `body`, which `fields` was parsed from, because the order of their members
// counts. A form that is not known, a schema that is none or cannot be kept, and two forms at once
// are errors of `fields`, by the member's name.
//
// ReadResponseFormat: "response_format" ({"type": "text" | "json_object" | "json_schema", …}),
// "json_schema", "guided_json", and "structured_outputs" with "json".
void ReadResponseFormat(RequestFields& fields, const std::string& body, api::AskOptions& options);
// The same with the "format" of "text", as responses have it, in place of "response_format".
void ReadTextFormat(RequestFields& fields, const std::string& body, api::AskOptions& options);

}  // namespace lectern::server

#endif  // LECTERN_TOOLS_SERVER_ANSWER_FORMAT_H_
