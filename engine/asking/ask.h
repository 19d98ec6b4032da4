// The second flow: asks a question to an indexed document. DocumentSession holds one conversation
// and leads it from question to answer.
#ifndef LECTERN_ENGINE_ASKING_ASK_H_
#define LECTERN_ENGINE_ASKING_ASK_H_

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "engine/asking/answer_constraint.h"
#include "engine/asking/answer_fields.h"
#include "engine/asking/barred_sentence.h"
#include "engine/asking/evidence.h"
#include "engine/asking/session.h"
#include "engine/asking/session_attention.h"
#include "engine/asking/session_conversation.h"
#include "engine/asking/tokens_ahead.h"
#include "engine/attention/given_rows.h"
#include "engine/attention/probe.h"
#include "engine/forward/step_batch.h"
#include "engine/forward/transformer.h"
#include "engine/gpu/placement.h"
#include "engine/model/template/chat_template.h"

namespace lectern {

// A question of up to this many tokens goes through a layer at once, so that one selection serves
// all of it.
inline constexpr size_t kMaxQuestionTokens = 8192;

// Adds a clause to the note that the user sees.
inline void AddNote(Answer& answer, const Message& note) {
  answer.note += (answer.note.empty() ? "" : "; ") + note;
}

// Adds a warning to the answer, its words to the note, and tells both to on_warning.
inline void Warn(const AskOptions& options, const char* warning, const Message& note,
                 Answer& answer) {
  answer.warnings.push_back(warning);
  AddNote(answer, note);
  if (options.on_warning) options.on_warning(warning, note);
}

// Warns that no passage supports the answer; answer.evidence has the nearest ones, or none.
inline void WarnOfNoEvidence(const AskOptions& options, Answer& answer) {
  Warn(options, "no_evidence",
       answer.evidence.empty()
           ? "no passage of the document has to do with this answer"
           : "no passage is likely to support this answer; the nearest ones are shown",
       answer);
}

// A conversation about one document: Session plus what calibration, evaluation and tests need. One
// thread at a time.
class DocumentSession : public Session {
 public:
  // Borrows `backend`; shares everything else, so that a session may outlive its engine. `open_ms`:
  // time in ms that opening took, for the answers' timings. `ranks`: other processes that attend to
  // the document where the host does; nullptr: none. kModelMismatch if model and document do
  // not belong together; kCorrupt: the document's shape or a token is not its model's; errors of
  // DeviceStream::Create. May throw bad_alloc.
  static Result<std::unique_ptr<DocumentSession>> Create(
      std::shared_ptr<const Document> document, std::shared_ptr<const Model> model,
      const Backend& backend, std::shared_ptr<ThreadPool> threads, double open_ms,
      const Placement& placement = {}, std::unique_ptr<SharedRows> ranks = {});

  // From now on takes steps of one token together with other sessions of the same model; nullptr
  // (the default): alone. Not while it asks.
  void ShareSteps(std::shared_ptr<StepBatch> batch) { shared_.batch = std::move(batch); }
  const std::shared_ptr<StepBatch>& step_batch() const { return shared_.batch; }

  Result<Answer> Ask(std::string_view question, const AskOptions& options) override;
  const DocumentRow& document() const override { return document_->row(); }
  std::string_view text() const override { return document_->text(); }
  std::shared_ptr<const void> KeepDocument() const override { return document_; }
  Result<TokenizedText> Tokenize(std::string_view text) const override {
    return model_->tokenizer().Encode(text);
  }
  // Never fails. nullptr also where a probe watches or steers what the model says.
  Result<std::shared_ptr<const Model>> PlainModel(const AskOptions& options) const override;
  uint64_t dense_bytes() const override { return document_->LayerBytes(); }

  // Runs one forward pass, reading the share `kv_budget` of the document's bytes: the `ids`, 1 to
  // kMaxQuestionTokens, follow the tokens that have rows, and get rows themselves. `tail`: clusters
  // that are not read count by their means. Returns the logits [vocab] of the last one, valid until
  // the next Step or Ask. `cancel` may be nullptr. kCancelled, kBudgetTooSmall, codes of
  // ShardReader::Verify, errors of the device. After an error the session stands where it stood.
  Result<std::span<const float>> Step(std::span<const int32_t> ids, double kv_budget, bool tail,
                                      const CancelFlag* cancel);
  // The probe that watches these passes; change it between passes only.
  Probe& probe() { return probe_; }
  // How passes choose what they read; first as the document says. Ask sets them from its options.
  struct Settings {
    SelectionRule rule = {};
    PlanPolicies policies = {};
    double max_missed = -1;  // below 0: no limit
    // Rows of the conversation that CompressRows leaves, per layer and kv head in the mean; 0: all.
    uint32_t max_session_rows = 0;
    WantedLogits wanted = {};  // of each step: all but while an answer is decoded
  };
  Settings& settings() { return settings_; }
  // Attention of the running pass and layer at another budget, into `output` [kv heads][R,
  // head_dim], which is resized. Reads Probe::attended_again where that is set. To be called only
  // from within Probe::on_layer (unchecked). `bound`, `as_stored`: as in DocumentAttentionArgs.
  // Errors of Step, but it cannot be cancelled.
  Result<DocumentRead> AttendAgain(double kv_budget, bool tail, std::vector<float>& output,
                                   bool bound = false, bool as_stored = false);
  // The smallest budget that every layer can serve under settings().policies; 0 without clusters.
  // Codes of Document::SmallestBudget.
  Result<double> SmallestServed(bool tail) const;
  // Holds the conversation to settings().max_session_rows, if that is not 0: evicts rows for good.
  // Ask calls it after the answer. The rows must be in memory, as they are with such a limit.
  void CompressRows();
  const SessionRows& rows() const { return conversation_.rows(); }  // empty: on the device
  // Forgets everything after the fixed context, rows and history. Memory stays reserved.
  void Forget();
  size_t num_past() const { return conversation_.num_tokens(); }  // tokens after the fixed context
  const Document& indexed() const { return *document_; }
  const Backend& backend() const { return transformer_.backend(); }  // Create's argument
  ThreadPool& threads() { return *threads_; }
  size_t query_group() const { return model_->config().query_group(); }

 private:
  DocumentSession(std::shared_ptr<const Document> document, std::shared_ptr<const Model> model,
                  const Backend& backend, std::shared_ptr<ThreadPool> threads,
                  const Placement& placement, std::shared_ptr<DeviceStream> stream,
                  std::unique_ptr<SharedRows> ranks, double open_ms);

  // Ask, without asking for an object's values one by one.
  Result<Answer> AskOnce(std::string_view question, const AskOptions& options);
  // Asks for an object of these members, 1 or more, value by value (AskForObject). As Ask
  // otherwise.
  Result<Answer> AskFields(std::span<const AnswerField> fields, std::string_view question,
                           const AskOptions& options);
  // AskOnce, but may throw bad_alloc, and leaves it to AskOnce to return to where the session
  // stood.
  Result<Answer> Generate(std::string_view question, const AskOptions& options);
  // kInvalidArgument with the option as param.
  Status CheckOptions(const AskOptions& options) const;
  // The conversation so far. `fed` has its text and token ids. The first num_past() ids have rows;
  // the last token of the last answer may not have been fed.
  struct Transcript {
    Prompt fed;
    ChatHistory history;
  };
  // A question rendered by the chat template, and the part of it that must be fed.
  struct NextPrompt {
    size_t num_kept = 0;       // leading tokens that have been fed already
    Prompt rest;               // tokens to feed; its text is the whole rendered text
    bool is_thinking = false;  // the answer begins inside the marks of thinking
    // The whole answer, where it is the model's refusal (DecideRefusal); empty: it is decoded.
    std::vector<int32_t> refusal;
    std::unique_ptr<BarredSentence> barred;        // what the answer may not be; nullptr: nothing
    std::unique_ptr<AnswerConstraint> constraint;  // nullptr: the answer is free
    // The logits as `barred` has them. Valid until the next call.
    std::span<const float> ConditionOf(std::span<const float> logits) const {
      return barred ? barred->Condition(logits) : logits;
    }
  };
  // Changes nothing. kInvalidArgument: nothing is to be fed (param "question"), or the template
  // refuses the conversation; codes of ChatTemplate::Render and Encode.
  Result<NextPrompt> PrepareNext(const ChatHistory& history, std::string_view question) const;
  // Sets next.constraint where the question asks for JSON, and warns of what is not kept. Codes of
  // AnswerConstraint::Create.
  Status Constrain(const AskOptions& options, NextPrompt& next, Answer& answer) const;
  // The next token of an answer that is kept to a schema; its id is one of the vocabulary. Where
  // the model first says a blank that is no part of the answer, that goes through it. Codes of
  // AnswerConstraint::Draw, errors of Step.
  Result<AnswerConstraint::Drawn> DrawConstrained(std::span<const float> logits,
                                                  const NextPrompt& next, Sampler& sampler,
                                                  double kv_budget, const AskOptions& options);
  // Begins a turn: cuts said_.fed to next.num_kept, forgets the rows behind it, and returns the
  // tokens that need rows: the last answer's last token, if it is kept and has none yet, and
  // next.rest.
  std::vector<int32_t> BeginTurn(const NextPrompt& next);
  // Forgets the turn's rows, if it was begun. Rows that BeginTurn forgot do not come back: the next
  // turn computes them again.
  void GiveUpTurn();
  // Forgets what was said since `before`, which was said_ then: its rows, too.
  void TakeBackTurn(Transcript before);
  // Whether the model, as the options use it, was taught plain answers alone, or none.
  bool IsPlain(const AskOptions& options) const;
  // The logits that drawing the answer's tokens looks at.
  WantedLogits WantedOf(const NextPrompt& next, const AskOptions& options) const;
  // Draws at most `room` tokens and shows them until the answer ends; fills text, counts of tokens
  // and finish reason, and appends the drawn tokens to `sampled`, the end of the text included.
  // Being cancelled ends the answer and is no error, nor is lack of memory for more (a note).
  // Errors of Step.
  Status Decode(std::span<const float> logits, const NextPrompt& next, uint64_t room, double budget,
                const AskOptions& options, Answer& answer, std::vector<int32_t>* sampled);
  // The tokens of the sentence by which the model says that the document does not answer. Empty
  // where its probability is not to be found: the model has no such sentence, or thinks first; the
  // sentence has more than `room` tokens; or a probe watches or steers what the model itself says.
  // Codes of Tokenizer::EncodeContinuation.
  Result<std::vector<int32_t>> RefusalTokens(const NextPrompt& next, uint64_t room) const;
  // Finds the probability of the model's refusal, of which these are the tokens, 1 or more, and
  // makes it the answer, in `next`, where it is at least the threshold, and bars it otherwise; of
  // an answer in JSON, which it is none, it warns instead. A threshold of 1 does neither. Where
  // Focus found a probability too, the mean of both log-odds counts. The last pass was the
  // question's; conversation, sums and logits are afterwards as after it. Errors of Step.
  Status DecideRefusal(std::vector<int32_t> refusal, double kv_budget, const AskOptions& options,
                       NextPrompt& next, Answer& answer);
  // Whether the answer is the model's sentence of refusal, chosen or decoded.
  bool SaysRefusal(const Answer& answer) const;
  // The natural logarithm of the probability of each of these tokens, 1 or more, if the answer
  // begins with them; their sum belongs to all. As DecideRefusal.
  Result<std::vector<double>> LogProbabilitiesOf(std::span<const int32_t> ids, double kv_budget,
                                                 const AskOptions& options);
  // Adds question and answer to the conversation, after everything else succeeded.
  void KeepTurn(Prompt prompt, std::span<const int32_t> sampled, std::string_view question,
                const AskOptions& options, const Answer& answer);
  // Reserves memory for a step of so many tokens and so many rows of the conversation, in exchange
  // for what was reserved before. Ok without a limit; else kOutOfMemory (RamLimit::Change).
  Status ReserveRam(size_t num_tokens, uint64_t num_rows, double kv_budget);
  // Reserves more rows when the answer's next `count` tokens need them. False: there is no memory
  // left.
  bool ReserveNextRows(size_t count, double kv_budget);
  // A plan that PlanFor made, and the settings that it was made for.
  struct KeptPlan {
    const Document* document;
    PlanPolicies policies;
    double kv_budget = 0;
    bool tail = false, has_floors = false;
    BudgetPlan plan;
  };
  // Returns the plan at this budget, by settings_; nullptr: a pass at it reads everything. `kept`
  // caches the plan until other settings are asked for, and owns the result, which is valid until
  // then. With a rule that keeps a byte budget no share is below the floor (Document::Plan). Codes
  // of Document::Plan; `kept` is then unchanged.
  Result<const BudgetPlan*> PlanFor(const Document& document, double kv_budget, bool tail,
                                    std::optional<KeptPlan>& kept) const;
  // PlanFor of an ask, into plans_.pass. An automatic budget that the policies cannot serve is
  // raised to the smallest that they can, which `chosen` then says.
  Status MakePassPlan(ChosenBudget& chosen, bool tail);
  // Whether estimates of missed attention were measured with these settings.
  bool IsMeasured(const Document& document, bool tail) const;
  // Embeds `ids`, which follow the conversation so far, runs all layers with this attention and
  // leaves the last token's logits in buffers_. In a shared batch it may wait for other sessions.
  // Before: buffers_ has room for the ids, their rows are placed (SessionConversation::Place)
  // and `attention` has begun. Afterwards the caller finishes it and adds the tokens to the
  // conversation; after an error some layers have their rows, so that it gives the attention up and
  // truncates. `cancel` may be nullptr. kCancelled; errors of StepAttention::Attend and of the
  // transformer.
  // `ahead`: the tokens attend apart, and all their logits go there; nullptr otherwise.
  Status RunLayers(std::span<const int32_t> ids, StepAttention& attention, const CancelFlag* cancel,
                   TokensAhead* ahead);
  // Step; or, with `ahead`, the pass over its ids(), of which the first alone counts as said
  // afterwards, and the others wait there for their turn.
  Status Pass(std::span<const int32_t> ids, double kv_budget, bool tail, const CancelFlag* cancel,
              TokensAhead* ahead);
  // Prepares lookup decoding for an answer of at most `room` tokens, where the options and the
  // session allow it: its attention must be the host's, and nobody may watch its layers. A limit on
  // memory must leave half of it to others; else tokens are decoded one by one. May throw
  // bad_alloc.
  void BeginAhead(const AskOptions& options, const NextPrompt& next, uint64_t room);
  // Step for the answer's token that was drawn last. Behind it at most `most` more may be drawn;
  // the first of them are known if `given` is not empty. Runs proposals in the same pass, so that
  // the steps of those that are drawn next are there. Errors of Step.
  Result<std::span<const float>> NextLogits(int32_t id, size_t most, std::span<const int32_t> given,
                                            double kv_budget, const AskOptions& options);
  // Forgets the rows of tokens that were not drawn.
  void DropAhead();
  // Prefills the question. If it draws on much of the document, warns in `answer` or, as
  // options.fallback says, repeats the prefill with everything read and sets `budget` to 1. Errors
  // of Step.
  Result<std::span<const float>> Prefill(std::span<const int32_t> ids, const AskOptions& options,
                                         double& budget, Answer& answer);
  // The part of Prefill for such a question, after the first reading; `spread` is for the message.
  Result<std::span<const float>> AnswerWideQuestion(const Spread& spread,
                                                    std::span<const int32_t> ids,
                                                    const AskOptions& options, double& budget,
                                                    Answer& answer);
  // Whether the question is read with a focus, as options.focus says. `kv_budget`: the one that was
  // chosen. False also where that is everything and the focus only comes first, and on a device
  // where the document is short and read whole. kInvalidArgument where other options exclude it.
  Result<bool> WantsFocus(const AskOptions& options, double kv_budget) const;
  // Sets focus_ for the question: by its words, and by the model's retrieval heads, if it has any;
  // then `ids` are read twice, first at `kv_budget` to see where these heads look, and how likely
  // the refusal of these tokens is then; empty: the model has none. The conversation has room for
  // both, and stands where it stood. By words alone, a question without telling
  // ones keeps the focus of the question before; where there was none, it is read without focus,
  // which `answer` notes. Errors of Step and FocusTokens.
  Status Focus(std::string_view question, std::span<const int32_t> ids,
               std::span<const int32_t> refusal, const AskOptions& options, double kv_budget,
               Answer& answer);
  // How a lookup shares out what these given tokens leave of the budget, and at least the smallest
  // that it serves. Errors of Document::Plan.
  Result<BudgetPlan> PlanBeside(const std::vector<bool>& tokens, double kv_budget) const;
  // The name of the focus in answers: what chose the rows.
  std::string FocusRule() const {
    return std::string("words") + (focus_.heads.empty() ? "" : "+heads") +
           (focus_.rows->looks_up() ? "+lookup" : "");
  }
  // Whether a pass at this budget reads every row: Document::ReadsAll without a focus.
  bool ReadsAll(double kv_budget) const { return !focus_.rows && document_->ReadsAll(kv_budget); }
  // Passages by words and attention. Codes of Document::words, WordSupport and AddHighlights.
  Result<std::vector<Evidence>> EvidenceByWords(std::string_view question,
                                                const AskOptions& options,
                                                const Answer& answer) const;
  // Fills answer.attention, and answer.evidence from the squared attention and the words: at most
  // options.max_evidence passages. If that is 0, does nothing. If the words cannot be read,
  // attention alone chooses, and a note says so. Warns "no_evidence" if there is no passage, if,
  // with words, none has kLeastScore, or if the answer is the refusal. May throw bad_alloc.
  void AddEvidence(std::string_view question, const AskOptions& options, Answer& answer) const;
  // Warns if the budget was fixed and the divergence predicted at it exceeds
  // chosen.max_divergence.
  void WarnOfLowBudget(const ChosenBudget& chosen, const AskOptions& options, Answer& answer) const;

  const std::shared_ptr<const Document> document_;
  const std::shared_ptr<const Model> model_;
  const std::shared_ptr<ThreadPool> threads_;
  const Placement placement_;
  const Transformer transformer_;
  const std::shared_ptr<DeviceStream> stream_;  // with a device; everything made of it shares this
  Arena arena_;                                 // for the running layer
  SessionConversation conversation_;
  Probe probe_;
  Settings settings_;
  SessionAttention attention_;
  // Focused reading.
  struct Focused {
    std::optional<GivenRows> rows;        // read by the running question; nothing: it looks up
    std::vector<RetrievalWeights> heads;  // [layers], the model's; empty: it has none, or a device
                                          // attends, which does not watch them
  } focus_;
  // The batch in which this session takes steps of one token together with other sessions.
  struct SharedSteps {
    std::shared_ptr<StepBatch> batch;  // nullptr: steps are taken alone
    StepBatch::Seat seat;
    TokensAhead ahead;  // tokens whose steps were taken together with one that was drawn
  } shared_;
  const double open_ms_;
  // Memory for the conversation and a step, and the numbers of tokens and rows that it was reserved
  // for.
  struct ReservedRam {
    RamLimit::Share share;
    uint64_t num_tokens = 0, num_rows = 0;
    uint64_t num_logits = 1;  // rows of logits: with a refusal one of each of its tokens, too
  } reserved_;

  struct Buffers {  // of a pass
    std::unique_ptr<Activations> activations;
    std::vector<float> logits;  // [vocab]
  } buffers_;
  Transcript said_;

  // Counts over the passes of the running Ask.
  struct Totals {
    bool in_prefill = true;
    bool is_aside = false;  // the pass leaves no rows, and nothing that it attended to counts
    double prefill_fraction = 0, decode_fraction = 0;
    uint64_t decode_steps = 0;
    // Logarithm of the probability of the model's refusal in the pass that found the focus; nothing
    // where there was none, or no refusal.
    std::optional<double> unfocused_refusal;
    StepRead all;  // sums over passes; `fraction` is not used
    void Add(const StepRead& read);
  } totals_;
  struct KeptPlans {
    std::optional<KeptPlan> pass, beside;  // for the running pass, and for AttendAgain
  } plans_;
  AttentionSums sums_;
};

// A session of Engine::Open on a document that is not in parts. kInvalidArgument: it is in parts,
// of which each is asked by itself, and has no steps of its own.
Result<std::unique_ptr<DocumentSession>> AsDocumentSession(std::unique_ptr<Session> session);

}  // namespace lectern

#endif  // LECTERN_ENGINE_ASKING_ASK_H_
