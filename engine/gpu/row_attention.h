// Lets a step's query rows, which are the host's, attend to rows that a device has.
//
// Queries are rounded to the type of the rows (f16 or bf16), products are summed in float: outputs
// lie within 2^-8 (bf16: 2^-5) of the largest value of the CPU's.
#ifndef LECTERN_ENGINE_GPU_ROW_ATTENTION_H_
#define LECTERN_ENGINE_GPU_ROW_ATTENTION_H_

#include <memory>
#include <span>
#include <vector>

#include "engine/attention/conversation.h"
#include "engine/gpu/device.h"
#include "kernels/backend.h"
#include "kernels/cuda/attention/attention.h"

namespace lectern {

// One thread at a time. Device memory stays from call to call.
class DeviceRowAttention {
 public:
  // Shares the stream, borrows the backend, which rounds.
  DeviceRowAttention(std::shared_ptr<DeviceStream> stream, const Backend& backend)
      : stream_(std::move(stream)), backend_(backend) {}

  // Rounds the queries for rows of this type, and brings them. Enqueued: the next Attend waits.
  // They are copied, so `args` may change at once. Errors of DeviceArray and Device::Check.
  Status BringQueries(const RowQuery& args, Dtype rows);
  // The queries that were brought, from token `first` on; hold until the next BringQueries.
  DeviceQueries queries(size_t first, size_t num_tokens) const;
  // Adds attention over the ranges of `rows`, each head's in their order; source 0 of them. Waits.
  // Where rows are causal, `rows.first_position` is that of the first token. The queries of `args`
  // were brought before. Empty ranges add nothing. Errors of DeviceArray and Device::Check; states
  // are then anything.
  Status Attend(const RowQuery& args, const DeviceKv& rows,
                const std::vector<AttentionRange>& ranges);

 private:
  // Attends for tokens [first_token, first_token + num_tokens) of `args` to the items of `work`,
  // which are in items_ already: a partial state for each item, joined for each query row on the
  // device, and merged into args.states on the host. Waits. Errors of DeviceArray and
  // Device::Check.
  Status AttendTokens(const RowQuery& args, const DeviceKv& rows, const AttentionWork& work,
                      size_t first_token, size_t num_tokens);

  const std::shared_ptr<DeviceStream> stream_;
  const Backend& backend_;
  DeviceQueries brought_;
  std::vector<uint16_t> host_queries_;
  DeviceArray<uint16_t> queries_;  // [tokens, heads * head_dim]
  DeviceArray<AttentionItem> items_;
  DeviceArray<uint32_t> item_begin_;
  DeviceArray<float> partial_out_, partial_max_, partial_sum_;  // states of items
  DeviceArray<float> output_, lse_;
  std::vector<float> host_output_, host_lse_;
};

}  // namespace lectern

#endif  // LECTERN_ENGINE_GPU_ROW_ATTENTION_H_
