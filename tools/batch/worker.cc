#include "tools/batch/worker.h"

#include <filesystem>
#include <utility>

#include "tools/batch/file_hash.h"
#include "tools/batch/lease_keeper.h"

namespace lectern::batch {
namespace {

api::Error Cancelled() { return {LECTERN_CANCELLED, "cancelled", ""}; }

}  // namespace

const char* ClaimEndName(ClaimEnd end) {
  switch (end) {
    case ClaimEnd::kDone:
      return "done";
    case ClaimEnd::kFailed:
      return "failed";
    case ClaimEnd::kReleased:
      return "released";
    case ClaimEnd::kLost:
      return "lost";
  }
  return "";
}

api::Result<std::optional<Claim>> Worker::Next() {
  if (may_have_own_) {
    auto own = parts_.queue.Next(true, parts_.is_interrupted);
    if (!own.ok() || *own) return own;
    may_have_own_ = false;
  }
  return parts_.queue.Next(false, parts_.is_interrupted);
}

api::Result<api::Done> Worker::Run() {
  for (;;) {
    if (IsStopped(parts_.is_interrupted)) return Cancelled();
    auto claim = Next();
    if (!claim.ok()) return claim.error();
    if (*claim) {
      if (auto error = Process(**claim)) return *error;
      continue;
    }
    auto is_any_left = parts_.queue.IsAnyLeft(parts_.is_interrupted);
    if (!is_any_left.ok()) return is_any_left.error();
    if (!*is_any_left) return api::Done();
    if (!WaitUnless(parts_.is_interrupted, parts_.poll)) return Cancelled();
  }
}

void Worker::Count(ClaimEnd end) {
  switch (end) {
    case ClaimEnd::kDone:
      ++totals_.done;
      break;
    case ClaimEnd::kFailed:
      ++totals_.failed;
      break;
    case ClaimEnd::kReleased:
      ++totals_.released;
      break;
    case ClaimEnd::kLost:
      ++totals_.lost;
      break;
  }
}

std::optional<api::Error> Worker::Process(const Claim& claim) {
  const auto start = std::chrono::steady_clock::now();
  bool ends_worker = false;
  ClaimReport report;
  {
    LeaseKeeper keeper(parts_.renewals, claim, parts_.lease, [this] { parts_.maker.Cancel(); });
    const StopCheck stop = [this, &keeper] {
      return keeper.is_lost() || IsStopped(parts_.is_interrupted);
    };
    report = Work(claim, stop, ends_worker);
    if (keeper.is_lost() && report.end != ClaimEnd::kDone) report.end = ClaimEnd::kLost;
  }
  // What was interrupted is kept: this worker, started again, goes on from there.
  const bool is_interrupted = IsStopped(parts_.is_interrupted);
  if (report.end != ClaimEnd::kReleased || !is_interrupted) parts_.maker.Discard(claim);
  if (report.end == ClaimEnd::kLost) {
    report.error.reset();
    ends_worker = false;
  }
  if (report.end == ClaimEnd::kReleased) {
    // With a check of its own: a signal has made the other one end everything.
    const auto begin = std::chrono::steady_clock::now();
    const StopCheck soon = [begin] {
      return std::chrono::steady_clock::now() - begin > std::chrono::seconds(5);
    };
    (void)parts_.queue.Release(claim, soon).ok();  // else the lease ends by itself
  }
  report.claim = claim;
  report.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  Count(report.end);
  if (parts_.on_end) parts_.on_end(report);
  if (is_interrupted) return Cancelled();
  return ends_worker ? report.error : std::nullopt;
}

ClaimReport Worker::Work(const Claim& claim, const StopCheck& stop, bool& ends_worker) {
  ClaimReport report;
  // An error of this machine, or of a server: the document waits for a better worker.
  const auto give_back = [&](const api::Error& error) {
    report.end = ClaimEnd::kReleased;
    report.error = error;
    ends_worker = true;
    return report;
  };
  BundleMaker::Made made = parts_.maker.Make(claim, stop);
  if (IsStopped(stop)) return give_back(Cancelled());
  if (!made.bundle.ok()) {
    if (!made.is_of_document) return give_back(made.bundle.error());
    auto recorded = parts_.queue.Fail(claim, made.bundle.error(), stop);
    if (!recorded.ok()) return give_back(recorded.error());
    report.end = *recorded == Recorded::kYes ? ClaimEnd::kFailed : ClaimEnd::kLost;
    report.error = made.bundle.error();
    return report;
  }
  const Bundle& bundle = *made.bundle;
  if (!claim.fingerprint.empty() && claim.fingerprint != bundle.fingerprint) {
    return give_back({LECTERN_MODEL_MISMATCH,
                      "the corpus was begun with another model, weights, adapter or chat template "
                      "(fingerprint " +
                          claim.fingerprint.substr(0, 12) + ", here " +
                          bundle.fingerprint.substr(0, 12) + ")",
                      "model"});
  }
  const std::string key = BundleKey(parts_.place, bundle.document, claim.name, claim.options);
  auto stored = Store(key, bundle, stop);
  if (!stored.ok()) return give_back(stored.error());
  report.finished = {.document = bundle.document,
                     .key = key,
                     .sha256 = stored->sha256,
                     .bytes = stored->bytes,
                     .tokens = bundle.tokens,
                     .fingerprint = bundle.fingerprint};
  auto recorded = parts_.queue.Finish(claim, report.finished, stop);
  if (!recorded.ok()) return give_back(recorded.error());
  report.end = *recorded == Recorded::kYes ? ClaimEnd::kDone : ClaimEnd::kLost;
  return report;
}

api::Result<ObjectFacts> Worker::Store(const std::string& key, const Bundle& bundle,
                                       const StopCheck& stop) {
  // Two rounds: an object that is there and broken is removed once.
  for (int round = 0; round < 2; ++round) {
    auto put = parts_.store.Put(key, bundle.path, bundle.facts, stop);
    if (!put.ok()) return put.error();
    auto facts = parts_.store.Head(key, stop);
    if (!facts.ok()) return facts.error();
    if (!*facts) continue;
    const ObjectFacts& there = **facts;
    if (there.bytes == bundle.facts.bytes && there.sha256 == bundle.facts.sha256) return there;
    // Also after an own Put: a server that knows no If-None-Match lets another's replace it.
    auto is_whole = IsWhole(key, there, bundle.path + ".there", stop);
    if (!is_whole.ok()) return is_whole.error();
    if (*is_whole) return there;
    if (auto removed = parts_.store.Remove(key, stop); !removed.ok()) return removed.error();
  }
  return api::Error{LECTERN_CHECKSUM_MISMATCH,
                    "the object \"" + key + "\" is not as it was stored: the bucket is not to be "
                    "trusted, or others write below this prefix",
                    "bucket"};
}

// A worker that died behind its Put left a whole object, which is taken as it is: bundles of one
// document differ in times alone, and an object is never replaced under a reader.
api::Result<bool> Worker::IsWhole(const std::string& key, const ObjectFacts& facts,
                                  const std::string& scratch, const StopCheck& stop) {
  if (facts.sha256.empty()) return false;
  auto got = parts_.store.Get(key, scratch, stop);
  auto hash = got.ok() ? HashFile(scratch) : api::Result<FileHash>(got.error());
  std::error_code ignored;
  std::filesystem::remove(scratch, ignored);
  if (!hash.ok()) return hash.error();
  return hash->bytes == facts.bytes && hash->sha256 == facts.sha256;
}

}  // namespace lectern::batch
