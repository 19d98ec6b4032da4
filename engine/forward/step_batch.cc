#include "engine/forward/step_batch.h"

#include <algorithm>
#include <utility>

namespace lectern {
namespace {

// A pass waits for other sessions for an eighth of the last pass's duration at most. By hand; with
// it eight sessions of model M get 1.58 times as many tokens (tests/bench/RESULTS.md, "Several
// answers at a time"). Longer waits would make single answers slower.
constexpr int kPatience = 8;
// How often a waiting session looks at its cancel flag. By hand: the delay of a cancellation that a
// user would not notice.
constexpr auto kPoll = std::chrono::milliseconds(100);

}  // namespace

// One session's step. It lives on the stack of the session's thread, which waits until is_done.
struct StepBatch::Step {
  Seat& seat;
  Activations& own;
  std::span<float> logits;
  Attend attend;
  Clock::duration attention{};
  bool is_running = false, is_done = false;
  Status status = {};
  std::exception_ptr thrown = nullptr;
};

StepBatch::StepBatch(std::shared_ptr<const Model> model, const Backend& backend,
                     std::shared_ptr<ThreadPool> threads, const Limits& limits,
                     std::shared_ptr<const LinearLayers> device)
    : model_(std::move(model)),
      threads_(std::move(threads)),
      device_(std::move(device)),
      transformer_(*model_, backend, *threads_, 0, device_.get()),
      limits_(limits) {}

StepBatch::Counts StepBatch::counts() const {
  const std::lock_guard lock(mutex_);
  return counts_;
}

void StepBatch::Seat::Took(Clock::duration time) {
  attention = std::min(time, std::exchange(last, time));
}

void StepBatch::Return(Seat& seat) {
  if (std::exchange(seat.due, 0) == round_) --num_due_;
}

void StepBatch::Leave(Seat& seat) {
  const std::lock_guard lock(mutex_);
  Return(seat);
  changed_.notify_all();
}

Status StepBatch::Run(Seat& seat, Activations& activations, std::span<float> logits, Attend attend,
                      const CancelFlag* cancel) {
  Step step{seat, activations, logits, attend};
  std::unique_lock lock(mutex_);
  Return(seat);
  // A session whose attention takes much longer than the others' would hold them up: it goes alone.
  const std::chrono::duration<double> lag = seat.attention - shortest_attention_;
  if (!IsEmpty() && lag > limits_.max_lag * std::chrono::duration<double>(linear_)) {
    ++counts_.passes;
    ++counts_.tokens;
    changed_.notify_all();  // somebody may have waited for this session
    lock.unlock();
    return RunAlone(step);
  }
  waiting_.push_back(&step);
  while (!step.is_done) {
    const bool is_over = pass_.steps.empty();
    const auto now = Clock::now();
    // The first thread that finds the last step over and nobody to wait for leads the next one; a
    // running step whose leader left is taken over by one of its members.
    if (is_over ? num_due_ == 0 || now >= deadline_ : !is_led_ && step.is_running) {
      try {
        Lead(step, lock);
      } catch (...) {  // no memory for the list of those who take part: nobody was led
        std::erase(waiting_, &step);
        throw;
      }
    } else if (step.is_running) {
      changed_.wait(lock);
    } else if (cancel != nullptr && cancel->load(std::memory_order_relaxed)) {
      std::erase(waiting_, &step);
      return {Code::kCancelled, "the answer was cancelled"};
    } else {
      changed_.wait_until(lock, is_over ? std::min(deadline_, now + kPoll) : now + kPoll);
    }
  }
  lock.unlock();
  if (step.thrown) std::rethrow_exception(std::exchange(step.thrown, nullptr));
  return std::move(step.status);
}

Status StepBatch::RunAlone(Step& step) {
  LECTERN_RETURN_IF_ERROR(transformer_.RunToken(step.own, [&step](uint32_t layer) {
    const auto start = Clock::now();
    Status status = step.attend(layer, step.own, 0);
    step.attention += Clock::now() - start;
    return status;
  }));
  LECTERN_RETURN_IF_ERROR(
      transformer_.Logits(0, 1, step.own, {step.logits.data(), 1, step.logits.size()}));
  step.seat.Took(step.attention);
  return {};
}

void StepBatch::Lead(const Step& leader, std::unique_lock<std::mutex>& lock) {
  if (pass_.steps.empty()) pass_.steps.reserve(waiting_.size());
  is_led_ = true;
  if (pass_.steps.empty()) {
    pass_.attends_on_device = leader.own.attends_on_device;
    const auto others = std::stable_partition(
        waiting_.begin(), waiting_.end(),
        [&](const Step* step) { return step->own.attends_on_device == pass_.attends_on_device; });
    pass_.steps.assign(waiting_.begin(), others);
    waiting_.erase(waiting_.begin(), others);
    for (Step* step : pass_.steps) step->is_running = true;
    ++round_;
    num_due_ = 0;
    pass_.layer = 0;
    pass_.start = Clock::now();
    pass_.attention = {};
  }
  lock.unlock();
  bool is_over = true;
  try {
    is_over = RunLayers(leader);
  } catch (...) {
    GiveUpAll({}, std::current_exception());
  }
  lock.lock();
  is_led_ = false;
  if (is_over) End();
  changed_.notify_all();
}

bool StepBatch::RunLayers(const Step& leader) {
  const size_t num_rows = pass_.steps.size();
  if (num_rows > 1 && pass_.layer == 0) Embedded();
  Activations& a = activations();
  if (pass_.attends_on_device && num_rows == 1) {
    const Status status = transformer_.RunToken(
        a, [&](uint32_t layer) { return pass_.steps.front()->attend(layer, a, 0); });
    if (!status.ok()) {
      GiveUpAll(status, nullptr);
      return true;
    }
    pass_.layer = model_->config().num_layers;
  }
  for (; pass_.layer < model_->config().num_layers; ++pass_.layer) {
    if (leader.is_done) return false;
    Status status = transformer_.Project(pass_.layer, num_rows, a);
    if (status.ok()) {
      AttendAll();
      if (std::ranges::count(pass_.steps, nullptr) == std::ssize(pass_.steps)) return true;
      status = transformer_.Finish(pass_.layer, num_rows, a);
    }
    if (!status.ok()) {
      GiveUpAll(status, nullptr);
      return true;
    }
  }
  if (const Status status = GiveLogits(); !status.ok()) GiveUpAll(status, nullptr);
  return true;
}

Activations& StepBatch::activations() {
  return pass_.steps.size() > 1 ? *pass_.together : pass_.steps.front()->own;
}

void StepBatch::Embedded() {
  const size_t num_rows = pass_.steps.size();
  if (!pass_.together || pass_.together->max_tokens < num_rows) {
    pass_.together =
        std::make_unique<Activations>(model_->config(), num_rows, threads_->num_threads());
    pass_.logits.resize(num_rows * model_->config().vocab_size);
  }
  const size_t hidden = model_->config().hidden_size;
  for (size_t row = 0; row < num_rows; ++row) {
    const Activations& own = pass_.steps[row]->own;
    std::copy_n(own.residual.data(), hidden, pass_.together->residual.data() + row * hidden);
    for (size_t kind = 0; kind < own.angles.size(); ++kind) {
      const Activations::Angles& from = own.angles[kind];
      Activations::Angles& to = pass_.together->angles[kind];
      const size_t half = from.cosine.size() / own.max_tokens;
      std::copy_n(from.cosine.data(), half, to.cosine.data() + row * half);
      std::copy_n(from.sine.data(), half, to.sine.data() + row * half);
    }
  }
  pass_.together->is_embedded = true;
  pass_.together->attends_on_device = pass_.attends_on_device;
}

void StepBatch::AttendAll() {
  const bool is_together = pass_.steps.size() > 1 && !pass_.attends_on_device;
  Activations& a = activations();
  auto before = Clock::now();
  for (size_t row = 0; row < pass_.steps.size(); ++row) {
    Step*& step = pass_.steps[row];
    if (step == nullptr) continue;
    Status status;
    std::exception_ptr thrown;
    if (is_together) Scatter(row);
    try {
      status = pass_.attends_on_device ? step->attend(pass_.layer, a, row)
                                       : step->attend(pass_.layer, step->own, 0);
    } catch (...) {
      thrown = std::current_exception();
    }
    const auto now = Clock::now();
    step->attention += now - before;
    pass_.attention += now - std::exchange(before, now);
    if (thrown || !status.ok()) {
      GiveUp(step, std::move(status), std::move(thrown));
    } else if (is_together) {
      Gather(row);
    }
  }
}

void StepBatch::GiveUp(Step*& step, Status status, std::exception_ptr thrown) {
  // Work that was enqueued for the session may use memory that it lets go of now.
  Activations* const a = pass_.steps.size() > 1 ? pass_.together.get() : &pass_.steps.front()->own;
  if (pass_.attends_on_device && a != nullptr && a->stream) (void)device_->Wait(*a);
  const std::lock_guard lock(mutex_);
  step->status = std::move(status);
  step->thrown = std::move(thrown);
  step->is_done = true;
  step = nullptr;
  changed_.notify_all();
}

void StepBatch::GiveUpAll(const Status& status, const std::exception_ptr& thrown) {
  for (Step*& step : pass_.steps) {
    if (step != nullptr) GiveUp(step, status, thrown);
  }
}

void StepBatch::Scatter(size_t row) {
  const ModelConfig& config = model_->config();
  const size_t num_rows = pass_.steps.size(), group = config.query_group(), dim = config.head_dim;
  Activations& own = pass_.steps[row]->own;
  for (size_t head = 0; head < config.num_kv_heads; ++head) {
    std::copy_n(transformer_.Grouped(pass_.together->queries, head, num_rows)[row * group],
                group * dim, transformer_.Grouped(own.queries, head, 1).data);
  }
  const size_t kv_cols = config.num_kv_heads * dim;
  std::copy_n(pass_.together->keys.data() + row * kv_cols, kv_cols, own.keys.data());
  std::copy_n(pass_.together->values.data() + row * kv_cols, kv_cols, own.values.data());
}

void StepBatch::Gather(size_t row) {
  const ModelConfig& config = model_->config();
  const size_t num_rows = pass_.steps.size(), group = config.query_group();
  Activations& own = pass_.steps[row]->own;
  for (size_t head = 0; head < config.num_kv_heads; ++head) {
    std::copy_n(transformer_.Grouped(own.attended, head, 1).data, group * config.head_dim,
                transformer_.Grouped(pass_.together->attended, head, num_rows)[row * group]);
  }
}

Status StepBatch::GiveLogits() {
  const size_t num_rows = pass_.steps.size(), vocab = model_->config().vocab_size;
  if (num_rows == 1) {
    Step& step = *pass_.steps.front();
    return transformer_.Logits(0, 1, step.own, {step.logits.data(), 1, vocab});
  }
  const Rows<float> logits(pass_.logits.data(), num_rows, vocab);
  LECTERN_RETURN_IF_ERROR(transformer_.Logits(0, num_rows, *pass_.together, logits));
  for (size_t row = 0; row < num_rows; ++row) {
    if (pass_.steps[row] != nullptr)
      std::copy_n(logits[row], vocab, pass_.steps[row]->logits.data());
  }
  return {};
}

void StepBatch::End() {
  const auto now = Clock::now();
  ++counts_.passes;
  counts_.tokens += pass_.steps.size();
  linear_ = now - pass_.start - pass_.attention;
  deadline_ =
      now + std::max<Clock::duration>(limits_.least_patience, (now - pass_.start) / kPatience);
  shortest_attention_ = Clock::duration::max();
  for (Step* step : pass_.steps) {
    if (step == nullptr) continue;
    step->seat.Took(step->attention);
    shortest_attention_ = std::min(shortest_attention_, step->seat.attention);
    step->seat.due = round_;
    ++num_due_;
    step->is_done = true;
  }
  pass_.steps.clear();
}

}  // namespace lectern
