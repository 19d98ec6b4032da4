// The table of functions through which liblectern calls liblectern_cuda.so.1, with the types of
// their arguments. C++17 and plain data only: one side is compiled by nvcc, or by the tests'
// emulation.
#ifndef LECTERN_KERNELS_CUDA_RUNTIME_KERNELS_H_
#define LECTERN_KERNELS_CUDA_RUNTIME_KERNELS_H_

#include <cstddef>
#include <cstdint>

namespace lectern {

enum class CudaCode : int32_t {
  kOk = 0,
  kInvalidArgument,  // a shape, an alignment or a pointer that the kernel does not take
  kNoGpu,            // no device, or no driver
  kDriverTooOld,     // for the toolkit that the kernels were built with
  kGpuTooOld,        // compute capability below 8.0
  kOutOfDeviceMemory,
  kFailed,  // anything else; the reason is CUDA's
};

// `during` and `reason` live forever.
struct [[nodiscard]] CudaStatus {
  CudaCode code = CudaCode::kOk;
  const char* during = "";
  const char* reason = "";
  bool ok() const { return code == CudaCode::kOk; }
};

struct CudaDeviceInfo {
  int index = 0;
  char name[128] = {};
  int major = 0, minor = 0;  // compute capability
  uint32_t num_multiprocessors = 0;
  uint64_t total_bytes = 0;
  uint32_t shared_bytes_per_block = 0;  // the most that one can ask for
};

// The shape of a launch. Host code (*.cc) computes it, so that tests check it without a GPU.
struct CudaGrid {
  uint32_t x = 1, y = 1, z = 1;  // blocks
  uint32_t threads = 0;          // of a block
  uint32_t shared_bytes = 0;     // dynamic, of a block
};

struct CudaStreamHandle;
struct CudaGraphHandle;

// Arguments of the launches below, defined in the headers that are named here. The table needs
// their names alone, so that it, and the device and streams on it, know no operation.
// rows/matmul.h
struct CudaMatMulArgs;
// rows/row_cosines.h
struct CudaRowCosinesArgs;
// rows/rows.h
struct CudaRmsNormArgs;
struct CudaRopeArgs;
struct CudaGluArgs;
struct CudaSoftcapArgs;
struct CudaAddArgs;
struct CudaStoreRowsArgs;
struct CudaPlaceRowsArgs;
// attention/attention.h
struct CudaAttendArgs;
struct CudaJoinArgs;
// attention/cut_items.h
struct CudaCutItemsArgs;
// attention/key_logits.h
struct CudaKeyLogitsArgs;
// attention/key_squares.h
struct CudaKeySquaresArgs;
// lookup/question_lookup.h
struct CudaQuestionLookupPass;
// lookup/row_lookup.h
struct CudaRowLookupPass;
// lookup/row_select.h
struct CudaRowListPass;
// clustering/assign.h
struct CudaAssignArgs;

template <typename Args>
using CudaLaunch = CudaStatus(CudaStreamHandle*, const CudaGrid&, const Args&);

// Grows at the end; `version` is that of the whole build, as both sides come from one.
inline constexpr uint32_t kCudaKernelsVersion = 11;
struct CudaKernels {
  uint32_t version;

  // Any thread.
  CudaStatus (*count_devices)(int* count);  // kNoGpu: no driver, *count is 0
  CudaStatus (*describe_device)(int device, CudaDeviceInfo* info);
  CudaStatus (*measure_memory)(int device, uint64_t* free_bytes);  // takes the device into use
  // `bytes` may be 0; *data is then an address all the same. Releasing waits for the device's work.
  CudaStatus (*allocate)(int device, size_t bytes, void** data);
  void (*release)(int device, void* data);
  // Memory of the host that the device copies from and to fast.
  CudaStatus (*allocate_pinned)(int device, size_t bytes, void** data);
  void (*release_pinned)(void* data);
  // free_stream waits for the stream's work.
  CudaStatus (*create_stream)(int device, CudaStreamHandle** stream);
  void (*free_stream)(CudaStreamHandle* stream);
  // Whether its kernels come while those before them end, where the device can; from the start they
  // do. For benches: no result depends on it.
  void (*set_overlap)(CudaStreamHandle* stream, bool is_wanted);
  void (*free_graph)(CudaGraphHandle* graph);

  // Enqueue, but for wait. Of 0 bytes: nothing, whatever the pointers are.
  CudaStatus (*copy_to_device)(CudaStreamHandle*, void* to, const void* from, size_t bytes);
  CudaStatus (*copy_from_device)(CudaStreamHandle*, void* to, const void* from, size_t bytes);
  CudaStatus (*copy_on_device)(CudaStreamHandle*, void* to, const void* from, size_t bytes);
  CudaStatus (*fill)(CudaStreamHandle*, void* to, uint8_t byte, size_t bytes);
  CudaStatus (*wait)(CudaStreamHandle*);
  // From begin to end by one thread. Other threads wait for the end where they allocate or release
  // memory, or free a stream. *graph is nullptr after an error; free_graph frees it.
  CudaStatus (*begin_capture)(CudaStreamHandle*);
  CudaStatus (*end_capture)(CudaStreamHandle*, CudaGraphHandle** graph);
  CudaStatus (*launch_graph)(CudaStreamHandle*, CudaGraphHandle* graph);

  // Launches, as the host functions of the same name ask for them: these checked the arguments.
  CudaLaunch<CudaMatMulArgs>* matmul;
  CudaLaunch<CudaRmsNormArgs>* rms_norm;
  CudaLaunch<CudaRopeArgs>* rope;
  CudaLaunch<CudaGluArgs>* glu;
  CudaLaunch<CudaSoftcapArgs>* softcap;
  CudaLaunch<CudaAddArgs>* add;
  CudaLaunch<CudaStoreRowsArgs>* store_rows;
  CudaLaunch<CudaAssignArgs>* assign;
  CudaLaunch<CudaAttendArgs>* attend;
  CudaLaunch<CudaJoinArgs>* join;
  CudaLaunch<CudaCutItemsArgs>* cut_items;
  CudaLaunch<CudaKeyLogitsArgs>* key_logits;
  CudaLaunch<CudaKeySquaresArgs>* key_squares;
  CudaLaunch<CudaRowLookupPass>* row_queries;
  CudaLaunch<CudaRowLookupPass>* row_clusters;
  CudaLaunch<CudaRowLookupPass>* row_slots;
  CudaLaunch<CudaRowLookupPass>* row_logits;
  CudaLaunch<CudaRowLookupPass>* row_refine;
  CudaLaunch<CudaRowLookupPass>* row_scores;
  CudaLaunch<CudaRowListPass>* row_list;
  CudaLaunch<CudaRowLookupPass>* row_tail;
  CudaLaunch<CudaQuestionLookupPass>* question_queries;
  CudaLaunch<CudaQuestionLookupPass>* question_clusters;
  CudaLaunch<CudaQuestionLookupPass>* question_cluster_scores;
  CudaLaunch<CudaQuestionLookupPass>* question_coded;
  CudaLaunch<CudaQuestionLookupPass>* question_codes;
  CudaLaunch<CudaQuestionLookupPass>* question_refined;
  CudaLaunch<CudaQuestionLookupPass>* question_fine_codes;
  CudaLaunch<CudaQuestionLookupPass>* question_scores;
  CudaLaunch<CudaQuestionLookupPass>* question_tail;
  CudaLaunch<CudaPlaceRowsArgs>* place_rows;
  CudaLaunch<CudaRowCosinesArgs>* row_cosines;
};

}  // namespace lectern

// The one symbol of liblectern_cuda.so.1. Returns the same table each time, never nullptr; any
// thread.
extern "C" __attribute__((visibility("default"))) const lectern::CudaKernels* lectern_cuda_kernels(
    void);

#endif  // LECTERN_KERNELS_CUDA_RUNTIME_KERNELS_H_
