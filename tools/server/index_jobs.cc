#include "tools/server/index_jobs.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <new>

#include "engine/model/formats/json.h"
#include "tools/ingest/ingest.h"
#include "tools/input_file.h"
#include "tools/server/messages.h"
#include "tools/server/random_id.h"

namespace lectern::server {
namespace {

constexpr uint32_t kRetrySeconds = 10;  // while the running job's end is not known

}  // namespace

IndexJobs::IndexJobs(api::Engine& engine, Options options)
    : engine_(engine), options_(std::move(options)), thread_(&IndexJobs::Work, this) {}

IndexJobs::~IndexJobs() {
  EndAll();
  thread_.join();
  for (const Job& job : jobs_) std::remove(job.file.c_str());
}

IndexJobs::Job* IndexJobs::Find(const std::string& id) const {
  const auto job =
      std::find_if(jobs_.begin(), jobs_.end(), [&](const Job& j) { return j.id == id; });
  return job == jobs_.end() ? nullptr : &*job;
}

void IndexJobs::Set(Job& job, const std::function<void()>& what) {
  const std::lock_guard lock(mutex_);
  what();
  ++job.version;
  changed_.notify_all();
}

bool IndexJobs::IsFull() const {
  const auto open =
      std::count_if(jobs_.begin(), jobs_.end(), [](const Job& job) { return !job.is_over(); });
  return is_ending_ || open >= static_cast<int64_t>(options_.max_waiting);
}

bool IndexJobs::is_full() const {
  const std::lock_guard lock(mutex_);
  return IsFull();
}

uint32_t IndexJobs::RetryAfterSeconds() const {
  const std::lock_guard lock(mutex_);
  const auto running =
      std::find_if(jobs_.begin(), jobs_.end(), [](const Job& j) { return j.state == "running"; });
  if (running == jobs_.end() || running->eta_seconds < 0) return kRetrySeconds;
  return static_cast<uint32_t>(std::clamp(std::ceil(running->eta_seconds), 1.0, 3600.0));
}

std::optional<std::string> IndexJobs::Add(const std::string& path, Wish wish) {
  const std::lock_guard lock(mutex_);
  auto id = RandomId();  // moved at the end, where memory may not be needed any more
  if (!id || IsFull()) return std::nullopt;
  // Made before the file is moved: after that, memory cannot run out.
  std::list<Job> added(1);
  Job& job = added.front();
  job.id = *id;
  job.wish = std::move(wish);
  job.file = options_.folder + "/job-" + *id;
  // Moved, not copied: the guard deletes the upload when its request has been answered.
  if (std::rename(path.c_str(), job.file.c_str()) != 0) return std::nullopt;
  jobs_.splice(jobs_.end(), added);
  ForgetOld();
  changed_.notify_all();
  return id;
}

void IndexJobs::ForgetOld() {
  auto over = std::count_if(jobs_.begin(), jobs_.end(), [](const Job& j) { return j.is_over(); });
  for (auto job = jobs_.begin(); over > static_cast<int64_t>(options_.max_kept);) {
    if (job->is_over()) {
      job = jobs_.erase(job);
      --over;
    } else {
      ++job;
    }
  }
}

std::string IndexJobs::ToJson(const Job& job) const {
  lectern::Json::Object object = {
      {"id", job.id},       {"name", job.wish.name}, {"state", job.state},     {"stage", job.stage},
      {"done", job.done},   {"total", job.total},    {"eta_seconds", nullptr}, {"report", nullptr},
      {"warning", nullptr}, {"error", nullptr}};
  if (!job.warning.empty()) object["warning"] = job.warning;
  if (job.eta_seconds >= 0) object["eta_seconds"] = job.eta_seconds;
  if (auto report = ParseJson(job.report); report.ok()) object["report"] = WithoutPaths(*report);
  if (auto error = ParseJson(job.error); error.ok()) {
    if (const lectern::Json* const inner = error->Find("error")) object["error"] = *inner;
  }
  return lectern::Json(std::move(object)).Dump();
}

std::optional<std::string> IndexJobs::Json(const std::string& id) const {
  const std::lock_guard lock(mutex_);
  const Job* const job = Find(id);
  return job ? std::optional(ToJson(*job)) : std::nullopt;
}

void IndexJobs::Cancel(const std::string& id) {
  const std::lock_guard lock(mutex_);
  Job* const job = Find(id);
  if (!job || job->is_over()) return;
  job->is_cancelled = true;
  if (job->state == "waiting") {
    job->state = "cancelled";
    ++job->version;
    std::remove(job->file.c_str());
  }
  changed_.notify_all();
}

void IndexJobs::EndAll() {
  const std::lock_guard lock(mutex_);
  is_ending_ = true;
  for (Job& job : jobs_) job.is_cancelled = true;
  changed_.notify_all();
}

void IndexJobs::Follow(const std::string& id,
                       const std::function<bool(const Change*)>& on_change) const {
  constexpr auto kQuarter = std::chrono::milliseconds(250);
  uint64_t seen = ~uint64_t{0};  // no version yet: the first round reports the job as it is
  for (std::optional<Change> change;;) {
    {
      std::unique_lock lock(mutex_);
      const Job* job = Find(id);
      if (job && job->version == seen) {
        changed_.wait_for(lock, kQuarter);
        job = Find(id);
      }
      if (!job) return;
      change.reset();
      if (job->version != seen) change = {ToJson(*job), job->is_over()};
      seen = job->version;
      if (is_ending_ && !change) return;
    }
    if (!on_change(change ? &*change : nullptr) || (change && change->is_last)) return;
  }
}

// The thread's loop: runs the jobs that wait, the oldest first, until EndAll.
void IndexJobs::Work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    const auto next =
        std::find_if(jobs_.begin(), jobs_.end(), [](const Job& j) { return j.state == "waiting"; });
    if (is_ending_) return;
    if (next == jobs_.end()) {
      changed_.wait(lock);
      continue;
    }
    next->state = "running";
    ++next->version;
    changed_.notify_all();
    lock.unlock();
    try {
      Run(*next);  // jobs that are not over are never forgotten
    } catch (const std::exception& exception) {
      GiveUp(*next, exception);
    }
    lock.lock();
  }
}

// A large upload may ask for more memory than there is; the next one shall still find this thread.
void IndexJobs::GiveUp(Job& job, const std::exception& why) noexcept {
  const bool is_memory = dynamic_cast<const std::bad_alloc*>(&why) != nullptr;
  std::string json;
  try {
    auto made = is_memory ? api::ToJson({LECTERN_OUT_OF_MEMORY,
                                         "there was too little memory to index the document; "
                                         "upload it in parts, or try again later",
                                         {}})
                          : api::ToJson({LECTERN_INTERNAL, why.what(), {}});
    if (made.ok()) json = *made;
  } catch (const std::exception&) {
    // Without memory for a message the state alone tells.
  }
  std::remove(job.file.c_str());
  const std::lock_guard lock(mutex_);
  if (!job.is_over()) {
    job.state = "failed";
    job.error = std::move(json);
  }
  ++job.version;
  changed_.notify_all();
}

// Runs one job on the jobs' thread: reads its file, extracts the text, and indexes it. Progress and
// warnings are written under the lock, because clients ask for them meanwhile.
void IndexJobs::Run(Job& job) {
  const auto fail = [&](const api::Error& error) {
    api::Result<api::IndexReport> failed = error;
    Finish(job, failed);
  };
  auto bytes = tools::ReadInputFile(job.file);
  if (!bytes.ok()) return fail(bytes.error());
  const auto on_pages = [&](std::string_view stage, uint64_t done, uint64_t total) {
    Set(job, [&] {
      job.stage = stage;
      job.done = done;
      job.total = total;
    });
  };
  auto document =
      tools::Ingest(std::move(*bytes), {.format = job.wish.format,
                                        .encoding = job.wish.encoding,
                                        .file_name = job.wish.name,
                                        .is_cancelled = [&job] { return job.is_cancelled.load(); },
                                        .memory_bytes = options_.max_ram_bytes,
                                        .ocr = options_.ocr,
                                        .on_pages = on_pages});
  if (!document.ok()) return fail(document.error());
  Set(job, [&] { job.warning = tools::IngestNote(*document, "encoding"); });
  api::IndexOptions options;
  job.wish.options.PutInto(options);
  options.name = job.wish.name;
  options.pages = document->pages;
  options.page_labels = document->page_labels;
  options.on_progress = [&](const api::Progress& progress) {
    Set(job, [&] {
      job.stage = progress.stage;
      job.done = progress.done;
      job.total = progress.total;
      job.eta_seconds = progress.eta_seconds;
    });
    return !job.is_cancelled;
  };
  auto report = engine_.Index(document->text, options);
  Finish(job, report);
}

// on_replaced comes first: once a client sees "done", the old version is no longer kept open.
void IndexJobs::Finish(Job& job, api::Result<api::IndexReport>& report) {
  std::remove(job.file.c_str());
  if (report.ok() && !report->replaced().empty() && options_.on_replaced) {
    options_.on_replaced(std::string(report->replaced()));
  }
  Set(job, [&] {
    if (report.ok()) {
      job.report = tools::WithFileNote(report->json(), job.warning);
      job.state = "done";
      return;
    }
    job.state = report.error().code == LECTERN_CANCELLED ? "cancelled" : "failed";
    const api::Error error = WithoutPaths(report.error(), options_.store, options_.model, job.file);
    if (auto json = api::ToJson(error); json.ok()) job.error = *json;
  });
}

}  // namespace lectern::server
