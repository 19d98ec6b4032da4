// Makes selectors for lectern-evaluate: functions that choose, in the place of Lookup, the rows
// that a step reads. These two are experiments that Lectern does not ship (RESULTS.md has their
// figures).
#ifndef LECTERN_TOOLS_EVALUATE_SELECTORS_H_
#define LECTERN_TOOLS_EVALUATE_SELECTORS_H_

#include "engine/attention/document_attention.h"

namespace lectern::evaluate {

// For a question, selects the rows that any block of `rows` of its query rows would choose if it
// were alone, each with the whole budget and its rows' weights; every row then attends to all of
// them, so that more than the budget is read. For a token of an answer: Lookup. `rows`: at least 1.
// Errors of Lookup; kInvalidArgument: the document has no row codes (KeepChoices too).
Selector SelectByBlocks(size_t rows);

// Counts, over layers and steps of an answer, how often a choice could have been kept, and how
// often it was.
struct KeptSteps {
  uint64_t all = 0, kept = 0;
};
// For a question, selects what Lookup chooses. In an answer, a layer keeps its choice from the step
// before as long as no query head's cosine to its query at the time of the choice is below
// `least_cosine`, and the estimate says that hardly more attention is missed (kMoreMissed in the
// .cc). If the estimate says otherwise, it chooses anew, and the bytes are those of both lookups.
// Make one for each question. `count`: may be nullptr; outlives the selector.
Selector KeepChoices(double least_cosine, KeptSteps* count);

}  // namespace lectern::evaluate

#endif  // LECTERN_TOOLS_EVALUATE_SELECTORS_H_
