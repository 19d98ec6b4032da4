// Splits a question that is to be answered by a JSON object into a question for each of its values.
#ifndef LECTERN_ENGINE_ASKING_ANSWER_FIELDS_H_
#define LECTERN_ENGINE_ASKING_ANSWER_FIELDS_H_

#include <string>
#include <string_view>
#include <vector>

#include "store/status.h"

namespace lectern {

// A member of the object: a value that is asked for, or an object with members of its own.
struct AnswerField {
  std::string key;
  std::vector<AnswerField> members;  // of an object; empty: a value
  bool may_be_null = false;          // the object's schema allows null, too
  bool may_be_missing = false;
  // The rest is that of a value.
  std::string only_value;  // where the schema leaves one alone, which need not be asked for
  std::string question;
  std::string schema;  // the value's; without null, unless nothing else fits
  // The value is neither any text nor a list or an object: the model is asked for a text, out of
  // which the value is read (ValueOfText). Where that fails the answer is kept to `schema`.
  bool is_read = false;
};

// Models that were taught plain answers alone put all that they have to say into the first string
// of an object, and do not know what the others are to be. Such a model is asked for each value by
// itself: by its description, or its title, or the words of its key, so that "rent_per_month" is
// asked for as "What is the rent per month?". What the whole question says stands before that; the
// questions in it do not, because the model would answer these. A description that is a question
// is asked as it is. Where a value is one of a few strings, its question names them. An object with
// one value alone is asked the whole question.
//
// Members of objects within the object are such values, too, also where the schema writes the
// object as a $ref, as an allOf of one schema, or as an anyOf of it and null. Each list is one
// value. Properties that the schema does not require can be missing; none are added
// (additionalProperties).
//
// Returns the object's members, in the schema's order. Empty: the schema is not of an object whose
// properties say all about it (its own anyOf, patternProperties, minProperties, …), it leaves no
// value to ask for or more than 100, or it is nothing that CompileJsonSchema takes.
std::vector<AnswerField> SplitIntoFields(std::string_view schema, std::string_view question);

// Whether the member is, or has, a value that must be asked for.
bool NeedsAsking(const AnswerField& field);

}  // namespace lectern

#endif  // LECTERN_ENGINE_ASKING_ANSWER_FIELDS_H_
