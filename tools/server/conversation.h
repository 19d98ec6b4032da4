// What OpenAI's request formats have in common: messages to a question, receipts to usage.
#ifndef LECTERN_TOOLS_SERVER_CONVERSATION_H_
#define LECTERN_TOOLS_SERVER_CONVERSATION_H_

#include <string>

#include "engine/json.h"
#include "engine/lectern.h"

namespace lectern::server {

// Earlier turns stand before the question as they would in the prompt: a stateless request has no
// session to follow. Instructions come first. Content is a string or parts of text; anything else,
// and a last message that is not the user's, is INVALID_ARGUMENT of `param`.
Result<std::string> QuestionOf(const Json& messages, const char* param);

// What Lectern says beyond a format: the object of /v1/ask.
Json ReceiptJson(const api::Answer& answer);

// Seconds since 1970.
int64_t Now();

}  // namespace lectern::server

#endif  // LECTERN_TOOLS_SERVER_CONVERSATION_H_
