// Reads the fields that OpenAI's two formats of requests share (chat completions and responses):
// how tokens are drawn, how likely they were, and features that Lectern does not have. OPENAI.md
// lists all fields. Errors go to `fields`, by name (RequestFields::Fail: the first one stays), and
// each function then returns a harmless value; callers ask Finish. Fields that were looked at count
// as known there.
#ifndef LECTERN_TOOLS_SERVER_OPENAI_FIELDS_H_
#define LECTERN_TOOLS_SERVER_OPENAI_FIELDS_H_

#include <initializer_list>
#include <utility>
#include <vector>

#include "engine/lectern.h"
#include "engine/model/formats/json.h"
#include "tools/server/request_fields.h"

namespace lectern::server {

// Reads the options that OpenAI's formats share with /v1/ask, from the table of options. Read by
// hand, and more lenient than in /v1/ask: top_p (0 means the likeliest token), top_k (-1 and 0:
// all), logit_bias and seed (none, or -1: another one for each request).
void ReadSampling(RequestFields& fields, api::AskOptions& options);

// Reads "logit_bias": {"token id": bias}; empty where it is missing, null or []. Biases are brought
// into [-100, 100]: -100 bans a token, and 100 lets no other be drawn. An error: a key that is no
// number from 0 to 2^31-1, or a value that is no number; whether the vocabulary has the id is left
// to the engine.
std::vector<lectern_logit_bias> ReadLogitBias(RequestFields& fields);

// Returns the first of the fields `names` that has a value, at least 1. -1, or none of them: as
// many as fit, for which the largest number (UINT32_MAX) stands. All of them are checked: 0, a
// number below -1 and a value that is no whole number are errors.
uint32_t ReadMaxTokens(RequestFields& fields, std::initializer_list<const char*> names);

// Refuses, by name, the fields of OpenAI's and of similar servers that would make another answer
// than Lectern gives: grammars, other samplers. A client that sends one must not think that it
// works. Values without effect pass.
void RefuseWhatIsNotDone(RequestFields& fields);
// Refuses a field with the message `way_out`, unless it is missing, null, false or empty.
void RefuseUnlessEmpty(RequestFields& fields, const char* name, const char* way_out);

// Collects the log-probabilities of an answer's tokens in OpenAI's form until they are taken for
// the next piece of the stream. One thread.
class Logprobs {
 public:
  // Copies the token with its alternatives. A probability of 0 has the logarithm -9999, as
  // OpenAI's.
  void Add(const lectern_sampled_token& token);
  bool is_empty() const { return tokens_.empty(); }
  Json::Array Take() { return std::exchange(tokens_, {}); }  // and begins anew; may be empty

 private:
  Json::Array tokens_;
};

}  // namespace lectern::server

#endif  // LECTERN_TOOLS_SERVER_OPENAI_FIELDS_H_
