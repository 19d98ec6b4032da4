// Finds the rows that a few query rows should read, on a device: for a token of an answer
// (kernels/cuda/lookup/row_lookup.h), or for a question (question_lookup.h), and spends the budget
// of bytes there.
#ifndef LECTERN_ENGINE_GPU_LOOKUP_H_
#define LECTERN_ENGINE_GPU_LOOKUP_H_

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "engine/gpu/kv_rows.h"
#include "index/lookup.h"
#include "kernels/cuda/lookup/question_lookup.h"
#include "kernels/cuda/lookup/row_lookup.h"

namespace lectern {

// Row codes and finest centroids of a layer's heads. Immutable; thread-safe.
class DeviceCodes {
 public:
  // Whether all heads have clusters and row codes, so that codes can be brought, and none a metric
  // (index/query_metric.h), which the kernels do not apply: the host looks such documents up.
  static bool Has(std::span<const HeadIndex> heads);
  // Bytes of device memory that they take. Only where Has.
  static uint64_t Bytes(std::span<const HeadIndex> heads);
  // Verifies and brings them, through `staging` where it is given. Only where Has. Waits. nullptr:
  // a centroid that dtype() does not hold. kChecksumMismatch, kCorrupt, errors of DeviceArray and
  // Device::Check.
  static Result<std::unique_ptr<const DeviceCodes>> Bring(std::span<const HeadIndex> heads,
                                                          const Backend& backend,
                                                          DeviceStream& stream,
                                                          KvStaging* staging = nullptr);

  const DeviceRowCodes& view() const { return view_; }
  Dtype dtype() const { return dtype_; }  // of centroids, and so of queries
  // The tail: mean values of the groups, which are the clusters of the level above the finest (of
  // the finest where there is one level), of the rows' type, those of head h from entry h *
  // view().most_groups on. A source of attention but for its logits.
  DeviceKv tail() const { return tail_; }
  uint32_t num_groups(size_t head) const { return num_groups_[head]; }  // see tail()

 private:
  DeviceRowCodes view_;
  Dtype dtype_ = Dtype::kF16;
  DeviceArray<uint8_t> planes_, fine_planes_;
  DeviceArray<float> factors_, fine_factors_;
  DeviceArray<uint32_t> clusters_, places_;  // the second: all other numbers of view_
  DeviceArray<uint16_t> centroids_;
  DeviceKv tail_;
  std::vector<uint32_t> num_groups_;
  DeviceArray<float> deviations_;
  DeviceArray<std::byte> mean_values_;
  DeviceArray<f16> mean_value_scales_;  // of q8
};

// One thread at a time. Memory stays from call to call.
class DeviceLookup {
 public:
  // Shares the stream, borrows the backend, which rounds.
  DeviceLookup(std::shared_ptr<DeviceStream> stream, const Backend& backend)
      : stream_(std::move(stream)), backend_(backend) {}

  // How a budget (share of the layer's K and V bytes) is spent; every finest centroid is read.
  // nullopt: too little is left to rows.
  struct Share {
    uint32_t num_coded, num_refined, num_wanted;  // of all heads
    uint64_t bytes;                               // that are read in all, exact rows included
  };
  // Finds the share for so many query rows of a head, at most kMostLookupQueries, by the rules of
  // index/lookup.h.
  static std::optional<Share> ShareOfToken(std::span<const HeadIndex> heads, double kv_budget,
                                           bool tail, size_t num_query_rows);
  // Finds the share for a question. Every row code is read, because the products with a question's
  // many rows hide that time; the rest of the budget goes to rows and to four times as many fine
  // codes. Where too little would be left, row codes of the best clusters alone are read, by the
  // rules of index/lookup.h.
  static std::optional<Share> ShareOfQuestion(std::span<const HeadIndex> heads, double kv_budget,
                                              bool tail, size_t num_query_rows);

  // index/lookup.h's Lookup by its default rule, but that all finest clusters are looked up, and
  // that it is not known of which rows codes are read: of at most kMostLookupQueries rows as a
  // token's, of more as a question's. false, and nothing is found: it is for the host's Lookup, as
  // more than kMostChosenQueries rows choose, as there is another rule, budgets of heads, a bound
  // or a lookup without row codes, as centroids would leave less than a quarter of the budget to
  // rows and codes, or as there is no memory; after a lack of memory, lookups of as many query rows
  // or more are refused until TryAgain. Waits. Errors of Device::Check. HeadSelection::logit_tail
  // is empty: its content stays on the device until the next lookup.
  Result<bool> LookUp(const DeviceCodes& codes, const LookupArgs& args,
                      std::vector<HeadSelection>& selections);
  // Forgets for how many query rows there was no memory: others may have given some back.
  void TryAgain() { too_many_queries_ = SIZE_MAX; }
  // The tail of the last lookup that found something, on the device, as CudaCodesLookupArgs::tail
  // of these codes; holds until the next lookup. BringTail brings it into the selections of that
  // lookup, whose codes and arguments it takes again; it waits. Errors of Device::Check.
  const float* tail() const { return masses_.data() + num_masses_; }
  // Puts the tail of the last lookup into HeadSelection::logit_tail of `selections`, without
  // groups that are read whole; see tail(). Overwrites host_masses_.
  Status BringTail(const DeviceCodes& codes, const LookupArgs& args,
                   std::vector<HeadSelection>& selections);

  // Bytes of device memory that a lookup takes at most for tokens of such heads. Questions of some
  // hundred tokens, whose masses by row codes are not kept, take less.
  static uint64_t MostBytes(std::span<const HeadIndex> heads);

 private:
  // LookUp without its memory of earlier refusals: kOutOfMemory where there is no memory on the
  // device. Else its results and errors.
  Result<bool> TryLookUp(const DeviceCodes& codes, const LookupArgs& args,
                         std::vector<HeadSelection>& selections);
  // Lists the query rows that choose in host_choosing_, with their weights in host_weights_: in a
  // question those with a weight above 0, else all. Without args.row_weights each weighs 1 / rows.
  void FindChoosing(const LookupArgs& args, bool is_question);
  // Rounds the queries to codes.dtype() and uploads them, the known log-sum-exps, and what
  // FindChoosing listed. Enqueued from members, which must stay as they are until the stream was
  // waited for. Errors of DeviceArray.
  Status BringInputs(const DeviceCodes& codes, const LookupArgs& args);
  // Fills in one selection for each head from host_found_ and host_masses_, which were downloaded
  // and waited for: rows (numbers of stored rows), bytes, missed mass, and all finest clusters as
  // looked up. Bytes of codes are shared out by the heads' numbers of rows.
  void Select(const DeviceCodes& codes, const LookupArgs& args, const Share& share,
              std::vector<HeadSelection>& selections) const;

  const std::shared_ptr<DeviceStream> stream_;
  const Backend& backend_;
  // Query rows for which there was no room: asking again would drive out layers, for each of them.
  size_t too_many_queries_ = SIZE_MAX;
  std::vector<uint16_t> host_queries_;  // of all heads, one after the other
  // Rows that choose, with an LSE, and what they count: of a token all.
  std::vector<uint32_t> host_choosing_;
  std::vector<float> host_weights_;
  std::vector<float> host_known_;  // LSEs
  DeviceArray<uint16_t> queries_;
  DeviceArray<uint32_t> choosing_;
  DeviceArray<float> weights_, known_, scratch_;
  DeviceArray<uint32_t> found_;  // counts, rows
  DeviceArray<float> masses_;    // LSEs; those of the tails; and, from num_masses_ on, the tails
  size_t num_masses_ = 0;
  std::vector<uint32_t> host_found_;
  std::vector<float> host_masses_;
};

}  // namespace lectern

#endif  // LECTERN_ENGINE_GPU_LOOKUP_H_
