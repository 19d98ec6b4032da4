// Shared by OpenAI's request formats: reads messages, and writes receipts as usage.
#ifndef LECTERN_TOOLS_SERVER_CONVERSATION_H_
#define LECTERN_TOOLS_SERVER_CONVERSATION_H_

#include <string>
#include <vector>

#include "engine/lectern.h"
#include "engine/model/formats/json.h"

namespace lectern::server {

struct Conversation {
  std::string instructions;
  std::vector<api::Turn> turns;  // before the question: a stateless request has no session
  std::string question;
};
// Reads the messages of chat completions and the items of responses, in any order but that the last
// one, instructions aside, is to be answered:
//  - system and developer messages are instructions, wherever they stand; where nothing else is
//    said, they are the question;
//  - neighbours of one side are joined, and what the assistant says first answers an empty
//  question;
//  - calls of tools and their results become lines of the assistant's; results that come last are
//    the question.
// Parts of text are joined. INVALID_ARGUMENT of `param`: a part that is no text, an item that
// cannot be read as text, no question.
Result<Conversation> ReadConversation(const Json& messages, const char* param);

// Writes what Lectern says beyond a format: the object of /v1/ask.
Json ReceiptJson(const api::Answer& answer);

// Seconds since 1970.
int64_t Now();

}  // namespace lectern::server

#endif  // LECTERN_TOOLS_SERVER_CONVERSATION_H_
