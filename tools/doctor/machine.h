// Finds what this machine can do, whatever the model.
#ifndef LECTERN_TOOLS_DOCTOR_MACHINE_H_
#define LECTERN_TOOLS_DOCTOR_MACHINE_H_

#include <cstdint>
#include <string>

#include "kernels/backend.h"
#include "store/env.h"
#include "tools/doctor/findings.h"

namespace lectern::doctor {

Finding CheckInstructionSet(const Backend* backend);  // nullptr: LECTERN_BACKEND names none
Finding CheckGpu();
Finding CheckThreads(uint64_t num_threads);  // 0: as many as the engine would take
Finding CheckBlas();

// The memory that this process may still take: of the machine, its control group and its limits.
struct Memory {
  uint64_t total = 0, available = 0;  // bytes
  std::string limited_by;  // "the machine", "its container or control group", "ulimit -v"
};
Memory AvailableMemory();
Finding CheckMemory(const Memory& memory);

// Where documents would lie: `store` need not exist. Writes 64 MiB to a file without a name and
// reads them, where the file system can; nothing stays.
Finding CheckDisk(Env& env, const std::string& store, uint64_t* free_bytes);
Finding CheckPdf();

}  // namespace lectern::doctor

#endif  // LECTERN_TOOLS_DOCTOR_MACHINE_H_
