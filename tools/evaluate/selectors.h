// Makes selectors: functions that choose, in the place of Lookup, the rows that a step reads.
#ifndef LECTERN_TOOLS_EVALUATE_SELECTORS_H_
#define LECTERN_TOOLS_EVALUATE_SELECTORS_H_

#include "engine/attention/document_attention.h"

namespace lectern::evaluate {

// For a question, selects what any block of `rows` of its query rows would choose if it were alone,
// each with the whole budget and its rows' weights; every row then attends to all of it.
// kInvalidArgument where there are no row codes, also below.
Selector SelectByBlocks(size_t rows);

// How many steps of layers could have kept a choice, and how many did.
struct KeptSteps {
  uint64_t all = 0, kept = 0;
};
// For a question, selects what Lookup chooses. A step of the answer keeps the layer's choice of the
// step before as long as no query head has moved to a cosine below `least_cosine` since it was
// made, and the estimate says that hardly more is missed. If the estimate says otherwise, bytes are
// those of both lookups. Made for one question. `count`: may be nullptr; outlives the selector.
Selector KeepChoices(double least_cosine, KeptSteps* count);

}  // namespace lectern::evaluate

#endif  // LECTERN_TOOLS_EVALUATE_SELECTORS_H_
