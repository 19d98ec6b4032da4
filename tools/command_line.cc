#include "tools/command_line.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <new>
#include <numeric>
#include <sstream>
#include <string_view>
#include <utility>

#include "kernels/process_limits.h"
#include "tools/option_flags.h"
#include "tools/quantities.h"
#include "tools/system_start.h"

namespace lectern::tools {
namespace {

// The value of an environment variable. One that is set to nothing counts as not set, as
// everywhere.
std::string_view Variable(const char* name) {
  const char* const value = std::getenv(name);
  return value ? value : "";
}

// The store where neither --store nor LECTERN_STORE names one.
api::Result<std::string> DefaultStore() {
  const std::string data = UserDataFolder();
  if (!data.empty()) return data + "/lectern";
  return api::Error{
      LECTERN_INVALID_ARGUMENT,
      std::string("no store: give --store, or set LECTERN_STORE, ") + kUserDataVariables, "store"};
}

// Whether --json is given. Looks at the arguments themselves, because parsing has failed when a
// usage error is printed; behind "--" everything is a positional argument.
bool WantsJson(int argc, char** argv) {
  for (int i = 1; i < argc && std::string_view(argv[i]) != "--"; ++i) {
    if (std::string_view(argv[i]) == "--json") return true;
  }
  return false;
}

// Levenshtein distance: how many characters to insert, remove or replace until `a` is `b`. One row
// of the table at a time; `diagonal` is the upper left neighbour, which the row has overwritten.
size_t EditDistance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 0; i < a.size(); ++i) {
    size_t diagonal = std::exchange(row[0], i + 1);
    for (size_t j = 0; j < b.size(); ++j) {
      const size_t replaced = diagonal + (a[i] != b[j]);
      diagonal = row[j + 1];
      row[j + 1] = std::min({row[j] + 1, diagonal + 1, replaced});
    }
  }
  return row.back();
}

// "; did you mean --model?", where one of `names` is near to what was given, or begins like it;
// else empty. An abbreviation counts as one mistake: --mod for --model. Of equally near names the
// first is taken.
std::string Suggestion(std::string_view given, const std::vector<std::string>& names) {
  std::string best;
  size_t least = given.size() / 3 + 1;  // a third of the characters, and one, may be wrong
  for (const std::string& name : names) {
    const bool is_begun = given.size() > 3 && name.starts_with(given);
    const size_t distance = is_begun ? 1 : EditDistance(given, name);
    if (distance < least || (best.empty() && distance == least)) {
      least = distance;
      best = name;
    }
  }
  return best.empty() ? "" : "; did you mean " + best + "?";
}

// Names of all commands of the tool. CLI11 lists all of them where a filter is given, even one that
// lets everything pass, and else only those that were parsed.
std::vector<std::string> CommandNames(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    names.push_back(command->get_name());
  }
  return names;
}

// Names of the tool's options and of the options of the command that was given.
std::vector<std::string> OptionNames(const CLI::App& app) {
  std::vector<std::string> names;
  const auto add = [&](const CLI::App& of) {
    for (const CLI::Option* option : of.get_options()) {
      for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
    }
  };
  add(app);
  for (const CLI::App* command : app.get_subcommands()) add(*command);
  return names;
}

// Says in our words why the arguments that CLI11 did not take are wrong; empty: it took all, and
// the error is another. Underscores in an option's name are read as dashes for the suggestion
// (--kv_budget).
std::string WrongArgument(const CLI::App& app) {
  const std::vector<std::string> left = app.remaining(true);
  const auto option = std::find_if(left.begin(), left.end(), [](const std::string& text) {
    return text.size() > 1 && text.starts_with('-');
  });
  if (option != left.end()) {
    const std::string name = option->substr(0, option->find('='));
    std::string dashed = name;
    std::replace(dashed.begin(), dashed.end(), '_', '-');
    return "there is no option " + name + Suggestion(dashed, OptionNames(app));
  }
  if (left.empty()) return "";
  const std::vector<std::string> commands = CommandNames(app);
  if (!commands.empty() && app.get_subcommands().empty()) {
    return "there is no command \"" + left.front() + "\"" + Suggestion(left.front(), commands);
  }
  return "the argument \"" + left.front() + "\" is one too many; a text with spaces needs quotes";
}

// A Check that a text is a number for which `is_good` holds; `range` completes "11 is not …".
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

const Option& Option::AddHelp(const std::string& more) const {
  option_->description(option_->get_description() + more);
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

const Option& Option::Needs(const Option& other) const {
  option_->needs(other.option_);
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
  app_->allow_windows_style_options(false);  // "/file" is a path on Windows, too
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

namespace {

// Hands each text that was given to `take`; the first complaint ends the parse. CLI11 takes errors
// as exceptions, which ParseCommandLine catches.
std::function<bool(const CLI::results_t&)> TakeAll(const std::string& name, Take take) {
  return [name, take = std::move(take)](const CLI::results_t& texts) {
    for (const std::string& text : texts) {
      if (const std::string wrong = take(text); !wrong.empty()) {
        throw CLI::ValidationError(name, wrong);
      }
    }
    return true;
  };
}

}  // namespace

Option CommandLine::AddOption(const std::string& name, Take take, const std::string& help) {
  return Option(app_->add_option(name, TakeAll(name, std::move(take)), help)->type_name("TEXT"));
}

// Without allow_extra_args(false), an option that may be given many times would also take the
// positional arguments behind its value.
Option CommandLine::AddRepeatedOption(const std::string& name, Take take, const std::string& help) {
  const Option option = AddOption(name, std::move(take), help);
  option.option_->expected(1, CLI::detail::expected_max_vector_size)->allow_extra_args(false);
  return option;
}

Option CommandLine::AddFlag(const std::string& name, bool& value, const std::string& help) {
  return Option(app_->add_flag(name, value, help));
}

Option CommandLine::AddFlag(const std::string& name, std::function<void()> when_given,
                            const std::string& help) {
  return Option(app_->add_flag_callback(name, std::move(when_given), help));
}

Option CommandLine::AddFlagWithValue(const std::string& name, const std::string& otherwise,
                                     std::string& value, const std::string& help) {
  return Option(app_->add_flag(name + "{" + otherwise + "}", value, help));
}

// fallthrough: flags of the tool are found behind the command too.
CommandLine* CommandLine::AddCommand(const std::string& name, const std::string& description) {
  app_->require_subcommand(1);
  app_->fallthrough();
  auto* const command = new CommandLine(app_->add_subcommand(name, description));
  commands_.emplace_back(command);
  return command;
}

bool CommandLine::parsed() const { return app_->parsed(); }

void AddStoreFlags(CommandLine& app, EngineFlags& flags) {
  AddOptionFlags(app, flags.given, kStoreTool);
  app.AddFlag(
      "--json", [&flags] { flags.style = ErrorStyle::kJson; },
      "Print JSON instead of text, errors included");
}

void AddQuotaFlag(CommandLine& app, EngineFlags& flags) {
  AddOptionFlags(app, flags.given, kWritingTool);
}

void AddModelFlags(CommandLine& app, EngineFlags& flags, const std::string& default_model) {
  AddOptionFlags(app, flags.given, kModelTool)
      .at("model")
      .AddHelp(" (default: $" + VariableOf(flags.given.option("model")) + ", else " +
               default_model + ")");
}

void AddDeviceFlags(CommandLine& app, EngineFlags& flags) {
  flags.has_device = true;
  AddOptionFlags(app, flags.given, kDeviceTool);
}

void AddVersionFlag(CommandLine& app) {
  app.app().set_version_flag("--version", app.app().get_name() + " " + lectern_version(),
                             "Print the version and exit");
}

Check NumberBetween(double low, double high) {
  std::ostringstream range;
  range << "a number from " << low << " to " << high;
  return NumberCheck([=](double x) { return x >= low && x <= high; }, range.str());
}

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
    const std::string wrong = WrongArgument(app);
    const std::string message = (wrong.empty() ? std::string(error.what()) : wrong) + " (see " +
                                app.get_name() + " --help)";
    return PrintError(app.get_name(), {LECTERN_INVALID_ARGUMENT, message, {}}, style);
  }
}

namespace {

// Reads the environment variables of all options whose flags were not given. The error names the
// variable that holds no value of its option.
std::optional<api::Error> ReadVariables(EngineFlags& flags) {
  for (size_t i = 0; i < flags.given.size(); ++i) {
    const lectern::Option& option = flags.given.option(i);
    if (option.is_in(kDeviceTool) && !flags.has_device) continue;
    const std::string wrong = ReadVariable(option, flags.given.value(i));
    if (!wrong.empty()) return api::Error{LECTERN_INVALID_ARGUMENT, wrong, VariableOf(option)};
  }
  return std::nullopt;
}

}  // namespace

api::Result<EngineFlags> WithEnvironment(EngineFlags flags) {
  const bool is_ram_given = IsGiven(flags.given["max_ram"]);
  if (auto error = ReadVariables(flags)) return *error;
  if (!IsGiven(flags.given["store"])) {
    auto store = DefaultStore();
    if (!store.ok()) return store.error();
    flags.given["store"] = *store;
  }
  flags.given.PutIntoEngine(flags);
  flags.ollama_models = Variable("OLLAMA_MODELS");
  const std::string home(Variable("HOME"));
  if (flags.ollama_models.empty() && !home.empty()) flags.ollama_models = home + "/.ollama/models";
  const lectern::Option& max_ram = flags.given.option("max_ram");
  flags.max_ram_of = is_ram_given ? FlagOf(max_ram) : VariableOf(max_ram);
  if (flags.max_ram_bytes == 0) {
    // Under a control group's limit, a document that takes more memory would get the process killed
    // by the kernel instead of being refused with a message.
    flags.max_ram_bytes = PlannedMemoryBytes().value_or(0);
    flags.max_ram_of = kGroupLimit;
  }
  return flags;
}

api::Result<api::Engine> CreateEngine(const EngineFlags& flags) {
  GivenEngineOptions values(EngineOptionRows());
  values.TakeFrom(flags);
  api::EngineOptions options;  // has views of texts in `values`
  values.PutInto(options);
  return api::Engine::Create(options);
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
