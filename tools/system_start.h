// The differences between systems that every tool meets when it starts: its arguments, its streams
// and the user's folders.
#ifndef LECTERN_TOOLS_SYSTEM_START_H_
#define LECTERN_TOOLS_SYSTEM_START_H_

#include <string>
#include <vector>

namespace lectern::tools {

// The arguments of main as UTF-8, and the standard streams as the tools write them: UTF-8, with
// lines that end with '\n'. One object, the first thing that main makes; it outlives their use.
class SystemStart {
 public:
  SystemStart(int argc, char** argv);
  SystemStart(const SystemStart&) = delete;
  SystemStart& operator=(const SystemStart&) = delete;
  int argc() const { return static_cast<int>(pointers_.size()) - 1; }
  char** argv() { return pointers_.data(); }  // with nullptr behind the last, as main has them

 private:
  std::vector<std::string> texts_;  // where the system's are in another encoding
  std::vector<char*> pointers_;
};

// The folder for what the user's programs keep, and the one for what they can fetch again. Without
// a slash at the end, and absolute unless HOME is not. Empty: the system does not say.
std::string UserDataFolder();
std::string UserCacheFolder();

// The variables that UserDataFolder and UserCacheFolder read, for messages.
extern const char* const kUserDataVariables;
extern const char* const kUserCacheVariables;

// The value of an environment variable as UTF-8; empty where it is not set.
std::string EnvironmentVariable(const char* name);

// The path of the running program, with '/' between its parts; empty where the system does not say.
std::string ProgramPath();

}  // namespace lectern::tools

#endif  // LECTERN_TOOLS_SYSTEM_START_H_
