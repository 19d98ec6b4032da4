// Attention of a step's query rows over rows of the document on a device: the part of
// engine/document_attention.h that reads keys and values, for steps that are not there as a whole
// (engine/device_step.h): of documents whose rows do not stay, or where something looks at a layer.
// What they read is chosen there, too (engine/device_lookup.h), and the tail of that attended to,
// as far as there is room.
#ifndef LECTERN_ENGINE_DEVICE_ATTENTION_H_
#define LECTERN_ENGINE_DEVICE_ATTENTION_H_

#include <memory>
#include <span>
#include <vector>

#include "engine/device_document.h"
#include "engine/device_row_attention.h"
#include "index/lookup.h"
#include "kernels/backend.h"
#include "kernels/cuda/key_logits.h"

namespace lectern {

// Of one session; one thread at a time. Device memory stays from call to call.
class DeviceAttention {
 public:
  // Shares stream and document, borrows the backend, which rounds.
  DeviceAttention(std::shared_ptr<DeviceStream> stream, std::shared_ptr<DeviceDocument> document,
                  const Backend& backend)
      : stream_(std::move(stream)),
        document_(std::move(document)),
        rows_attention_(stream_, backend),
        lookup_(stream_, backend) {}

  // DeviceLookup::LookUp, where the layer's codes are there; else false. Errors of
  // DeviceDocument::UseCodes too.
  Result<bool> LookUp(uint32_t layer, const LookupArgs& args,
                      std::vector<HeadSelection>& selections);

  // Some stored rows of a kv head: [rows.begin, rows.end), of `chosen` where that is given (its
  // row numbers are then those of the head), else of the head.
  struct Part {
    uint32_t head;
    IndexRange rows;
    std::span<const uint32_t> chosen = {};
  };
  struct LayerArgs {
    uint32_t layer;
    std::span<const HeadIndex> heads;
    std::span<const Rows<const float>> queries;  // per kv head: [R, head_dim]
    size_t num_tokens;                           // R = num_tokens * query group
    float softcap;
    std::span<const AttentionState> states;      // per kv head, R rows; in/out
    // Of Attend: logits of the last token's query rows, per kv head [query group][rows of its parts
    // side by side], where the device holds them all; else empty. nullptr: not wanted.
    std::vector<std::vector<float>>* observed = nullptr;
  };
  // Adds attention over the parts, each head's in their order. kChecksumMismatch, errors of
  // DeviceArray and Device::Check; states are then anything.
  Status Attend(const LayerArgs& args, std::span<const Part> parts);
  // After these and a LookUp that found them: adds the tail, or, of more query rows than a launch
  // takes (kMostDeviceQueryRows), brings it into the selections, for the host's AttendTails. Errors
  // of Attend.
  Status AttendTail(const LayerArgs& args, const LookupArgs& lookup,
                    std::vector<HeadSelection>& selections);
  // Of a windowed layer: query row r of token t = r / group stands at position `first_position` + t
  // of the stored rows (which begin at 0) and sees the `window` up to itself.
  Status AttendWindow(const LayerArgs& args, uint64_t first_position, uint32_t window);

  const DeviceDocument& document() const { return *document_; }
  KvStaging& staging() { return staging_; }

 private:
  Status Observe(const LayerArgs& args, const DeviceKv& rows,
                 const std::vector<AttentionRange>& ranges);
  Status FindLogits(const LayerArgs& args, const DeviceKv& rows,
                    const std::vector<AttentionRange>& ranges);
  Status AttendResident(const LayerArgs& args, const DeviceDocument::Layer& layer,
                        std::span<const Part> parts);
  Status AttendCached(const LayerArgs& args, std::span<const Part> parts);
  Status AttendCachedRows(const LayerArgs& args, DeviceDocument::Cache& cache, size_t begin,
                          size_t end);
  Status Bring(const LayerArgs& args, const DeviceKvRows& to);
  Status AttendStaged(const LayerArgs& args, std::span<const Part> parts);

  const std::shared_ptr<DeviceStream> stream_;
  const std::shared_ptr<DeviceDocument> document_;
  DeviceRowAttention rows_attention_;
  DeviceLookup lookup_;
  DeviceDocument::CodesUse tail_codes_;  // of the last lookup, until its tail was attended to

  KvStaging staging_;
  DeviceKvRows staged_;  // where layers do not stay
  std::vector<uint32_t> host_rows_;
  DeviceArray<uint32_t> rows_;  // chosen ones
  struct Entry {
    uint32_t head, row;  // row numbers of the head
  };
  std::vector<Entry> entries_, missing_;  // of a cache: that are read, and those to be brought
  std::vector<uint32_t> layer_rows_;      // of entries: numbers of all kv heads' rows
  std::vector<uint32_t> host_places_, gathered_;
  DeviceArray<uint32_t> places_;  // of the missing
  DeviceArray<KeyLogitsHead> logits_heads_;
  DeviceArray<float> logits_;
};

}  // namespace lectern

#endif  // LECTERN_ENGINE_DEVICE_ATTENTION_H_
