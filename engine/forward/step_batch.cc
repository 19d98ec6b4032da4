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
  Rows<float> logits;  // [tokens of the step, vocab]
  Attend attend;
  WantedLogits wanted;
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
      limits_(limits),
      costs_(limits.row_cost ? PassCosts(*limits.row_cost) : PassCosts()) {}

StepBatch::Counts StepBatch::counts() const {
  const std::lock_guard lock(mutex_);
  return counts_;
}

StepBatch::Outlook StepBatch::outlook() const {
  const std::lock_guard lock(mutex_);
  return {costs_, num_sessions_, attention_};
}

void StepBatch::ForgetCosts() {
  const std::lock_guard lock(mutex_);
  costs_.Forget();
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

Status StepBatch::Run(Seat& seat, Activations& activations, Rows<float> logits, Attend attend,
                      const CancelFlag* cancel, const WantedLogits& wanted) {
  Step step{seat, activations, logits, attend, wanted};
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
  const auto attend = [&step](uint32_t layer) {
    const auto start = Clock::now();
    Status status = step.attend(layer, step.own, 0);
    step.attention += Clock::now() - start;
    return status;
  };
  const size_t num_rows = step.logits.num_rows;
  LECTERN_RETURN_IF_ERROR(num_rows == 1 ? transformer_.RunToken(step.own, attend)
                                        : transformer_.RunLayers(num_rows, step.own, attend));
  LECTERN_RETURN_IF_ERROR(transformer_.Logits(0, num_rows, step.own, step.logits, step.wanted));
  step.seat.Took(step.attention);
  return {};
}

void StepBatch::Lead(const Step& leader, std::unique_lock<std::mutex>& lock) {
  if (pass_.steps.empty()) {
    pass_.steps.reserve(waiting_.size());
    pass_.first_rows.reserve(waiting_.size() + 1);
  }
  is_led_ = true;
  if (pass_.steps.empty()) {
    pass_.attends_on_device = leader.own.attends_on_device;
    const auto others = std::stable_partition(
        waiting_.begin(), waiting_.end(),
        [&](const Step* step) { return step->own.attends_on_device == pass_.attends_on_device; });
    pass_.steps.assign(waiting_.begin(), others);
    waiting_.erase(waiting_.begin(), others);
    pass_.first_rows.assign(1, 0);
    for (Step* step : pass_.steps) {
      step->is_running = true;
      pass_.first_rows.push_back(pass_.first_rows.back() + step->logits.num_rows);
    }
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
  const size_t num_rows = pass_.first_rows.back();
  if (pass_.steps.size() > 1 && pass_.layer == 0) Embedded();
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
  const size_t num_rows = pass_.first_rows.back();
  if (!pass_.together || pass_.together->max_tokens < num_rows) {
    pass_.together =
        std::make_unique<Activations>(model_->config(), num_rows, threads_->num_threads());
    pass_.logits.resize(num_rows * model_->config().vocab_size);
  }
  const size_t hidden = model_->config().hidden_size;
  for (size_t number = 0; number < pass_.steps.size(); ++number) {
    const Activations& own = pass_.steps[number]->own;
    const size_t count = pass_.steps[number]->logits.num_rows, row = pass_.first_rows[number];
    std::copy_n(own.residual.data(), count * hidden,
                pass_.together->residual.data() + row * hidden);
    for (size_t kind = 0; kind < own.angles.size(); ++kind) {
      const Activations::Angles& from = own.angles[kind];
      Activations::Angles& to = pass_.together->angles[kind];
      const size_t half = from.cosine.size() / own.max_tokens;
      std::copy_n(from.cosine.data(), count * half, to.cosine.data() + row * half);
      std::copy_n(from.sine.data(), count * half, to.sine.data() + row * half);
    }
  }
  pass_.together->is_embedded = true;
  pass_.together->attends_on_device = pass_.attends_on_device;
}

void StepBatch::AttendAll() {
  const auto start = Clock::now();
  const size_t num_steps = pass_.steps.size(), num_threads = threads_->num_threads();
  const size_t apart = pass_.attends_on_device ? 0 : num_steps / num_threads * num_threads;
  if (apart > 1) {
    threads_->ParallelFor(apart, [&](size_t number, size_t) { AttendFor(number, num_threads); });
  }
  for (size_t number = apart > 1 ? apart : 0; number < num_steps; ++number) AttendFor(number, 1);
  pass_.attention += Clock::now() - start;
}

void StepBatch::AttendFor(size_t number, size_t at_once) {
  Step*& step = pass_.steps[number];
  if (step == nullptr) return;
  const bool is_together = pass_.steps.size() > 1 && !pass_.attends_on_device;
  Status status;
  std::exception_ptr thrown;
  const auto start = Clock::now();
  if (is_together) Scatter(number);
  try {
    status = pass_.attends_on_device
                 ? step->attend(pass_.layer, activations(), pass_.first_rows[number])
                 : step->attend(pass_.layer, step->own, 0);
  } catch (...) {
    thrown = std::current_exception();
  }
  step->attention += (Clock::now() - start) / at_once;
  if (thrown || !status.ok()) {
    GiveUp(step, std::move(status), std::move(thrown));
  } else if (is_together) {
    Gather(number);
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

void StepBatch::Scatter(size_t number) {
  const ModelConfig& config = model_->config();
  const size_t num_rows = pass_.first_rows.back(), row = pass_.first_rows[number];
  const size_t group = config.query_group(), dim = config.head_dim;
  const size_t count = pass_.steps[number]->logits.num_rows;
  Activations& own = pass_.steps[number]->own;
  for (size_t head = 0; head < config.num_kv_heads; ++head) {
    std::copy_n(transformer_.Grouped(pass_.together->queries, head, num_rows)[row * group],
                count * group * dim, transformer_.Grouped(own.queries, head, count).data);
  }
  const size_t kv_cols = config.num_kv_heads * dim;
  std::copy_n(pass_.together->keys.data() + row * kv_cols, count * kv_cols, own.keys.data());
  std::copy_n(pass_.together->values.data() + row * kv_cols, count * kv_cols, own.values.data());
}

void StepBatch::Gather(size_t number) {
  const ModelConfig& config = model_->config();
  const size_t num_rows = pass_.first_rows.back(), row = pass_.first_rows[number];
  const size_t group = config.query_group(), count = pass_.steps[number]->logits.num_rows;
  Activations& own = pass_.steps[number]->own;
  for (size_t head = 0; head < config.num_kv_heads; ++head) {
    std::copy_n(transformer_.Grouped(own.attended, head, count).data,
                count * group * config.head_dim,
                transformer_.Grouped(pass_.together->attended, head, num_rows)[row * group]);
  }
}

Status StepBatch::GiveLogits() {
  const size_t num_rows = pass_.first_rows.back(), vocab = model_->config().vocab_size;
  if (pass_.steps.size() == 1) {
    Step& step = *pass_.steps.front();
    return transformer_.Logits(0, num_rows, step.own, step.logits, step.wanted);
  }
  const Rows<float> logits(pass_.logits.data(), num_rows, vocab);
  std::optional<WantedLogits> wanted;
  for (const Step* step : pass_.steps) {
    if (step != nullptr) wanted = wanted ? wanted->With(step->wanted) : step->wanted;
  }
  LECTERN_RETURN_IF_ERROR(
      transformer_.Logits(0, num_rows, *pass_.together, logits, wanted.value_or(WantedLogits())));
  for (size_t number = 0; number < pass_.steps.size(); ++number) {
    Step* const step = pass_.steps[number];
    for (size_t i = 0; step != nullptr && i < step->logits.num_rows; ++i) {
      std::copy_n(logits[pass_.first_rows[number] + i], vocab, step->logits[i]);
    }
  }
  return {};
}

void StepBatch::End() {
  const auto now = Clock::now();
  ++counts_.passes;
  counts_.tokens += pass_.steps.size();
  linear_ = now - pass_.start - pass_.attention;
  num_sessions_ = pass_.steps.size();
  attention_ = std::chrono::duration<double>(pass_.attention).count() /
               static_cast<double>(pass_.first_rows.back());
  if (!limits_.row_cost) {
    costs_.Took(pass_.first_rows.back(), std::chrono::duration<double>(linear_).count());
  }
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
