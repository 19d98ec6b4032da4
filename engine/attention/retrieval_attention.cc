#include "engine/attention/retrieval_attention.h"

#include <cmath>
#include <mutex>
#include <vector>

#include "engine/attention/step.h"
#include "kernels/attention.h"

namespace lectern {
namespace {

// Rows that one thread gathers and scores at a time. By hand; it changes the speed alone.
constexpr size_t kRowsPerTile = 512;

// Adds the attention of the keys `added`, whose positions are position_of(0), position_of(1), …
template <typename PositionOf>
void AddTile(const HeadAttentionArgs& args, const TypedRows& added, const PositionOf& position_of,
             HeadAttentionSlot& slot, std::span<double> sums) {
  const size_t rows = args.queries.num_rows, dim = args.queries.num_cols;
  slot.logits.resize(rows * added.num_rows);
  slot.scratch.resize(AttendScratch(rows, dim));
  const Rows<float> logits(slot.logits.data(), rows, added.num_rows);
  args.backend.key_logits({.queries = args.queries,
                           .keys = added,
                           .scale = 1 / std::sqrt(static_cast<float>(dim)),
                           .logits = logits,
                           .scratch = slot.scratch});
  Softcap(args.backend, logits, args.softcap);
  args.backend.exp_rows({.logits = logits, .reference = args.lse});
  for (size_t i = 0; i < added.num_rows; ++i) {
    float sum = 0;
    for (size_t r = 0; r < rows; ++r) sum += args.weights[r] * logits[r][i];
    sums[position_of(i)] += ToExactShare(double{sum});
  }
}

}  // namespace

Status AddHeadAttention(const HeadAttentionArgs& args, std::span<double> sums) {
  const HeadIndex& head = args.head;
  const std::span<const uint32_t> positions = head.positions();
  HeadAttentionWorkspace& workspace = args.workspace;
  if (workspace.slots.size() < args.threads.num_threads()) {
    workspace.slots.resize(args.threads.num_threads());
  }
  // Blocks as they are stored: all of them, or sinks and window.
  std::vector<IndexRange>& blocks = workspace.blocks;
  blocks.clear();
  const uint32_t num_stored =
      args.read.exact ? head.num_rows() : (args.read.reads_ends ? head.num_exact() : 0);
  // The window is read from where the pass has read it.
  const bool window_copy =
      num_stored > 0 && !args.read.exact && args.read.heads[args.kv_head].window_copy;
  if (window_copy) {
    LECTERN_RETURN_IF_ERROR(head.VerifyExact(window_copy));
    blocks = {{0, head.num_sinks()}, {head.num_sinks(), num_stored}};
  } else if (num_stored > 0) {
    LECTERN_RETURN_IF_ERROR(head.VerifyRows({0, num_stored}));
    const auto keep = [&](IndexRange block) { blocks.push_back(block); };
    if (head.num_exact() > 0) head.ForEachBlock({0, head.num_exact()}, keep);
    if (num_stored > head.num_exact()) head.ForEachBlock({head.num_exact(), num_stored}, keep);
  }
  const std::span<const uint32_t> chosen =
      args.read.exact ? std::span<const uint32_t>() : args.read.heads[args.kv_head].rows;
  const size_t num_gathered = (chosen.size() + kRowsPerTile - 1) / kRowsPerTile;
  std::mutex mutex;
  Status first;
  // Each row has a position of its own, so that threads never add to the same sum.
  args.threads.ParallelFor(blocks.size() + num_gathered, [&](size_t item, size_t number) {
    HeadAttentionSlot& slot = workspace.slots[number];
    if (item < blocks.size()) {
      const uint32_t begin = blocks[item].begin;
      const auto position_of = [&](size_t i) { return positions[begin + i]; };
      const TypedRows keys = !window_copy ? head.Keys(blocks[item])
                             : item == 0  ? head.SinkKeys()
                                          : head.WindowCopyKeys();
      return AddTile(args, keys, position_of, slot, sums);
    }
    const size_t begin = (item - blocks.size()) * kRowsPerTile;
    const auto rows = chosen.subspan(begin, std::min(kRowsPerTile, chosen.size() - begin));
    if (Status status = head.GatherRows(rows, slot.keys, slot.values); !status.ok()) {
      const std::lock_guard lock(mutex);
      if (first.ok()) first = std::move(status);
      return;
    }
    const auto position_of = [&](size_t i) { return positions[rows[i]]; };
    AddTile(args, head.AsRows(slot.keys), position_of, slot, sums);
  });
  return first;
}

}  // namespace lectern
