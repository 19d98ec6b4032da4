// lectern-batch: indexes a corpus on many machines. The documents stand in a table of PostgreSQL,
// from which any number of workers claim them; each is indexed and put into a bucket as a bundle,
// which lectern-store imports. README.md beside this file describes it.
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <utility>

#include "engine/model/formats/json.h"
#include "tools/batch/catalog.h"
#include "tools/batch/corpus_table.h"
#include "tools/batch/document_bundler.h"
#include "tools/batch/file_hash.h"
#include "tools/batch/postgres_queue.h"
#include "tools/batch/s3_store.h"
#include "tools/batch/scratch_folder.h"
#include "tools/batch/worker.h"
#include "tools/batch/worker_name.h"
#include "tools/command_line.h"
#include "tools/default_reader.h"
#include "tools/document_argument.h"
#include "tools/input_file.h"
#include "tools/interrupts.h"
#include "tools/quantities.h"
#include "tools/system_start.h"
#include "tools/terminal.h"

namespace lectern::batch {
namespace {

using tools::CommandLine;

constexpr char kTool[] = "lectern-batch";
// A text that is no larger than any machine's memory and disk.
constexpr char kTrialText[] = "A text of a few words.";

// The foot of --help.
constexpr char kExamples[] = R"(
Examples:
  export LECTERN_DATABASE=postgresql://db.example.org/corpora LECTERN_BUCKET=s3://corpora/law
  lectern-batch add laws.jsonl         add the documents of a manifest; again: only those that are new
  lectern-batch work                   index documents until none is left; on any number of machines
  lectern-batch status                 count them, and list those that failed
  lectern-batch retry                  let those that failed wait again
  lectern-batch publish                write the list by which lectern-server --bucket finds documents
  lectern-batch verify                 compare every object of the bucket with the database

A manifest has one document a line: a path, or {"file":…,"name":…,"options":{"format":…,"keep":…}}.

Exit status: 0 ok, 1 failure, 2 usage, 3 not found, 4 model mismatch, 5 disk or memory, 6 an object is
not as recorded, 130 Ctrl-C, 143 SIGTERM; of work: documents that failed do not count, status has
them.)";

struct BatchFlags {
  tools::EngineFlags engine;
  std::string database, bucket, endpoint;
  std::string manifest, options = "{}";  // of add
  std::string worker, scratch;           // of work
  double lease_seconds = 120;
  int max_deaths = 3;
  uint64_t part_bytes = kPartBytes;
  bool keeps_scratch = false;  // for the next time: the user named the folder
  bool again = false;          // of verify
  bool json() const { return engine.json(); }
};

struct Commands {
  CommandLine *add, *work, *status, *retry, *publish, *verify;
};

void AddWorkFlags(CommandLine& work, BatchFlags& flags) {
  AddQuotaFlag(work, flags.engine);
  AddModelFlags(work, flags.engine, tools::kDefaultReader);
  AddDeviceFlags(work, flags.engine);
  work.AddOption(
          "--lease", flags.lease_seconds,
          "Seconds after which others take the document of a worker that gives no sign of life; it "
          "gives one three times as often (default: 120)")
      .TypeName("SECONDS")
      .Check(tools::NumberBetween(1, 86400));
  work.AddOption("--max-deaths", flags.max_deaths,
                 "Number of workers that may die at a document before it counts as failed "
                 "(default: 3)")
      .TypeName("N")
      .Check(tools::NumberBetween(1, 1000));
  work.AddOption("--worker", flags.worker,
                 "Name of this worker, of which one may run (default: by the index of the Slurm "
                 "array or of the Kubernetes Job, else host and process)")
      .TypeName("NAME");
  work.AddOption(
          "--part-size",
          [&flags](const std::string& text) -> std::string {
            const std::optional<uint64_t> bytes = tools::ParseBytes(text);
            if (!bytes || *bytes < kLeastPartBytes || *bytes > kMostPartBytes) {
              return text + " is no size from 5MiB to 5GiB";
            }
            flags.part_bytes = *bytes;
            return "";
          },
          "Size above which a bundle is uploaded in parts of this size (default: 256MiB)")
      .TypeName("SIZE");
  work.AddOption("--scratch", flags.scratch,
                 "Folder on a local disk, for a store of one document at a time; one that was "
                 "interrupted goes on from there (default: the system's folder of temporary files)")
      .TypeName("DIR");
}

Commands AddFlags(CommandLine& app, BatchFlags& flags) {
  app.AddFlag(
      "--json", [&flags] { flags.engine.style = tools::ErrorStyle::kJson; },
      "Print JSON instead of text, errors included");
  app.AddOption("--database", flags.database,
                "URL of the PostgreSQL database, as libpq takes it; a password is better kept in "
                "PGPASSWORD or ~/.pgpass (default: $LECTERN_DATABASE, else by the PG* variables)")
      .TypeName("URL");
  app.AddOption("--bucket", flags.bucket,
                "Where the bundles go, s3://bucket/prefix; this is also the name of the corpus in "
                "the database (default: $LECTERN_BUCKET)")
      .TypeName("URL");
  app.AddOption("--endpoint", flags.endpoint,
                "URL of the S3 server, addressed by path (default: $AWS_ENDPOINT_URL_S3, "
                "$AWS_ENDPOINT_URL, else AWS). Keys are AWS_ACCESS_KEY_ID and so on")
      .TypeName("URL");
  AddVersionFlag(app);
  const Commands commands = {
      app.AddCommand("add", "Add the documents of a manifest to the corpus"),
      app.AddCommand("work", "Index documents of the corpus until none is left"),
      app.AddCommand("status", "Count the documents by state, and list those that failed"),
      app.AddCommand("retry", "Let documents that failed wait again"),
      app.AddCommand("publish",
                     "Write the list of documents that are done into the bucket, where "
                     "lectern-server --bucket finds them"),
      app.AddCommand("verify", "Compare the objects of the bucket with the database")};
  commands.add->AddOption("MANIFEST", flags.manifest, "The manifest; - reads stdin")
      .TypeName("")
      .Required();
  commands.add
      ->AddOption("--options", flags.options,
                  "Options of every document, as a JSON object like that of a line; an "
                  "option of a line wins")
      .TypeName("JSON");
  AddWorkFlags(*commands.work, flags);
  commands.verify->AddFlag("--again", flags.again,
                           "Let documents wait again whose objects are missing or not as recorded");
  return commands;
}

std::string NumDocuments(uint64_t number) {
  return tools::Grouped(number) + (number == 1 ? " document" : " documents");
}

// One run of the tool, after the command line was understood.
class Batch {
 public:
  Batch(const BatchFlags& flags, const BucketPlace& place) : flags_(flags), place_(place) {
    interrupted_ = [this] { return interrupts_.requested(); };
  }

  int Add() {
    auto text = tools::ReadInputFile(flags_.manifest);
    if (!text.ok()) return Fail(text.error());
    auto entries = ParseManifest(*text, flags_.options, tools::AbsolutePath);
    if (!entries.ok()) return Fail(entries.error());
    auto table = Table();
    if (!table.ok()) return Fail(table.error());
    const tools::Interrupts::Scope scope(interrupts_, [] {});
    if (auto made = table->Create(interrupted_); !made.ok()) return Fail(made.error());
    auto added = table->Add(*entries, interrupted_);
    if (!added.ok()) return Fail(added.error());
    return Print(
        Json::Object{{"added", added->added}, {"existed", added->existed}},
        "added " + NumDocuments(added->added) + " to " + place_.Text() +
            (added->existed > 0 ? "; " + tools::Grouped(added->existed) + " were there already"
                                : "") +
            "\n");
  }

  int Status() {
    auto table = Table();
    if (!table.ok()) return Fail(table.error());
    const tools::Interrupts::Scope scope(interrupts_, [] {});
    auto counts = table->Count(interrupted_);
    if (!counts.ok()) return Fail(counts.error());
    auto failures = table->Failures(interrupted_);
    if (!failures.ok()) return Fail(failures.error());
    if (counts->models > 1 && !flags_.json()) {
      tools::PrintNote(kTool, "documents were indexed with " + tools::Grouped(counts->models) +
                                  " different models");
    }
    return Print(StatusJson(*counts, *failures), StatusText(*counts, *failures));
  }

  int Retry() {
    auto table = Table();
    if (!table.ok()) return Fail(table.error());
    const tools::Interrupts::Scope scope(interrupts_, [] {});
    auto number = table->Retry(interrupted_);
    if (!number.ok()) return Fail(number.error());
    return Print(Json::Object{{"waiting_again", *number}},
                 NumDocuments(*number) + " waiting again\n");
  }

  // The list is written to a file first, as a corpus may be large.
  int Publish() {
    auto table = Table();
    auto store = Store();
    if (!table.ok()) return Fail(table.error());
    if (!store.ok()) return Fail(store.error());
    ScratchFolder folder(flags_.scratch, "publish-" + HostName() + std::to_string(ProcessId()));
    if (auto made = folder.Make(); !made.ok()) return Fail(made.error());
    const tools::Interrupts::Scope scope(interrupts_, [] {});
    const std::string path = folder.path() + "/catalog.jsonl";
    auto number = WriteCatalog(*table, path);
    if (!number.ok()) return Fail(number.error());
    auto hash = HashFile(path);
    if (!hash.ok()) return Fail(hash.error());
    const std::string key = CatalogKey(place_);
    auto put = (*store)->Put(key, path, {hash->bytes, hash->sha256}, interrupted_);
    if (!put.ok()) return Fail(put.error());
    return Print(Json::Object{{"published", *number}, {"key", key}},
                 "published " + NumDocuments(*number) + " in " + key + "\n");
  }

  // Wrong objects are a result, printed on stdout; the exit status is that of damage.
  int Verify() {
    auto table = Table();
    auto store = Store();
    if (!table.ok()) return Fail(table.error());
    if (!store.ok()) return Fail(store.error());
    const tools::Interrupts::Scope scope(interrupts_, [] {});
    Json::Array wrong;
    std::string text, after;
    uint64_t checked = 0;
    for (;;) {
      auto stored = table->Stored(after, interrupted_);
      if (!stored.ok()) return Fail(stored.error());
      if (stored->empty()) break;
      for (const StoredDocument& one : *stored) {
        auto why = WhyWrong(**store, one);
        if (!why.ok()) return Fail(why.error());
        for (const std::string& key : one.replaced) {
          if (auto gone = (*store)->Remove(key, interrupted_); !gone.ok())
            return Fail(gone.error());
        }
        ++checked;
        if (why->empty()) continue;
        text += one.name + ": " + one.key + " " + *why + "\n";
        wrong.emplace_back(Json::Object{{"name", one.name}, {"key", one.key}, {"reason", *why}});
        if (!flags_.again) continue;
        if (auto put = PutBack(*table, **store, one); !put.ok()) return Fail(put.error());
      }
      after = stored->back().name;
    }
    const bool is_wrong = !wrong.empty();
    text += tools::Grouped(checked) + " objects checked, " + tools::Grouped(wrong.size()) +
            " not as recorded\n";
    return Print(Json::Object{{"checked", checked}, {"wrong", std::move(wrong)}}, text,
                 is_wrong && !flags_.again ? lectern_exit_status(LECTERN_CORRUPT) : 0);
  }

  int Work() {
    ScratchFolder folder(flags_.scratch, flags_.worker);
    if (auto made = folder.Make(); !made.ok()) return Fail(made.error());
    tools::EngineFlags engine_flags = flags_.engine;
    const std::string store_path = folder.path() + "/store";
    engine_flags.store = store_path;
    auto engine = CreateEngine(engine_flags);
    if (!engine.ok()) return Fail(engine.error());
    const QueueOptions queue = {.corpus = place_.Text(),
                                .worker = flags_.worker,
                                .lease_seconds = flags_.lease_seconds,
                                .max_deaths = flags_.max_deaths};
    auto own = PostgresConnection::Make(flags_.database);
    auto of_renewals = PostgresConnection::Make(flags_.database);
    if (!own.ok()) return Fail(own.error());
    if (!of_renewals.ok()) return Fail(of_renewals.error());
    auto store = Store();
    if (!store.ok()) return Fail(store.error());
    PostgresQueue claims(std::move(*own), queue), renewals(std::move(*of_renewals), queue);
    DocumentBundler bundler(*engine, folder.path(), flags_.engine.max_ram_bytes);
    Worker loop(
        {.queue = claims,
         .renewals = renewals,
         .store = **store,
         .maker = bundler,
         .place = place_,
         .lease = std::chrono::milliseconds(static_cast<int64_t>(flags_.lease_seconds * 1000)),
         .poll = std::chrono::milliseconds(
             static_cast<int64_t>(std::min(2.0, flags_.lease_seconds / 3) * 1000)),
         .is_interrupted = interrupted_,
         .on_end = [this](const ClaimReport& report) { Report(report); }});
    const tools::Interrupts::Scope scope(interrupts_, [&bundler] { bundler.Cancel(); });
    // A model that this machine cannot load should end the worker, and not a document.
    if (const auto trial = engine->Estimate(kTrialText); !trial.ok()) return Fail(trial.error());
    const auto ended = loop.Run();
    if (interrupts_.requested() && flags_.keeps_scratch) folder.Keep();
    PrintTotals(flags_.worker, loop.totals());
    return ended.ok() ? output_.Finish(kTool, 0) : Fail(ended.error());
  }

 private:
  api::Result<CorpusTable> Table() const {
    auto connection = PostgresConnection::Make(flags_.database);
    if (!connection.ok()) return connection.error();
    return CorpusTable(std::move(*connection), place_.Text());
  }

  api::Result<std::unique_ptr<ObjectStore>> Store() const {
    auto keys = KeysOfEnvironment();
    if (!keys.ok()) return keys.error();
    auto endpoint = EndpointOf(flags_.endpoint, keys->region);
    if (!endpoint.ok()) return endpoint.error();
    auto client = MakeCurlClient(*keys);
    if (!client.ok()) return client.error();
    return std::unique_ptr<ObjectStore>(std::make_unique<S3Store>(
        std::move(*client), S3Place{.endpoint = *endpoint, .bucket = place_.bucket},
        flags_.part_bytes));
  }

  // Writes the catalog of what is done; the number of documents.
  api::Result<uint64_t> WriteCatalog(CorpusTable& table, const std::string& path) const {
    std::ofstream file(path, std::ios::binary | std::ios::trunc);
    uint64_t number = 0;
    for (std::string after;;) {
      auto stored = table.Stored(after, interrupted_);
      if (!stored.ok()) return stored.error();
      for (const StoredDocument& one : *stored) {
        file << CatalogLine({.name = one.name,
                             .document = one.document,
                             .key = one.key,
                             .sha256 = one.sha256,
                             .bytes = one.bytes});
      }
      number += stored->size();
      if (stored->empty()) break;
      after = stored->back().name;
    }
    if (file.flush()) return number;
    return api::Error{LECTERN_IO_ERROR, "\"" + path + "\": cannot be written", "scratch"};
  }

  // How the object differs from its record; empty: it does not.
  api::Result<std::string> WhyWrong(ObjectStore& store, const StoredDocument& stored) const {
    auto facts = store.Head(stored.key, interrupted_);
    if (!facts.ok()) return facts.error();
    if (!*facts) return std::string("is missing");
    if ((*facts)->bytes != stored.bytes) {
      return "has " + std::to_string((*facts)->bytes) + " bytes instead of " +
             std::to_string(stored.bytes);
    }
    return std::string((*facts)->sha256 == stored.sha256 ? "" : "has another checksum");
  }

  // The object goes first: a worker would take it for a whole one.
  api::Result<api::Done> PutBack(CorpusTable& table, ObjectStore& store,
                                 const StoredDocument& stored) const {
    if (auto removed = store.Remove(stored.key, interrupted_); !removed.ok()) return removed;
    return table.PutBack(stored, interrupted_);
  }

  // One line for each claim that ends: for people on stderr, as JSON on stdout.
  void Report(const ClaimReport& report) {
    const std::string why = report.error ? tools::CliMessage(*report.error) : "";
    if (!flags_.json()) {
      const Finished& done = report.finished;
      tools::PrintNote(
          kTool, std::string(ClaimEndName(report.end)) + " " + report.claim.name +
                     (report.end == ClaimEnd::kDone
                          ? ", " + tools::Grouped(done.tokens) + " tokens, " +
                                tools::Bytes(done.bytes) + ", in " + tools::Duration(report.seconds)
                          : "") +
                     (why.empty() ? "" : ": " + why));
      return;
    }
    Json::Object line = {{"name", report.claim.name},
                         {"result", ClaimEndName(report.end)},
                         {"attempt", report.claim.attempt},
                         {"seconds", report.seconds}};
    if (report.end == ClaimEnd::kDone) {
      line["document"] = report.finished.document;
      line["key"] = report.finished.key;
      line["sha256"] = report.finished.sha256;
      line["bytes"] = report.finished.bytes;
      line["tokens"] = report.finished.tokens;
    }
    if (report.error) {
      line["code"] = lectern_code_name(report.error->code);
      line["reason"] = why;
    }
    output_.Print(Json(std::move(line)).Dump() + "\n");
  }

  void PrintTotals(const std::string& worker, const WorkerTotals& totals) {
    const auto count = [](uint64_t number, const char* what) {
      return number > 0 ? ", " + tools::Grouped(number) + " " + what : std::string();
    };
    output_.Print(flags_.json()
                      ? Json(Json::Object{{"summary", Json::Object{{"worker", worker},
                                                                   {"done", totals.done},
                                                                   {"failed", totals.failed},
                                                                   {"released", totals.released},
                                                                   {"lost", totals.lost}}}})
                                .Dump() +
                            "\n"
                      : NumDocuments(totals.done) + " done" + count(totals.failed, "failed") +
                            count(totals.released, "given back") +
                            count(totals.lost, "lost to other workers") + "\n");
  }

  Json::Object StatusJson(const CorpusCounts& counts,
                          const std::vector<FailedDocument>& failures) const {
    Json::Array failed;
    for (const FailedDocument& one : failures) {
      failed.emplace_back(Json::Object{{"name", one.name},
                                       {"file", one.file},
                                       {"code", one.code},
                                       {"message", one.message},
                                       {"worker", one.worker},
                                       {"failures", one.failures}});
    }
    return {{"corpus", place_.Text()},   {"waiting", counts.waiting},
            {"running", counts.running}, {"deserted", counts.deserted},
            {"done", counts.done},       {"failed", counts.failed},
            {"bytes", counts.bytes},     {"tokens", counts.tokens},
            {"models", counts.models},   {"failures", std::move(failed)}};
  }

  static std::string StatusText(const CorpusCounts& counts,
                                const std::vector<FailedDocument>& failures) {
    std::string text =
        "waiting  " + tools::Grouped(counts.waiting) + "\nrunning  " +
        tools::Grouped(counts.running) +
        (counts.deserted > 0 ? ", of which " + tools::Grouped(counts.deserted) + " without a worker"
                             : "") +
        "\ndone     " + tools::Grouped(counts.done) + ", " + tools::Grouped(counts.tokens) +
        " tokens, " + tools::Bytes(counts.bytes) + "\nfailed   " + tools::Grouped(counts.failed) +
        "\n";
    for (const FailedDocument& one : failures) {
      text += "  " + one.name + ": " + one.code + ": " + one.message + "\n";
    }
    return text;
  }

  // Prints the error and returns its status; a cancellation that a signal asked for has the
  // signal's status.
  int Fail(const api::Error& error) const {
    const int status = PrintError(kTool, error, flags_.engine.style);
    const bool is_cancelled = error.code == LECTERN_CANCELLED && interrupts_.requested();
    return is_cancelled ? interrupts_.exit_status() : status;
  }

  int Print(Json::Object json, const std::string& text, int status = 0) {
    output_.Print(flags_.json() ? Json(std::move(json)).Dump() + "\n" : text);
    return output_.Finish(kTool, status);
  }

  const BatchFlags& flags_;
  const BucketPlace place_;
  tools::Interrupts interrupts_;
  StopCheck interrupted_;
  tools::Output output_;
};

api::Result<api::Done> CompleteScratch(BatchFlags& flags) {
  std::error_code error;
  if (flags.scratch.empty()) flags.scratch = std::filesystem::temp_directory_path(error).string();
  if (!error) return api::Done();
  return api::Error{LECTERN_NOT_FOUND, "there is no folder of temporary files: set TMPDIR",
                    "scratch"};
}

// Completes what a worker needs, before there are threads: its name and the model.
api::Result<api::Done> CompleteWork(BatchFlags& flags) {
  if (flags.worker.empty()) flags.worker = WorkerName(Variable, HostName(), ProcessId());
  flags.engine.given["store"] = flags.scratch;  // so that no default is needed
  auto engine = WithEnvironment(flags.engine);
  if (!engine.ok()) return engine.error();
  flags.engine = *engine;
  if (!flags.engine.model.empty()) return api::Done();
  static tools::Reader reader;  // EngineOptions has views
  auto found = tools::DefaultReader();
  if (!found.ok()) return found.error();
  reader = *found;
  flags.engine.model = reader.model;
  if (flags.engine.adapter.empty()) flags.engine.adapter = reader.adapter;
  if (!flags.json()) {
    tools::PrintNote(
        kTool, "no --model is given: this uses " +
                   std::string(reader.is_bundled() ? tools::kBundledModel : tools::kReleasedModel));
  }
  return api::Done();
}

int Main(int argc, char** argv) {
  CommandLine app("Indexes a corpus on many machines, into a bucket.", kTool, kExamples);
  BatchFlags flags;
  const Commands commands = AddFlags(app, flags);
  if (const std::optional<int> status = ParseCommandLine(app, argc, argv)) return *status;
  if (flags.database.empty()) flags.database = Variable("LECTERN_DATABASE");
  if (flags.bucket.empty()) flags.bucket = Variable("LECTERN_BUCKET");
  auto place = ParseBucket(flags.bucket);
  if (!place.ok()) return PrintError(kTool, place.error(), flags.engine.style);
  const bool is_scratch_given = !flags.scratch.empty();
  if (auto done = CompleteScratch(flags); !done.ok()) {
    return PrintError(kTool, done.error(), flags.engine.style);
  }
  if (commands.work->parsed()) {
    flags.keeps_scratch = is_scratch_given;
    const auto completed = CompleteWork(flags);
    if (!completed.ok()) return PrintError(kTool, completed.error(), flags.engine.style);
  }
  Batch batch(flags, *place);
  if (commands.add->parsed()) return batch.Add();
  if (commands.work->parsed()) return batch.Work();
  if (commands.status->parsed()) return batch.Status();
  if (commands.retry->parsed()) return batch.Retry();
  if (commands.publish->parsed()) return batch.Publish();
  return batch.Verify();
}

}  // namespace
}  // namespace lectern::batch

int main(int argc, char** argv) {
  using namespace lectern;
  tools::SystemStart start(argc, argv);
  return tools::RunTool(batch::kTool, [&] { return batch::Main(start.argc(), start.argv()); });
}
