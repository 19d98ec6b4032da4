#include "tools/ranks.h"

#include <memory>
#include <string>

#include "engine/indexing/ranked_index.h"
#include "engine/model/formats/json.h"
#include "engine/ranks/rank_group.h"
#include "engine/ranks/rank_worker.h"
#include "kernels/backend.h"
#include "kernels/cuda/runtime/find_in_library.h"
#include "kernels/thread_pool.h"
#include "tools/system_start.h"

namespace lectern::tools {
namespace {

constexpr char kMpiLibrary[] = "liblectern_mpi.so.1";

// Open MPI, MPICH and PMIx (which Slurm's srun speaks) each tell a process so that it is one of a
// job. A program of the job may start a tool for itself, and then says LECTERN_MPI=off.
bool IsInJob() {
  if (EnvironmentVariable("LECTERN_MPI") == "off") return false;
  for (const char* const size : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE"}) {
    const std::string value = EnvironmentVariable(size);
    if (!value.empty()) return value != "1";
  }
  return !EnvironmentVariable("PMIX_RANK").empty();
}

Result<std::shared_ptr<Communicator>> Join() {
  // Beside the programs as they are built, or where they are installed.
  FoundFunction found = FindInLibrary(std::string("../lib/") + kMpiLibrary, "lectern_mpi_join");
  if (found.function == nullptr) found = FindInLibrary(kMpiLibrary, "lectern_mpi_join");
  if (found.function == nullptr) {
    return Status(Code::kNotFound,
                  std::string("mpirun started this process, but there is no ") + kMpiLibrary +
                      " (" + found.why +
                      "); build Lectern where MPI is installed, or say LECTERN_MPI=off");
  }
  std::shared_ptr<Communicator> ranks;
  using JoinJob = const char* (*)(std::shared_ptr<Communicator>*);
  const std::string why = reinterpret_cast<JoinJob>(found.function)(&ranks);
  if (!why.empty()) return Status(Code::kInvalidArgument, why);
  return ranks;
}

Status Serve(const std::shared_ptr<Communicator>& ranks, const EngineFlags& flags) {
  ThreadPool threads(flags.num_threads > 0 ? flags.num_threads : DefaultThreads(), flags.nice);
  return ServeRank(
      *ranks,
      {.env = Env::Default(),
       .backend = *DefaultBackend(),
       .threads = threads,
       .io = flags.io,
       .ram = flags.max_ram_bytes > 0 ? std::make_shared<RamLimit>(flags.max_ram_bytes) : nullptr},
      IndexAsRank);
}

}  // namespace

RankOfJob::RankOfJob(const char* tool, const EngineFlags& flags) {
  if (!IsInJob()) return;
  auto ranks = Join();
  Status status = ranks.status();
  if (status.ok()) {
    if ((*ranks)->size() == 1) return;
    if ((*ranks)->rank() == 0) {
      RankGroup::SetOfProcess(std::make_shared<RankGroup>(*std::move(ranks)));
      return;
    }
    status = Serve(*ranks, flags);
  }
  exit_status_ = 0;
  if (status.ok()) return;
  exit_status_ =
      PrintError(tool, {static_cast<lectern_code>(status.code()), status.message(), status.param()},
                 flags.style);
}

bool HasRanks() { return RankGroup::OfProcess() != nullptr; }

std::string WithRanks(std::string answer) {
  const std::shared_ptr<RankGroup> group = RankGroup::OfProcess();
  if (!group) return answer;
  auto json = ParseJson(answer);
  if (!json.ok() || json->object() == nullptr) return answer;
  Json::Object object = *json->object();
  Json::Array ranks;
  for (const uint64_t bytes : group->bytes_read()) {
    Json::Object rank;
    rank["bytes_read"] = Json(bytes);
    ranks.emplace_back(std::move(rank));
  }
  object["ranks"] = Json(std::move(ranks));
  object["rank_messages"] = Json(group->traffic().calls);
  object["rank_message_bytes"] = Json(group->traffic().bytes);
  return Json(std::move(object)).Dump();
}

RankOfJob::~RankOfJob() { RankGroup::SetOfProcess(nullptr); }

}  // namespace lectern::tools
