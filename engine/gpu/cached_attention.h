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
  // chosen ones or sinks and window. Waits. Args::observed is emptied first, and stays empty where
  // there is no memory for it. Errors of DeviceDocument::UseLayer and UseCache, and kOutOfMemory.
  Status Attend(const Args& args, std::span<const Part> parts) override;
  // Waits. Brings the tail into the selections where more query rows attend than a launch takes
  // (kMostDeviceQueryRows).
  Status AttendTail(const Args& args, const LookupArgs& lookup,
                    std::vector<HeadSelection>& selections) override;
  // Brings all rows of the layer if they are not there. Waits. Errors as Attend's.
  Status AttendWindow(const Args& args, uint64_t first_position, uint32_t window) override;

  // Tries lookups again that were refused for want of memory.
  void TryAgain() { lookup_.TryAgain(); }
  const DeviceDocument& document() const { return *document_; }
  // For DeviceStep, which fills it on the same stream, between calls of Attend.
  KvStaging& staging() { return staging_; }

 private:
  // FindLogits where args.observed is wanted; where there is no memory for it, leaves
  // args.observed empty and succeeds.
  Status Observe(const Args& args, const DeviceKv& rows,
                 const std::vector<AttentionRange>& ranges);
  // Fills args.observed with the logits of the last token's query rows, per kv head [query
  // group][rows of the range]; for a head without a range nothing. `ranges` are entries of `rows`;
  // if a head has several, args.observed is left as it is. Needs the queries of BringQueries.
  // Waits. kOutOfMemory, errors of Device::Check.
  Status FindLogits(const Args& args, const DeviceKv& rows,
                    const std::vector<AttentionRange>& ranges);
  // Attends to the parts of a layer that is on the device, and observes. Either all parts have
  // chosen rows (asserted), whose numbers are then uploaded in one list, or none has. Needs the
  // queries of BringQueries, as the functions below do. Errors of Attend.
  Status AttendResident(const Args& args, const DeviceDocument::Layer& layer,
                        std::span<const Part> parts);
  // Attends to the parts' rows by way of the document's cache, which it holds meanwhile, as many
  // rows at a time as it has slots. The rows that are left go to AttendStaged: all where there is
  // no cache or it would be filled more than 8 times, the rest where memory ran out (the cache is
  // then given back). Overwrites entries_ and missing_. Errors of Attend.
  Status AttendCached(const Args& args, std::span<const Part> parts);
  // Attends to entries_ [begin, end), at most as many as the cache has slots: finds or places each
  // row, brings those that are missing (then in missing_), and observes if these are all entries.
  // After an error the rows that were placed are forgotten; after kOutOfMemory nothing was added
  // to the states.
  Status AttendCachedRows(const Args& args, DeviceDocument::Cache& cache, size_t begin,
                          size_t end);
  // Copies the rows of missing_ from the host to the slots host_places_ of `to`, through staged_,
  // as many at a time as it has room for. Enqueued in part; none missing: does nothing.
  // kOutOfMemory, kChecksumMismatch, errors of Device::Check.
  Status Bring(const Args& args, const DeviceKvRows& to);
  // Attends to rows that are brought into staged_ for this call alone, as many at a time as there
  // is room for. Observes nothing. kOutOfMemory, kChecksumMismatch, errors of Device::Check.
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
