#include "kernels/cuda/attention/key_logits.h"

#include <cmath>

#include "kernels/attention.h"
#include "tests/kernels/cuda/attention/device_kv.h"
#include "tests/kernels/cuda/cuda_case.h"

namespace lectern {
namespace {

class CudaKeyLogitsTest : public CudaTest {};

// Queries of two heads, rounded to the type that the device takes.
std::vector<uint16_t> Rounded(const Matrix& queries, Dtype dtype) {
  std::vector<uint16_t> bits(queries.data.size());
  FromFloatRowsScalar(queries.rows, dtype, reinterpret_cast<std::byte*>(bits.data()));
  return bits;
}

double Dot(const float* a, const float* b, size_t count) {
  double sum = 0;
  for (size_t i = 0; i < count; ++i) sum += double{a[i]} * b[i];
  return sum;
}

// Heads with other numbers of entries, by a list of rows and as they lie, of every type and width.
TEST_P(CudaKeyLogitsTest, AreTheProductsOfChosenRows) {
  constexpr uint32_t kHeads = 2, kGroup = 3, kTokens = 2, kRows = 90;
  for (const Dtype dtype : {Dtype::kF16, Dtype::kBf16, Dtype::kQ8}) {
    for (const uint32_t dim : {8u, 32u, 96u, 256u}) {
      if (dtype == Dtype::kQ8 && dim % kQ8Block != 0) continue;
      for (const bool has_list : {false, true}) {
        SCOPED_TRACE(testing::Message() << "type " << static_cast<int>(dtype) << ", " << dim
                                        << " wide, list " << has_list);
        const Dtype queries_in = dtype == Dtype::kBf16 ? Dtype::kBf16 : Dtype::kF16;
        const Matrix queries = Matrix::Random(kTokens, kHeads * kGroup * dim, 1);
        const std::vector<uint16_t> bits = Rounded(queries, queries_in);
        Matrix rounded(kTokens, kHeads * kGroup * dim);
        ToFloatRowsScalar({reinterpret_cast<const std::byte*>(bits.data()), queries_in, kTokens,
                           kHeads * kGroup * dim},
                          rounded.rows);
        const StoredMatrix stored(Matrix::Random(kRows, dim, 2), dtype);
        const Matrix keys = stored.ToFloats();
        DeviceRowsOfKv kv(*this, stored, stored);
        std::vector<uint32_t> list(70);
        for (uint32_t i = 0; i < list.size(); ++i) list[i] = (i * 37 + 5) % kRows;
        const auto device_list = Upload(list);
        if (has_list) kv.view.rows = device_list.data();
        // The second head's logits before the first's.
        const std::vector<KeyLogitsHead> heads = {{5, 66, 6 * 1}, {69, 70, 0}};
        const auto device_queries = Upload(bits);
        const auto device_heads = Upload(heads);
        const auto logits = Make<float>(6 * 62);
        for (const float softcap : {0.0f, 2.0f}) {
          Expect(CudaKeyLogits(stream_, {.queries = {.data = device_queries.data(),
                                                     .dtype = queries_in,
                                                     .stride = kHeads * kGroup * dim,
                                                     .num_tokens = kTokens,
                                                     .num_kv_heads = kHeads,
                                                     .group = kGroup,
                                                     .head_dim = dim},
                                         .scale = 0.25f,
                                         .softcap = softcap,
                                         .source = kv.view,
                                         .heads = device_heads.data(),
                                         .most_entries = 61,
                                         .logits = logits.data()}));
          const std::vector<float> got = Download(logits);
          for (uint32_t h = 0; h < kHeads; ++h) {
            const uint32_t count = heads[h].end - heads[h].begin;
            for (uint32_t r = 0; r < kTokens * kGroup; ++r) {
              const float* const query =
                  rounded[r / kGroup] + (h * kGroup + r % kGroup) * dim;
              for (uint32_t i = 0; i < count; ++i) {
                const uint32_t entry = heads[h].begin + i;
                const float* const key = keys[has_list ? list[entry] : entry];
                double expected = 0.25 * Dot(query, key, dim);
                if (softcap > 0) expected = softcap * std::tanh(expected / softcap);
                const double size =
                    std::sqrt(Dot(query, query, dim) * Dot(key, key, dim)) * 0.25;
                ASSERT_NEAR(got[heads[h].out + r * count + i], expected, 1e-5 * size + 1e-6);
              }
            }
          }
        }
      }
    }
  }
}

TEST_P(CudaKeyLogitsTest, RefusesWhatItCannotTake) {
  const auto memory = Make<float>(1024);
  const CudaKeyLogitsArgs good = {
      .queries = {memory.data(), Dtype::kF16, 64, 1, 1, 1, 64},
      .scale = 1,
      .source = {.keys = memory.data(), .values = nullptr, .dtype = Dtype::kF16},
      .heads = reinterpret_cast<const KeyLogitsHead*>(memory.data()),
      .most_entries = 1,
      .logits = memory.data()};
  const auto refused = [&](auto change) {
    CudaKeyLogitsArgs args = good;
    change(args);
    EXPECT_EQ(CudaKeyLogits(stream_, args).code, CudaCode::kInvalidArgument);
  };
  refused([](auto& args) { args.scale = 0; });
  refused([](auto& args) { args.softcap = -1; });
  refused([](auto& args) { args.source.keys = nullptr; });
  refused([](auto& args) { args.heads = nullptr; });
  refused([](auto& args) { args.logits = nullptr; });
  refused([](auto& args) { args.source.dtype = Dtype::kBf16; });
  refused([](auto& args) { args.source.dtype = Dtype::kF32; });
  refused([](auto& args) { args.source.dtype = Dtype::kQ8; });  // no scales
  refused([](auto& args) { args.queries.head_dim = 12; });
  refused([](auto& args) { args.queries.data = nullptr; });
  CudaKeyLogitsArgs nothing = good;
  nothing.most_entries = 0;
  Expect(CudaKeyLogits(stream_, nothing));
}

LECTERN_CUDA_TESTS(CudaKeyLogitsTest);

}  // namespace
}  // namespace lectern
