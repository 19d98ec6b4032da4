// Names a worker so that a person finds its job, and so that a task that is started again is known
// as the same worker.
#ifndef LECTERN_TOOLS_BATCH_WORKER_NAME_H_
#define LECTERN_TOOLS_BATCH_WORKER_NAME_H_

#include <cstdint>
#include <functional>
#include <string>

namespace lectern::batch {

// The value of an environment variable; empty: it is not set.
using Variables = std::function<std::string(const char* name)>;

// "slurm:JOB_TASK" for a task of a Slurm array (SLURM_ARRAY_JOB_ID, SLURM_ARRAY_TASK_ID), with
// ".N" behind it for process N > 0 of the task (SLURM_PROCID); "kubernetes:HOST:INDEX" for a pod of
// an Indexed Job (JOB_COMPLETION_INDEX), whose host name has the job's; else "HOST:PID". Slurm's
// variables win. All three outlive a requeued task or a replaced pod but for the last.
std::string WorkerName(const Variables& variables, const std::string& host, uint64_t process);

// This machine and process, and the real environment; the latter before other threads start.
std::string HostName();
uint64_t ProcessId();
std::string Variable(const char* name);

}  // namespace lectern::batch

#endif  // LECTERN_TOOLS_BATCH_WORKER_NAME_H_
