// The second flow: a question to an indexed document.
#ifndef LECTERN_ENGINE_ASK_H_
#define LECTERN_ENGINE_ASK_H_

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "engine/chat_template.h"
#include "engine/device_conversation.h"
#include "engine/device_step.h"
#include "engine/device_transformer.h"
#include "engine/document_attention.h"
#include "engine/engine.h"
#include "engine/evidence.h"
#include "engine/session_rows.h"
#include "engine/step_batch.h"
#include "engine/transformer.h"

namespace lectern {

// A question of up to this many tokens goes through a layer at once: one selection for all of it.
inline constexpr size_t kMaxQuestionTokens = 8192;

// Where a session's work is done; empty: on the CPU.
struct SessionDevice {
  std::shared_ptr<const DeviceTransformer> transformer;
  // nullptr: attention is the CPU's, as kernels do not take the document's rows.
  std::shared_ptr<DeviceDocument> document;
  std::string fallback;  // why the CPU does what was left to choose; said with each answer
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
  uint64_t dense_bytes() const override { return dense_bytes_; }

  // --- for tests and evaluations ---

  // One forward pass at this share of the document's bytes: `ids` follow what the session has seen.
  // Returns the logits of the last one. On error the session stands where it stood.
  Result<std::span<const float>> Step(std::span<const int32_t> ids, double kv_budget, bool tail,
                                      const CancelFlag* cancel);
  // Called in each layer of a step that is not windowed after its attention, by the thread that
  // leads a shared step.
  struct LayerStep {
    uint32_t layer;
    size_t num_tokens;
    const DocumentRead& read;
    // Per kv head [R, head_dim] and [R]: finished output and its log-sum-exp.
    std::span<const Rows<float>> attended;
    std::span<const std::span<float>> lse;
    // Log-sum-exp of the document's part alone: exp(document_lse - lse) is its share of the mass.
    std::span<const std::span<float>> document_lse;
    std::span<const float> weights;  // as LookupArgs::row_weights
  };
  std::function<void(const LayerStep&)> on_layer;
  // Called in Ask with the logits that the first answer token is drawn from.
  std::function<void(std::span<const float>)> on_first_logits;
  // Chooses what is read in the place of Lookup, where the budget is below 1; empty: Lookup.
  Selector selector;
  // Of Lookup, and of the plan (at first the document's). Ask sets them from its options.
  SelectionRule rule;
  PlanPolicies policies;
  // Where set, what AttendAgain attends to in the place of the session's document: one of the same
  // text, model and shape. Borrowed.
  const Document* attended_again = nullptr;
  // Attention of the running step and layer at another budget, by `selector`, into `output` [kv
  // heads][R, head_dim] (only from within on_layer). `bound`: also find DocumentRead::missed_bound.
  Result<DocumentRead> AttendAgain(uint32_t layer, size_t num_tokens, double kv_budget, bool tail,
                                   std::vector<float>& output, bool bound = false);
  // The smallest budget that every layer can serve; 0 without clusters.
  Result<double> SmallestServed(bool tail) const;
  // Rows of the conversation that CompressRows leaves, per layer and kv head in the mean; 0: all.
  // Ask sets it from its options, and compresses after the answer.
  uint32_t max_session_rows = 0;
  void CompressRows();
  const SessionRows& rows() const { return rows_; }
  void Forget();                                 // everything after the fixed context
  size_t num_past() const { return num_past_; }  // tokens after the fixed context
  const Document& indexed() const { return *document_; }
  const Backend& backend() const { return transformer_.backend(); }
  ThreadPool& threads() { return *threads_; }
  size_t query_group() const { return model_->config().query_group(); }

 private:
  DocumentSession(std::shared_ptr<const Document> document, std::shared_ptr<const Model> model,
                  const Backend& backend, std::shared_ptr<ThreadPool> threads,
                  const SessionDevice& device);

  struct LayerStates;
  Result<Answer> Generate(std::string_view question, const AskOptions& options);  // may throw
  Status CheckOptions(const AskOptions& options) const;
  // A question that was rendered, and what of it is to be fed.
  struct NextPrompt {
    size_t num_kept = 0;       // tokens of fed_ that it begins with
    Prompt rest;               // its other tokens; the text is all of it
    bool is_thinking = false;  // the answer begins inside the marks of thinking
  };
  Result<NextPrompt> PrepareNext(const ChatHistory& history, std::string_view question) const;
  // The question's tokens that have no rows; then only those of fed_ that it begins with have.
  std::vector<int32_t> BeginTurn(const NextPrompt& next);
  // Rows and fed_ as they were after BeginTurn, or before it.
  void GiveUpTurn();
  Status Decode(std::span<const float> logits, const NextPrompt& next, uint64_t room, double budget,
                const AskOptions& options, Answer& answer, std::vector<int32_t>* sampled);
  void KeepTurn(Prompt prompt, std::span<const int32_t> sampled, std::string_view question,
                const AskOptions& options, const Answer& answer);
  // Memory for a step of so many tokens, and so many rows of the conversation.
  Status ReserveRam(size_t num_tokens, uint64_t num_rows, double kv_budget);
  // For the answer's next token, where the rows that are reserved are full. False: there is none.
  bool ReserveNextRow(double kv_budget);
  // The plan of steps at a budget below 1; nullptr: none, everything is read. Kept until another is
  // asked for.
  Result<const BudgetPlan*> PlanFor(const Document& document, double kv_budget, bool tail);
  Status AttendLayer(const Document& document, uint32_t layer, size_t num_tokens, double kv_budget,
                     bool tail, const CancelFlag* cancel, LayerStates& states, bool bound,
                     ObservedLogits* observed, DocumentRead& read);
  uint32_t FirstInWindow(size_t cache, size_t end) const;
  // Says where the conversation's rows are, and makes room for so many tokens on the device.
  Status PlaceRows(size_t num_tokens);
  Status BringRowsHere();
  Status AttendQuestion(uint32_t layer, size_t num_tokens,
                        std::span<const Rows<const float>> queries, const LayerStates& states);
  void AttendQuestionHere(uint32_t layer, size_t num_tokens, const LayerStates& states);
  Status StoreRows(uint32_t layer, size_t num_tokens);
  // Whether a step's whole attention is the device's, which is then begun.
  Result<bool> BeginDeviceStep(size_t num_tokens, double kv_budget, bool tail);
  Status FinishDeviceStep(size_t num_tokens, double kv_budget, bool tail, double& read_fraction);
  // Adds what the device knows of evidence, and lets go of the document there.
  Status TakeDeviceEvidence();
  void ReleaseDevice();
  Status AttendStep(uint32_t layer, size_t num_tokens, double kv_budget, bool tail,
                    const CancelFlag* cancel, double& read_fraction);
  // The question's prefill. Where it draws on much of the document it warns in `answer`, or, as
  // options.fallback says, is repeated with everything read: `budget` is 1 then.
  Result<std::span<const float>> Prefill(std::span<const int32_t> ids, const AskOptions& options,
                                         double& budget, Answer& answer);
  Result<std::span<const float>> AnswerWideQuestion(const Spread& spread,
                                                    std::span<const int32_t> ids,
                                                    const AskOptions& options, double& budget,
                                                    Answer& answer);
  void AddEvidence(const AskOptions& options, Answer& answer) const;
  void CollectEvidence(uint32_t layer, size_t num_tokens, const DocumentRead& read,
                       const LayerStates& states);
  void CollectSessionAttention(uint32_t layer, size_t num_tokens, const LayerStates& states);
  void Truncate(size_t num_tokens);

  const std::shared_ptr<const Document> document_;
  const std::shared_ptr<const Model> model_;
  const std::shared_ptr<ThreadPool> threads_;
  const SessionDevice device_;
  const Transformer transformer_;
  std::shared_ptr<DeviceStream> stream_;  // with a device; shared by what is made of it
  std::unique_ptr<DeviceAttention> device_attention_;
  std::shared_ptr<DeviceConversation> conversation_;  // with device_attention_
  std::unique_ptr<DeviceStep> device_step_;           // likewise
  std::optional<DeviceStep::Plan> refused_;           // by device_step_, in this answer
  std::shared_ptr<StepBatch> batch_;
  StepBatch::Seat seat_;
  uint64_t dense_bytes_ = 0;
  double open_ms_ = 0;
  RamLimit::Share ram_share_;  // of the conversation and a step
  uint64_t reserved_tokens_ = 0, reserved_rows_ = 0;  // what it is for

  std::unique_ptr<Activations> activations_;
  std::vector<float> logits_;
  AttentionWorkspace workspace_;
  Arena arena_;        // of the running layer
  DocumentRead read_;  // likewise
  // Of the tokens after the fixed context, rounded like the document's: here, or, where
  // `rows_on_device_`, all of them in conversation_.
  SessionRows rows_;
  bool rows_on_device_ = false;
  size_t num_past_ = 0;
  // All tokens after the fixed context, as text and as ids. Those that have rows are the first
  // num_past_; the last token of the last answer was said and may not have been fed.
  Prompt fed_;
  ChatHistory history_;  // what was said so far

  // Of the running Ask.
  struct Totals {
    double read_prefill = 0, read_decode = 0, missed = 0, missed_bound = 0;
    uint64_t bytes = 0, window_bytes = 0, decode_steps = 0;
  } totals_;
  bool in_prefill_ = true;
  struct KeptPlan {
    const Document* document;
    PlanPolicies policies;
    double kv_budget = 0;
    bool tail = false, has_floors = false;
    BudgetPlan plan;
  };
  std::optional<KeptPlan> plan_;
  double max_missed_ = -1;             // below 0: no limit
  bool bound_held_everywhere_ = true;  // the limit, by the bound
  // [tokens of the fixed context], over layers, heads and steps; empty: not collected.
  std::vector<double> mass_, squared_mass_;
  ObservedLogits observed_;   // of the running layer
  double document_mass_ = 0;  // what mass_ would sum to, had everything been read: by the tail
};

}  // namespace lectern

#endif  // LECTERN_ENGINE_ASK_H_
