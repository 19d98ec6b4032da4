// lectern-server: answers questions about the documents of a store over HTTP, with a REST API,
// OpenAI's formats, and a page for the browser. This file reads the command line, checks that it
// lets nobody in by accident, and starts and stops the parts: engine, service, guard.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <optional>
#include <system_error>
#include <thread>

#include "engine/lectern.h"
#include "kernels/thread_pool.h"
#include "tools/command_line.h"
#include "tools/default_reader.h"
#include "tools/interrupts.h"
#include "tools/quantities.h"
#include "tools/ranks.h"
#include "tools/server/bucket_documents.h"
#include "tools/server/check_server.h"
#include "tools/server/http_guard.h"
#include "tools/server/known_paths.h"
#include "tools/server/rank_supervisor.h"
#include "tools/server/service.h"
#include "tools/server/sockets.h"
#include "tools/server/system.h"
#include "tools/terminal.h"

namespace lectern::server {
namespace {

constexpr char kTool[] = "lectern-server";
constexpr uint16_t kPort = 8017;
constexpr char kBucketCache[] = "10GB";  // of --bucket-cache
// Stopping takes two steps: running answers get kGrace to end by themselves; those that do not are
// cut short, and get kFarewell for the message of that to reach their clients. Together below a
// second, so that no service manager or container has to kill the server.
constexpr auto kGrace = std::chrono::milliseconds(500), kFarewell = std::chrono::milliseconds(250);

// The foot of --help.
constexpr char kExamples[] = R"(
Examples:
  lectern-server                                     http://127.0.0.1:8017/, serve the page and the API
  lectern-server --port 0 --json                     take any free port and print it
  lectern-server --host 0.0.0.0 --token-file token   for other machines, behind a TLS proxy
  lectern-server --ranks "mpirun -n 4"               four processes, on this machine or a cluster

GET /openapi.json describes the API. Ctrl-C stops the server; running answers have half a second.)";

// Everything that the command line says; Complete fills in what follows from it.
struct Flags {
  std::string check;  // URL of a server to ask; empty: serve
  tools::EngineFlags engine;
  GuardOptions guard;
  ServiceOptions service;
  std::string token_file, max_upload = "64MiB";
  std::string index_device, index_device_memory;
  uint64_t index_device_memory_bytes = 0;  // of `index_device_memory`, set by Complete; 0: default
  bool allow_index = false;
  std::string ocr;        // languages, or "auto"; empty: nothing is recognised
  uint32_t parallel = 0;  // 0: by the number of cores
  std::vector<std::string> hosts, origins;
  std::string ranks;  // the command that starts them; empty: none
  BucketOptions bucket;  // its `bucket` is empty: documents are those of the store
  std::string bucket_cache;

  Flags() { guard.port = kPort; }
};

// Adds the tool's flags, whose values go to `flags`; it must outlive `app`.
void AddFlags(tools::CommandLine& app, Flags& flags) {
  tools::AddStoreFlags(app, flags.engine);
  tools::AddQuotaFlag(app, flags.engine);
  tools::AddModelFlags(app, flags.engine,
                       std::string(tools::kDocumentsModel) + "; documents that clients add get " +
                           tools::kDefaultReader);
  tools::AddDeviceFlags(app, flags.engine);
  app.AddOption("--check", flags.check,
                "Ask the server at this address whether it takes questions, and end: with status 0 if "
                "it does, for health checks of containers")
      .TypeName("URL");
  app.AddOption("--host", flags.guard.host,
                "Address to listen on; with an address of the network, or 0.0.0.0 for all, other "
                "machines can reach the server (default: localhost, which is 127.0.0.1 and ::1)")
      .TypeName("ADDRESS");
  app.AddOption("--port", flags.guard.port,
                "Port to listen on; 0 takes any free one (default: 8017)")
      .TypeName("N");
  app.AddOption("--token-file", flags.token_file,
                "File whose first line is the access token. Every request but those for /health, "
                "/ready and the page itself must then have the header Authorization: Bearer TOKEN. Needed if other "
                "machines can reach --host")
      .TypeName("FILE");
  app.AddOption("--allow-host", flags.hosts,
                "Another name by which clients may address this server, such as its DNS name, "
                "beside localhost and its addresses; * allows any, but only with --token-file")
      .TypeName("NAME");
  app.AddOption("--allow-origin", flags.origins,
                "Web site whose pages may use this server, such as https://example.org; * allows "
                "any, but only with --token-file")
      .TypeName("ORIGIN");
  const tools::Option bucket = app.AddOption(
      "--bucket", flags.bucket.bucket,
      "Bucket that lectern-batch filled and published, s3://bucket/prefix: documents that the "
      "store "
      "lacks are fetched from there when they are asked for. Keys are AWS_ACCESS_KEY_ID and so on");
  bucket.TypeName("URL");
  app.AddOption(
         "--bucket-cache", flags.bucket_cache,
         "The most that fetched documents may take in the store; those that were not used for "
         "longest are removed (default: 10GB)")
      .TypeName("SIZE")
      .Needs(bucket);
  app.AddOption("--endpoint", flags.bucket.endpoint,
                "URL of the bucket's S3 server, addressed by path (default: $AWS_ENDPOINT_URL_S3, "
                "$AWS_ENDPOINT_URL, else AWS)")
      .TypeName("URL")
      .Needs(bucket);
  app.AddFlag("--allow-index", flags.allow_index, "Let clients add and remove documents");
  app.AddFlagWithValue(
      "--ocr", "auto", flags.ocr,
      "Recognise the text of PDF pages that have none, as index-document --ocr does");
  app.AddOption(
         "--index-device", flags.index_device,
         "Where documents are indexed, with values like those of --device; the model's weights "
         "are loaded a second time for it (default: cpu)")
      .TypeName("D");
  app.AddOption(
         "--index-device-memory", flags.index_device_memory,
         "Most memory of the GPU to use for indexing, beside --device-memory (default: nearly "
         "all that is free when the server starts)")
      .TypeName("SIZE");
  app.AddOption("--max-upload", flags.max_upload,
                "Largest document that a client may add (default: 64MiB)")
      .TypeName("SIZE");
  app.AddOption(
         "--parallel", flags.parallel,
         "Number of answers generated at the same time (default: one for each core, 4 to 16)")
      .TypeName("N")
      .Check(tools::NumberBetween(1, 256));
  app.AddOption(
         "--queue", flags.service.answering.max_waiting,
         "Number of questions that may wait; further ones get 503 and a Retry-After (default: 32)")
      .TypeName("N")
      .Check(tools::NumberBetween(0, 100000));
  app.AddOption("--wait-seconds", flags.service.answering.wait_seconds,
                "Longest time that a question waits, in seconds (default: 30)")
      .TypeName("N")
      .Check(tools::NumberBetween(1, 3600));
  app.AddOption("--answer-seconds", flags.service.answering.generate_seconds,
                "Longest time that an answer takes, in seconds (default: 300)")
      .TypeName("N")
      .Check(tools::NumberBetween(1, 86400));
  app.AddOption(
         "--max-sessions", flags.service.answering.sessions.max_open,
         "Number of conversations kept open; a further one ends the one that was idle longest "
         "(default: 32)")
      .TypeName("N")
      .Check(tools::NumberBetween(1, 100000));
  app.AddOption(
         "--session-timeout", flags.service.answering.sessions.idle_seconds,
         "Time after which an idle conversation ends and an idle document is closed, in seconds "
         "(default: 600)")
      .TypeName("N")
      .Check(tools::NumberBetween(1, 86400));
  app.AddOption("--max-connections", flags.guard.max_connections,
                "Number of connections open at the same time (default: 600)")
      .TypeName("N")
      .Check(tools::NumberBetween(1, 100000));
  app.AddOption("--ranks", flags.ranks,
                "Serve with the processes that this command starts, such as \"mpirun -n 4\": each "
                "attends to its part of every document; a new group is started where a process of "
                "it was killed")
      .TypeName("COMMAND");
}

// Whether a --host means this machine alone, so that no other machine can reach it.
bool IsLoopback(const std::string& host) {
  return host == "localhost" || host == "::1" ||
         (host.starts_with("127.") && IsAddress(host, AddressFamily::kIPv4));
}

// Whether a --host means all addresses of this machine.
bool IsWildcard(const std::string& host) { return host == "0.0.0.0" || host == "::"; }

// An error of the flag `param`, named without its dashes.
api::Error Wrong(std::string message, std::string param) {
  return {LECTERN_INVALID_ARGUMENT, std::move(message), std::move(param)};
}

// The token: the first line of the file. INVALID_ARGUMENT: there is none, or it is short enough to
// be guessed.
api::Result<std::string> ReadToken(const std::string& path) {
  std::ifstream file(path);
  std::string token;
  if (!file || !std::getline(file, token)) {
    return Wrong("cannot read a token from " + path, "token-file");
  }
  token.erase(token.find_last_not_of(" \t\r") + 1);  // of an editor that ends lines with CR and LF
  if (token.size() < 16) {
    return Wrong(path +
                     ": a token of fewer than 16 characters can be guessed; "
                     "make one with: openssl rand -hex 32",
                 "token-file");
  }
  return token;
}

// A folder for uploads, deleted with what is in it.
class UploadFolder {
 public:
  // Makes the folder. Nothing, or the reason why there is none.
  std::optional<api::Error> Make() {
    const auto made = MakeTemporaryFolder();
    if (const auto* const fault = std::get_if<FolderFault>(&made)) {
      return api::Error{LECTERN_IO_ERROR,
                        "cannot make a folder for uploads in " + fault->parent + ": " + fault->why +
                            "; set TMPDIR to a folder that can be written",
                        "allow-index"};
    }
    path_ = std::get<std::string>(made);
    return std::nullopt;
  }
  ~UploadFolder() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// How many answers are generated at the same time where --parallel does not say: one for each core,
// at least 4, at most 16.
//
// Answers that are generated together share each pass over the weights, which takes no longer for a
// few of them than for one, until arithmetic takes longer than reading the weights. That is at 4
// (q8) to 9 (f16) answers on the two cores of tests/bench/RESULTS.md (99 GFLOP/s, 11.5 GB/s). Four
// at a time give there 1.4 to 1.65 times the tokens of taking turns, and eight no more. With more
// cores that number grows: they calculate more, and memory delivers hardly more. Beyond it each
// answer only gets slower, and all of them take memory.
uint32_t DefaultParallel(uint64_t num_threads) {
  const uint64_t cores = num_threads > 0 ? num_threads : DefaultThreads();
  return static_cast<uint32_t>(std::clamp<uint64_t>(cores, 4, 16));
}

// Fills in the access rules (names of this server, sites, the token) and refuses rules under which
// any page or machine could ask by accident. Nothing: they are good.
std::optional<api::Error> CompleteAccess(Flags& flags) {
  AccessRules& access = flags.guard.access;
  std::string& host = flags.guard.host;
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  access.hosts = {NormalHost(IsWildcard(host) ? HostName() : host)};
  if (IsWildcard(host)) access.hosts.push_back(access.hosts.front() + ".local");  // multicast DNS
  for (const std::string& name : flags.hosts) {
    access.hosts.push_back(NormalHost(name));
    if (access.hosts.back().empty()) return Wrong(name + " is no name of a host", "allow-host");
  }
  for (const std::string& origin : flags.origins) {
    access.origins.push_back(NormalOrigin(origin));
    if (access.origins.back().empty()) {
      return Wrong(origin + " is no origin like https://example.org", "allow-origin");
    }
    // Any page can have the origin "null".
    if (flags.token_file.empty() && (origin == "*" || origin == "null")) {
      return Wrong("pages of any site could ask: give --token-file, or name the site",
                   "allow-origin");
    }
  }
  if (flags.token_file.empty() && std::count(flags.hosts.begin(), flags.hosts.end(), "*") > 0) {
    return Wrong("pages of any site could ask, by a name of theirs: give --token-file, or name "
                 "the host",
                 "allow-host");
  }
  if (!flags.token_file.empty()) {
    auto token = ReadToken(flags.token_file);
    if (!token.ok()) return token.error();
    access.token = *token;
  } else if (!IsLoopback(host)) {
    return Wrong("--host " + host +
                     " lets other machines in: give --token-file, or listen on 127.0.0.1",
                 "token-file");
  }
  return std::nullopt;
}

// Fills in everything that follows from flags, environment and machine. INVALID_ARGUMENT: a flag is
// wrong; the message names it.
api::Result<Flags> Complete(Flags flags) {
  auto engine = tools::WithEnvironment(flags.engine);
  if (!engine.ok()) return engine.error();
  flags.engine = *engine;
  // The group's limit is one for both engines, where --max-ram is one for each.
  if (flags.allow_index && flags.engine.max_ram_of == tools::kGroupLimit) {
    flags.engine.max_ram_bytes /= 2;
  }
  flags.service.answering.num_slots =
      flags.parallel > 0 ? flags.parallel : DefaultParallel(flags.engine.num_threads);
  if (const auto error = CompleteAccess(flags)) return *error;
  const auto max_upload = tools::ParseBytes(flags.max_upload);
  if (!max_upload) return Wrong(flags.max_upload + " is not a size like 64MiB", "max-upload");
  flags.guard.max_upload_bytes = *max_upload;
  const auto bucket_cache =
      tools::ParseBytes(flags.bucket_cache.empty() ? kBucketCache : flags.bucket_cache);
  if (!bucket_cache) {
    return Wrong(flags.bucket_cache + " is not a size like 10GB", "bucket-cache");
  }
  flags.bucket.cache_bytes = *bucket_cache;
  flags.bucket.store = flags.engine.store;
  if (!flags.index_device_memory.empty()) {
    const auto bytes = tools::ParseBytes(flags.index_device_memory);
    if (!bytes || *bytes == 0) {
      return Wrong(flags.index_device_memory + " is not a size like 8GB", "index-device-memory");
    }
    flags.index_device_memory_bytes = *bytes;
  }
  return flags;
}

// The engine that indexes what clients add, with the model that index-document would take. It is an
// engine of its own: one that has a model named answers from no document of another model.
api::Result<api::Engine> Indexer(const Flags& flags) {
  tools::EngineFlags engine = flags.engine;
  engine.device = flags.index_device;
  engine.device_memory_bytes = flags.index_device_memory_bytes;
  if (engine.model.empty()) {
    auto reader = tools::DefaultReader();
    if (!reader.ok()) return reader.error();
    engine.model = reader->model;
    if (engine.adapter.empty()) engine.adapter = reader->adapter;
  }
  return tools::CreateEngine(engine);
}

// Prints on stdout where the server listens, which is the line that scripts wait for; and on
// stderr, for a server of all addresses, the names under which clients may call it.
void PrintAddress(const Flags& flags, uint16_t port) {
  const std::string& given = flags.guard.host;
  const std::string host = given == "localhost"              ? "127.0.0.1"
                           : given.find(':') != given.npos ? "[" + given + "]"
                                                             : given;
  const std::string url = "http://" + host + ":" + std::to_string(port) + "/";
  std::cout << (flags.engine.json() ? "{\"url\":\"" + url + "\"}" : "listening on " + url)
            << std::endl;
  if (!IsWildcard(given) || !flags.hosts.empty()) return;
  const std::vector<std::string>& names = flags.guard.access.hosts;
  std::cerr << kTool << ": clients may call it by any address of this machine, as " << names[0]
            << " or as " << names[1] << "; another name needs --allow-host" << std::endl;
}

// Waits until all connections have ended, for `most` at the longest.
void WaitForConnections(const HttpGuard& guard, std::chrono::milliseconds most) {
  const auto deadline = std::chrono::steady_clock::now() + most;
  while (guard.num_connections() > 0 && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

// Makes the parts, prints the address on stdout, and serves until a signal; a second one ends the
// process at once. Returns 0 after a stop in order, else the status of the error that kept it from
// serving, which is printed.
int Serve(Flags flags) {
  const auto fail = [&](const api::Error& error) {
    return tools::PrintError(kTool, error, flags.engine.style);
  };
  tools::Interrupts interrupts;
  auto engine = tools::CreateEngine(flags.engine);
  if (!engine.ok()) return fail(engine.error());
  UploadFolder uploads;
  std::optional<api::Engine> indexer;
  if (flags.allow_index) {
    auto made = Indexer(flags);
    if (!made.ok()) return fail(made.error());
    indexer = std::move(*made);
    if (const auto error = uploads.Make()) return fail(*error);
    flags.guard.upload_path = "/v1/documents";
    flags.guard.upload_folder = flags.service.index.folder = uploads.path();
  }
  flags.service.index.max_ram_bytes = flags.engine.max_ram_bytes;
  if (!flags.ocr.empty()) flags.service.index.ocr = flags.ocr == "auto" ? "" : flags.ocr;
  flags.service.answering.store = flags.service.index.store = flags.engine.store;
  flags.service.answering.model = flags.service.index.model = flags.engine.model;
  std::unique_ptr<DocumentFetcher> fetcher;
  if (!flags.bucket.bucket.empty()) {
    auto made = MakeBucketFetcher(*engine, flags.bucket);
    if (!made.ok()) return fail(made.error());
    fetcher = std::move(*made);
    flags.service.answering.fetcher = fetcher.get();
  }
  Service service(*engine, indexer ? &*indexer : nullptr, flags.service);
  flags.guard.replace_path = ReplaceAlias;
  flags.guard.refuse = [&](const RequestHead& head) { return service.Refuse(head); };
  auto listening = HttpGuard::Listen(
      flags.guard, [&](const HttpRequest& request) { return service.Handle(request); });
  if (const auto* const refusal = std::get_if<Refusal>(&listening)) {
    return fail({LECTERN_IO_ERROR, refusal->message, "port"});
  }
  HttpGuard& guard = *std::get<std::unique_ptr<HttpGuard>>(listening);
  service.num_connections = [&] { return guard.num_connections(); };

  // From here on a signal is seen by `ender` below, which stops the server in order.
  const tools::Interrupts::Scope scope(interrupts, [] {});
  PrintAddress(flags, guard.port());
  std::jthread ender([&](std::stop_token over) {
    while (!over.stop_requested() && !interrupts.requested()) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    guard.Stop();
    WaitForConnections(guard, kGrace);
    service.EndAll();
    WaitForConnections(guard, kFarewell);
    guard.EndAll();
  });
  guard.Run();
  return 0;
}

// The arguments without --ranks and its value, for the processes of the group.
std::vector<std::string> WithoutRanks(const std::vector<std::string>& arguments) {
  std::vector<std::string> rest;
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i] == "--ranks") {
      ++i;
    } else if (!arguments[i].starts_with("--ranks=")) {
      rest.push_back(arguments[i]);
    }
  }
  return rest;
}

// Parses the command line, then asks another server (--check: 0 or 1) or serves.
int Main(int argc, char** argv) {
  KeepHeapSmall();
  tools::CommandLine app("Answers questions about indexed documents over HTTP.", kTool, kExamples);
  Flags flags;
  AddFlags(app, flags);
  tools::AddVersionFlag(app);
  if (const std::optional<int> status = tools::ParseCommandLine(app, argc, argv)) return *status;
  if (!flags.check.empty()) {
    const std::optional<std::string> fault = CheckServer(flags.check);
    if (!fault) return 0;
    return tools::PrintError(kTool, {LECTERN_IO_ERROR, *fault, "check"}, flags.engine.style);
  }
  if (!flags.ranks.empty())
    return SuperviseRanks(flags.ranks, WithoutRanks({argv + 1, argv + argc}));
  auto complete = Complete(flags);
  if (!complete.ok()) return tools::PrintError(kTool, complete.error(), flags.engine.style);
  const tools::RankOfJob rank(kTool, complete->engine);
  if (rank.exit_status()) return *rank.exit_status();
  return Serve(*complete);
}

}  // namespace
}  // namespace lectern::server

int main(int argc, char** argv) {
  return lectern::tools::RunTool("lectern-server",
                                 [=] { return lectern::server::Main(argc, argv); });
}
