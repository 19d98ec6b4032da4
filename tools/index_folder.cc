#include "tools/index_folder.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "tools/collection_batch.h"
#include "tools/document_argument.h"
#include "tools/document_errors.h"
#include "tools/file_list.h"
#include "tools/folder_names.h"
#include "tools/folder_watch.h"
#include "tools/index_report.h"
#include "tools/quantities.h"

namespace lectern::tools {
namespace {

constexpr char kIndexTool[] = "index-document";  // its name in messages

using Clock = std::chrono::steady_clock;

double SecondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// Whether a file that could not be read, or whose text was not taken, is simply no document; so is
// a scan where the program is missing that would recognise its text.
bool IsNoDocument(const api::Error& error) {
  return error.code == LECTERN_EMPTY_DOCUMENT ||
         (error.code == LECTERN_INVALID_ARGUMENT && error.param == "file") ||
         (error.code == LECTERN_NOT_FOUND && error.param == "ocr");
}

// Whether an error of reading concerns one file: a wrong --format or --encoding would come for
// each.
bool IsOfFile(const api::Error& error) {
  return error.param != "format" && error.param != "encoding";
}

// The error's message without the file's name in front, as the row has that.
std::string ReasonOf(const api::Error& error, const std::string& file) {
  const std::string message = CliMessage(error), name = "\"" + file + "\"";
  for (const char* const end : {" ", ": "}) {
    if (message.starts_with(name + end)) return message.substr((name + end).size());
  }
  return message;
}

// Whether the engine would refuse the text as empty, where that is easily seen.
bool IsBlank(const std::string& text) {
  return text.find_first_not_of(" \t\r\n\f\v") == std::string::npos;
}

std::string Sentences(const std::vector<std::string>& sentences) {
  std::string text;
  for (const std::string& sentence : sentences) text += (text.empty() ? "" : "; ") + sentence;
  return text;
}

// Adds what one more document costs: the work one after another, the memory of the largest.
void AddEstimate(const lectern_index_estimate& one, lectern_index_estimate& sum) {
  const uint64_t working =
      std::max(sum.peak_bytes_on_disk - sum.bytes_on_disk,
               one.peak_bytes_on_disk - std::min(one.bytes_on_disk, one.peak_bytes_on_disk));
  sum.tokens += one.tokens;
  sum.bytes_on_disk += one.bytes_on_disk;
  sum.peak_bytes_on_disk = sum.bytes_on_disk + working;
  sum.free_bytes = one.free_bytes;
  sum.anonymous_bytes = std::max(sum.anonymous_bytes, one.anonymous_bytes);
  sum.flops += one.flops;
  sum.seconds += one.seconds;
}

// How far a pass over files has come, by their bytes, from which the time that is left follows:
// tokens are not known before a file is read.
class TimeLeft {
 public:
  explicit TimeLeft(const std::vector<ListedFile>& files) {
    for (const ListedFile& file : files) bytes_ += file.stamp.bytes;
  }
  void BeginFile(const ListedFile& file) { bytes_of_file_ = file.stamp.bytes; }
  void EndFile() { done_ += std::exchange(bytes_of_file_, 0); }
  // Seconds until all files are done, `eta` being the rest of this one; below 0: unknown.
  double Seconds(double eta) const {
    const uint64_t with_file = done_ + bytes_of_file_;
    if (eta < 0 || with_file == 0) return -1;
    const double rate = (SecondsSince(start_) + eta) / static_cast<double>(with_file);
    return eta + rate * static_cast<double>(bytes_ - with_file);
  }

 private:
  const Clock::time_point start_ = Clock::now();
  uint64_t bytes_ = 0, done_ = 0, bytes_of_file_ = 0;
};

// One call of IndexFolder.
class FolderIndexer {
 public:
  FolderIndexer(api::Engine& engine, Interrupts& interrupts, const FolderRun& run)
      : engine_(engine),
        interrupts_(interrupts),
        run_(run),
        display_(run.progress),
        report_(run.style),
        names_(engine, run.collection) {
    if (!run.collection.empty()) batch_.emplace(engine, run.collection);
  }

  int Run() {
    if (run_.watch) watch_.emplace();
    {
      const Interrupts::Scope scope(interrupts_, [this] { Cancel(); });
      if (!List()) return Status();
      if (run_.estimate) return Estimate();
      if (run_.ask_above_seconds > 0 && !SumUp()) return Status();
      if (interrupts_.requested()) {  // the next scope would forget the signal
        Stop({LECTERN_CANCELLED, "cancelled", ""});
        return Status();
      }
    }
    if (run_.ask_above_seconds > 0 && costs_.sum.seconds > run_.ask_above_seconds &&
        !Confirm(EstimateText(costs_.sum) + "Index " + costs_.NumFiles() + " now?")) {
      return 1;
    }
    const Interrupts::Scope scope(interrupts_, [this] { Cancel(); });
    if (run_.watch && !List()) return Status();  // the question may have taken its time
    for (const auto& [argument, error] : list_.missing) AddFailure(argument, error);
    for (const auto& [path, reason] : list_.skipped) Skip(path, reason);
    Pass(list_.files);
    report_.PrintTable(totals_.num_left, SecondsSince(start_));
    AfterPass();
    if (run_.watch && !stopped_) KeepWatching();
    if (!stopped_ && !run_.watch) SayNext();
    return Status();
  }

 private:
  struct Seen {
    FileStamp stamp;
    std::string name;  // of the document; empty: none
  };
  // The costs of all files together; `sum` has those that are to be indexed.
  struct Costs {
    lectern_index_estimate sum = {};
    size_t num_documents = 0, num_existed = 0;
    std::string NumFiles() const {
      const size_t files = num_documents - num_existed;
      return Grouped(files) + (files == 1 ? " file" : " files");
    }
  };

  struct Totals {
    int first_failure = 0;     // exit status of the first file that failed
    size_t num_documents = 0;  // that are indexed, or would be
    size_t num_left = 0;       // files that the pass has not reached
    std::string next;          // how ask-document names the first document, or the collection
  };
  // Things that are said once in a run.
  struct Said {
    std::set<std::string> notes;  // the engine's
    bool polling = false, locked = false;
  };

  void Cancel() {
    engine_.Cancel();
    if (watch_) watch_->Wake();
  }

  // Lists the files; with --watch again, until no folder is new: what came into a folder before it
  // was watched is in the next list. False: stopped_ says why.
  bool List() {
    for (bool is_again = true; is_again;) {
      const auto start = Clock::now();
      auto list = ListFiles(run_.arguments, {.store = RealPath(run_.store), .is_cancelled = [this] {
                                               return interrupts_.requested();
                                             }});
      if (!list.ok()) return Stop(list.error());
      list_ = std::move(*list);
      list_seconds_ = SecondsSince(start);
      is_again = watch_ && watch_->Watch(list_.folders);
    }
    if (watch_ && !watch_->why_polling().empty() && !std::exchange(said_.polling, true)) {
      PrintNote(kIndexTool, watch_->why_polling() + "; changes are looked for every few seconds");
    }
    return true;
  }

  // Remembers the error that ends the run. False, for a return.
  bool Stop(api::Error error) {
    if (error.code == LECTERN_CANCELLED) {
      error.cli_message = "cancelled; what is done is kept: the same command continues";
    }
    stopped_ = std::move(error);
    return false;
  }

  // The exit status; prints the error that ended the run.
  int Status() {
    display_.Clear();
    int status = totals_.first_failure;
    if (stopped_) {
      status = PrintError(kIndexTool, *stopped_, run_.style);
      if (stopped_->code == LECTERN_CANCELLED && interrupts_.requested()) {
        status = interrupts_.exit_status();
      }
    } else if (run_.watch) {
      status = interrupts_.exit_status();
    } else if (status == 0 && totals_.num_documents == 0) {
      status = PrintError(kIndexTool, {LECTERN_NOT_FOUND, "there is no document to index", "file"},
                          run_.style);
    }
    return report_.output().Finish(kIndexTool, status);
  }

  void Add(FileRow row) {
    display_.Clear();
    if (!report_.Add(std::move(row))) stopped_without_output_ = true;
  }
  void Skip(const std::string& file, const std::string& reason) {
    Add({.file = file, .result = FileResult::kSkipped, .reason = reason});
  }
  void AddFailure(const std::string& file, const api::Error& error) {
    if (totals_.first_failure == 0) totals_.first_failure = lectern_exit_status(error.code);
    Add({.file = file,
         .result = FileResult::kFailed,
         .reason = ReasonOf(error, file),
         .error = error});
  }

  // A file that gave no document, and whether the run may go on.
  bool AddError(const ListedFile& file, const api::Error& error, bool is_of_file) {
    const bool is_gone = is_of_file && error.code == LECTERN_NOT_FOUND && error.param == "file";
    // While files are watched, a store in use is waited for: nothing has failed yet.
    if (is_first_pass_done_ && error.code == LECTERN_LOCKED) return Stop(error);
    if (error.code == LECTERN_CANCELLED || (!is_of_file && !IsOfOneText(error))) {
      const bool is_cancelled = error.code == LECTERN_CANCELLED;
      Add({.file = file.path,
           .result = is_cancelled ? FileResult::kInterrupted : FileResult::kFailed,
           .reason = ReasonOf(error, file.path),
           .error = error});
      return Stop(error);
    }
    if (IsNoDocument(error) || is_gone) {
      Add({.file = file.path,
           .result = FileResult::kSkipped,
           .reason = is_gone ? "is not there any more" : ReasonOf(error, file.path),
           .error = error});
    } else {
      AddFailure(file.path, error);
    }
    return true;
  }

  api::IndexOptions OptionsFor(const Ingested& document) const {
    api::IndexOptions options;
    run_.options->PutInto(options);
    options.pages = document.pages;
    options.page_labels = document.page_labels;
    return options;
  }

  // Reads the file. Nothing: the row is there, and stopped_ says whether to go on.
  std::optional<Ingested> Read(const ListedFile& file) {
    display_.Show(
        {.stage = "read", .done = 0, .total = 1, .tokens_per_second = 0, .eta_seconds = -1},
        place_);
    auto document = run_.read(file.path);
    if (document.ok() && interrupts_.requested()) {
      document = api::Error{LECTERN_CANCELLED, "cancelled", ""};
    }
    if (document.ok()) return std::move(*document);
    AddError(file, document.error(), IsOfFile(document.error()));
    return std::nullopt;
  }

  // Indexes the files one after another, up to an error that ends the run.
  void Pass(const std::vector<ListedFile>& files) {
    TimeLeft left(files);
    place_ = {.number = 0, .count = files.size(), .name = ""};
    for (size_t i = 0; i < files.size(); ++i) {
      totals_.num_left = files.size() - i - 1;
      place_ = {.number = i + 1, .count = files.size(), .name = files[i].path};
      left.BeginFile(files[i]);
      IndexFile(files[i], left);
      left.EndFile();
      if (stopped_ || stopped_without_output_) break;
    }
    AddBatch();
  }

  // Lets the caller work when the files have been gone through.
  void AfterPass() {
    if (stopped_ || !run_.after_pass) return;
    display_.Clear();
    if (const auto done = run_.after_pass(); !done.ok()) Stop(done.error());
  }

  // Adds the texts that wait to the collection, also after an error: they have been read.
  void AddBatch() {
    if (!batch_) return;
    for (CollectionBatch::Outcome& outcome : batch_->Flush()) {
      if (outcome.added.ok()) {
        AddAdded(outcome.text, *outcome.added);
        continue;
      }
      api::Error error = outcome.added.error();
      error.cli_message = ReasonOf(error, outcome.text.source);  // the row names the file
      if (!AddError(outcome.text.file, error, false)) return;
    }
  }

  // A file whose text is in the collection now.
  void AddAdded(const CollectionBatch::Text& text, const api::Added& added) {
    const std::string& file = text.file.path;
    FileRow row = {.file = file,
                   .result = added.change == LECTERN_CHANGE_RENEWED ? FileResult::kRenewed
                             : added.change == LECTERN_CHANGE_NEW   ? FileResult::kIndexed
                                                                    : FileResult::kUnchanged,
                   .reason = Sentences(run_.notes(text.document)),
                   .name = added.name,
                   .seconds = text.seconds};
    auto json = api::SetString("{}", "name", added.name);
    if (json.ok()) json = api::SetString(*json, "collection", run_.collection);
    if (json.ok()) row.json = *json;
    ++totals_.num_documents;
    names_.Add("", added.name, text.source);
    const bool is_news =
        !is_first_pass_done_ || row.result != FileResult::kUnchanged || !seen_.contains(file);
    if (watch_) seen_[file].name = added.name;
    if (totals_.next.empty()) totals_.next = "--collection " + ShellWord(run_.collection);
    if (is_news || run_.style == ErrorStyle::kJson) Add(std::move(row));
  }

  void IndexFile(const ListedFile& file, const TimeLeft& left) {
    const auto start = Clock::now();
    const std::string source = RealPath(file.path);
    auto document = Read(file);
    if (document && batch_ && IsBlank(document->text)) {
      AddError(file, {LECTERN_EMPTY_DOCUMENT, "the document is empty: it has only white space", ""},
               true);
    } else if (document && batch_) {
      batch_->Add({.file = file,
                   .name = run_.name,
                   .source = source,
                   .path = names_.PathFor(file, source),
                   .document = *std::move(document),
                   .seconds = SecondsSince(start)});
      if (batch_->is_full()) AddBatch();
    } else if (document) {
      api::IndexOptions options = OptionsFor(*document);
      const std::string path = names_.PathFor(file, source);
      options.source = source;
      options.path = path;
      options.on_progress = [&](const api::Progress& progress) {
        place_.eta_seconds = left.Seconds(progress.eta_seconds);
        display_.Show(progress, place_);
        return !interrupts_.requested();
      };
      auto report = engine_.Index(document->text, options);
      if (report.ok()) {
        AddReport(file, source, *document, *report, SecondsSince(start));
      } else {
        AddError(file, report.error(), false);
      }
    }
    if (!stopped_ && watch_) seen_[file.path].stamp = file.stamp;
  }

  void AddReport(const ListedFile& file, const std::string& source, const Ingested& document,
                 const api::IndexReport& report, double seconds) {
    const lectern_index_numbers numbers = report.numbers();
    const std::string id(report.document()), name(report.name());
    std::vector<std::string> notes = run_.notes(document);
    if (numbers.resumed_tokens > 0) {
      notes.push_back("an interrupted run was continued after " + Grouped(numbers.resumed_tokens) +
                      " tokens");
    }
    if (numbers.replaced_bytes > 0) {
      notes.push_back(Grouped(numbers.replaced_bytes) + " bytes were not UTF-8 and were replaced");
    }
    const std::string equal = numbers.existed ? names_.EqualDocument(id, source) : "";
    if (!equal.empty()) notes.push_back("the same text as \"" + equal + "\"");
    FileRow row = {.file = file.path,
                   .result = !report.replaced().empty() ? FileResult::kRenewed
                             : numbers.existed          ? FileResult::kUnchanged
                                                        : FileResult::kIndexed,
                   .reason = Sentences(notes),
                   .name = name,
                   .tokens = numbers.tokens,
                   .seconds = seconds,
                   .json = WithFileNote(report.json(), Sentences(run_.notes(document)))};
    if (!numbers.existed) {
      row.new_tokens = numbers.tokens - std::min(numbers.tokens, numbers.reused_tokens);
      row.new_bytes = numbers.bytes_on_disk;
    }
    ++totals_.num_documents;
    names_.Add(id, name, source);
    // A file that was saved as it was is no news to people; one with a new name is.
    const bool is_news =
        !is_first_pass_done_ || row.result != FileResult::kUnchanged || !seen_.contains(file.path);
    if (watch_) seen_[file.path].name = name;
    if (totals_.next.empty()) totals_.next = "--document " + AskArgument(report);
    if (is_news || run_.style == ErrorStyle::kJson) Add(std::move(row));
    SayOnce(report);
  }

  // The engine's notes are mostly the same for each document of a model: each is said once.
  void SayOnce(const api::IndexReport& report) {
    if (run_.style == ErrorStyle::kJson || report.note().empty()) return;
    const std::string note(report.cli_note());
    if (!said_.notes.insert(note).second) return;
    display_.Clear();
    PrintNote(kIndexTool, note);
  }

  void SayNext() const {
    if (run_.style == ErrorStyle::kJson || totals_.next.empty()) return;
    PrintNote(kIndexTool, "next: ask-document " + totals_.next + " \"…\"");
  }

  // --- the costs -------------------------------------------------------------------------------

  // Estimates each file and adds the costs up. False: stopped_.
  bool SumUp() {
    costs_.sum.struct_size = sizeof(costs_.sum);
    for (size_t i = 0; i < list_.files.size() && !stopped_; ++i) {
      const ListedFile& file = list_.files[i];
      place_ = {.number = i + 1, .count = list_.files.size(), .name = file.path};
      totals_.num_left = list_.files.size() - i - 1;
      EstimateFile(file);
    }
    display_.Clear();
    return !stopped_ && !stopped_without_output_;
  }

  // Errors are rows of --estimate alone: indexing comes to them again.
  void EstimateFile(const ListedFile& file) {
    if (!run_.estimate && !file.is_regular) return;  // indexing would find it empty
    display_.Show(
        {.stage = "estimate", .done = 0, .total = 1, .tokens_per_second = 0, .eta_seconds = -1},
        place_);
    auto document = run_.read(file.path);
    api::Result<lectern_index_estimate> estimate =
        document.ok() ? engine_.Estimate(document->text, OptionsFor(*document)) : document.error();
    if (!estimate.ok()) {
      const api::Error& error = estimate.error();
      const bool is_of_file = !document.ok() && IsOfFile(error);
      if (run_.estimate || error.code == LECTERN_CANCELLED ||
          (!is_of_file && !IsOfOneText(error))) {
        AddError(file, error, is_of_file);
      }
      return;
    }
    ++costs_.num_documents;
    if (estimate->existed) {
      ++costs_.num_existed;
    } else {
      AddEstimate(*estimate, costs_.sum);
    }
    if (!run_.estimate) return;
    auto json = api::ToJson(*estimate);
    Add({.file = file.path,
         .result = estimate->existed ? FileResult::kUnchanged : FileResult::kEstimated,
         .tokens = estimate->tokens,
         .new_tokens = estimate->existed ? 0 : estimate->tokens,
         .new_bytes = estimate->existed ? 0 : estimate->bytes_on_disk,
         .seconds = estimate->seconds,
         .json = json.ok() ? *json : ""});
  }

  int Estimate() {
    for (const auto& [argument, error] : list_.missing) AddFailure(argument, error);
    for (const auto& [path, reason] : list_.skipped) Skip(path, reason);
    SumUp();
    display_.Clear();
    totals_.num_documents = costs_.num_documents;
    costs_.sum.existed = costs_.num_existed == costs_.num_documents ? 1 : 0;
    auto json = api::ToJson(costs_.sum);
    report_.PrintTable(totals_.num_left, SecondsSince(start_), json.ok() ? *json : "");
    if (!stopped_ && run_.style == ErrorStyle::kText && totals_.num_documents > 0) {
      report_.output().Print(EstimateText(costs_.sum));
    }
    return Status();
  }

  // --- watching ----------------------------------------------------------------------------------

  // Indexes files that change, until a signal comes or the run is ended by an error.
  void KeepWatching() {
    is_first_pass_done_ = true;
    if (run_.style == ErrorStyle::kText) {
      PrintNote(kIndexTool, "watching " + Grouped(list_.folders.size()) +
                                (list_.folders.size() == 1 ? " folder" : " folders") +
                                " for changes; Ctrl-C ends");
    }
    bool is_soon = false;
    while (!interrupts_.requested() && !stopped_without_output_) {
      // An argument that is not there may come back in a folder that is not watched yet.
      watch_->Wait(is_soon || !list_.missing.empty(), list_seconds_);
      if (interrupts_.requested()) break;
      is_soon = false;
      if (List()) {
        TellDeleted();
        Pass(Changed());
        AfterPass();
      }
      if (!stopped_) continue;
      if (stopped_->code == LECTERN_CANCELLED) break;
      if (stopped_->code != LECTERN_LOCKED) break;
      // Another program writes the store: its turn ends, and the files are still to be done.
      if (!std::exchange(said_.locked, true)) {
        PrintNote(kIndexTool, CliMessage(*stopped_) + "; trying again every few seconds");
      }
      stopped_.reset();
      is_soon = true;
    }
    if (stopped_ && stopped_->code == LECTERN_CANCELLED) stopped_.reset();
    display_.Clear();
    report_.PrintSums(0, SecondsSince(start_));
  }

  // The files whose stamps differ from those that were indexed.
  std::vector<ListedFile> Changed() const {
    std::vector<ListedFile> changed;
    for (const ListedFile& file : list_.files) {
      const auto seen = seen_.find(file.path);
      if (seen == seen_.end() || seen->second.stamp != file.stamp) changed.push_back(file);
    }
    return changed;
  }

  void TellDeleted() {
    std::set<std::string> there;
    for (const ListedFile& file : list_.files) there.insert(file.path);
    for (auto seen = seen_.begin(); seen != seen_.end();) {
      if (there.contains(seen->first)) {
        ++seen;
        continue;
      }
      if (const std::string& name = seen->second.name; !name.empty()) {
        Add({.file = seen->first,
             .result = FileResult::kDeleted,
             .reason =
                 "the document \"" + name + "\" stays (lectern-store " +
                 (batch_ ? "collection " + ShellWord(run_.collection) + " --remove)" : "remove)"),
             .name = name});
      }
      seen = seen_.erase(seen);
    }
  }

  api::Engine& engine_;
  Interrupts& interrupts_;
  const FolderRun& run_;
  const Clock::time_point start_ = Clock::now();
  ProgressDisplay display_;
  FolderReport report_;
  FolderNames names_;
  std::optional<CollectionBatch> batch_;  // texts on their way into a collection
  std::optional<FolderWatch> watch_;  // with --watch
  FileList list_;
  double list_seconds_ = 0;
  FileOfMany place_;
  Costs costs_;
  std::optional<api::Error> stopped_;    // the error that ended the run
  bool stopped_without_output_ = false;  // stdout is gone
  Totals totals_;
  Said said_;
  std::map<std::string, Seen> seen_;  // with --watch: files that were indexed, by path
  bool is_first_pass_done_ = false;
};

}  // namespace

int IndexFolder(api::Engine& engine, Interrupts& interrupts, const FolderRun& run) {
  return FolderIndexer(engine, interrupts, run).Run();
}

}  // namespace lectern::tools
