// Shares decode steps: when several sessions of one model generate at the same time, their steps
// are taken as one, so that the weights are read once for all. A product gives the same bits for
// any number of rows (kernels/matmul.h), so each session gets the same tokens as it would alone.
//
// The thread of one session leads a step while the others sleep. It goes layer by layer: the linear
// part of all rows, then the attention of all sessions, a thread of the pool for each. Sessions
// meet once per token, at its end, and not at every product: with 22 layers there would be some 90
// meetings of all threads in a token.
//
// A session that comes while a step runs takes part in the next one. A session of the last step
// that is not back (its client is slow) is waited for once, for a short while. Question prefills
// stay outside.
#ifndef LECTERN_ENGINE_FORWARD_STEP_BATCH_H_
#define LECTERN_ENGINE_FORWARD_STEP_BATCH_H_

#include <chrono>
#include <condition_variable>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "engine/forward/pass_costs.h"
#include "engine/forward/transformer.h"
#include "engine/requests/requests.h"

namespace lectern {

// Thread-safe. One batch serves one model and all of its documents.
class StepBatch {
 public:
  using Clock = std::chrono::steady_clock;
  struct Limits {
    // Time to wait for members of the last step that are not back: an eighth of its duration, but
    // at least this. Both are by hand, and no measurement of others is on record: a
    // millisecond is less than half a token of model S (tests/bench/RESULTS.md).
    Clock::duration least_patience = std::chrono::milliseconds(1);
    // How much longer than the shortest attention of a step another's may take, in multiples of the
    // linear part. A session whose attention takes longer takes its steps alone. With 1 no token
    // takes longer than if every session had its share of the machine: of N sessions, the one with
    // the shortest attention a waits at most linear + N a + (N - 1) linear = N (linear + a).
    double max_lag = 1;
    // The cost of each row of a pass behind the first, in multiples of the first; nothing: as
    // measured. Tests set it, so that proposals do not depend on the machine.
    std::optional<double> row_cost = {};
  };
  // Borrows `backend`.
  StepBatch(std::shared_ptr<const Model> model, const Backend& backend,
            std::shared_ptr<ThreadPool> threads)
      : StepBatch(std::move(model), backend, std::move(threads), Limits()) {}
  // `device` does the linear part; nullptr: the CPU does. Shares all but the backend.
  StepBatch(std::shared_ptr<const Model> model, const Backend& backend,
            std::shared_ptr<ThreadPool> threads, const Limits& limits,
            std::shared_ptr<const LinearLayers> device = nullptr);

  // The batch's notes on a session between its steps. Before a seat is destroyed, Leave it: others
  // would wait for it once more.
  class Seat {
   private:
    friend class StepBatch;
    void Took(Clock::duration attention);
    uint64_t due = 0;  // the round in which it is waited for
    // Duration of its last step's attention, and the shorter one of its last two (0 before its
    // second step): a single step may have waited for a core or a disk.
    Clock::duration last{}, attention{};
  };

  // Attends in one layer with all tokens of the step: projected queries, keys and values in,
  // `attended` out. The output goes to the session's own activations, or, with
  // Activations::attends_on_device, to row `row` of the device's part of `a`.
  using Attend = FunctionRef<Status(uint32_t layer, Activations& a, size_t row)>;
  // Runs all layers of one token, or of a few tokens of one session, as many as `logits` [tokens,
  // vocab] has rows. Their embeddings are in the first rows of `activations`; writes their logits,
  // row by row. Several tokens attend on the host. Waits for other sessions; borrows everything
  // until it returns. One call at a time for each seat.
  // Returns the first error or rethrows the first exception of `attend`, within that layer; the
  // other sessions' steps go on. A failure of the part that sessions share (codes of LinearLayers,
  // bad_alloc) ends the steps of all of them. `attend` may be called by the thread of another
  // session of the batch, or of the pool, while this one waits, beside those of other sessions. It
  // polls `cancel` (may be nullptr) itself; before the step begins Run polls it every 100 ms and
  // returns kCancelled. After this, or an error of `attend`, the logits are unchanged.
  // Sessions that attend on the device (activations.attends_on_device) share steps among
  // themselves, and so do the others.
  // Logits that are not `wanted` may be -infinity.
  Status Run(Seat& seat, Activations& activations, Rows<float> logits, Attend attend,
             const CancelFlag* cancel, const WantedLogits& wanted = {});
  // Tells the batch that this session has no next step for now, so that nobody waits for it.
  void Leave(Seat& seat);

  struct Counts {
    uint64_t passes = 0;  // passes over the weights, failed ones too
    uint64_t tokens = 0;  // sessions' steps that these passes took, failed ones too
  };
  Counts counts() const;  // since the batch was made

  // The costs of a pass, for a session that may take several tokens in one.
  struct Outlook {
    PassCosts linear;         // of the linear part, by the rows of a pass
    size_t num_sessions = 1;  // in the last pass
    double attention = 0;     // seconds of it that a row took beside the linear part; 0: none yet
  };
  Outlook outlook() const;
  // A pass of several tokens was thought to cost too much: see PassCosts::Forget.
  void ForgetCosts();

 private:
  struct Step;
  bool IsEmpty() const { return pass_.steps.empty() && waiting_.empty() && num_due_ == 0; }
  // Notes that the seat's session is back, or will not come: it is no longer waited for in this
  // round. With mutex_ held.
  void Return(Seat& seat);
  // Runs a step that shares nothing, on the caller's thread, without mutex_.
  Status RunAlone(Step& step);
  // GiveUp for all steps of the pass, because something that they share failed. Without mutex_,
  // which GiveUp takes.
  void GiveUpAll(const Status& status, const std::exception_ptr& thrown);
  // Starts the next pass with the waiting steps that attend where the leader's does, or goes on
  // with one whose leader left, and ends it (End) unless the leader's own step was given up.
  // `lock` holds mutex_, is released while layers run, and holds it again at the end. An exception
  // gives up all steps.
  void Lead(const Step& leader, std::unique_lock<std::mutex>& lock);
  // Runs the remaining layers, without mutex_, and gives logits. False: the leader's own step was
  // given up while others go on, so another thread must lead. Errors of shared parts give up all
  // steps. May throw bad_alloc.
  bool RunLayers(const Step& leader);
  // Copies the sessions' embedded rows and angles into the shared activations, side by side; makes
  // these larger first if there are too few rows. May throw bad_alloc.
  void Embedded();
  // Attends in the pass's layer for each session, and times it. Sessions are shared out among the
  // threads, one a thread, where each thread gets as many; the rest come in turn, each with all
  // threads, which then meet several times in each attention.
  void AttendAll();
  // Attends for the session of a step, beside at_once - 1 others, so that a share of the time is
  // its own. An error or exception gives up that session's step only.
  void AttendFor(size_t number, size_t at_once);
  // Copies a step's queries, keys and values from the shared activations to the session's own.
  void Scatter(size_t number);
  // Copies a session's attention output back to its rows of the shared activations.
  void Gather(size_t number);
  // The activations of the running pass: shared ones, or its only session's own.
  Activations& activations();
  // Ends a step with an error or an exception and wakes its thread; sets `step` to nullptr.
  void GiveUp(Step*& step, Status status, std::exception_ptr thrown);
  // Computes the logits of all rows and copies them to the sessions' own.
  Status GiveLogits();
  // Ends the running pass: counts it, takes times, marks its sessions as waited for in this round,
  // and their steps as done. With mutex_ held.
  void End();

  const std::shared_ptr<const Model> model_;
  const std::shared_ptr<ThreadPool> threads_;
  const std::shared_ptr<const LinearLayers> device_;
  const Transformer transformer_;
  const Limits limits_;

  mutable std::mutex mutex_;  // guards the members below
  std::condition_variable changed_;
  std::vector<Step*> waiting_;  // steps that wait for the next pass
  bool is_led_ = false;
  uint64_t round_ = 1;
  size_t num_due_ = 0;  // sessions that are waited for in this round
  Clock::time_point deadline_;
  Clock::duration linear_{}, shortest_attention_{};  // durations in the last step
  Counts counts_;
  PassCosts costs_;
  size_t num_sessions_ = 1;  // in the last pass
  double attention_ = 0;     // Outlook::attention

  // State of the running step. Only its leader writes it, under mutex_ where others may look.
  struct Pass {
    std::vector<Step*> steps;        // nullptr: that step was given up
    std::vector<size_t> first_rows;  // [steps + 1]: where the rows of each begin; all rows
    bool attends_on_device = false;
    uint32_t layer = 0;
    Clock::time_point start;
    Clock::duration attention{};
    std::unique_ptr<Activations> together;  // activations of a step of several rows
    std::vector<float> logits;              // [rows, vocab]
  } pass_;
};

}  // namespace lectern

#endif  // LECTERN_ENGINE_FORWARD_STEP_BATCH_H_
