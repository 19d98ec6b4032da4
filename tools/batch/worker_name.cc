#include "tools/batch/worker_name.h"

#include <cstdlib>

namespace lectern::batch {

std::string WorkerName(const Variables& variables, const std::string& host, uint64_t process) {
  const std::string job = variables("SLURM_ARRAY_JOB_ID"), task = variables("SLURM_ARRAY_TASK_ID");
  if (!task.empty()) {
    const std::string number = variables("SLURM_PROCID");
    const std::string behind = number.empty() || number == "0" ? "" : "." + number;
    return "slurm:" + (job.empty() ? variables("SLURM_JOB_ID") : job) + "_" + task + behind;
  }
  if (const std::string index = variables("JOB_COMPLETION_INDEX"); !index.empty()) {
    return "kubernetes:" + host + ":" + index;
  }
  return host + ":" + std::to_string(process);
}

std::string Variable(const char* name) {
  const char* const value = std::getenv(name);
  return value ? value : "";
}

}  // namespace lectern::batch
