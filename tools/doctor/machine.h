// Checks this machine for lectern-doctor, whatever the model: processor, GPU, threads, BLAS,
// memory, disk, the program that reads PDF, and the default model.
#ifndef LECTERN_TOOLS_DOCTOR_MACHINE_H_
#define LECTERN_TOOLS_DOCTOR_MACHINE_H_

#include <cstdint>
#include <string>

#include "kernels/backend.h"
#include "store/env.h"
#include "tools/doctor/findings.h"

namespace lectern::doctor {

// The SIMD instructions that the kernels use. `backend`: the one that the engine would take;
// nullptr: LECTERN_BACKEND names none that runs here, which fails (kInvalidArgument). Warns of the
// scalar kernels, and of a processor without fast instructions.
Finding CheckInstructionSet(const Backend* backend);
// The NVIDIA GPUs that --device cuda can use. Having none, or a driver that cannot be used, is no
// failure: the verdict is always kOk. Loads liblectern_cuda.so.1, if it is there, into the process.
Finding CheckGpu();
// The threads that are used against the cores that this process may use; warns where there are more
// threads than cores. `num_threads`: --threads; 0: as many as the engine would take.
Finding CheckThreads(uint64_t num_threads);
// The BLAS library that this process has loaded, and whether its threads make starting slow; always
// kOk.
Finding CheckBlas();

// The memory that this process may still take: the least that the machine, its control group and
// its own limits leave. `limited_by` says which: "the machine", "its container or control group",
// "ulimit -v", or what the user limited it with.
struct Memory {
  uint64_t total = 0, available = 0;  // bytes; total: of the machine; 0: /proc does not tell
  std::string limited_by;
};
Memory AvailableMemory();
Finding CheckMemory(const Memory& memory);  // warns below 1 GiB

// The place where documents would lie: room and speed. `store` need not exist; the nearest folder
// above it is examined. Writes up to 64 MiB to a file without a name and reads them, for at most 2
// s each, where the file system can do that; nothing stays. `free_bytes` gets the room, and keeps
// its value where that cannot be found, which fails. Warns of a slow disk, of one with less than 1
// GiB free, and of a folder in memory.
Finding CheckDisk(Env& env, const std::string& store, uint64_t* free_bytes);
// Whether pdftotext, which reads PDF, is found as index-document finds it (FindProgram); warns
// where it is not. Does not run it.
Finding CheckPdf();
// The model that index-document takes where none is named (tools/default_reader.h): warns where it
// is the small one, and fails where there is none (kNotFound). Reads no file's content.
Finding CheckReader();

}  // namespace lectern::doctor

#endif  // LECTERN_TOOLS_DOCTOR_MACHINE_H_
