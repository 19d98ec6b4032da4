#include "tools/batch/worker.h"

#include <utility>

#include "tools/batch/lease_keeper.h"

namespace lectern::batch {
namespace {

// For what is to be done after a signal, which makes the usual check end everything.
StopCheck StopAfter(std::chrono::seconds time) {
  const auto end = std::chrono::steady_clock::now() + time;
  return [end] { return std::chrono::steady_clock::now() > end; };
}

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
    parts_.maker.DiscardAll();  // others have what is left there of killed workers
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
  // An interrupted document is kept: this worker, started again, goes on from there.
  const bool is_interrupted = IsStopped(parts_.is_interrupted);
  if (report.end != ClaimEnd::kReleased || !is_interrupted) parts_.maker.Discard(claim);
  if (report.end == ClaimEnd::kLost) {
    report.error.reset();
    ends_worker = false;
    if (!report.finished.key.empty()) RemoveReplaced(claim, report.finished.key);
  }
  if (report.end == ClaimEnd::kReleased) {
    // A document that is too large for every machine must not end all workers, one after another.
    const bool is_blamed = report.error && report.error->code == LECTERN_NO_SPACE;
    // If that fails, the lease ends by itself.
    (void)parts_.queue
        .Release(claim, is_blamed ? report.error : std::nullopt, StopAfter(std::chrono::seconds(5)))
        .ok();
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
  const auto end_as = [&](api::Result<Recorded> recorded, ClaimEnd end) {
    if (!recorded.ok()) return give_back(recorded.error());
    report.end = *recorded == Recorded::kYes ? end : ClaimEnd::kLost;
    return report;
  };
  if (claim.announced) {
    auto is_there = IsThere(*claim.announced, stop);
    if (!is_there.ok()) return give_back(is_there.error());
    report.finished = *claim.announced;
    if (*is_there) return end_as(Finish(claim, report.finished, stop), ClaimEnd::kDone);
  }
  BundleMaker::Made made = parts_.maker.Make(claim, stop);
  if (IsStopped(stop)) return give_back(Cancelled());
  if (!made.bundle.ok()) {
    if (!made.is_of_document) return give_back(made.bundle.error());
    report.error = made.bundle.error();
    return end_as(parts_.queue.Fail(claim, made.bundle.error(), stop), ClaimEnd::kFailed);
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
  report.finished = {.document = bundle.document,
                     .key = BundleKey(parts_.place, bundle.document, claim.name, claim.options,
                                      bundle.facts.sha256),
                     .sha256 = bundle.facts.sha256,
                     .bytes = bundle.facts.bytes,
                     .tokens = bundle.tokens,
                     .fingerprint = bundle.fingerprint};
  auto uploaded = Upload(claim, bundle, report.finished, stop);
  if (!uploaded.ok() || *uploaded == Recorded::kLost) {
    return end_as(std::move(uploaded), ClaimEnd::kDone);
  }
  return end_as(Finish(claim, report.finished, stop), ClaimEnd::kDone);
}

api::Result<bool> Worker::IsThere(const Finished& object, const StopCheck& stop) {
  auto facts = parts_.store.Head(object.key, stop);
  if (!facts.ok()) return facts.error();
  return *facts && (*facts)->bytes == object.bytes && (*facts)->sha256 == object.sha256;
}

api::Result<Recorded> Worker::Upload(const Claim& claim, const Bundle& bundle,
                                     const Finished& object, const StopCheck& stop) {
  auto announced = parts_.queue.Announce(claim, object, stop);
  if (!announced.ok() || *announced == Recorded::kLost) return announced;
  auto put = parts_.store.Put(object.key, bundle.path, bundle.facts, stop);
  if (!put.ok()) return put.error();
  auto is_there = IsThere(object, stop);
  if (!is_there.ok()) return is_there.error();
  if (*is_there) return Recorded::kYes;
  return api::Error{LECTERN_CHECKSUM_MISMATCH,
                    "the object \"" + object.key + "\" is not there as it was stored", "bucket"};
}

// Before the record, because a worker that dies behind it has no successor; and again behind it,
// because an earlier worker that is still alive may end its upload in between. One that ends it
// later sees that the document is done, and removes its object itself.
api::Result<Recorded> Worker::Finish(const Claim& claim, const Finished& object,
                                     const StopCheck& stop) {
  RemoveUploads(claim, object.key, stop);
  auto recorded = parts_.queue.Finish(claim, object, stop);
  if (recorded.ok() && *recorded == Recorded::kYes) RemoveUploads(claim, object.key, stop);
  return recorded;
}

// Errors do not count: "lectern-batch verify" knows these keys, too.
void Worker::RemoveUploads(const Claim& claim, const std::string& but, const StopCheck& stop) {
  for (const std::string& key : claim.uploads) {
    if (key != but) (void)parts_.store.Remove(key, stop).ok();
  }
}

void Worker::RemoveReplaced(const Claim& claim, const std::string& key) {
  const StopCheck soon = StopAfter(std::chrono::seconds(5));
  auto is_replaced = parts_.queue.IsReplaced(claim, key, soon);
  if (is_replaced.ok() && *is_replaced) (void)parts_.store.Remove(key, soon).ok();
}

}  // namespace lectern::batch
