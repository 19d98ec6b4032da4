#include <unistd.h>

#include "tools/batch/worker_name.h"

namespace lectern::batch {

std::string HostName() {
  char name[256] = {};
  return gethostname(name, sizeof name - 1) == 0 && name[0] != 0 ? name : "host";
}

uint64_t ProcessId() { return static_cast<uint64_t>(getpid()); }

}  // namespace lectern::batch
