// Chooses the clusters whose rows a question's lookup codes, where not all rows are coded;
// row_clusters.cu does the same for a token.
#include "kernels/cuda/lookup/question_lookup.cuh"

namespace lectern {
namespace {

// Scores a head's clusters, each by a warp, and counts by score how many rows they have.
__global__ __launch_bounds__(kRowThreads,
                             kRowBlocks) void ClusterScoresKernel(const QuestionPass pass) {
  WaitForEarlierKernels();
  const CudaQuestionLookupArgs& args = pass.lookup;
  const DeviceRowCodes& codes = args.codes;
  const uint32_t head = blockIdx.y, num_clusters = NumClusters(codes, head);
  const uint32_t lane = threadIdx.x % kWarpSize, warp = threadIdx.x / kWarpSize;
  // Norm, reference times log2(e) and weight of each column.
  auto* const columns = reinterpret_cast<float4*>(MoreShared() + kCountBytes);
  for (uint32_t c = threadIdx.x; c < args.num_chosen; c += kRowThreads) {
    const size_t at = size_t{head} * pass.num_columns + c;
    columns[c] = float4{pass.norms[at], pass.references[at] * kLog2E, args.weights[c], 0};
  }
  uint32_t* const counts = ClearCounts(MoreShared());
  for (uint32_t cluster = blockIdx.x * kRowWarps + warp; cluster < num_clusters;
       cluster += gridDim.x * kRowWarps) {
    const size_t at = size_t{head} * codes.most_clusters + cluster;
    const float* const logits = pass.centroid_logits + at * pass.num_columns;
    const ClusterKeys keys = KeysOf(codes, head, cluster);
    float score = 0;
    Strided<4>(
        lane, args.num_chosen, kWarpSize, [&](uint32_t c) { return logits[c]; },
        [&](uint32_t c, float logit) {
          const float4 column = columns[c];
          score += column.z * KeyMass(pass, keys, logit, column.x, column.y);
        });
    score = ToScore(LaneSum<kWarpSize>(score));
    if (lane > 0) continue;
    pass.cluster_scores[at] = score;
    atomicAdd(counts + BucketOf(score),
              ClusterRowsEnd(codes, head, cluster) - ClusterRowsBegin(codes, head, cluster));
  }
  AddCounts(pass.clusters, gridDim.x * gridDim.y, counts);
}

// Finds, tile by tile of clusters and head after head, the first rows of each cluster that are
// coded.
__global__ __launch_bounds__(kRowThreads, kRowBlocks) void CodedKernel(const QuestionPass pass) {
  WaitForEarlierKernels();
  const DeviceRowCodes& codes = pass.lookup.codes;
  const uint32_t tiles = SlotTiles(codes.most_clusters), tile = TakeTile(pass.clusters);
  const uint32_t head = tile / tiles;
  const uint32_t first = tile % tiles * kRowTile + threadIdx.x * kRowsPerThread;
  const size_t of_head = size_t{head} * codes.most_clusters;
  uint32_t sizes[kRowsPerThread];
  const BestRows best = FindBestClusters(codes, pass.clusters, tile, head, first,
                                         pass.cluster_scores + of_head, sizes);
#pragma unroll
  for (uint32_t i = 0; i < kRowsPerThread; ++i) {
    if (first + i >= NumClusters(codes, head)) continue;
    pass.coded_end[of_head + first + i] =
        ClusterRowsEnd(codes, head, first + i) - (sizes[i] - best.taken[i]);
  }
}

}  // namespace

CudaStatus LaunchQuestionClusterScores(CudaStreamHandle* stream, const CudaGrid& grid,
                                       const CudaQuestionLookupPass& pass) {
  return Launch(stream, grid, "question_cluster_scores", ClusterScoresKernel, pass);
}
CudaStatus LaunchQuestionCoded(CudaStreamHandle* stream, const CudaGrid& grid,
                               const CudaQuestionLookupPass& pass) {
  return Launch(stream, grid, "question_coded", CodedKernel, pass);
}

}  // namespace lectern
