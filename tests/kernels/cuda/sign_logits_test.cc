#include "kernels/cuda/sign_logits.h"

#include <cmath>

#include "kernels/sign_logits.h"
#include "tests/kernels/cuda/cuda_case.h"

namespace lectern {
namespace {

class CudaSignLogitsTest : public CudaTest {};

TEST_P(CudaSignLogitsTest, MatchesScalar) {
  for (const size_t dim : {8, 64, 100, 128}) {
    for (const size_t num_planes : {1, 3}) {
      for (const size_t num_rows : {1, 31, 33, 700}) {
        SCOPED_TRACE(testing::Message()
                     << dim << " wide, " << num_planes << " planes, " << num_rows << " rows");
        const size_t num_queries = num_rows == 33 ? 9 : 4;
        const Matrix queries = Matrix::Random(num_queries, dim, 1);
        std::vector<uint8_t> tables(num_queries * SignTableBytes(dim));
        std::vector<SignScale> scales(num_queries);
        MakeSignTables(queries, tables, scales);
        std::mt19937 engine(2);
        std::vector<std::vector<std::byte>> planes(num_planes);
        SignPlanes views{};
        std::vector<DeviceBuffer<std::byte>> on_device;
        CudaSignLogitsArgs args{};
        for (size_t p = 0; p < num_planes; ++p) {
          planes[p].resize(PackedSignBytes(num_rows, PlaneBytes(dim)));
          for (std::byte& byte : planes[p]) byte = static_cast<std::byte>(engine());
          views[p] = planes[p].data();
          on_device.push_back(Upload(planes[p]));
          args.planes[p] = reinterpret_cast<const uint8_t*>(on_device.back().data());
        }
        const Matrix factors = Matrix::Random(1, num_rows, 3);
        Matrix expected = Matrix::Random(num_queries, num_rows + 3, 4);
        const auto logits = Upload(expected.data);
        const Matrix before = expected;
        AddSignLogitsScalar({.tables = tables,
                             .scales = scales,
                             .plane_bytes = PlaneBytes(dim),
                             .planes = views,
                             .factors = factors.data,
                             .logits = {expected[0], num_queries, num_rows, num_rows + 3}});
        const auto device_tables = Upload(tables);
        const auto device_scales = Upload(scales);
        const auto device_factors = Upload(factors.data);
        args.tables = device_tables.data();
        args.scales = reinterpret_cast<const float*>(device_scales.data());
        args.num_queries = static_cast<uint32_t>(num_queries);
        args.plane_bytes = static_cast<uint32_t>(PlaneBytes(dim));
        args.num_planes = static_cast<uint32_t>(num_planes);
        args.factors = device_factors.data();
        args.num_rows = static_cast<uint32_t>(num_rows);
        args.logits = logits.data();
        args.stride = num_rows + 3;
        Expect(CudaAddSignLogits(stream_, args));
        const auto got = Download(logits);
        for (size_t i = 0; i < got.size(); ++i) {
          const double added = double{expected.data[i]} - before.data[i];
          ASSERT_NEAR(got[i], expected.data[i], 1e-6 * std::abs(added) + 1e-5) << i;
        }
      }
    }
  }
}

TEST_P(CudaSignLogitsTest, RefusesWhatItCannotTake) {
  const auto floats = Make<float>(64);
  auto* const bytes = reinterpret_cast<uint8_t*>(floats.data());
  CudaSignLogitsArgs good{};
  good.tables = bytes;
  good.scales = good.factors = floats.data();
  good.num_queries = good.plane_bytes = 1;
  good.planes[0] = bytes;
  good.num_rows = 8;
  good.logits = floats.data();
  good.stride = 8;
  const auto refuses = [&](auto change) {
    CudaSignLogitsArgs args = good;
    change(args);
    return CudaAddSignLogits(stream_, args).code == CudaCode::kInvalidArgument;
  };
  EXPECT_TRUE(refuses([](auto& a) { a.num_planes = 2; }));
  EXPECT_TRUE(refuses([](auto& a) { a.num_planes = 3; }));
  EXPECT_TRUE(refuses([](auto& a) { a.plane_bytes = 33; }));
  EXPECT_TRUE(refuses([](auto& a) { ++a.planes[0]; }));
  EXPECT_TRUE(refuses([](auto& a) { a.stride = 7; }));
  EXPECT_TRUE(refuses([](auto& a) { a.factors = nullptr; }));
}

LECTERN_CUDA_TESTS(CudaSignLogitsTest);

}  // namespace
}  // namespace lectern
