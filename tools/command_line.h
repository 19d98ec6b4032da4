// Parses the command lines of all tools in the same way: the flags, environment variables and
// defaults that they share, the wording of usage errors, and the exit status. Every main() in
// tools/ begins here.
//
//     CommandLine app("Does this.", "tool-name");
//     AddStoreFlags(app, flags);                                          // what --help lists
//     if (const auto status = ParseCommandLine(app, argc, argv)) return *status;
//     auto with_environment = WithEnvironment(flags);                     // variables, defaults
//     auto engine = CreateEngine(*with_environment);
//
// One thread, before any other is started: reading environment variables is not thread-safe.
// Mistakes of the tool itself (two options of one name, say) throw CLI11's exceptions; RunTool
// reports them.
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

namespace CLI {  // CLI11. Only command_line.cc includes it: its headers take longer than a tool
class App;
class Option;
}  // namespace CLI

namespace lectern::tools {

// Checks the text of a value. Returns what is wrong with it ("11 is not a number from 0 to 10"),
// which becomes the usage error; an empty string: nothing.
using Check = std::function<std::string(const std::string& text)>;
// Like Check, and stores the value somewhere when nothing is wrong.
using Take = std::function<std::string(const std::string& text)>;

// One option or flag of a command line, to be described further. A handle: copies mean the same
// option, and none may be used after the command line is gone. Each call returns the option, so
// that calls can be chained.
class Option {
 public:
  explicit Option(CLI::Option* option) : option_(option) {}
  const Option& TypeName(const std::string& name) const;  // what --help calls the value; may be ""
  const Option& AddHelp(const std::string& more) const;   // appends to the help text as it is
  const Option& Check(tools::Check check) const;          // one more; the first complaint counts
  const Option& Required(bool is_required = true) const;  // without it, parsing fails
  const Option& Excludes(const Option& other) const;      // giving both is a usage error
  const Option& Needs(const Option& other) const;  // giving it without the other is a usage error
  const Option& SeparatedBy(char delimiter) const;        // several values in one argument: a,b,c

 private:
  friend class CommandLine;
  CLI::Option* option_;
};

// The options and commands of a tool, or of one command of a tool.
class CommandLine {
 public:
  // A tool's. --help begins with `description` and ends with `footer` (examples, exit status).
  CommandLine(const std::string& description, const std::string& tool,
              const std::string& footer = "");
  ~CommandLine();

  // Adds an option whose value is parsed into `value`, which must outlive this object and keeps its
  // content where the option is not given: that is the default. A text that is no `Value` is a
  // usage error. `Value` is one of the types that command_line.cc instantiates the template for;
  // others fail to link. A vector takes every argument up to the next option, unless SeparatedBy. A
  // name without dashes ("FILE") is a positional argument.
  template <typename Value>
  Option AddOption(const std::string& name, Value& value, const std::string& help);
  // The same for values that `take` checks and stores: one value, or one for each time that the
  // option is given. The first complaint of `take` is the usage error; values before it are stored.
  Option AddOption(const std::string& name, Take take, const std::string& help);
  Option AddRepeatedOption(const std::string& name, Take take, const std::string& help);
  // A flag without a value: sets `value` to true (it must outlive this object), or calls
  // `when_given` while the arguments are parsed.
  Option AddFlag(const std::string& name, bool& value, const std::string& help);
  Option AddFlag(const std::string& name, std::function<void()> when_given,
                 const std::string& help);
  // A flag whose value may be given behind "=", as in --ocr=deu; without one it is `otherwise`.
  // `value` must outlive this object.
  Option AddFlagWithValue(const std::string& name, const std::string& otherwise, std::string& value,
                          const std::string& help);

  // Adds a command, as in "lectern-store list"; from then on the user must give one. The tool's own
  // flags may stand before the command or behind it. The result is never nullptr, and belongs to
  // this object.
  CommandLine* AddCommand(const std::string& name, const std::string& description);
  bool parsed() const;  // for a command: whether it is the one that the user gave

  CLI::App& app() { return *app_; }  // for command_line.cc

 private:
  explicit CommandLine(CLI::App* command);

  std::unique_ptr<CLI::App> tool_;  // empty for a command, whose App belongs to the tool's
  CLI::App* app_;                   // never nullptr
  std::vector<std::unique_ptr<CommandLine>> commands_;
};

// The value of EngineFlags::max_ram_of where neither flag nor variable set the limit.
inline constexpr char kGroupLimit[] = "its container or control group";

// The options of the engine as the user gave them. After parsing, only `given`, `has_device` and
// `style` are set; WithEnvironment fills in `max_ram_of` and the fields of EngineOptions, each from
// the flag, else the environment variable, else the default.
struct EngineFlags : EngineOptions {
  GivenEngineOptions given{EngineOptionRows()};  // the values of flags, then also of variables
  bool has_device = false;  // AddDeviceFlags was called: only then LECTERN_DEVICE is read
  // Where max_ram_bytes comes from, for messages: "--max-ram", "LECTERN_MAX_RAM" or kGroupLimit
  // (also where there is no limit: max_ram_bytes is 0 then).
  std::string max_ram_of;
  ErrorStyle style = ErrorStyle::kText;  // kJson with --json

  bool json() const { return style == ErrorStyle::kJson; }
};

// For AddModelFlags: the default of tools that ask.
inline constexpr char kDocumentsModel[] = "the one that the document was indexed with";
// Each adds some flags of the engine (engine/requests/engine_options.cc lists them), which are kept
// in `flags`; `flags` must outlive `app`. AddStoreFlags: --store and --json. AddQuotaFlag: --quota,
// for tools that write. AddModelFlags: --model, --weights, --adapter, --chat-template, --threads,
// --io, --max-ram and --rehash, for tools that need a model. AddDeviceFlags: --device and
// --device-memory, for tools that index or ask; it also sets has_device. AddVersionFlag: --version.
void AddStoreFlags(CommandLine& app, EngineFlags& flags);
void AddQuotaFlag(CommandLine& app, EngineFlags& flags);
// `default_model` completes the help of --model: the model that is used where none is named.
void AddModelFlags(CommandLine& app, EngineFlags& flags,
                   const std::string& default_model = kDocumentsModel);
void AddDeviceFlags(CommandLine& app, EngineFlags& flags);
void AddVersionFlag(CommandLine& app);

// Checks of a value's text: a number in [low, high] (NaN is none); a number above 0 (by CLI11, with
// its wording); one of `names`; one of the keys of `choices`. Names are compared with their case.
Check NumberBetween(double low, double high);
Check PositiveNumber();
Check OneOf(const std::vector<std::string>& names);
template <typename Value>
Check OneOf(const std::map<std::string, Value>& choices) {
  std::vector<std::string> names;
  for (const auto& choice : choices) names.push_back(choice.first);
  return OneOf(names);
}

// Parses the arguments, once. It stores the values and calls the functions of flags as it goes, so
// that a usage error leaves some of them set. Nothing: go on. A value: end with this exit status;
// --help or --version has been printed on stdout (0), or a usage error on stderr (2), as JSON where
// --json is among the arguments before a "--". A mistyped option or command gets a suggestion.
std::optional<int> ParseCommandLine(CommandLine& app, int argc, char** argv);

// Returns `flags` with every field of EngineOptions filled in: from the flag, else from the
// option's environment variable (an empty one counts as not set), else from the default. The
// default store is $XDG_DATA_HOME/lectern (an absolute path alone counts), else
// ~/.local/share/lectern; the default memory limit is PlannedMemoryBytes, else none. ollama_models
// is $OLLAMA_MODELS, else ~/.ollama/models, else empty. Makes no folder. INVALID_ARGUMENT: a
// variable's text is no value of its option (param: the variable), or there is no place for a store
// (param "store").
api::Result<EngineFlags> WithEnvironment(EngineFlags flags);

// Makes the engine with the result of WithEnvironment, of which it keeps no view. Opens neither
// store nor model. Errors of api::Engine::Create.
api::Result<api::Engine> CreateEngine(const EngineFlags& flags);

// Runs a tool's main and returns its exit status. A std::exception that escapes it is printed on
// stderr as "tool: message", also with --json, and becomes an exit status: running out of memory 5,
// any other 1 (a bug). Lectern's own code throws nothing; libraries do.
int RunTool(const char* tool, const std::function<int()>& body);

}  // namespace lectern::tools

#endif  // LECTERN_TOOLS_COMMAND_LINE_H_
