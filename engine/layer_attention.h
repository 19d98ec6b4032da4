// Attention of one layer to rows that are known, by one list of runs: a part of AttendDocument and
// AttendClusters.
#ifndef LECTERN_ENGINE_LAYER_ATTENTION_H_
#define LECTERN_ENGINE_LAYER_ATTENTION_H_

#include "engine/document_attention.h"

namespace lectern {

// What attention needs to know, whatever chose the runs.
struct LayerArgs {
  LayerArgs(const DocumentAttentionArgs& args)  // NOLINT: they are some of these
      : backend(args.backend),
        threads(args.threads),
        queries(args.queries),
        softcap(args.softcap),
        states(args.states),
        is_cancelled(args.is_cancelled),
        workspace(args.workspace),
        observed(args.observed),
        device(args.device),
        layer(args.layer),
        num_tokens(args.num_tokens) {}
  LayerArgs(const ClusterAttentionArgs& args)  // NOLINT
      : backend(args.backend),
        threads(args.threads),
        queries(args.queries),
        softcap(args.softcap),
        states(args.states),
        is_cancelled(args.is_cancelled),
        workspace(args.workspace) {}
  const Backend& backend;
  ThreadPool& threads;
  std::span<const Rows<const float>> queries;
  float softcap;
  std::span<const AttentionState> states;
  const std::function<bool()>& is_cancelled;
  AttentionWorkspace& workspace;
  ObservedLogits* observed = nullptr;
  DeviceAttention* device = nullptr;
  uint32_t layer = 0;  // with a device
  size_t num_tokens = 1;
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

#endif  // LECTERN_ENGINE_LAYER_ATTENTION_H_
