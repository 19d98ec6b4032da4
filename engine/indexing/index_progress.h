// Reports how far an indexing run is, and tells the run whether to stop.
#ifndef LECTERN_ENGINE_INDEXING_INDEX_PROGRESS_H_
#define LECTERN_ENGINE_INDEXING_INDEX_PROGRESS_H_

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>

#include "engine/indexing/index_cost.h"
#include "engine/requests/requests.h"

namespace lectern {

// Calls IndexOptions::on_progress and remembers whether it or the cancel flag asked for a stop. The
// callback runs only on the thread that made the meter; functions are for that thread except
// Stopped and Clustered, which worker threads call too.
class IndexProgressMeter {
 public:
  // `options`, `config`: borrowed. `tokens`: of the document, with the template's prefix.
  // `prefill_budget`: below 1 for a sparse prefill, which takes fewer operations.
  IndexProgressMeter(const IndexOptions& options, const ModelConfig& config, uint64_t tokens,
                     double prefill_budget)
      : options_(options),
        config_(config),
        prefill_budget_(prefill_budget),
        prefill_flops_(FlopsOf(static_cast<double>(tokens))),
        cluster_flops_(
            tokens >= kMinClusteredTokens ? ClusterFlops(config, static_cast<double>(tokens)) : 0) {
    now_.total = tokens;
  }

  // Begins a stage and reports it. `done` of `total` items were done by an earlier run: they do not
  // count in the speed. The time left is unknown again.
  void Begin(IndexProgress::Stage stage, uint64_t done, uint64_t total) {
    now_ = {stage, done, total, now_.tokens_per_second, -1};
    first_done_ = done;
    start_ = Clock::now();
    Report();
  }

  // Reports that the first `done` items of the stage are done.
  void Done(uint64_t done) {
    now_.done = done;
    if (now_.stage == IndexProgress::Stage::kPrefill) Predict();
    Report();
  }

  // Whether to stop: the callback returned false once, or the cancel flag is set. On the meter's
  // own thread it also reports, if 100 ms have passed: long loops poll it anyway, so the callback
  // comes often enough without a timer.
  bool Stopped() {
    if (std::this_thread::get_id() == thread_ && Seconds(last_report_) > kReportSeconds) {
      if (now_.stage == IndexProgress::Stage::kCluster) {
        now_.done = std::max(now_.done, clustered_.load(std::memory_order_relaxed));
      }
      Report();
    }
    return stopped_.load(std::memory_order_relaxed) ||
           (options_.cancel != nullptr && options_.cancel->load(std::memory_order_relaxed));
  }

  // Counts kv heads that an earlier run has clustered, and reports them.
  void WereClustered(uint64_t heads) {
    Done(clustered_.fetch_add(heads, std::memory_order_relaxed) + heads);
  }

  // Counts a kv head that was clustered. From any thread; reported by a later Stopped() on the
  // meter's own thread.
  void Clustered() { clustered_.fetch_add(1, std::memory_order_relaxed); }

 private:
  using Clock = std::chrono::steady_clock;
  // Well within the 250 ms that IndexOptions promises between two calls of the callback.
  static constexpr double kReportSeconds = 0.1;
  static double Seconds(Clock::time_point since) {
    return std::chrono::duration<double>(Clock::now() - since).count();
  }

  // Operations of the prefill of the first `tokens` tokens.
  double FlopsOf(double tokens) const {
    return PrefillFlops(config_, tokens, options_.stats == "full", prefill_budget_);
  }

  // Predicts the time left from the operations done so far. Operations and not tokens, because
  // later tokens attend to more keys and take longer. Clustering is taken to run at the same speed.
  void Predict() {
    const double seconds = Seconds(start_);
    const double before = FlopsOf(static_cast<double>(first_done_));
    const double done = FlopsOf(static_cast<double>(now_.done));
    if (seconds <= 0 || done <= before) return;
    const double rate = (done - before) / seconds;
    now_.tokens_per_second = static_cast<double>(now_.done - first_done_) / seconds;
    now_.eta_seconds = (prefill_flops_ - done + cluster_flops_) / rate;
  }

  // Calls the callback; false from it means stop, for good.
  void Report() {
    last_report_ = Clock::now();
    if (options_.on_progress && !options_.on_progress(now_)) stopped_ = true;
  }

  const IndexOptions& options_;
  const ModelConfig& config_;
  const double prefill_budget_;
  const double prefill_flops_, cluster_flops_;
  const std::thread::id thread_ = std::this_thread::get_id();
  IndexProgress now_{IndexProgress::Stage::kRead, 0, 0, 0, -1};
  uint64_t first_done_ = 0;
  Clock::time_point start_ = Clock::now(), last_report_ = Clock::now();
  std::atomic<bool> stopped_{false};
  std::atomic<uint64_t> clustered_{0};
};

}  // namespace lectern

#endif  // LECTERN_ENGINE_INDEXING_INDEX_PROGRESS_H_
