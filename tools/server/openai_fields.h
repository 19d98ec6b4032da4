// Reads the fields that chat completions and responses share: how tokens are drawn, how likely they
// were, and features that Lectern does not have. OPENAI.md has all of them.
#ifndef LECTERN_TOOLS_SERVER_OPENAI_FIELDS_H_
#define LECTERN_TOOLS_SERVER_OPENAI_FIELDS_H_

#include <initializer_list>
#include <utility>
#include <vector>

#include "engine/lectern.h"
#include "engine/model/formats/json.h"
#include "tools/server/request_fields.h"

namespace lectern::server {

// The options that OpenAI's formats share with /v1/ask, from the table; and, more lenient than
// there, top_p, top_k, logit_bias and seed. Without a seed, or with -1, it is another one each
// time.
void ReadSampling(RequestFields& fields, api::AskOptions& options);

// {"id": bias}. What is beyond 100 bans a token, or takes no other, as 100 does.
std::vector<lectern_logit_bias> ReadLogitBias(RequestFields& fields);

// The first of these fields that has a value, at least 1; -1, or none of them: as many as fit.
uint32_t ReadMaxTokens(RequestFields& fields, std::initializer_list<const char*> names);

// Refuses, by name, fields of OpenAI's and of servers like it that would make another answer of it
// than Lectern gives: tools that may be called, grammars, other samplers. Values without effect
// pass.
void RefuseWhatIsNotDone(RequestFields& fields);
void RefuseFunctions(RequestFields& fields);  // as tools were called before
// Refuses a field as above, unless it is null, false or empty.
void RefuseUnlessEmpty(RequestFields& fields, const char* name, const char* way_out);
// {"type": "text"}, or nothing.
bool IsTextFormat(const Json* format);

// The logprobs of an answer's tokens, as far as nobody has taken them.
class Logprobs {
 public:
  void Add(const lectern_sampled_token& token);
  bool is_empty() const { return tokens_.empty(); }
  Json::Array Take() { return std::exchange(tokens_, {}); }

 private:
  Json::Array tokens_;
};

}  // namespace lectern::server

#endif  // LECTERN_TOOLS_SERVER_OPENAI_FIELDS_H_
