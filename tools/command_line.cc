#include "tools/command_line.h"

#include <CLI/CLI.hpp>
#include <charconv>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <iostream>
#include <new>
#include <sstream>
#include <string_view>
#include <system_error>

#include "tools/quantities.h"

namespace lectern::tools {
namespace {

constexpr uint64_t kMaxThreads = 1024;

// Empty counts as not set, as everywhere.
std::string_view Variable(const char* name) {
  const char* const value = std::getenv(name);
  return value ? value : "";
}

template <typename T>
std::optional<T> ParseNumber(std::string_view text) {
  T number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

api::Result<uint64_t> ThreadsFromEnvironment() {
  const std::string_view text = Variable("LECTERN_THREADS");
  if (text.empty()) return uint64_t{0};
  const std::optional<uint64_t> number = ParseNumber<uint64_t>(text);
  if (number && *number >= 1 && *number <= kMaxThreads) return *number;
  return api::Error{LECTERN_INVALID_ARGUMENT,
                    "LECTERN_THREADS=\"" + std::string(text) +
                        "\" is not a number of threads (1 to " + std::to_string(kMaxThreads) + ")",
                    "LECTERN_THREADS"};
}

constexpr char kSizeWanted[] = " is not a size like 500MB or 2GiB";

// A flag that was checked, else the variable.
api::Result<uint64_t> ReadSize(std::string_view flag, const char* variable) {
  const std::string text(flag.empty() ? Variable(variable) : flag);
  if (text.empty()) return uint64_t{0};
  if (const std::optional<uint64_t> bytes = ParseBytes(text)) return *bytes;
  return api::Error{LECTERN_INVALID_ARGUMENT,
                    std::string(variable) + "=\"" + text + "\"" + kSizeWanted, variable};
}

api::Result<std::string> ReadIo(const std::string& flag) {
  const std::string text(flag.empty() ? Variable("LECTERN_IO") : flag);
  if (text.empty() || text == "mmap" || text == "pread") return text;
  return api::Error{LECTERN_INVALID_ARGUMENT,
                    "LECTERN_IO=\"" + text + "\" is neither mmap nor pread", "LECTERN_IO"};
}

api::Result<std::string> ReadWeights(const std::string& flag) {
  const std::string text(flag.empty() ? Variable("LECTERN_WEIGHTS") : flag);
  if (text.empty() || text == "stored" || text == "q8" || text == "q4") return text;
  return api::Error{LECTERN_INVALID_ARGUMENT,
                    "LECTERN_WEIGHTS=\"" + text + "\" is none of stored, q8 and q4",
                    "LECTERN_WEIGHTS"};
}

api::Result<std::string> DefaultStore() {
  const std::string_view data = Variable("XDG_DATA_HOME"), home = Variable("HOME");
  if (data.starts_with('/')) return std::string(data) + "/lectern";  // others are to be ignored
  if (!home.empty()) return std::string(home) + "/.local/share/lectern";
  return api::Error{LECTERN_INVALID_ARGUMENT,
                    "no store: give --store, or set LECTERN_STORE, XDG_DATA_HOME or HOME", "store"};
}

bool WantsJson(int argc, char** argv) {
  for (int i = 1; i < argc && std::string_view(argv[i]) != "--"; ++i) {
    if (std::string_view(argv[i]) == "--json") return true;
  }
  return false;
}

std::string Size(const std::string& text) {
  return ParseBytes(text) ? std::string() : text + kSizeWanted;
}

Check NumberCheck(std::function<bool(double)> is_good, std::string range) {
  return [is_good, range](const std::string& text) {
    const std::optional<double> number = ParseNumber<double>(text);
    return number && is_good(*number) ? std::string() : text + " is not " + range;
  };
}

}  // namespace

const Option& Option::TypeName(const std::string& name) const {
  option_->type_name(name);
  return *this;
}

const Option& Option::Check(tools::Check check) const {
  option_->check(CLI::Validator([check](std::string& text) { return check(text); }, ""));
  return *this;
}

const Option& Option::Required(bool is_required) const {
  option_->required(is_required);
  return *this;
}

const Option& Option::Excludes(const Option& other) const {
  option_->excludes(other.option_);
  return *this;
}

const Option& Option::SeparatedBy(char delimiter) const {
  option_->delimiter(delimiter)->allow_extra_args(false);
  return *this;
}

CommandLine::CommandLine(const std::string& description, const std::string& tool,
                         const std::string& footer)
    : tool_(std::make_unique<CLI::App>(description, tool)), app_(tool_.get()) {
  app_->footer(footer);
}

CommandLine::CommandLine(CLI::App* command) : app_(command) {}

CommandLine::~CommandLine() = default;

template <typename Value>
Option CommandLine::AddOption(const std::string& name, Value& value, const std::string& help) {
  return Option(app_->add_option(name, value, help));
}
template Option CommandLine::AddOption(const std::string&, std::string&, const std::string&);
template Option CommandLine::AddOption(const std::string&, std::optional<std::string>&,
                                       const std::string&);
template Option CommandLine::AddOption(const std::string&, std::vector<std::string>&,
                                       const std::string&);
template Option CommandLine::AddOption(const std::string&, std::vector<double>&,
                                       const std::string&);
template Option CommandLine::AddOption(const std::string&, float&, const std::string&);
template Option CommandLine::AddOption(const std::string&, double&, const std::string&);
template Option CommandLine::AddOption(const std::string&, int&, const std::string&);
template Option CommandLine::AddOption(const std::string&, uint16_t&, const std::string&);
template Option CommandLine::AddOption(const std::string&, uint32_t&, const std::string&);
template Option CommandLine::AddOption(const std::string&, uint64_t&, const std::string&);

Option CommandLine::AddFlag(const std::string& name, bool& value, const std::string& help) {
  return Option(app_->add_flag(name, value, help));
}

Option CommandLine::AddFlag(const std::string& name, std::function<void()> when_given,
                            const std::string& help) {
  return Option(app_->add_flag_callback(name, std::move(when_given), help));
}

CommandLine* CommandLine::AddCommand(const std::string& name, const std::string& description) {
  app_->require_subcommand(1);
  app_->fallthrough();
  auto* const command = new CommandLine(app_->add_subcommand(name, description));
  commands_.emplace_back(command);
  return command;
}

bool CommandLine::parsed() const { return app_->parsed(); }

void AddStoreFlags(CommandLine& app, EngineFlags& flags) {
  app.AddOption("--store", flags.store,
                "Directory of the documents (LECTERN_STORE; else $XDG_DATA_HOME/lectern)")
      .TypeName("DIR")
      .Check([](const std::string& text) { return text.empty() ? "is empty" : ""; });
  app.AddFlag(
      "--json", [&flags] { flags.style = ErrorStyle::kJson; }, "Print JSON; errors too");
}

void AddQuotaFlag(CommandLine& app, EngineFlags& flags) {
  app.AddOption("--quota", flags.quota,
                "What the store may come to on disk, as 500MB or 2GiB (LECTERN_QUOTA; else any)")
      .TypeName("SIZE")
      .Check(Size);
}

void AddModelFlags(CommandLine& app, EngineFlags& flags) {
  app.AddOption("--model", flags.model,
                "A model: Hugging Face folder, .gguf file, or a name of Ollama's (LECTERN_MODEL)")
      .TypeName("PATH");
  app.AddOption("--weights", flags.weights,
                "The model's matrices as stored, or quantised once to 8 or 4 bits: stored, q8, q4 "
                "(LECTERN_WEIGHTS; else the document's, for indexing stored)")
      .TypeName("W")
      .Check(OneOf({"stored", "q8", "q4"}));
  app.AddOption("--chat-template", flags.chat_template,
                "The chat template: a file with a Jinja program, or the name of a built-in one "
                "(plain, llama3, chatml, ...; LECTERN_CHAT_TEMPLATE; else the document's, for "
                "indexing the model's own)")
      .TypeName("T");
  app.AddOption("--threads", flags.num_threads,
                "Threads to compute with (LECTERN_THREADS; else one per physical core)")
      .TypeName("N")
      .Check(NumberBetween(1, kMaxThreads));
  app.AddOption("--io", flags.io,
                "How files are read: mmap, or pread, which turns a file that is cut or fails under "
                "us into an error (LECTERN_IO; else mmap)")
      .TypeName("I")
      .Check(OneOf({"mmap", "pread"}));
  app.AddOption("--max-ram", flags.max_ram,
                "Memory to take beside the program itself, as 500MB or 2GiB (LECTERN_MAX_RAM; else "
                "any)")
      .TypeName("SIZE")
      .Check(Size);
  app.AddFlag("--rehash", flags.rehash,
              "Hash the model's weights although their files look as they did last time");
}

void AddDeviceFlags(CommandLine& app, EngineFlags& flags) {
  flags.has_device = true;
  app.AddOption("--device", flags.device,
                "Where to compute: cpu, cuda or cuda:N for an NVIDIA GPU, auto for one if there is "
                "any (LECTERN_DEVICE; else cpu)")
      .TypeName("D");
  app.AddOption("--device-memory", flags.device_memory,
                "Memory of the GPU to take, as 8GB or 20GiB (LECTERN_DEVICE_MEMORY; else nearly "
                "what is free)")
      .TypeName("SIZE")
      .Check(Size);
}

void AddVersionFlag(CommandLine& app) {
  app.app().set_version_flag("--version", app.app().get_name() + " " + lectern_version(),
                             "Print the version and exit");
}

Check Share() {
  return NumberCheck([](double x) { return x > 0 && x <= 1; }, "a share above 0 and up to 1");
}

Check ShareBelowOne() {
  return NumberCheck([](double x) { return x > 0 && x < 1; }, "a share above 0 and below 1");
}

Check NumberBetween(double low, double high) {
  std::ostringstream range;
  range << "a number from " << low << " to " << high;
  return NumberCheck([=](double x) { return x >= low && x <= high; }, range.str());
}

Check NonNegativeNumber() { return CLI::NonNegativeNumber; }

Check PositiveNumber() { return CLI::PositiveNumber; }

Check OneOf(const std::vector<std::string>& names) { return CLI::IsMember(names); }

std::optional<int> ParseCommandLine(CommandLine& command_line, int argc, char** argv) {
  CLI::App& app = command_line.app();
  try {
    app.parse(argc, argv);
    return std::nullopt;
  } catch (const CLI::Success& help_or_version) {
    return app.exit(help_or_version);
  } catch (const CLI::ParseError& error) {
    const ErrorStyle style = WantsJson(argc, argv) ? ErrorStyle::kJson : ErrorStyle::kText;
    const std::string message = std::string(error.what()) + " (see " + app.get_name() + " --help)";
    return PrintError(app.get_name(), {LECTERN_INVALID_ARGUMENT, message, {}}, style);
  }
}

api::Result<EngineFlags> WithEnvironment(EngineFlags flags) {
  if (flags.store.empty()) flags.store = Variable("LECTERN_STORE");
  if (flags.store.empty()) {
    auto store = DefaultStore();
    if (!store.ok()) return store.error();
    flags.store = std::move(*store);
  }
  if (flags.model.empty()) flags.model = Variable("LECTERN_MODEL");
  flags.ollama_models = Variable("OLLAMA_MODELS");
  const std::string home(Variable("HOME"));
  if (flags.ollama_models.empty() && !home.empty()) flags.ollama_models = home + "/.ollama/models";
  auto quota = ReadSize(flags.quota, "LECTERN_QUOTA");
  if (!quota.ok()) return quota.error();
  flags.quota_bytes = *quota;
  auto max_ram = ReadSize(flags.max_ram, "LECTERN_MAX_RAM");
  if (!max_ram.ok()) return max_ram.error();
  flags.max_ram_bytes = *max_ram;
  if (flags.has_device) {
    auto device_memory = ReadSize(flags.device_memory, "LECTERN_DEVICE_MEMORY");
    if (!device_memory.ok()) return device_memory.error();
    flags.device_memory_bytes = *device_memory;
  }
  auto io = ReadIo(flags.io);
  if (!io.ok()) return io.error();
  flags.io = *io;
  auto weights = ReadWeights(flags.weights);
  if (!weights.ok()) return weights.error();
  flags.weights = *weights;
  if (flags.chat_template.empty()) flags.chat_template = Variable("LECTERN_CHAT_TEMPLATE");
  if (flags.has_device && flags.device.empty()) flags.device = Variable("LECTERN_DEVICE");
  if (flags.num_threads == 0) {
    auto threads = ThreadsFromEnvironment();
    if (!threads.ok()) return threads.error();
    flags.num_threads = *threads;
  }
  return flags;
}

api::Result<std::string> BundledReader() {
  namespace fs = std::filesystem;
  std::error_code error;
  const fs::path executable = fs::read_symlink("/proc/self/exe", error);
  const fs::path installed = executable.parent_path().parent_path() / "share/lectern/reader";
  for (const fs::path& folder : {installed, fs::path(LECTERN_READER_DIR)}) {
    if (fs::is_directory(folder, error)) return folder.string();
  }
  return api::Error{LECTERN_NOT_FOUND,
                    "the bundled model is neither in " + installed.string() + " nor in " +
                        LECTERN_READER_DIR + "; give --model",
                    "model"};
}

int RunTool(const char* tool, const std::function<int()>& body) {
  try {
    return body();
  } catch (const std::bad_alloc&) {
    return PrintError(tool, {LECTERN_OUT_OF_MEMORY, "out of memory", {}}, ErrorStyle::kText);
  } catch (const std::exception& exception) {
    return PrintError(tool, {LECTERN_INTERNAL, exception.what(), {}}, ErrorStyle::kText);
  }
}

}  // namespace lectern::tools
