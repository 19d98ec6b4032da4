// Looks up all kv heads of a layer with one budget, for which they compete (index/lookup.h has the
// rules). The single heads are looked up by index/head_lookup.h.
#ifndef LECTERN_INDEX_LAYER_LOOKUP_H_
#define LECTERN_INDEX_LAYER_LOOKUP_H_

#include <span>

#include "index/lookup.h"

namespace lectern {

// Fills `selections`, one for each head of `args`, which has no head budgets. `threads` replaces
// the arguments' own pool; resets the workspace's arena. Errors of Lookup.
Status LookupTogether(const LookupArgs& args, ThreadPool& threads, LookupWorkspace& workspace,
                      std::span<HeadSelection> selections);

}  // namespace lectern

#endif  // LECTERN_INDEX_LAYER_LOOKUP_H_
