// Gives an indexed document another plan: how later questions share its budget out over layers and
// heads. Nothing is prefilled or clustered again. Engine::ChangePlan uses it.
#ifndef LECTERN_ENGINE_INDEXING_CHANGE_PLAN_H_
#define LECTERN_ENGINE_INDEXING_CHANGE_PLAN_H_

#include "engine/indexing/index_context.h"

namespace lectern {

// Changes the plan of the ready document `id` as Engine::ChangePlan describes. A plan is part of
// document.shard, and shards are never changed, so the document gets a new generation whose layers
// are copies: for a while the document takes twice its space. Measures the calibration again, on
// the CPU with all of the context's threads; cannot be cancelled. All or nothing: on error the old
// generation stays. Takes the store's lock; any thread. kInvalidArgument (param names the option),
// kNotFound, kModelMismatch (context.model is not the document's), kBudgetTooSmall, kNoSpace,
// kLocked, kReadOnly, kOutOfMemory, and errors of reading and writing shards.
Status ChangePlan(const IndexContext& context, const DocumentId& id, const PlanChange& change);

}  // namespace lectern

#endif  // LECTERN_ENGINE_INDEXING_CHANGE_PLAN_H_
