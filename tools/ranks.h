// Makes a tool one rank of the job that mpirun started (`mpirun -n 4 ask-document …`): the first
// process does the tool's work, and the others attend to their parts of the documents for it.
#ifndef LECTERN_TOOLS_RANKS_H_
#define LECTERN_TOOLS_RANKS_H_

#include <optional>
#include <string>

#include "tools/command_line.h"

namespace lectern::tools {

// A process's part in its job, from before the engine is made until after it is gone. Does nothing
// where mpirun did not start the process, or started one alone, or LECTERN_MPI=off.
class RankOfJob {
 public:
  // Joins the job. A process that is not the first one then serves it, with the engine's options
  // for threads, memory and I/O, until it ends.
  RankOfJob(const char* tool, const EngineFlags& flags);
  ~RankOfJob();
  RankOfJob(const RankOfJob&) = delete;

  // The exit status of a process that has served, or could not join; nothing: the tool goes on.
  std::optional<int> exit_status() const { return exit_status_; }

 private:
  std::optional<int> exit_status_;
};

// Whether this process is one of several ranks.
bool HasRanks();

// Adds to an answer's JSON what the ranks of this process's job did until now: "ranks" has one
// entry for each, with the bytes of the document that it read; "rank_messages" and
// "rank_message_bytes" are the first one's meetings with the others, and what it gave to them.
// Returns other texts, and answers of a process without ranks, as they are.
std::string WithRanks(std::string answer);

}  // namespace lectern::tools

#endif  // LECTERN_TOOLS_RANKS_H_
