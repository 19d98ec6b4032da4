// Decode steps that sessions of one model take at the same time are taken as one: the weights are
// read once for all of them. A product gives the same bits for any number of rows
// (kernels/matmul.h), so that a session's tokens are those that it generates alone.
//
// The thread of one of the sessions leads a step while the others sleep: layer by layer the linear
// part of all rows, then the attention of one session after the other, each with all threads of the
// pool. They meet once a token, at its end, and not at every product: a model of 22 layers would
// have some 90 meetings of all threads in a token.
//
// Who comes while a step runs takes part in the next one. Who took part in the last step and is not
// back (its client is slow) is waited for a short while, once. Question prefills stay outside.
#ifndef LECTERN_ENGINE_FORWARD_STEP_BATCH_H_
#define LECTERN_ENGINE_FORWARD_STEP_BATCH_H_

#include <chrono>
#include <condition_variable>
#include <exception>
#include <memory>
#include <mutex>
#include <vector>

#include "engine/forward/transformer.h"
#include "engine/requests/requests.h"

namespace lectern {

// Thread-safe. Of one model, all of its documents.
class StepBatch {
 public:
  using Clock = std::chrono::steady_clock;
  struct Limits {
    // For members of the last step that are not back: an eighth of its time, but at least this.
    Clock::duration least_patience = std::chrono::milliseconds(1);
    // How much longer than the shortest attention of a step another's may take, in times of its
    // linear part; whose attention takes longer takes its steps alone. At 1 nobody's tokens take
    // longer than if every session had its share of the machine: of N, the one with the shortest
    // attention a waits at most linear + N a + (N - 1) linear = N (linear + a).
    double max_lag = 1;
  };
  // Borrows `backend`.
  StepBatch(std::shared_ptr<const Model> model, const Backend& backend,
            std::shared_ptr<ThreadPool> threads)
      : StepBatch(std::move(model), backend, std::move(threads), Limits()) {}
  // `device`: where the linear part is done; nullptr: here.
  StepBatch(std::shared_ptr<const Model> model, const Backend& backend,
            std::shared_ptr<ThreadPool> threads, const Limits& limits,
            std::shared_ptr<const LinearLayers> device = nullptr);

  // What the batch knows of a session between its steps.
  class Seat {
   private:
    friend class StepBatch;
    void Took(Clock::duration attention);
    uint64_t due = 0;  // in this round: it is waited for
    // Of its last step, and the lesser of its last two: one may have waited for a core or a disk.
    Clock::duration last{}, attention{};
  };

  // Projected queries, keys and values of a layer -> attended: in the session's own activations,
  // or, with Activations::attends_on_device, in row `row` of what the device has of `a`.
  using Attend = FunctionRef<Status(uint32_t layer, Activations& a, size_t row)>;
  // The layers of one token that is embedded in row 0 of `activations`, and its logits [vocab].
  // Returns what `attend` says or throws first, within a layer of its saying so; the others' steps
  // go on. `attend` is called by the thread of some session of the batch while this one waits. It
  // polls `cancel` (may be nullptr); before its first call that is done here, every 100 ms, and
  // gives kCancelled. After an error the logits are as they were. Sessions that attend on the
  // device (activations.attends_on_device) take their steps together, and the others theirs.
  Status Run(Seat& seat, Activations& activations, std::span<float> logits, Attend attend,
             const CancelFlag* cancel);
  // There is no next step for now: nobody waits for it.
  void Leave(Seat& seat);

  struct Counts {
    uint64_t passes = 0;  // over the weights
    uint64_t tokens = 0;  // steps of sessions that were taken in them
  };
  Counts counts() const;

 private:
  struct Step;
  bool IsEmpty() const { return pass_.steps.empty() && waiting_.empty() && num_due_ == 0; }
  void Return(Seat& seat);
  Status RunAlone(Step& step);
  void GiveUpAll(const Status& status, const std::exception_ptr& thrown);
  void Lead(const Step& leader, std::unique_lock<std::mutex>& lock);
  bool RunLayers(const Step& leader);
  void Embedded();
  void AttendAll();
  void Scatter(size_t row);
  void Gather(size_t row);
  Activations& activations();
  void GiveUp(Step*& step, Status status, std::exception_ptr thrown);
  Status GiveLogits();
  void End();

  const std::shared_ptr<const Model> model_;
  const std::shared_ptr<ThreadPool> threads_;
  const std::shared_ptr<const LinearLayers> device_;
  const Transformer transformer_;
  const Limits limits_;

  mutable std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::vector<Step*> waiting_;  // for the next step
  bool is_led_ = false;
  uint64_t round_ = 1;
  size_t num_due_ = 0;  // seats that are due in this round
  Clock::time_point deadline_;
  Clock::duration linear_{}, shortest_attention_{};  // of the last step
  Counts counts_;

  // The running step. Written by its leader alone, under mutex_ where others may look.
  struct Pass {
    std::vector<Step*> steps;  // a row each; nullptr: it was given up
    bool attends_on_device = false;
    uint32_t layer = 0;
    Clock::time_point start;
    Clock::duration attention{};
    std::unique_ptr<Activations> together;  // of more than one row
    std::vector<float> logits;              // [rows, vocab]
  } pass_;
};

}  // namespace lectern

#endif  // LECTERN_ENGINE_FORWARD_STEP_BATCH_H_
