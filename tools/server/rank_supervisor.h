// Keeps a group of ranks behind the server's address: starts a new group where one was lost.
#ifndef LECTERN_TOOLS_SERVER_RANK_SUPERVISOR_H_
#define LECTERN_TOOLS_SERVER_RANK_SUPERVISOR_H_

#include <string>
#include <vector>

namespace lectern::server {

// Runs `launcher` ("mpirun -n 4", words between spaces) with this program and `arguments`, which do
// not ask for ranks again, and once more whenever a process of the group was killed, which ends the
// whole group. A group that is lost five times within ten seconds each is given up. SIGINT and
// SIGTERM end the group in order. Says on stderr what happened. Returns the exit status of the last
// group; 0 after a signal.
int SuperviseRanks(const std::string& launcher, std::vector<std::string> arguments);

}  // namespace lectern::server

#endif  // LECTERN_TOOLS_SERVER_RANK_SUPERVISOR_H_
