#include "tools/default_reader.h"

#include <filesystem>

#include "engine/model/formats/path_text.h"
#include "tools/run_program.h"
#include "tools/system_start.h"

namespace lectern::tools {
namespace {

namespace fs = std::filesystem;

constexpr char kModelFile[] = "SmolLM2-135M-Instruct.Q4_1.gguf";  // $smollm2 of tools/fetch.sh

// The path of the installed file or folder `name`: ../share/lectern/`name`, seen from the executable,
// else where the install prefix puts it. NOT_FOUND (param "model") names both.
api::Result<std::string> Installed(const std::string& name, const std::string& noun) {
  std::error_code error;
  const fs::path executable = PathOf(ProgramPath());
  const fs::path beside = executable.parent_path().parent_path() / "share/lectern" / name;
  const fs::path prefix = PathOf(LECTERN_DATA_DIR) / name;
  for (const fs::path& path : {beside, prefix}) {
    if (fs::exists(path, error)) return TextOf(path);
  }
  return api::Error{
      LECTERN_NOT_FOUND,
      noun + " is neither " + TextOf(beside) + " nor " + TextOf(prefix) + "; give --model",
      "model"};
}

// The last line of `text` that is not empty.
std::string LastLine(std::string text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r')) text.pop_back();
  return text.substr(text.rfind('\n') + 1);
}

// The released model in ReaderCache() with the installed adapter, whether or not it is there.
api::Result<Reader> ReleasedReader() {
  auto adapter = Installed("adapter", "the adapter");
  if (!adapter.ok()) return adapter.error();
  return Reader{ReaderCache() + "/" + kModelFile, *adapter};
}

}  // namespace

std::string ReaderCache() {
  const std::string cache = UserCacheFolder();
  return cache.empty() ? "" : cache + "/lectern";
}

api::Result<std::string> BundledReader() { return Installed("reader", "the bundled model"); }

api::Result<Reader> DefaultReader() {
  std::error_code error;
  auto released = ReleasedReader();
  if (released.ok() && !ReaderCache().empty() &&
      fs::is_regular_file(PathOf(released->model), error)) {
    return *released;
  }
  auto bundled = BundledReader();
  if (!bundled.ok()) return bundled.error();
  return Reader{*bundled, ""};
}

api::Result<Reader> FetchReader() {
  auto released = ReleasedReader();
  auto script = Installed("fetch.sh", "the script that fetches a model");
  if (!released.ok()) return released.error();
  if (!script.ok()) return script.error();
  if (ReaderCache().empty()) {
    return api::Error{
        LECTERN_NOT_FOUND,
        std::string("there is no place for a fetched model: set ") + kUserCacheVariables, "model"};
  }
  std::string output;
  auto status = RunProgram("bash", {*script, ReaderCache()}, output);
  if (!status.ok()) return status.error();
  if (*status == 0) return *released;
  return api::Error{LECTERN_NOT_FOUND,
                    std::string(kReleasedModel) + " could not be fetched: " + LastLine(output) +
                        "; --model PATH takes a model of yours, and without --yes the small bundled "
                        "one is taken",
                    "model"};
}

}  // namespace lectern::tools
