// What the command lines of all tools share: flags, environment variables, defaults, exit status.
#ifndef LECTERN_TOOLS_COMMAND_LINE_H_
#define LECTERN_TOOLS_COMMAND_LINE_H_

#include <CLI/CLI.hpp>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "engine/lectern.h"
#include "tools/terminal.h"

namespace lectern::tools {

// Each: the flag, else the environment variable, else the default.
struct EngineFlags {
  std::string store;           // --store, LECTERN_STORE, $XDG_DATA_HOME/lectern
  std::string model;           // --model, LECTERN_MODEL, empty
  uint64_t num_threads = 0;    // --threads, LECTERN_THREADS, 0: physical cores
  std::string quota;           // --quota, LECTERN_QUOTA, empty: none
  uint64_t quota_bytes = 0;    // `quota`; set by WithEnvironment
  std::string io;              // --io, LECTERN_IO, "mmap"
  std::string max_ram;         // --max-ram, LECTERN_MAX_RAM, empty: none
  uint64_t max_ram_bytes = 0;  // `max_ram`; set by WithEnvironment
  bool rehash = false;         // --rehash
  std::string weights;         // --weights, LECTERN_WEIGHTS, empty: the document's
  std::string ollama_models;   // OLLAMA_MODELS, else where Ollama keeps them
  std::string chat_template;   // --chat-template, LECTERN_CHAT_TEMPLATE, empty: the document's
  bool has_device = false;     // AddDeviceFlags
  std::string device;          // --device, LECTERN_DEVICE, empty: the CPU
  std::string device_memory;   // --device-memory, LECTERN_DEVICE_MEMORY, empty: nearly what is free
  uint64_t device_memory_bytes = 0;  // `device_memory`; set by WithEnvironment
  ErrorStyle style = ErrorStyle::kText;  // --json

  bool json() const { return style == ErrorStyle::kJson; }
  api::EngineOptions options() const {
    return {store,
            model,
            num_threads,
            quota_bytes,
            io == "pread" ? LECTERN_IO_PREAD : LECTERN_IO_MMAP,
            max_ram_bytes,
            rehash,
            weights,
            /*nice=*/0,
            ollama_models,
            chat_template,
            device,
            device_memory_bytes};
  }
};

// Adds --store and --json; --quota, for tools that write; --model, --weights, --chat-template,
// --threads, --io and --max-ram; --device and --device-memory, for tools that index or ask;
// --version.
void AddStoreFlags(CLI::App& app, EngineFlags& flags);
void AddQuotaFlag(CLI::App& app, EngineFlags& flags);
void AddModelFlags(CLI::App& app, EngineFlags& flags);
void AddDeviceFlags(CLI::App& app, EngineFlags& flags);
void AddVersionFlag(CLI::App& app);

// Checks for Option::check: a number in (0, 1]; in (0, 1); in [low, high]; one of `names`; a key of
// `choices`.
CLI::Validator Share();
CLI::Validator ShareBelowOne();
CLI::Validator NumberBetween(double low, double high);
inline CLI::Validator OneOf(const std::vector<std::string>& names) {
  return CLI::IsMember(names).description("");
}
template <typename Value>
CLI::Validator OneOf(const std::map<std::string, Value>& choices) {
  std::vector<std::string> names;
  for (const auto& choice : choices) names.push_back(choice.first);
  return OneOf(names);
}

// Parses. A value is the exit status to end with: --help, --version, or a usage error that has been
// printed.
std::optional<int> ParseCommandLine(CLI::App& app, int argc, char** argv);

// Fills what no flag gave. INVALID_ARGUMENT names the variable that does not parse.
api::Result<EngineFlags> WithEnvironment(EngineFlags flags);

// The model that indexes when none is named: installed beside the executable, else of the source
// tree. NOT_FOUND.
api::Result<std::string> BundledReader();

// Runs a tool's main; memory that runs out becomes an exit status.
int RunTool(const char* tool, const std::function<int()>& body);

}  // namespace lectern::tools

#endif  // LECTERN_TOOLS_COMMAND_LINE_H_
