// Attention of one layer to rows that are already chosen: four kinds of work, each as a list of
// runs that threads share. AttendDocument and AttendClusters are made of these.
#ifndef LECTERN_ENGINE_ATTENTION_LAYER_ATTENTION_H_
#define LECTERN_ENGINE_ATTENTION_LAYER_ATTENTION_H_

#include "engine/attention/document_attention.h"

namespace lectern {

struct LayerArgs {
  const LayerQuery& query;
  ObservedLogits* observed = nullptr;
  StoredRows* device = nullptr;
  uint32_t layer = 0;  // with a device
  const LookupShare* share = nullptr;  // the rows that this rank owns; nullptr: all
};

// Each function adds to the states of all kv heads. All but AttendTails leave the logits of the
// rows that they attend to in `observed`, whose vectors have room for them. Temporary memory is
// taken from the workspace's arena, which is not reset. Errors are those of AttendDocument.

// Attends to sinks and window. `reads_copy(kv head)`: the window from its copy (HeadIndex) instead;
// never with a device.
Status AttendExact(const LayerArgs& args, std::span<const HeadIndex> heads,
                   FunctionRef<bool(size_t head)> reads_copy);
// Attends to all stored rows that this rank owns.
Status AttendEveryRow(const LayerArgs& args, std::span<const HeadIndex> heads);
// Attends to the selected rows.
Status AttendRows(const LayerArgs& args, std::span<const HeadIndex> heads,
                  std::span<const HeadSelection> selections);
// Attends to the mean value of each unread cluster, weighted by its estimated mass. The selections
// name these clusters. The host does this also for device documents.
Status AttendTails(const LayerArgs& args, std::span<const HeadIndex> heads,
                   std::span<const HeadSelection> selections);

}  // namespace lectern

#endif  // LECTERN_ENGINE_ATTENTION_LAYER_ATTENTION_H_
