// Parses the command lines of all tools in the same way: flags, environment variables, defaults,
// exit status.
#ifndef LECTERN_TOOLS_COMMAND_LINE_H_
#define LECTERN_TOOLS_COMMAND_LINE_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/lectern.h"
#include "engine/requests/options.h"
#include "tools/terminal.h"

namespace CLI {  // which command_line.cc alone includes: it takes longer to compile than a tool
class App;
class Option;
}  // namespace CLI

namespace lectern::tools {

// Returns what is wrong with the text of a value; empty: nothing.
using Check = std::function<std::string(const std::string& text)>;
// The same, and keeps the value.
using Take = std::function<std::string(const std::string& text)>;

// An option or flag of a command line, which it does not outlive.
class Option {
 public:
  explicit Option(CLI::Option* option) : option_(option) {}
  const Option& TypeName(const std::string& name) const;  // what --help calls the value
  const Option& AddHelp(const std::string& more) const;
  const Option& Check(tools::Check check) const;
  const Option& Required(bool is_required = true) const;
  const Option& Excludes(const Option& other) const;
  const Option& SeparatedBy(char delimiter) const;  // several values in one argument

 private:
  friend class CommandLine;
  CLI::Option* option_;
};

// The options and commands of a tool, or of a command of it.
class CommandLine {
 public:
  CommandLine(const std::string& description, const std::string& tool,
              const std::string& footer = "");
  ~CommandLine();

  // Value is one of the types that command_line.cc instantiates it for. A name without dashes is a
  // position. Both keep `value`, which receives what is parsed.
  template <typename Value>
  Option AddOption(const std::string& name, Value& value, const std::string& help);
  // The same with values that `take` checks and keeps, once or as often as it is given.
  Option AddOption(const std::string& name, Take take, const std::string& help);
  Option AddRepeatedOption(const std::string& name, Take take, const std::string& help);
  Option AddFlag(const std::string& name, bool& value, const std::string& help);
  Option AddFlag(const std::string& name, std::function<void()> when_given,
                 const std::string& help);

  // Adds a command; one of the commands must be given. This object's own flags may come behind it,
  // too. The result belongs to this object.
  CommandLine* AddCommand(const std::string& name, const std::string& description);
  bool parsed() const;  // that it was the command given

  CLI::App& app() { return *app_; }

 private:
  explicit CommandLine(CLI::App* command);

  std::unique_ptr<CLI::App> tool_;  // none of a command
  CLI::App* app_;
  std::vector<std::unique_ptr<CommandLine>> commands_;
};

inline constexpr char kGroupLimit[] = "its container or control group";

// Options of the engine, each the flag, else the environment variable, else the default, once
// WithEnvironment filled them in.
struct EngineFlags : EngineOptions {
  GivenEngineOptions given{EngineOptionRows()};  // by flags
  bool has_device = false;                       // AddDeviceFlags
  std::string max_ram_of;  // the flag, variable or group that max_ram_bytes comes from
  ErrorStyle style = ErrorStyle::kText;  // --json

  bool json() const { return style == ErrorStyle::kJson; }
};

inline constexpr char kDocumentsModel[] = "the one that the document was indexed with";
// The model that indexes when none is named, and how good it is.
inline constexpr char kBundledModel[] =
    "the bundled model, which is small (3.9 million parameters) and good only for trying things "
    "out";

// Adds --store and --json; --quota, for tools that write; --model, --weights, --chat-template,
// --threads, --io and --max-ram; --device and --device-memory, for tools that index or ask;
// --version.
void AddStoreFlags(CommandLine& app, EngineFlags& flags);
void AddQuotaFlag(CommandLine& app, EngineFlags& flags);
// `default_model`: which model is used where none is named, for --help.
void AddModelFlags(CommandLine& app, EngineFlags& flags,
                   const std::string& default_model = kDocumentsModel);
void AddDeviceFlags(CommandLine& app, EngineFlags& flags);
void AddVersionFlag(CommandLine& app);

// A number in [low, high]; above 0; one of `names`; a key of `choices`.
Check NumberBetween(double low, double high);
Check PositiveNumber();
Check OneOf(const std::vector<std::string>& names);
template <typename Value>
Check OneOf(const std::map<std::string, Value>& choices) {
  std::vector<std::string> names;
  for (const auto& choice : choices) names.push_back(choice.first);
  return OneOf(names);
}

// Parses. A value is the exit status to end with: --help, --version, or a usage error that has been
// printed.
std::optional<int> ParseCommandLine(CommandLine& app, int argc, char** argv);

// Fills what no flag gave. INVALID_ARGUMENT names the variable that does not parse.
api::Result<EngineFlags> WithEnvironment(EngineFlags flags);

api::Result<api::Engine> CreateEngine(const EngineFlags& flags);

// The folder of the model that indexes when none is named: ../share/lectern/reader, seen from the
// executable (in a build folder a link to the source tree), else where the install prefix puts it.
// NOT_FOUND where neither is a folder.
api::Result<std::string> BundledReader();

// Runs a tool's main; memory that runs out becomes an exit status.
int RunTool(const char* tool, const std::function<int()>& body);

}  // namespace lectern::tools

#endif  // LECTERN_TOOLS_COMMAND_LINE_H_
