// Computes the attention of a document's chunks on a device while the document is prefilled: every
// token attends to all before it, exactly.
//
// Keys and values are those that the spill holds, rounded as there. The rows of the first layers
// stay on the device, as long as there is room for all rows that they will have and for a question
// beside; the rows of other layers are brought from the spill, block by block, for every chunk, and
// so are those of windowed layers, which are few. Shapes and the kind of device alone decide how a
// layer's attention is cut into items: no bit changes with where its rows are, or with how much
// memory there is.
//
// The device rounds rows and the spill gets them through pinned memory; rows of a layer that stays
// are written while the device attends. The CPU keeps this work: sums of squared attention, the
// spill itself, and for a sparse prefill its clusters and all attention to them.
//
// Queries are rounded to the type of the rows (f16 or bf16), products are summed in float: outputs
// lie within 2^-8 (bf16: 2^-5) of the largest value of the CPU's. Every product of a layer rounds
// its input by 2^-12 in the mean (bf16: 2^-9), and some ten products come before the keys of a
// third layer: the tests hold keys and values to 5e-3 of their spread in the mean square, and to
// eight times that at most (with rows or weights of bf16 4e-2). With packed weights (--weights q8,
// q4) they are further from the CPU's, because the CPU rounds the inputs of packed matrices to 8
// bits.
#ifndef LECTERN_ENGINE_GPU_PREFILL_H_
#define LECTERN_ENGINE_GPU_PREFILL_H_

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "engine/document/kv_spill.h"
#include "engine/forward/transformer.h"
#include "engine/gpu/linear_layers.h"
#include "engine/gpu/memory_plan.h"
#include "engine/gpu/resident_document.h"
#include "engine/gpu/row_attention.h"

namespace lectern {

// One thread at a time.
class DevicePrefill {
 public:
  // Takes what it will need of the device: activations of a chunk, a block of rows, and layers as
  // long as there is room; rows that an interrupted run left in the spill are uploaded to these.
  // Gives `activations` a stream and device memory. `shape`: of PlanDevicePrefill for this spill's
  // tokens and dtype, f16 or bf16. Borrows transformer (which has a device, whose kernels take this
  // dtype and the spill's head_dim; asserted by HasDeviceAttention, which lets q8 pass, too), spill
  // and activations. Rows of documents that nobody uses count as taken: they are not dropped for
  // this. kOutOfMemory, param "device_memory", where even one chunk finds no room; that no layer
  // finds room is no error. May throw std::bad_alloc. Errors of Device::Check.
  static Result<std::unique_ptr<DevicePrefill>> Create(const Transformer& transformer,
                                                       KvSpill& spill, Activations& activations,
                                                       const DevicePrefillShape& shape);

  struct Args {
    uint32_t layer;
    uint64_t begin, end;  // tokens of the chunk, which Project left
    size_t first_token;   // of the chunk that attends; outputs of those before stay as they are
    uint64_t first_key;   // that any of them sees, at most `begin`
    // Polled before each block that is brought; may be empty. Layers that stay do not poll it.
    const std::function<bool()>& is_cancelled;
  };
  // The chunk's keys and values, as Project left them on the device, become the spill's, rounded as
  // KvSpill::Append rounds them. Not those of a layer that stays: Attend adds them there. Waits.
  // Its errors, and those of Device::Check.
  Status Store(uint32_t layer, uint64_t begin, uint64_t end);
  // Stores them and attends: the output becomes the device's `projected`
  // (Activations::is_attended). Waits. Errors of Store, kOutOfMemory, kCancelled; the spill may
  // then have the chunk already.
  Status Attend(const Args& args);
  // Reads the log-sum-exps of the last Attend, [kv heads][query rows of the tokens that attended];
  // `lse` has that size (asserted). Waits. Errors of Device::Check.
  Status ReadLse(std::span<float> lse);
  // Reads the output of the last Attend, which was of all `num_tokens` tokens, into
  // Activations::attended, and its states [kv heads][query rows]: each maximum is a log-sum-exp,
  // and each sum is 1. Overwrites Activations::projected and clears is_attended: the output is the
  // host's from now on. Waits. Errors of Device::Check.
  Status ReadOutput(size_t num_tokens, std::span<float> max, std::span<float> sum);

  size_t num_resident() const { return resident_.size(); }  // layers

 private:
  // Takes nothing of the device yet, and only `shape` is copied; Create goes on from here.
  DevicePrefill(const Transformer& transformer, KvSpill& spill, Activations& activations,
                const DevicePrefillShape& shape)
      : transformer_(transformer),
        config_(transformer.model().config()),
        spill_(spill),
        a_(activations),
        shape_(shape) {}
  // Gives a_ a stream if it has none, and takes everything but layers that stay, once it has
  // checked that all of it fits. Create calls it, then TakeLayers. kOutOfMemory, param
  // "device_memory"; errors of Device::Check.
  Status TakeMemory();
  // Fills resident_ with layers that are not windowed, in their order, as long as there is room
  // for the layer and for a question beside. A lack of memory ends this and is no error. Errors of
  // Device::Check.
  Status TakeLayers();
  // Takes memory for all rows that a layer will have, and uploads the rows that an interrupted run
  // left in the spill. Waits. kOutOfMemory, errors of Device::Check.
  Result<DeviceKvRows> TakeLayer(uint32_t layer);
  // The layer's rows if it stays on the device; else nullptr. resident_ counts only layers that
  // are not windowed.
  const DeviceKvRows* Resident(uint32_t layer) const;
  struct Cut {
    std::vector<IndexRange> blocks;  // of positions
    AttentionWork work;              // of each head block by block
    std::vector<uint32_t> block_of_item;
  };
  // Cuts the positions [args.first_key, args.end) into blocks, and each head's positions into
  // items that end at blocks' ends too, wherever the rows are. Items name entries of the rows that
  // will be attended to: of the layer that stays (`is_resident`), or of one block alone.
  Cut CutKeys(const Args& args, bool is_resident) const;
  // Rounds keys and values of the chunk's first `num_tokens` tokens, as Project left them on the
  // device, into rows [first_position, first_position + num_tokens) of each head of `to`, which
  // has `rows_per_head` rows for each. Enqueued. Errors of Device::Check.
  Status RoundRows(const DeviceKvRows& to, size_t num_tokens, uint64_t rows_per_head,
                   uint64_t first_position);
  // Rounds the chunk's rows into staged_ and copies them to brought_, [kv heads][num_tokens] each
  // of keys and values. Enqueued: they are there once the stream was waited for. Errors of
  // Device::Check.
  Status BringRows(size_t num_tokens);
  // Appends the rows of brought_, for which the stream was waited, to the spill, as tokens `begin`
  // and after. Codes of KvSpill::AppendRounded.
  Status AppendRows(uint32_t layer, uint64_t begin, size_t num_tokens);
  // Rounds the device's `projected` of so many tokens into queries_. Enqueued. Errors of
  // Device::Check.
  Status RoundQueries(size_t num_tokens);
  // Adds the chunk's rows to `rows`, a layer that stays, and attends to all items of `cut`, as
  // Launch does. Before: the items are uploaded, partial states have room, and RoundQueries was
  // called (Attend does all three). Enqueued. Errors of Device::Check.
  Status AttendResident(const Args& args, const DeviceKvRows& rows, const Cut& cut);
  // Uploads block `number` of cut.blocks from the spill into staged_, and attends to the items of
  // that block, as Launch does. Waits. kCancelled: args.is_cancelled says so, which is asked
  // first. Errors of Device::Check.
  Status AttendBlock(const Args& args, const Cut& cut, uint32_t number);
  // Enqueues the attention of queries_ from token args.first_token on to items_ [first_item,
  // first_item + num_items), which name entries of `rows`, into the items' own places of the
  // partial states. Errors of Device::Check.
  Status Launch(const Args& args, const DeviceKv& rows, uint32_t first_item, uint32_t num_items);
  // Joins the partial states of all items into the device's `projected`, from token
  // args.first_token on, and into lse_. Enqueued, after all launches of a layer. Errors of
  // Device::Check.
  Status Join(const Args& args);
  size_t query_rows(const Args& args) const {
    return (args.end - args.begin - args.first_token) * config_.query_group();
  }

  const Transformer& transformer_;
  const ModelConfig& config_;
  KvSpill& spill_;
  Activations& a_;
  const DevicePrefillShape shape_;
  std::vector<DeviceKvRows> resident_;  // [kv heads][L] of the first layers that are not windowed
  DeviceKvRows staged_;                 // [kv heads][rows of a block], or of the chunk
  HostBuffer<std::byte> brought_;       // keys, then values, [kv heads][tokens of the chunk]
  DeviceArray<uint16_t> queries_;       // [tokens, heads * head_dim], of the rows' type
  DeviceArray<AttentionItem> items_;
  DeviceArray<uint32_t> item_begin_;
  DeviceArray<float> partial_out_, partial_max_, partial_sum_;  // states of items
  DeviceArray<float> lse_;
  size_t num_attended_ = 0;  // query rows of the last Attend
};

}  // namespace lectern

#endif  // LECTERN_ENGINE_GPU_PREFILL_H_
