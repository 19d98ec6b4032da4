// Turns the messages of OpenAI's request formats (chat completions, responses) into a question with
// the turns before it, as the engine asks it.
#ifndef LECTERN_TOOLS_SERVER_CONVERSATION_H_
#define LECTERN_TOOLS_SERVER_CONVERSATION_H_

#include <string>
#include <vector>

#include "engine/lectern.h"
#include "engine/model/formats/json.h"

namespace lectern::server {

struct Conversation {
  std::string instructions;      // of system and developer messages; may be empty
  std::vector<api::Turn> turns;  // questions and answers before the question, oldest first
  std::string question;          // never of white space alone
};
// Reads the messages of chat completions and the items of responses. Any order is taken, as long as
// the last one, instructions aside, can be answered:
//
//  - system and developer messages are instructions, wherever they stand; where nothing else is
//    said, they are the question;
//  - neighbours of one side are joined; if the assistant speaks first, it answers an empty
//    question;
//  - calls of tools and their results become lines of the assistant's; results that come last are
//    the question;
//  - parts of text are joined; a model's reasoning is left out.
//
// `param`: the field's name, "messages" or "input"; it must outlive the call. kInvalidArgument with
// that param: no list or an empty one, a part that is no text, an item that cannot be read as text,
// an unknown role, no question, or an answer of the assistant at the end; the message names the
// place ("messages[3]: …") where there is one.
Result<Conversation> ReadConversation(const Json& messages, const char* param);

// The object that /v1/ask answers, for the member "lectern" of OpenAI's formats: passages and the
// receipt. Null where it cannot be made. `may_call_tools`: the request had tools, which the answer
// does not call; this becomes a warning and a part of the note.
Json ReceiptJson(const api::Answer& answer, bool may_call_tools);

// The time, in seconds since 1970, as "created" has it.
int64_t Now();

}  // namespace lectern::server

#endif  // LECTERN_TOOLS_SERVER_CONVERSATION_H_
