// Keys and values on a device, from rows as they are stored.
#ifndef LECTERN_TESTS_KERNELS_CUDA_ATTENTION_DEVICE_KV_H_
#define LECTERN_TESTS_KERNELS_CUDA_ATTENTION_DEVICE_KV_H_

#include "kernels/cuda/attention/attention.h"
#include "tests/kernels/cuda/cuda_case.h"

namespace lectern {

// Uploads keys and values of one type and shape; q8 rows as planes of numbers and of scales. `view`
// lies in this object's memory on the device.
struct DeviceRowsOfKv {
  DeviceRowsOfKv(CudaTest& test, const StoredMatrix& keys, const StoredMatrix& values) {
    view.dtype = keys.rows.dtype;
    view.keys = Put(test, keys.rows, 0);
    view.values = Put(test, values.rows, 1);
    if (view.dtype != Dtype::kQ8) return;
    view.key_scales = scales[0].data();
    view.value_scales = scales[1].data();
  }
  DeviceKv view;

 private:
  const void* Put(CudaTest& test, const TypedRows& rows, size_t which) {
    std::vector<std::byte> packed;
    std::vector<f16> of_blocks;
    const size_t bytes = rows.num_rows * rows.row_bytes();
    if (rows.dtype != Dtype::kQ8) {
      packed.assign(rows.data, rows.data + bytes);
    } else {
      for (const std::byte* block = rows.data; block < rows.data + bytes; block += kQ8Block + 2) {
        of_blocks.emplace_back();
        std::memcpy(&of_blocks.back(), block, 2);
        packed.insert(packed.end(), block + 2, block + 2 + kQ8Block);
      }
      scales[which] = test.Upload(of_blocks);
    }
    data[which] = test.Upload(packed);
    return data[which].data();
  }
  DeviceBuffer<std::byte> data[2];
  DeviceBuffer<f16> scales[2];
};

}  // namespace lectern

#endif  // LECTERN_TESTS_KERNELS_CUDA_ATTENTION_DEVICE_KV_H_
