// Lets a step's query rows attend to rows of the document on a device. It is the part of
// engine/attention/document_attention.h that reads keys and values, for steps of which only parts
// run on the device (engine/gpu/step.h runs whole ones): when not all rows of the document stay
// there, or when something watches a layer. The rows to read are chosen on the device, too
// (engine/gpu/lookup.h), and the mean values that stand for the others are attended to, as far as
// there is room.
#ifndef LECTERN_ENGINE_GPU_CACHED_ATTENTION_H_
#define LECTERN_ENGINE_GPU_CACHED_ATTENTION_H_

#include <memory>
#include <span>
#include <vector>

#include "engine/attention/stored_rows.h"
#include "engine/gpu/resident_document.h"
#include "engine/gpu/row_attention.h"
#include "index/lookup.h"
#include "kernels/backend.h"
#include "kernels/cuda/attention/key_logits.h"

namespace lectern {

// One session's; one thread at a time. Device memory stays from call to call.
class DeviceAttention final : public StoredRows {
 public:
  // Shares stream and document, borrows the backend, which rounds.
  DeviceAttention(std::shared_ptr<DeviceStream> stream, std::shared_ptr<DeviceDocument> document,
                  const Backend& backend)
      : stream_(std::move(stream)),
        document_(std::move(document)),
        rows_attention_(stream_, backend),
        lookup_(stream_, backend) {}

  // DeviceLookup::LookUp, where the layer's codes are there; else false. Errors of
  // DeviceDocument::UseCodes too. Keeps the codes for AttendTail, until it or the next LookUp.
  Result<bool> LookUp(uint32_t layer, const LookupArgs& args,
                      std::vector<HeadSelection>& selections) override;
  // Rows that are not on the device are brought, by way of the document's cache where they are
  // chosen ones. Waits. Args::observed is emptied first, and stays empty where there is no memory
  // for it. Errors of DeviceDocument::UseLayer and UseCache, and kOutOfMemory.
  Status Attend(const Args& args, std::span<const Part> parts) override;
  // Waits. Brings the tail into the selections where more query rows attend than a launch takes
  // (kMostDeviceQueryRows).
  Status AttendTail(const Args& args, const LookupArgs& lookup,
                    std::vector<HeadSelection>& selections) override;
  // Brings all rows of the layer if they are not there. Waits. Errors as Attend's.
  Status AttendWindow(const Args& args, uint64_t first_position, uint32_t window) override;

  const DeviceDocument& document() const { return *document_; }
  KvStaging& staging() { return staging_; }

 private:
  Status Observe(const Args& args, const DeviceKv& rows,
                 const std::vector<AttentionRange>& ranges);
  Status FindLogits(const Args& args, const DeviceKv& rows,
                    const std::vector<AttentionRange>& ranges);
  Status AttendResident(const Args& args, const DeviceDocument::Layer& layer,
                        std::span<const Part> parts);
  Status AttendCached(const Args& args, std::span<const Part> parts);
  Status AttendCachedRows(const Args& args, DeviceDocument::Cache& cache, size_t begin,
                          size_t end);
  Status Bring(const Args& args, const DeviceKvRows& to);
  Status AttendStaged(const Args& args, std::span<const Part> parts);

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

#endif  // LECTERN_ENGINE_GPU_CACHED_ATTENTION_H_
