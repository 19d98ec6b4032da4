// A forward pass whose attention the host leads, layer by layer (the counterpart on a device is
// engine/gpu/step.h). The document's or the conversation's rows may still be on a device, which
// then does the parts that read them.
#ifndef LECTERN_ENGINE_ATTENTION_HOST_STEP_H_
#define LECTERN_ENGINE_ATTENTION_HOST_STEP_H_

#include <memory>
#include <vector>

#include "engine/attention/document_attention.h"
#include "engine/attention/host_conversation.h"
#include "engine/attention/probe.h"
#include "engine/attention/retrieval_attention.h"
#include "engine/attention/step.h"

namespace lectern {

// One session's; serves one pass at a time, from Begin to Finish.
class HostStep final : public StepAttention {
 public:
  // Borrows all arguments. `arena` is reset in every layer. `device` attends to the document's
  // rows, `ranks` to other ranks' parts of them; both nullptr: the host does all.
  HostStep(const Document& document, const Transformer& transformer, const Probe& probe,
           Arena& arena, StoredRows* device, SharedRows* ranks = nullptr)
      : document_(document),
        transformer_(transformer),
        probe_(probe),
        arena_(arena),
        device_(device),
        ranks_(ranks) {
    reads_.reserve(kMostApart);
  }

  // Always true. Before a pass of several tokens the first layer is read ahead in the background.
  Result<bool> Begin(const StepPlan& plan) override;
  Status Attend(uint32_t layer, Activations& a, size_t row) override;
  // Where the tokens of the pass attend apart: the amounts of its first token.
  Result<StepRead> Finish() override { return reads_.front(); }
  // The amounts of each token of such a pass, of other passes one entry. Valid until the next pass.
  std::span<const StepRead> reads() const { return reads_; }
  Status CollectSums() override { return {}; }  // Attend has added to them already

  // Computes the attention of the running layer once more, at another budget of `document`, which
  // has the shape of the session's document; another document than the session's is the host's to
  // read. The arguments are those of StepPlan; the limit, the weights and the probe's selector stay
  // the pass's. Resizes and writes `output` [kv heads][R, head_dim]; the pass goes on as if this
  // had not been called. `bound`, `as_stored`: as in DocumentAttentionArgs. Callable only from
  // within Probe::on_layer. Errors of Attend; it cannot be cancelled.
  Result<DocumentRead> AttendBeside(const Document& document, const BudgetPlan* budgets,
                                    double kv_budget, bool tail, bool is_measured,
                                    const SelectionRule& rule, std::vector<float>& output,
                                    bool bound, bool as_stored);

 private:
  struct LayerStates;
  // The tokens of the pass that attend together: all of them, or with StepPlan::attends_apart one.
  struct Part {
    size_t first = 0, num_tokens = 1;
  };
  // Attends with the part's tokens in the running layer, whose rows it appends to the conversation,
  // then counts and observes what was read. Errors of Attend.
  Status AttendPart();
  // The part's queries and outputs of one kv head in the running layer: [R, head_dim].
  Rows<float> Queries(size_t kv_head) const;
  Rows<float> Attended(size_t kv_head) const;
  // The sums that the part's last token is added to.
  struct PartSums {
    std::span<double> masses, squares, retrieved;
  };
  PartSums SumsOfPart() const;
  // Attends to the document and to the conversation in one layer, with the queries of
  // activations_, and joins the two results exactly. Fills `states` (in: empty): outputs,
  // log-sum-exps over both, and those of the document alone; and `read`. `bound`
  // and `as_stored`: as in DocumentAttentionArgs. `observed` may be nullptr. Errors of
  // AttendDocument and Conversation::Attend; the results then hold anything.
  Status AttendLayer(const Document& document, const StepPlan& plan, uint32_t layer, bool bound,
                     bool as_stored, ObservedLogits* observed, LayerStates& states,
                     DocumentRead& read);
  // The queries (per kv head, borrowed) as an attention call takes them, with the running part's
  // number of tokens and the model's softcap; the attention is added to `states`.
  RowQuery QueryOf(const LayerStates& states, std::span<const Rows<const float>> queries) const;
  // Adds the attention of the part's last token, which chooses the next one, to its sums: masses
  // and squares by position, and the document's share of each query row to document_mass.
  // Needs document_read_ and observed_ of this layer, and overwrites the latter. Adds nothing if
  // the layer's heads cannot be read.
  void CollectEvidence(uint32_t layer, const LayerStates& states);
  struct HeadRows;
  // Adds the attention of a query head in this part and layer to `sums` [tokens of the fixed
  // context]: the mean over the part's tokens, or over `rows.num_rows` of many, or that of the last
  // token alone. Overwrites `rows`. Codes of AddHeadAttention and Document::Heads.
  Status AddHead(uint32_t query_head, const LayerStates& states, bool last_row_only, HeadRows& rows,
                 std::span<double> sums);
  // Adds the layer's retrieval heads to the part's sums, and shows all heads to the probe, as far
  // as they are wanted. Errors of AddHead.
  Status WatchHeads(uint32_t layer, const LayerStates& states);
  // Adds document_read_, as this layer left it, to the part's entry of reads_: bytes and missed
  // mass, of a windowed layer the window's bytes alone. Clears its bound_holds if the bound exceeds
  // the plan's max_missed.
  void Count(uint32_t layer);

  const Document& document_;
  const Transformer& transformer_;
  const Probe& probe_;
  Arena& arena_;
  StoredRows* const device_;
  SharedRows* const ranks_;
  StepPlan plan_;
  Activations* activations_ = nullptr;  // of the running layer
  uint32_t layer_ = 0;                  // likewise
  Part part_;                           // likewise
  AttentionWorkspace workspace_;
  DocumentRead document_read_;  // of the running layer
  ObservedLogits observed_;     // likewise
  HeadAttentionWorkspace head_workspace_;
  std::vector<StepRead> reads_;
};

}  // namespace lectern

#endif  // LECTERN_ENGINE_ATTENTION_HOST_STEP_H_
