// Attention of one layer to rows that are known, by one list of runs: a part of AttendDocument and
// AttendClusters.
#ifndef LECTERN_ENGINE_ATTENTION_LAYER_ATTENTION_H_
#define LECTERN_ENGINE_ATTENTION_LAYER_ATTENTION_H_

#include "engine/attention/document_attention.h"

namespace lectern {

struct LayerArgs {
  const LayerQuery& query;
  ObservedLogits* observed = nullptr;
  StoredRows* device = nullptr;
  uint32_t layer = 0;  // with a device
};

// Each adds to the states of all kv heads, and leaves the logits of what it attends to in
// `observed`. Errors are those of AttendDocument.

// Sinks and window.
Status AttendExact(const LayerArgs& args, std::span<const HeadIndex> heads);
// All stored rows.
Status AttendEveryRow(const LayerArgs& args, std::span<const HeadIndex> heads);
// The rows that were selected.
Status AttendRows(const LayerArgs& args, std::span<const HeadIndex> heads,
                  std::span<const HeadSelection> selections);
// The clusters that stand for what was not, as far as the selections name them; not by the device.
Status AttendTails(const LayerArgs& args, std::span<const HeadIndex> heads,
                   std::span<const HeadSelection> selections);

}  // namespace lectern

#endif  // LECTERN_ENGINE_ATTENTION_LAYER_ATTENTION_H_
