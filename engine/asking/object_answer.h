// Answers a question with a JSON object by asking for each of its values, for sessions on models
// that know plain answers alone.
#ifndef LECTERN_ENGINE_ASKING_OBJECT_ANSWER_H_
#define LECTERN_ENGINE_ASKING_OBJECT_ANSWER_H_

#include <span>
#include <string_view>
#include <vector>

#include "engine/asking/answer_fields.h"
#include "engine/model/tokenizer/tokenizer.h"
#include "engine/requests/requests.h"
#include "kernels/function_ref.h"
#include "store/status.h"

namespace lectern {

// The members of the object that options.json_schema wants, where each value can be asked for by
// itself. Empty: the question is asked in one go. So it is where a text ends the answer
// (stop_texts), which may stand anywhere in the object.
std::vector<AnswerField> FieldsOf(std::string_view question, const AskOptions& options);

// Answers the question for one value, and leaves the conversation as it is.
using AskValue = FunctionRef<Result<Answer>(std::string_view question, const AskOptions& options)>;

// Asks for an object of these members, 1 or more. Its text comes value by value. A value for which
// "refusal_likely" is warned of is null or left out where it may be, and so is an object within the
// object without any other value. Counts, times and bytes are those of all values' answers together
// and shares their means. Each part, or document of a collection, that was asked is named once,
// with all that it said; `document` is the one that gave most values, and `attention` is paid to
// that alone. Codes of `ask`; kInvalidArgument: options.json_schema is no schema.
Result<Answer> AskForObject(std::span<const AnswerField> fields, const Tokenizer& tokenizer,
                            const AskOptions& options, AskValue ask);

}  // namespace lectern

#endif  // LECTERN_ENGINE_ASKING_OBJECT_ANSWER_H_
