// kernels/cuda/runtime/primitives.cuh without PTX: each instruction lane by lane, as the PTX ISA
// defines it.
#ifndef LECTERN_TESTS_KERNELS_CUDA_EMULATION_PRIMITIVES_H_
#define LECTERN_TESTS_KERNELS_CUDA_EMULATION_PRIMITIVES_H_

#include <array>

#include "kernels/types.h"
#include "tests/kernels/cuda_emulation/cuda_runtime.h"

namespace lectern {

inline unsigned char* SharedMemory() { return cuda_emulation::SharedBytes(); }

inline float ToFloat(float x) { return x; }
template <typename T>
T FromFloat(float x);
template <>
inline float FromFloat<float>(float x) {
  return x;
}
template <>
inline f16 FromFloat<f16>(float x) {
  return ToF16(x);
}
template <>
inline bf16 FromFloat<bf16>(float x) {
  return ToBf16(x);
}

inline void WaitForEarlierKernels() { cuda_emulation::WaitForEarlierKernels(); }

inline uint64_t LoadRelaxed(const uint64_t* from) {
  return __atomic_load_n(from, __ATOMIC_RELAXED);
}
inline void StoreRelaxed(uint64_t* to, uint64_t value) {
  __atomic_store_n(to, value, __ATOMIC_RELAXED);
}
// As blocks run one after the other, it would always be seen: where a seed draws, mostly it is not.
inline void StoreLate(uint64_t* to, uint64_t value) {
  if (LoadRelaxed(to) == 0 || !cuda_emulation::DrawsLate()) StoreRelaxed(to, value);
}

inline float Exp2(float x) { return x < -126 ? 0 : exp2f(x); }

inline void CopyAsync16(void* to, const void* from, uint32_t bytes) {
  cuda_emulation::CopyAsync(to, from, bytes);
}
inline void CommitCopies() { cuda_emulation::CommitCopies(); }
template <int kGroupsLeft>
void WaitCopies() {
  cuda_emulation::WaitCopies(kGroupsLeft);
}

namespace emulated {

struct MatrixLoad {
  const unsigned char* row;  // of 8 elements, this lane's
  uint32_t* r;
};

LECTERN_OF_THE_DEVICE inline uint16_t ElementOf(void* const* lanes, int matrix, int row, int col) {
  uint16_t element;
  std::memcpy(&element, static_cast<MatrixLoad*>(lanes[8 * matrix + row])->row + 2 * col, 2);
  return element;
}

template <bool kTransposed>
LECTERN_OF_THE_DEVICE void LoadMatrices(void* const* lanes) {
  for (int lane = 0; lane < 32; ++lane) {
    for (int matrix = 0; matrix < 4; ++matrix) {
      uint32_t pair = 0;
      for (int i = 0; i < 2; ++i) {
        const int row = lane / 4, col = 2 * (lane % 4) + i;
        const uint16_t element =
            kTransposed ? ElementOf(lanes, matrix, col, row) : ElementOf(lanes, matrix, row, col);
        pair |= static_cast<uint32_t>(element) << (16 * i);
      }
      static_cast<MatrixLoad*>(lanes[lane])->r[matrix] = pair;
    }
  }
}

// An element as a float; f16 has a table, because its conversion takes longest here.
inline float FloatOf(f16 x) {
  static const auto* const table = [] {
    auto* floats = new std::array<float, 65536>;
    for (uint32_t i = 0; i < 65536; ++i) {
      (*floats)[i] = ToFloat(f16{static_cast<uint16_t>(i)});
    }
    return floats;
  }();
  return (*table)[x.bits];
}
inline float FloatOf(bf16 x) { return ToFloat(x); }

struct Product {
  float* d;
  const uint32_t* a;
  uint32_t b[2];
};

// Sums of 16 products in float, added to d: the hardware's order of additions is not documented.
template <typename T>
LECTERN_OF_THE_DEVICE void MultiplyAddLanes(void* const* lanes) {
  float a[16][16], b[16][8], sums[16][8] = {};
  const auto half = [](uint32_t pair, int i) {
    return FloatOf(T{static_cast<uint16_t>(pair >> (16 * i))});
  };
  for (int lane = 0; lane < 32; ++lane) {
    const auto& product = *static_cast<Product*>(lanes[lane]);
    const int g = lane / 4, t = lane % 4;
    for (int i = 0; i < 2; ++i) {
      for (int k = 0; k < 4; ++k) {
        a[g + 8 * (k % 2)][2 * t + 8 * (k / 2) + i] = half(product.a[k], i);
      }
      for (int k = 0; k < 2; ++k) b[2 * t + 8 * k + i][g] = half(product.b[k], i);
    }
  }
  for (int row = 0; row < 16; ++row) {
    for (int k = 0; k < 16; ++k) {
      for (int col = 0; col < 8; ++col) sums[row][col] += a[row][k] * b[k][col];
    }
  }
  for (int lane = 0; lane < 32; ++lane) {
    const auto& product = *static_cast<Product*>(lanes[lane]);
    for (int i = 0; i < 4; ++i)
      product.d[i] += sums[lane / 4 + 8 * (i / 2)][2 * (lane % 4) + i % 2];
  }
}

}  // namespace emulated

// Each lane reads the row that it holds the address of.
inline void ReadsRow(const void* row) {
#if defined(__SANITIZE_THREAD__)
  __tsan_read16(const_cast<void*>(row));
#else
  (void)row;
#endif
}
inline void LoadMatrices(uint32_t (&r)[4], const void* row) {
  ReadsRow(row);
  emulated::MatrixLoad load{static_cast<const unsigned char*>(row), r};
  cuda_emulation::MeetWarp(0xFFFFFFFFu, "ldmatrix", &load, emulated::LoadMatrices<false>);
}
inline void LoadTransposedMatrices(uint32_t (&r)[4], const void* row) {
  ReadsRow(row);
  emulated::MatrixLoad load{static_cast<const unsigned char*>(row), r};
  cuda_emulation::MeetWarp(0xFFFFFFFFu, "ldmatrix.trans", &load, emulated::LoadMatrices<true>);
}
template <typename T>
void MultiplyAdd(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  emulated::Product product{d, a, {b0, b1}};
  cuda_emulation::MeetWarp(0xFFFFFFFFu, "mma", &product, emulated::MultiplyAddLanes<T>);
}

}  // namespace lectern

#endif  // LECTERN_TESTS_KERNELS_CUDA_EMULATION_PRIMITIVES_H_
