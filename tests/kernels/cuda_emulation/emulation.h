// Runs CUDA kernels on a CPU, for tests: the same *.cu files, compiled as ordinary C++.
//
// Every thread of a block is a fiber that runs until it waits: for the block (__syncthreads), its
// warp (shuffles, votes, matrix products) or its end. What a GPU leaves to chance is chosen to
// hurt: which thread goes on is drawn by a seed (in half of the blocks with warps that are always
// first), blocks run in a drawn order, what they tell each other late is mostly not told, shared
// and device memory begin as NaN, and what cp.async copies is NaN until it is waited for. Found and
// reported as a failed launch: threads that wait for each other forever, lanes of a warp that meet
// in different instructions, writes past shared memory, copies nobody waited for, threads that
// never wait for the kernels before theirs (launches may overlap; here they do not), more shared
// memory than was allowed. Reads past device memory are AddressSanitizer's to find.
//
// No order of whole stretches between barriers shows every barrier that is missing, nor does any of
// blocks, of which one runs at a time, a missing fence between what one writes and another reads.
// These are ThreadSanitizer's to find: built with it, every thread of a kernel is a thread to it,
// and ordered by what CUDA says orders memory, and by nothing else: beginning and end of a launch,
// __syncthreads, __syncwarp, and a fence before an atomic operation that meets another one before a
// fence. Not by shuffles, votes and products, in which lanes merely meet, and not by the order in
// which things happen to run. Threads of the same number in blocks of a launch that are more than
// some thousand threads apart are one to it.
#ifndef LECTERN_TESTS_KERNELS_CUDA_EMULATION_EMULATION_H_
#define LECTERN_TESTS_KERNELS_CUDA_EMULATION_EMULATION_H_

#include <cstdint>
#include <string>

// Thread-safe, as the runtime is; launches run one after the other.
namespace cuda_emulation {

// 0: threads and blocks in ascending order; else drawn by it. Of all launches from now on.
void SetSeed(uint64_t seed);
// The mistake of the last failed launch; "" when none failed since this was called last.
std::string TakeReport();

// The machine that is pretended. Defaults: one device, compute capability 9.0.
struct Machine {
  int num_devices = 1;
  int major = 9;
  int driver = 13000;  // 0: none; below 12000: too old
  uint64_t memory_bytes = 4ull << 30;
  uint32_t shared_bytes = 232448;  // 227 KiB, as of an H100; 166912 of an A100
  uint32_t num_multiprocessors = 4;
};
void SetMachine(const Machine& machine);  // not while a kernel runs or memory is allocated
// Failures from now on. Defaults: none.
struct Faults {
  static constexpr uint64_t kNever = ~uint64_t{0};
  uint64_t allocations_left = kNever;  // then there is no memory
  uint64_t launches_left = kNever;     // then the device is lost: every launch and wait fails
  bool has_pinned = true;              // memory of the host that is pinned can be had
  bool can_record = true;              // graphs
};
void SetFaults(const Faults& faults);  // replaces all that were set
// Whether work, copies too, runs when its stream is waited for (or memory is given back), and not
// when it is enqueued: what a host changes too early is then not what was meant. Not while it runs.
void SetLate(bool is_late);
uint64_t AllocatedBytes();  // of the device, now
// So far: kernels that ran; calls that launched one or a graph; waits for a stream.
uint64_t NumLaunches();
uint64_t NumLaunchCalls();
uint64_t NumWaits();

}  // namespace cuda_emulation

#endif  // LECTERN_TESTS_KERNELS_CUDA_EMULATION_EMULATION_H_
