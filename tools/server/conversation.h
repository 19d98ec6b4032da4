// What OpenAI's request formats have in common: messages, receipts to usage.
#ifndef LECTERN_TOOLS_SERVER_CONVERSATION_H_
#define LECTERN_TOOLS_SERVER_CONVERSATION_H_

#include <string>
#include <vector>

#include "engine/json.h"
#include "engine/lectern.h"

namespace lectern::server {

struct Conversation {
  std::string instructions;
  std::vector<api::Turn> turns;  // before the question: a stateless request has no session
  std::string question;
};
// Instructions first, then questions and answers in turn, a question last. Content is a string or
// parts of text. Anything else is INVALID_ARGUMENT of `param`.
Result<Conversation> ReadConversation(const Json& messages, const char* param);

// What Lectern says beyond a format: the object of /v1/ask.
Json ReceiptJson(const api::Answer& answer);

// Seconds since 1970.
int64_t Now();

}  // namespace lectern::server

#endif  // LECTERN_TOOLS_SERVER_CONVERSATION_H_
