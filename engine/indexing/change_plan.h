// Gives an indexed document another plan; nothing is prefilled or clustered again.
#ifndef LECTERN_ENGINE_INDEXING_CHANGE_PLAN_H_
#define LECTERN_ENGINE_INDEXING_CHANGE_PLAN_H_

#include "engine/indexing/index_context.h"

namespace lectern {

// As Engine::ChangePlan. A plan is part of document.shard, and shards are never changed: the
// document gets a new generation, whose layers are copies.
Status ChangePlan(const IndexContext& context, const DocumentId& id, const PlanChange& change);

}  // namespace lectern

#endif  // LECTERN_ENGINE_INDEXING_CHANGE_PLAN_H_
