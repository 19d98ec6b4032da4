// The second flow: a question to an indexed document.
#ifndef LECTERN_ENGINE_ASKING_ASK_H_
#define LECTERN_ENGINE_ASKING_ASK_H_

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "engine/asking/evidence.h"
#include "engine/asking/session.h"
#include "engine/asking/session_conversation.h"
#include "engine/attention/host_step.h"
#include "engine/attention/probe.h"
#include "engine/forward/step_batch.h"
#include "engine/forward/transformer.h"
#include "engine/gpu/cached_attention.h"
#include "engine/gpu/linear_layers.h"
#include "engine/gpu/step.h"
#include "engine/model/template/chat_template.h"

namespace lectern {

// A question of up to this many tokens goes through a layer at once: one selection for all of it.
inline constexpr size_t kMaxQuestionTokens = 8192;

// Where a session's work is done; empty: on the CPU.
struct SessionDevice {
  std::shared_ptr<const DeviceTransformer> transformer;
  // nullptr: attention is the CPU's, as kernels do not take the document's rows.
  std::shared_ptr<DeviceDocument> document;
  Message fallback;  // why the CPU does what was left to choose; said with each answer
};

class DocumentSession : public Session {
 public:
  // Borrows `backend`; shares everything else, so that a session may outlive its engine.
  // kModelMismatch when model and document do not belong together.
  static Result<std::unique_ptr<DocumentSession>> Create(std::shared_ptr<const Document> document,
                                                         std::shared_ptr<const Model> model,
                                                         const Backend& backend,
                                                         std::shared_ptr<ThreadPool> threads,
                                                         double open_ms,
                                                         const SessionDevice& device = {});

  // Steps of one token are taken with those of other sessions of the same model; nullptr, as at
  // first: alone. Not while it asks.
  void ShareSteps(std::shared_ptr<StepBatch> batch) { batch_ = std::move(batch); }
  const std::shared_ptr<StepBatch>& step_batch() const { return batch_; }

  Result<Answer> Ask(std::string_view question, const AskOptions& options) override;
  const DocumentRow& document() const override { return document_->row(); }
  std::string_view text() const override { return document_->text(); }
  Result<TokenizedText> Tokenize(std::string_view text) const override {
    return model_->tokenizer().Encode(text);
  }
  uint64_t dense_bytes() const override { return document_->LayerBytes(); }

  // One forward pass at this share of the document's bytes: `ids` follow what the session has seen.
  // Returns the logits of the last one. On error the session stands where it stood.
  Result<std::span<const float>> Step(std::span<const int32_t> ids, double kv_budget, bool tail,
                                      const CancelFlag* cancel);
  // Watches these passes.
  Probe& probe() { return probe_; }
  // How passes choose what they read; at first as the document says. Ask sets them from its
  // options.
  struct Settings {
    SelectionRule rule = {};
    PlanPolicies policies = {};
    double max_missed = -1;  // below 0: no limit
    // Rows of the conversation that CompressRows leaves, per layer and kv head in the mean; 0: all.
    uint32_t max_session_rows = 0;
  };
  Settings& settings() { return settings_; }
  // Attention of the running pass and layer at another budget, into `output` [kv heads][R,
  // head_dim] (only from within Probe::on_layer). `bound`: also finds DocumentRead::missed_bound.
  Result<DocumentRead> AttendAgain(double kv_budget, bool tail, std::vector<float>& output,
                                   bool bound = false);
  // The smallest budget that every layer can serve; 0 without clusters.
  Result<double> SmallestServed(bool tail) const;
  // Ask compresses after the answer.
  void CompressRows();
  const SessionRows& rows() const { return conversation_.rows(); }
  void Forget();  // everything after the fixed context
  size_t num_past() const { return conversation_.num_tokens(); }  // tokens after the fixed context
  const Document& indexed() const { return *document_; }
  const Backend& backend() const { return transformer_.backend(); }
  ThreadPool& threads() { return *threads_; }
  size_t query_group() const { return model_->config().query_group(); }

 private:
  DocumentSession(std::shared_ptr<const Document> document, std::shared_ptr<const Model> model,
                  const Backend& backend, std::shared_ptr<ThreadPool> threads,
                  const SessionDevice& device, std::shared_ptr<DeviceStream> stream,
                  double open_ms);

  Result<Answer> Generate(std::string_view question, const AskOptions& options);  // may throw
  Status CheckOptions(const AskOptions& options) const;
  // A question that was rendered, and what of it is to be fed.
  struct NextPrompt {
    size_t num_kept = 0;       // tokens of what was fed that it begins with
    Prompt rest;               // its other tokens; the text is all of it
    bool is_thinking = false;  // the answer begins inside the marks of thinking
  };
  Result<NextPrompt> PrepareNext(const ChatHistory& history, std::string_view question) const;
  // The question's tokens that have no rows; then only those of what was fed that it begins with
  // have.
  std::vector<int32_t> BeginTurn(const NextPrompt& next);
  // Rows and tokens as they were after BeginTurn, or before it.
  void GiveUpTurn();
  Status Decode(std::span<const float> logits, const NextPrompt& next, uint64_t room, double budget,
                const AskOptions& options, Answer& answer, std::vector<int32_t>* sampled);
  void KeepTurn(Prompt prompt, std::span<const int32_t> sampled, std::string_view question,
                const AskOptions& options, const Answer& answer);
  // Memory for a step of so many tokens, and so many rows of the conversation.
  Status ReserveRam(size_t num_tokens, uint64_t num_rows, double kv_budget);
  // For the answer's next token, where the rows that are reserved are full. False: there is none.
  bool ReserveNextRow(double kv_budget);
  // The shares at a budget below 1; nullptr: everything is read. Kept in `kept` until others are
  // asked for.
  struct KeptPlan {
    const Document* document;
    PlanPolicies policies;
    double kv_budget = 0;
    bool tail = false, has_floors = false;
    BudgetPlan plan;
  };
  Result<const BudgetPlan*> PlanFor(const Document& document, double kv_budget, bool tail,
                                    std::optional<KeptPlan>& kept) const;
  // Whether estimates of what these settings miss are measured ones.
  bool IsMeasured(const Document& document, bool tail) const;
  // The attention of a pass, begun: the device's where it can, else the host's.
  Result<StepAttention*> BeginStep(const StepPlan& plan);
  Status RunLayers(std::span<const int32_t> ids, StepAttention& attention,
                   const CancelFlag* cancel);
  // Adds all that is known of evidence to sums_, and lets go of the document on the device.
  Status CollectSums() { return device_step_ ? device_step_->CollectSums() : Status(); }
  void ReleaseDevice() {
    if (device_step_) device_step_->Release();
  }
  // The question's prefill. Where it draws on much of the document it warns in `answer`, or, as
  // options.fallback says, is repeated with everything read: `budget` is 1 then.
  Result<std::span<const float>> Prefill(std::span<const int32_t> ids, const AskOptions& options,
                                         double& budget, Answer& answer);
  Result<std::span<const float>> AnswerWideQuestion(const Spread& spread,
                                                    std::span<const int32_t> ids,
                                                    const AskOptions& options, double& budget,
                                                    Answer& answer);
  void AddEvidence(const AskOptions& options, Answer& answer) const;

  const std::shared_ptr<const Document> document_;
  const std::shared_ptr<const Model> model_;
  const std::shared_ptr<ThreadPool> threads_;
  const SessionDevice device_;
  const Transformer transformer_;
  const std::shared_ptr<DeviceStream> stream_;  // with a device; shared by what is made of it
  Arena arena_;                                 // of the running layer
  SessionConversation conversation_;
  Probe probe_;
  Settings settings_;
  std::unique_ptr<DeviceAttention> device_attention_;  // with a device that has the document's rows
  std::unique_ptr<DeviceStep> device_step_;            // likewise
  std::unique_ptr<HostStep> host_step_;
  std::shared_ptr<StepBatch> batch_;
  StepBatch::Seat seat_;
  const double open_ms_;
  RamLimit::Share ram_share_;  // of the conversation and a step
  uint64_t reserved_tokens_ = 0, reserved_rows_ = 0;  // what it is for

  std::unique_ptr<Activations> activations_;
  std::vector<float> logits_;
  // The conversation so far. `fed` has its text and its token ids; the first num_past() of them
  // have rows, because the last token of the last answer may not have been fed.
  struct Transcript {
    Prompt fed;
    ChatHistory history;
  } said_;

  // Counts of the Ask that is running.
  struct Totals {
    bool in_prefill = true;
    double prefill_fraction = 0, decode_fraction = 0;
    uint64_t decode_steps = 0;
    StepRead all;  // sums over passes; `fraction` is not used
    void Add(const StepRead& read);
  } totals_;
  std::optional<KeptPlan> plan_, plan_beside_;  // of the running pass, and of AttendAgain
  AttentionSums sums_;
};

}  // namespace lectern

#endif  // LECTERN_ENGINE_ASKING_ASK_H_
