// The last kernels of a question's lookup: they find for each group the mass of the rows that are
// not listed.
#include "kernels/cuda/lookup/question_lookup.cuh"

namespace lectern {
namespace {

// The listed ones among refined rows [begin, end): their number, and their masses at two columns.
struct ReadRows {
  uint32_t count;
  float masses[2];
};
// A warp looks at 32 refined rows at a time and finds the listed ones by their scores, which are
// below 0. Masses are loaded four rows at a time, so that loads overlap.
__device__ __forceinline__ ReadRows SumListed(const QuestionPass& pass, uint32_t head,
                                              uint32_t begin, uint32_t end, uint32_t column) {
  constexpr uint32_t kAtOnce = 4;
  const uint32_t lane = threadIdx.x % kWarpSize;
  const float* const scores = ScoresOf(pass, head);
  const float* const masses =
      pass.fine_masses + size_t{pass.refined_begin[head]} * pass.num_columns + column;
  ReadRows read = {};
  for (uint32_t first = begin; first < end; first += kWarpSize) {
    const uint32_t row = first + lane < end ? RefinedOf(pass, head)[first + lane] : 0;
    uint32_t listed = __ballot_sync(kAllLanes, first + lane < end && scores[row] < 0);
    read.count += static_cast<uint32_t>(__popc(listed));
    while (listed != 0) {
      float2 of_rows[kAtOnce];
#pragma unroll
      for (uint32_t i = 0; i < kAtOnce; ++i) {
        const int next = __ffs(static_cast<int>(listed)) - 1;
        of_rows[i] = float2{0, 0};
        if (next >= 0 && column < pass.num_columns) {
          of_rows[i] = *reinterpret_cast<const float2*>(
              masses + size_t{first + static_cast<uint32_t>(next)} * pass.num_columns);
        }
        listed &= listed - 1;
      }
#pragma unroll
      for (uint32_t i = 0; i < kAtOnce; ++i) {
        read.masses[0] += of_rows[i].x;
        read.masses[1] += of_rows[i].y;
      }
    }
  }
  return read;
}

// A group, by a warp: what is left of it at each column, and the log of the share that is.
__device__ __forceinline__ void FindLeft(const QuestionPass& pass, uint32_t head, uint32_t group,
                                         uint32_t begin, uint32_t end, float* lefts, float* share) {
  const CudaQuestionLookupArgs& args = pass.lookup;
  const uint32_t* const rows = args.codes.group_begin + GroupOf(args.codes, head, group);
  const float* const coded =
      pass.coded + (size_t{head} * args.codes.most_groups + group) * pass.num_columns;
  float left = 0, all = 0;
  bool has_left = false;
  for (uint32_t first = 0; first < pass.num_columns; first += 2 * kWarpSize) {
    const uint32_t column = first + 2 * (threadIdx.x % kWarpSize);
    const ReadRows read = SumListed(pass, head, begin, end, column);
    has_left = read.count < rows[1] - rows[0];
#pragma unroll
    for (uint32_t i = 0; i < 2; ++i) {
      if (column + i >= pass.num_columns) continue;
      const float mass = coded[column + i];
      // A sum of all less those that are read: never less than its rounding, never nothing.
      const float unread =
          has_left ? fmaxf(fmaxf(mass - read.masses[i], 0x1p-24f * mass), kNoQuestionMass) : 0;
      lefts[column + i] = unread;
      if (column + i >= args.num_chosen) continue;
      left += args.weights[column + i] * unread;
      all += args.weights[column + i] * fmaxf(mass, unread);
    }
  }
  left = LaneSum<kWarpSize>(left);
  all = LaneSum<kWarpSize>(all);
  if (threadIdx.x % kWarpSize > 0) return;
  *share = !has_left ? NegativeInfinity() : all > 0 ? logf(fminf(left / all, 1.0f)) : 0;
}

// A part's groups.
__global__ __launch_bounds__(kRowThreads,
                             kRowBlocks) void QuestionTailKernel(const QuestionPass pass) {
  WaitForEarlierKernels();
  if (IsToCut(pass.lookup)) return;
  const CudaQuestionLookupArgs& args = pass.lookup;
  const uint32_t most_groups = args.codes.most_groups;
  const uint32_t head = blockIdx.y, first_group = blockIdx.x * kQuestionGroups;
  const uint32_t num_groups = min(kQuestionGroups, most_groups - first_group);
  auto* const places = reinterpret_cast<uint32_t*>(MoreShared());  // [kQuestionGroups + 1]
  auto* const shares = reinterpret_cast<float*>(places + kQuestionGroups + 4);
  float* const lefts = shares + kQuestionGroups;  // [kQuestionGroups][num_columns]
  if (threadIdx.x <= num_groups) {
    const uint32_t at = GroupOf(args.codes, head, first_group + threadIdx.x);
    places[threadIdx.x] = RefinedBelow(pass, head, args.codes.group_begin[at]);
  }
  __syncthreads();
  for (uint32_t g = threadIdx.x / kWarpSize; g < num_groups; g += kRowWarps) {
    FindLeft(pass, head, first_group + g, places[g], places[g + 1], lefts + g * pass.num_columns,
             shares + g);
  }
  __syncthreads();
  float* const tail = args.tail + size_t{head} * pass.num_queries * most_groups + first_group;
  const uint32_t of_thread = threadIdx.x % kQuestionGroups;
  constexpr uint32_t kAtOnce = 8, kRows = kRowThreads / kQuestionGroups;
  for (uint32_t first = threadIdx.x / kQuestionGroups; first < pass.num_queries;
       first += kAtOnce * kRows) {
    float of_rows[kAtOnce];
#pragma unroll
    for (uint32_t i = 0; i < kAtOnce; ++i) {
      const uint32_t row = first + i * kRows;
      const bool is_one = row < pass.num_queries && of_thread < num_groups;
      of_rows[i] = is_one ? tail[size_t{row} * most_groups + of_thread] : 0;
    }
#pragma unroll
    for (uint32_t i = 0; i < kAtOnce; ++i) {
      const uint32_t row = first + i * kRows;
      if (row >= pass.num_queries || of_thread >= num_groups) continue;
      tail[size_t{row} * most_groups + of_thread] = of_rows[i] + shares[of_thread];
    }
  }
  __syncthreads();
  // Those that choose have what they found themselves.
  const float* const references = pass.references + size_t{head} * pass.num_columns;
  for (uint32_t c = threadIdx.x / kQuestionGroups; c < args.num_chosen;
       c += kRowThreads / kQuestionGroups) {
    if (of_thread >= num_groups) continue;
    const float left = lefts[of_thread * pass.num_columns + c];
    tail[size_t{args.chosen[c]} * most_groups + of_thread] =
        left > 0 ? references[c] + logf(left) : NegativeInfinity();
  }
  if (args.tail_lse == nullptr) return;
  for (uint32_t c = threadIdx.x; c < args.num_chosen; c += kRowThreads) {
    float sum = 0;
    for (uint32_t g = 0; g < num_groups; ++g) sum += lefts[g * pass.num_columns + c];
    pass.part_sum[(size_t{head} * pass.num_parts + blockIdx.x) * pass.num_columns + c] = sum;
  }
  if (!IsLastBlock(pass.counters + head, gridDim.x, &Shared().is_last)) return;
  for (uint32_t c = threadIdx.x; c < args.num_chosen; c += kRowThreads) {
    const float* const parts = pass.part_sum + size_t{head} * pass.num_parts * pass.num_columns + c;
    float sum = 0;
#pragma unroll 8
    for (uint32_t p = 0; p < pass.num_parts; ++p) {
      sum += __ldcg(parts + size_t{p} * pass.num_columns);
    }
    args.tail_lse[size_t{head} * args.num_chosen + c] =
        sum > 0 ? references[c] + logf(sum) : NegativeInfinity();
  }
}

}  // namespace

CudaStatus LaunchQuestionTail(CudaStreamHandle* stream, const CudaGrid& grid,
                              const CudaQuestionLookupPass& pass) {
  return Launch(stream, grid, "question_tail", QuestionTailKernel, pass);
}

}  // namespace lectern
