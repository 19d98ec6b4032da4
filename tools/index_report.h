// How index-document prints results: pieces of one document's report, and the rows, sums and JSON
// lines of a run over many files.
#ifndef LECTERN_TOOLS_INDEX_REPORT_H_
#define LECTERN_TOOLS_INDEX_REPORT_H_

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "engine/lectern.h"
#include "tools/terminal.h"

namespace lectern::tools {

// The argument by which the next command can name the document: its name where a shell takes that
// as one word and no tool takes it for an option, else its id.
std::string AskArgument(const api::IndexReport& report);

// `word` as a shell takes it as one argument: itself, or between single quotes.
std::string ShellWord(const std::string& word);

// The result of --estimate, and the first lines of the question whether to go on.
std::string EstimateText(const lectern_index_estimate& estimate);

// How a file of many ended:
//   kIndexed      a new document
//   kUnchanged    the document was there, and nothing was done
//   kRenewed      the file has changed: the next version of its document
//   kSkipped      no document: empty, no text, hidden, …
//   kFailed       an error that concerns this file, or the one that ended the run
//   kInterrupted  Ctrl-C came; the same command goes on from there
//   kDeleted      --watch: the file is gone, its document stays
//   kEstimated    --estimate: it would be indexed
enum class FileResult {
  kIndexed,
  kUnchanged,
  kRenewed,
  kSkipped,
  kFailed,
  kInterrupted,
  kDeleted,
  kEstimated
};
const char* FileResultName(FileResult result);  // "indexed", "unchanged", …

struct FileRow {
  std::string file = {};  // as ListedFile::path
  FileResult result = FileResult::kIndexed;
  std::string reason = {};  // why it was skipped or failed, or something to know; or empty
  std::string name = {};    // of the document; empty: none
  uint64_t tokens = 0;      // of the document
  uint64_t new_tokens = 0;  // those that this run computed
  uint64_t new_bytes = 0;   // on disk
  double seconds = 0;       // with reading the file
  std::string json = {};    // the object of the report or estimate; empty: none
  std::optional<api::Error> error = {};  // with kFailed, kInterrupted, and kSkipped after reading
};

// Collects the rows of a run, and prints them. One thread.
class FolderReport {
 public:
  explicit FolderReport(ErrorStyle style) : style_(style) {}

  // Adds a row. With JSON it is printed at once as one line: the report's object (or the error's)
  // with "file", "result" and "reason". Else it waits for PrintTable, or, after that, is printed as
  // a line of its own. False: stdout is gone.
  bool Add(FileRow row);
  // Prints the rows and their sums, for people; with JSON the line {"summary":{…}}. `left`: how
  // many files were not reached. `estimate`: the object of the sum of all estimates, which the line
  // of JSON has too; empty: none.
  bool PrintTable(size_t left, double seconds, const std::string& estimate = "");
  // Prints the sums of the whole run once more: the end of --watch. A file that changed three times
  // counts as one file, and three times as renewed.
  bool PrintSums(size_t left, double seconds, const std::string& estimate = "");

  size_t count(FileResult result) const { return counts_[static_cast<size_t>(result)]; }
  Output& output() { return output_; }

 private:
  bool json() const { return style_ == ErrorStyle::kJson; }

  ErrorStyle style_;
  Output output_;
  std::vector<FileRow> rows_;  // that PrintTable will print
  bool is_table_printed_ = false;
  std::set<std::string> files_;
  size_t counts_[8] = {};  // by FileResult
  uint64_t tokens_ = 0, new_tokens_ = 0, new_bytes_ = 0;
};

}  // namespace lectern::tools

#endif  // LECTERN_TOOLS_INDEX_REPORT_H_
