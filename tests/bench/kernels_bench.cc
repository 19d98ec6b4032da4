// Throughput of the kernels, beside what the machine can do at best:
//   kernels_bench --benchmark_filter=MatMul
// LECTERN_BACKEND chooses the backend, and KERNELS_BENCH_AVX2=1 holds it to AVX2. GFLOP/s counts a
// multiply-add as two.
#include <benchmark/benchmark.h>
#include <hwy/targets.h>

#include <cstdlib>
#include <random>
#include <vector>

#include "kernels/backend.h"

namespace lectern {
namespace {

// Before the first kernel runs, which chooses the instruction set.
const bool holds_avx2 = [] {
  const bool holds = std::getenv("KERNELS_BENCH_AVX2") != nullptr;
  if (holds) hwy::DisableTargets(HWY_AVX3 | HWY_AVX3_DL);
  return holds;
}();

std::vector<float> RandomFloats(size_t count, unsigned seed) {
  std::mt19937 engine(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(count);
  for (float& value : values) value = normal(engine);
  return values;
}

// Random rows as stored.
struct Stored {
  Stored(size_t num_rows, size_t num_cols, Dtype dtype, unsigned seed)
      : bytes(num_rows * RowBytes(dtype, num_cols)), rows{bytes.data(), dtype, num_rows, num_cols} {
    std::vector<float> values = RandomFloats(num_rows * num_cols, seed);
    FromFloatRowsScalar(Rows<const float>(values.data(), num_rows, num_cols), dtype, bytes.data());
  }
  std::vector<std::byte> bytes;
  TypedRows rows;
};

void Report(benchmark::State& state, double flops, double bytes) {
  using benchmark::Counter;
  state.counters["GFLOP/s"] = Counter(flops * 1e-9, Counter::kIsIterationInvariantRate);
  state.counters["GB/s"] = Counter(bytes * 1e-9, Counter::kIsIterationInvariantRate);
}

void BM_MatMul(benchmark::State& state, size_t num_rows, Dtype dtype, size_t side = 2048) {
  const Stored weight(side, side, dtype, 2);
  const std::vector<float> input = RandomFloats(num_rows * side, 1);
  std::vector<float> output(num_rows * side), scratch(MatMulScratch(side));
  const MatMulArgs args = {.input = Rows<const float>(input.data(), num_rows, side),
                           .weight = weight.rows,
                           .output = Rows<float>(output.data(), num_rows, side),
                           .column_begin = 0,
                           .column_end = side,
                           .accumulate = false,
                           .scratch = scratch};
  for (auto _ : state) DefaultBackend()->matmul(args);
  Report(state, 2.0 * static_cast<double>(num_rows * side * side),
         static_cast<double>(weight.bytes.size()));
}

constexpr size_t kPackedSide = 2048;  // weights [2048, 2048]

// Where the engine keeps them: at a multiple of 64.
struct PackedWeights {
  explicit PackedWeights(PackedType type) : rows{nullptr, type, kPackedSide, kPackedSide} {
    bytes.resize(rows.bytes() + 64);
    aligned = bytes.data() + (64 - reinterpret_cast<uintptr_t>(bytes.data()) % 64) % 64;
    rows.Set(aligned);
  }
  template <typename Pack>
  void FillPanels(const Pack& pack) {
    for (size_t panel = 0; panel < rows.num_panels(); ++panel) {
      pack(panel * kPackedColumns, aligned + panel * rows.panel_bytes());
    }
  }
  std::vector<std::byte> bytes;
  std::byte* aligned;
  PackedRows rows;
};

// Quantising the input is part of it.
void MultiplyPacked(benchmark::State& state, size_t num_rows, const PackedRows& weight) {
  constexpr size_t kSide = kPackedSide;
  const std::vector<float> input = RandomFloats(num_rows * kSide, 1);
  Int8Buffer rounded(input.size());
  std::vector<float> output(num_rows * kSide);
  const QuantiseRowsArgs quantise = rounded.Args(Rows<const float>(input.data(), num_rows, kSide));
  PackedMatMulArgs args = {.input = rounded.rows(num_rows, kSide),
                           .weight = weight,
                           .output = Rows<float>(output.data(), num_rows, kSide),
                           .column_begin = 0,
                           .column_end = 0,
                           .accumulate = false};
  for (auto _ : state) {
    DefaultBackend()->quantise_rows(quantise);
    for (size_t column = 0; column < kSide; column += 64) {  // as the engine hands them out
      args.column_begin = column, args.column_end = column + 64;
      DefaultBackend()->packed_matmul(args);
    }
  }
  Report(state, 2.0 * static_cast<double>(num_rows * kSide * kSide),
         static_cast<double>(weight.bytes()));
}

void BM_MatMulPacked(benchmark::State& state, size_t num_rows, PackedType type) {
  std::vector<float> values = RandomFloats(kPackedSide * kPackedSide, 2);
  const Rows<const float> rows(values.data(), kPackedSide, kPackedSide);
  PackedWeights weights(type == PackedType::kQ8Planes ? PackedType::kQ8 : type);
  weights.FillPanels([&](size_t begin, std::byte* panel) {
    PackPanel(rows.Slice(begin, begin + kPackedColumns), weights.rows.type, panel);
  });
  if (type != PackedType::kQ8Planes) return MultiplyPacked(state, num_rows, weights.rows);
  PackedWeights planes(type);
  for (size_t panel = 0; panel < planes.rows.num_panels(); ++panel) {
    std::byte* const low = planes.aligned + (planes.rows.low - planes.rows.data);
    SplitPanel(weights.rows.data + panel * weights.rows.panel_bytes(), kPackedSide,
               planes.aligned + panel * planes.rows.panel_bytes(),
               low + panel * planes.rows.low_panel_bytes());
  }
  MultiplyPacked(state, num_rows, planes.rows);
}

// Where the scale of a block lies, an f16, followed by that of mins where there is one.
size_t ScaleAt(TensorType type) {
  if (type == TensorType::kQ6_K || type == TensorType::kQ3_K) return BlockBytes(type) - 2;
  return type == TensorType::kQ2_K ? BlockBytes(type) - 4 : 0;
}

// Blocks of GGUF files: of random bits, but for the scales.
void BM_MatMulBlocks(benchmark::State& state, size_t num_rows, TensorType type) {
  TensorRows rows = {nullptr, type, kPackedSide, kPackedSide};
  std::vector<std::byte> blocks(kPackedSide * rows.row_bytes());
  rows.data = blocks.data();
  std::mt19937 random(2);
  for (std::byte& byte : blocks) byte = static_cast<std::byte>(random());
  const std::byte scale[] = {std::byte{0}, std::byte{0x20}};  // 2^-7
  for (size_t at = 0; at < blocks.size(); at += BlockBytes(type)) {
    std::byte* const first = &blocks[at + ScaleAt(type)];
    if (type == TensorType::kMXFP4) {
      *first = std::byte{121};  // 2^-7
      continue;
    }
    std::copy_n(scale, 2, first);
    if (ScaleAt(type) + 4 <= BlockBytes(type)) std::copy_n(scale, 2, first + 2);
  }
  PackedWeights weights(PackedTypeOf(type));
  weights.FillPanels([&](size_t begin, std::byte* panel) {
    if (!PackBlocks(rows.Slice(begin, begin + kPackedColumns), panel)) std::abort();
  });
  MultiplyPacked(state, num_rows, weights.rows);
}
BENCHMARK_CAPTURE(BM_MatMul, M1_f32, 1, Dtype::kF32);
BENCHMARK_CAPTURE(BM_MatMul, M1_f16, 1, Dtype::kF16);
BENCHMARK_CAPTURE(BM_MatMul, M1_f16_1536, 1, Dtype::kF16, 1536);
BENCHMARK_CAPTURE(BM_MatMul, M1_f16_4000, 1, Dtype::kF16, 4000);
BENCHMARK_CAPTURE(BM_MatMul, M1_bf16, 1, Dtype::kBf16);
BENCHMARK_CAPTURE(BM_MatMul, M4_bf16, 4, Dtype::kBf16);
BENCHMARK_CAPTURE(BM_MatMul, M16_f32, 16, Dtype::kF32);
BENCHMARK_CAPTURE(BM_MatMul, M16_bf16, 16, Dtype::kBf16);
BENCHMARK_CAPTURE(BM_MatMul, M512_f32, 512, Dtype::kF32);
BENCHMARK_CAPTURE(BM_MatMul, M512_bf16, 512, Dtype::kBf16);
BENCHMARK_CAPTURE(BM_MatMulPacked, M1_q8, 1, PackedType::kQ8);
BENCHMARK_CAPTURE(BM_MatMulPacked, M1_q4, 1, PackedType::kQ4);
BENCHMARK_CAPTURE(BM_MatMulPacked, M8_q8, 8, PackedType::kQ8);
BENCHMARK_CAPTURE(BM_MatMulPacked, M16_q8, 16, PackedType::kQ8);
BENCHMARK_CAPTURE(BM_MatMulPacked, M16_q4, 16, PackedType::kQ4);
BENCHMARK_CAPTURE(BM_MatMulBlocks, M8_Q6_K, 8, TensorType::kQ6_K);
BENCHMARK_CAPTURE(BM_MatMulBlocks, M16_Q6_K, 16, TensorType::kQ6_K);
BENCHMARK_CAPTURE(BM_MatMulBlocks, M16_Q3_K, 16, TensorType::kQ3_K);
BENCHMARK_CAPTURE(BM_MatMulBlocks, M16_IQ4_NL, 16, TensorType::kIQ4_NL);
BENCHMARK_CAPTURE(BM_MatMulPacked, M8_planes, 8, PackedType::kQ8Planes);
BENCHMARK_CAPTURE(BM_MatMulPacked, M16_planes, 16, PackedType::kQ8Planes);
BENCHMARK_CAPTURE(BM_MatMulPacked, M64_q8, 64, PackedType::kQ8);
BENCHMARK_CAPTURE(BM_MatMulPacked, M512_q8, 512, PackedType::kQ8);
BENCHMARK_CAPTURE(BM_MatMulPacked, M64_q4, 64, PackedType::kQ4);
BENCHMARK_CAPTURE(BM_MatMulPacked, M512_q4, 512, PackedType::kQ4);
// Q8_0 and Q5_0 are q8, Q4_0 is q4.
BENCHMARK_CAPTURE(BM_MatMulBlocks, M1_Q4_1, 1, TensorType::kQ4_1);
BENCHMARK_CAPTURE(BM_MatMulBlocks, M1_Q5_1, 1, TensorType::kQ5_1);
BENCHMARK_CAPTURE(BM_MatMulBlocks, M1_Q4_K, 1, TensorType::kQ4_K);
BENCHMARK_CAPTURE(BM_MatMulBlocks, M1_Q5_K, 1, TensorType::kQ5_K);
BENCHMARK_CAPTURE(BM_MatMulBlocks, M1_Q6_K, 1, TensorType::kQ6_K);
BENCHMARK_CAPTURE(BM_MatMulBlocks, M512_Q4_1, 512, TensorType::kQ4_1);
BENCHMARK_CAPTURE(BM_MatMulBlocks, M512_Q5_1, 512, TensorType::kQ5_1);
BENCHMARK_CAPTURE(BM_MatMulBlocks, M512_Q4_K, 512, TensorType::kQ4_K);
BENCHMARK_CAPTURE(BM_MatMulBlocks, M512_Q5_K, 512, TensorType::kQ5_K);
BENCHMARK_CAPTURE(BM_MatMulBlocks, M512_Q6_K, 512, TensorType::kQ6_K);
BENCHMARK_CAPTURE(BM_MatMulBlocks, M1_Q2_K, 1, TensorType::kQ2_K);
BENCHMARK_CAPTURE(BM_MatMulBlocks, M1_Q3_K, 1, TensorType::kQ3_K);
BENCHMARK_CAPTURE(BM_MatMulBlocks, M1_IQ4_NL, 1, TensorType::kIQ4_NL);
BENCHMARK_CAPTURE(BM_MatMulBlocks, M1_IQ4_XS, 1, TensorType::kIQ4_XS);
BENCHMARK_CAPTURE(BM_MatMulBlocks, M1_MXFP4, 1, TensorType::kMXFP4);
BENCHMARK_CAPTURE(BM_MatMulBlocks, M512_Q2_K, 512, TensorType::kQ2_K);
BENCHMARK_CAPTURE(BM_MatMulBlocks, M512_Q3_K, 512, TensorType::kQ3_K);
BENCHMARK_CAPTURE(BM_MatMulBlocks, M512_IQ4_NL, 512, TensorType::kIQ4_NL);
BENCHMARK_CAPTURE(BM_MatMulBlocks, M512_IQ4_XS, 512, TensorType::kIQ4_XS);
BENCHMARK_CAPTURE(BM_MatMulBlocks, M512_MXFP4, 512, TensorType::kMXFP4);

void BM_Attend(benchmark::State& state, size_t num_queries, size_t num_keys, size_t head_dim) {
  const std::vector<float> queries = RandomFloats(num_queries * head_dim, 1);
  const Stored keys(num_keys, head_dim, Dtype::kF16, 2), values(num_keys, head_dim, Dtype::kF16, 3);
  std::vector<float> out(num_queries * head_dim), max(num_queries), sum(num_queries);
  std::vector<float> scratch(AttendScratch(num_queries, head_dim));
  const AttentionState result = {Rows<float>(out.data(), num_queries, head_dim), max, sum};
  const AttendArgs args = {.queries = Rows<const float>(queries.data(), num_queries, head_dim),
                           .keys = keys.rows,
                           .values = values.rows,
                           .scale = 0.125f,
                           .visible = {},
                           .state = result,
                           .logits = {},
                           .scratch = scratch};
  for (auto _ : state) {
    ResetState(result);
    DefaultBackend()->attend(args);
  }
  Report(state, 4.0 * static_cast<double>(num_queries * num_keys * head_dim),
         static_cast<double>(keys.bytes.size() + values.bytes.size()));
}
BENCHMARK_CAPTURE(BM_Attend, prefill_R1024_n4096_d64_f16, 1024, 4096, 64);
BENCHMARK_CAPTURE(BM_Attend, decode_R4_n16384_d64_f16, 4, 16384, 64);
BENCHMARK_CAPTURE(BM_Attend, decode_R4_n524288_d64_f16, 4, 524288, 64);  // from memory
BENCHMARK_CAPTURE(BM_Attend, decode_R4_n20_d64_f16, 4, 20, 64);

void BM_AssignNearest(benchmark::State& state) {
  constexpr size_t kPoints = 8192, kCentroids = 512, kDim = 64;
  const std::vector<float> points = RandomFloats(kPoints * kDim, 1);
  const std::vector<float> centroids = RandomFloats(kCentroids * kDim, 2);
  std::vector<uint32_t> labels(kPoints);
  std::vector<float> dots(kPoints), scratch(AssignScratch(kCentroids, kDim));
  const AssignNearestArgs args = {
      .points = Rows<const float>(points.data(), kPoints, kDim),
      .centroids = Rows<const float>(centroids.data(), kCentroids, kDim),
      .labels = labels,
      .dots = dots,
      .scratch = scratch};
  for (auto _ : state) DefaultBackend()->assign_nearest(args);
  Report(state, 2.0 * kPoints * kCentroids * kDim, 4.0 * kPoints * kDim);
}
BENCHMARK(BM_AssignNearest);

// Keys of one level of centroids, a query group at a time.
void BM_KeyLogits(benchmark::State& state) {
  constexpr size_t kQueries = 4, kKeys = 4096, kDim = 64;
  const std::vector<float> queries = RandomFloats(kQueries * kDim, 1);
  const Stored keys(kKeys, kDim, Dtype::kF16, 2);
  std::vector<float> logits(kQueries * kKeys), scratch(AttendScratch(kQueries, kDim));
  const KeyLogitsArgs args = {.queries = Rows<const float>(queries.data(), kQueries, kDim),
                              .keys = keys.rows,
                              .scale = 0.125f,
                              .logits = Rows<float>(logits.data(), kQueries, kKeys),
                              .scratch = scratch};
  for (auto _ : state) DefaultBackend()->key_logits(args);
  Report(state, 2.0 * kQueries * kKeys * kDim, static_cast<double>(keys.bytes.size()));
}
BENCHMARK(BM_KeyLogits);

// Row codes: one plane of signs, or the three of a number of three bits, of 16,384 rows.
void BM_AddSignLogits(benchmark::State& state, size_t num_queries, size_t num_planes, size_t dim) {
  constexpr size_t kRows = 16384;
  const std::vector<float> queries = RandomFloats(num_queries * dim, 1);
  const std::vector<float> factors = RandomFloats(kRows, 2);
  std::vector<uint8_t> tables(num_queries * SignTableBytes(dim));
  std::vector<SignScale> scales(num_queries);
  MakeSignTables({queries.data(), num_queries, dim}, tables, scales);
  const size_t plane_bytes = PackedSignBytes(kRows, PlaneBytes(dim));
  std::vector<std::byte> packed(num_planes * plane_bytes);
  std::mt19937 random(3);
  for (std::byte& b : packed) b = static_cast<std::byte>(random());
  SignPlanes planes = {};
  for (size_t p = 0; p < num_planes; ++p) planes[p] = packed.data() + p * plane_bytes;
  std::vector<float> logits(num_queries * kRows);
  const AddSignLogitsArgs args = {.tables = tables,
                                  .scales = scales,
                                  .plane_bytes = PlaneBytes(dim),
                                  .planes = planes,
                                  .factors = factors,
                                  .logits = Rows<float>(logits.data(), num_queries, kRows)};
  for (auto _ : state) DefaultBackend()->add_sign_logits(args);
  // A sign stands for a multiply-add; signs and factors are read once.
  Report(state, 2.0 * static_cast<double>(num_queries * num_planes * kRows * dim),
         static_cast<double>(packed.size() + factors.size() * sizeof(float)));
}
BENCHMARK_CAPTURE(BM_AddSignLogits, R1_1bit_d64, 1, 1, 64);
BENCHMARK_CAPTURE(BM_AddSignLogits, R4_1bit_d64, 4, 1, 64);
BENCHMARK_CAPTURE(BM_AddSignLogits, R4_3bit_d64, 4, 3, 64);
BENCHMARK_CAPTURE(BM_AddSignLogits, R4_1bit_d128, 4, 1, 128);

// The roof for arithmetic: independent multiply-adds that never leave the registers, of vectors of
// 32 bytes, as most desktops have them, and of 64, as the kernels use where there is AVX-512.
#if defined(__x86_64__)
// A macro, as registers that only a target has are refused in a template by clang.
#define LECTERN_MULTIPLY_ADD(name, instructions, bytes)                                 \
  __attribute__((target(instructions))) float name(size_t count) {                      \
    typedef float Vector __attribute__((vector_size(bytes)));                           \
    constexpr size_t kSums = 12;                                                        \
    Vector sum[kSums], factor = Vector{} + 0.999f;                                      \
    for (size_t i = 0; i < kSums; ++i) sum[i] = Vector{} + static_cast<float>(i);       \
    for (size_t i = 0; i < count; ++i) {                                                \
      _Pragma("GCC unroll 12") for (Vector & s : sum) s = s * factor + factor;          \
      asm volatile("" : "+x"(factor)); /* the compiler may not sum the series itself */ \
    }                                                                                   \
    Vector total = {};                                                                  \
    for (const Vector& s : sum) total += s;                                             \
    return total[0];                                                                    \
  }
LECTERN_MULTIPLY_ADD(MultiplyAddOf8, "avx2,fma", 32)
LECTERN_MULTIPLY_ADD(MultiplyAddOf16, "avx512f", 64)
#undef LECTERN_MULTIPLY_ADD

void BM_MultiplyAddPeak(benchmark::State& state, size_t lanes) {
  if (lanes == 8 ? !__builtin_cpu_supports("fma") : !__builtin_cpu_supports("avx512f")) {
    return state.SkipWithError("not on this machine");
  }
  constexpr size_t kCount = 100000;
  for (auto _ : state) {
    benchmark::DoNotOptimize(lanes == 8 ? MultiplyAddOf8(kCount) : MultiplyAddOf16(kCount));
  }
  Report(state, 2.0 * static_cast<double>(lanes * 12 * kCount), 0);
}
BENCHMARK_CAPTURE(BM_MultiplyAddPeak, avx2, 8);
BENCHMARK_CAPTURE(BM_MultiplyAddPeak, avx512, 16);

// The roof for products of int8: sums of four products (vpdpbusd) whose operands are in registers.
// Twelve independent sums, in registers that the text names: of an array GCC keeps a copy in
// memory.
__attribute__((target("avx512f"))) void MultiplyAddBytes(size_t count) {
  for (size_t i = 0; i < count; ++i) {
    asm volatile(
        ".irp sum, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27\n"
        "vpdpbusd %%zmm29, %%zmm28, %%zmm\\sum\n"
        ".endr" ::
            : "xmm16", "xmm17", "xmm18", "xmm19", "xmm20", "xmm21", "xmm22", "xmm23", "xmm24",
              "xmm25", "xmm26", "xmm27");
  }
}

void BM_BytesPeak(benchmark::State& state) {
  if (!__builtin_cpu_supports("avx512vnni")) return state.SkipWithError("not on this machine");
  constexpr size_t kCount = 100000;
  for (auto _ : state) MultiplyAddBytes(kCount);
  Report(state, 2.0 * 64 * 12 * kCount, 0);
}
BENCHMARK(BM_BytesPeak);

// The same with AVX2 alone, where exact sums of bytes take pairs of int16: two products and their
// sum (vpmaddwd), and the addition to the sums.
__attribute__((target("avx2"))) void MultiplyAddPairs(size_t count) {
  for (size_t i = 0; i < count; ++i) {
    asm volatile(
        ".irp sum, 0, 1, 2, 3, 4, 5\n"
        "vpmaddwd %%ymm14, %%ymm15, %%ymm12\n"
        "vpaddd %%ymm12, %%ymm\\sum, %%ymm\\sum\n"
        ".endr" ::
            : "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm12");
  }
}

void BM_PairsPeakAvx2(benchmark::State& state) {
  if (!__builtin_cpu_supports("avx2")) return state.SkipWithError("not on this machine");
  constexpr size_t kCount = 100000;
  for (auto _ : state) MultiplyAddPairs(kCount);
  Report(state, 2.0 * 16 * 6 * kCount, 0);
}
BENCHMARK(BM_PairsPeakAvx2);
#endif

// The roof for bytes: reading 64 MiB once, more than the caches here hold.
void BM_ReadBandwidth(benchmark::State& state) {
  const std::vector<uint64_t> words(8 << 20, 1);
  for (auto _ : state) {
    uint64_t sum[8] = {};
    for (size_t i = 0; i < words.size(); i += 8) {
      for (size_t j = 0; j < 8; ++j) sum[j] += words[i + j];
    }
    benchmark::DoNotOptimize(sum);
  }
  Report(state, 0, static_cast<double>(words.size() * sizeof(uint64_t)));
}
BENCHMARK(BM_ReadBandwidth);

}  // namespace
}  // namespace lectern
