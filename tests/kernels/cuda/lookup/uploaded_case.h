// Brings a case of a lookup by codes to the device and its result back, for the tests of row_lookup.h
// and question_lookup.h: both take the same codes and queries, and find the same kinds of things.
#ifndef LECTERN_TESTS_KERNELS_CUDA_LOOKUP_UPLOADED_CASE_H_
#define LECTERN_TESTS_KERNELS_CUDA_LOOKUP_UPLOADED_CASE_H_

#include <vector>

#include "index/row_codes.h"
#include "kernels/cuda/lookup/row_select.h"
#include "tests/kernels/cuda/cuda_case.h"
#include "tests/kernels/cuda/lookup/cut_of_lookup.h"

namespace lectern {

// The result of a lookup, as CudaCodesLookupArgs has it, but for `rows`: as their head counts them.
struct FoundRows {
  std::vector<uint32_t> rows, counts;
  std::vector<float> lse, tail, tail_lse;
  bool operator==(const FoundRows&) const = default;
};

// `Case`: RowLookupCase or QuestionCase, which stays as it is while this lives.
template <typename Case>
class UploadedCase {
 public:
  // `group`: query heads of a kv head. Of its `num_queries` query rows `num_choosing` choose.
  UploadedCase(CudaTest& test, const Case& of, size_t group, size_t num_queries,
               size_t num_choosing, uint32_t num_wanted)
      : test_(test),
        of_(of),
        group_(group),
        num_wanted_(num_wanted),
        cut_(test, static_cast<uint32_t>(of.num_heads()), num_wanted, of.most_groups),
        rows_(test.Make<uint32_t>(num_wanted)),
        counts_(test.Make<uint32_t>(of.num_heads())),
        lse_(test.Make<float>(of.num_heads() * num_choosing)),
        tail_(test.Make<float>(of.num_heads() * num_queries * of.most_groups)),
        tail_lse_(test.Make<float>(of.num_heads() * num_choosing)) {}

  const float* weights() const { return weights_.data(); }

  // Sets everything that lookups share, but for `scratch`.
  void Set(CudaCodesLookupArgs& args, uint32_t num_coded, uint32_t num_refined) const {
    const auto heads = static_cast<uint32_t>(of_.num_heads());
    args.codes = {.planes = planes_.data(),
                  .factors = factors_.data(),
                  .fine_planes = fine_planes_.data(),
                  .fine_factors = fine_factors_.data(),
                  .clusters = clusters_.data(),
                  .row_begin = row_begin_.data(),
                  .num_rows = num_rows_.data(),
                  .group_begin = group_begin_.data(),
                  .group_clusters = group_clusters_.data(),
                  .centroids = centroids_.data(),
                  .cluster_begin = cluster_begin_.data(),
                  .cluster_end = cluster_end_.data(),
                  .deviations = of_.has_deviations ? deviations_.data() : nullptr,
                  .rotation = rotation_.data(),
                  .num_kv_heads = heads,
                  .most_rows = of_.most_rows,
                  .most_groups = of_.most_groups,
                  .most_clusters = of_.most_clusters,
                  .all_rows = of_.all_rows,
                  .plane_bytes = static_cast<uint32_t>(of_.plane_bytes())};
    args.queries = {.data = queries_.data(),
                    .dtype = of_.dtype,
                    .stride = of_.query_stride(),
                    .num_tokens = static_cast<uint32_t>(of_.num_tokens),
                    .num_kv_heads = heads,
                    .group = static_cast<uint32_t>(group_),
                    .head_dim = static_cast<uint32_t>(of_.dim)};
    args.scale = of_.scale;
    args.softcap = of_.softcap;
    args.known_lse = of_.has_known ? known_.data() : nullptr;
    args.num_coded = num_coded;
    args.num_refined = num_refined;
    args.num_wanted = num_wanted_;
    args.first_row = of_.has_known ? first_row_.data() : nullptr;
    args.rows = rows_.data();
    args.counts = counts_.data();
    args.lse = lse_.data();
    args.tail = tail_.data();
    args.tail_lse = tail_lse_.data();
    args.cut = cut_.Args(args.counts);
  }

  // The result of a lookup with these arguments. Checks its items, too.
  FoundRows Found() const {
    FoundRows found = {test_.Download(rows_), test_.Download(counts_), test_.Download(lse_),
                       test_.Download(tail_), test_.Download(tail_lse_)};
    cut_.Check(test_, found.counts);
    size_t at = 0;
    for (size_t h = 0; h < of_.num_heads(); ++h) {
      for (uint32_t i = 0; i < found.counts[h] && at < found.rows.size(); ++i, ++at) {
        if (of_.has_known) found.rows[at] -= of_.first_row[h];
      }
    }
    return found;
  }

 private:
  using Words = DeviceBuffer<uint32_t>;
  using Floats = DeviceBuffer<float>;

  CudaTest& test_;
  const Case& of_;
  const size_t group_;
  const uint32_t num_wanted_;
  const DeviceBuffer<uint8_t> planes_ = test_.Upload(of_.planes);
  const DeviceBuffer<uint8_t> fine_planes_ = test_.Upload(of_.fine_planes);
  const Floats factors_ = test_.Upload(of_.factors), known_ = test_.Upload(of_.known);
  const Floats fine_factors_ = test_.Upload(of_.fine_factors);
  const Floats deviations_ = test_.Upload(of_.deviations), weights_ = test_.Upload(of_.weights);
  const Words rotation_ = test_.Upload(RotationSigns(of_.dim));
  const DeviceBuffer<uint16_t> queries_ = test_.Upload(of_.queries);
  const DeviceBuffer<uint16_t> centroids_ = test_.Upload(of_.centroids);
  const Words clusters_ = test_.Upload(of_.clusters), row_begin_ = test_.Upload(of_.row_begin);
  const Words num_rows_ = test_.Upload(of_.num_rows), first_row_ = test_.Upload(of_.first_row);
  const Words group_begin_ = test_.Upload(of_.group_begin);
  const Words group_clusters_ = test_.Upload(of_.group_clusters);
  const Words cluster_begin_ = test_.Upload(of_.cluster_begin);
  const Words cluster_end_ = test_.Upload(of_.cluster_end);
  const CutOfLookup cut_;
  const Words rows_, counts_;
  const Floats lse_, tail_, tail_lse_;
};

}  // namespace lectern

#endif  // LECTERN_TESTS_KERNELS_CUDA_LOOKUP_UPLOADED_CASE_H_
