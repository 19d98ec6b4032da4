// Lookup decoding in a session: runs proposed tokens in the pass of the token before them, and
// gives out the steps of those that turn out to be drawn.
#include <algorithm>

#include "engine/asking/ask.h"

namespace lectern {

void DocumentSession::BeginAhead(const AskOptions& options, const NextPrompt& next, uint64_t room) {
  // Rows of the conversation that compete for their place count what attends to them, which
  // tokens that are not drawn would do, too. A schema's forced tokens share passes by themselves.
  if (next.constraint || options.lookup_decoding != "auto" || !shared_.batch ||
      placement_.transformer || placement_.document || settings_.max_session_rows > 0 ||
      probe_.leads_layers() || room < 3) {
    return;
  }
  const TokensAhead::Shape shape = {.vocab = buffers_.logits.size(),
                                    .document_tokens = document_->tokens().size(),
                                    .has_squares = !sums_.squares.empty(),
                                    .has_retrieved = !sums_.retrieved.empty()};
  const size_t num_fed = said_.fed.ids.size() + next.rest.ids.size();
  RamLimit::Share share;
  if (RamLimit* const ram = document_->ram().get()) {
    const uint64_t bytes =
        TokensAhead::Bytes(shape) + Proposals::Bytes(shape.document_tokens + num_fed + room);
    if (ram->reserved() + bytes > ram->bytes() / 2) return;
    if (!ram->Change(share, bytes, "lookup decoding", "").ok()) return;
  }
  if (buffers_.activations->max_tokens < kMostApart) {
    buffers_.activations =
        std::make_unique<Activations>(model_->config(), kMostApart, threads_->num_threads());
  }
  shared_.ahead.Begin(shape, document_->ram() != nullptr, std::move(share));
  shared_.ahead.proposals().Begin(document_->tokens(), said_.fed.ids, next.rest.ids, room);
}

void DocumentSession::DropAhead() {
  if (shared_.ahead.is_waiting()) conversation_.Truncate(conversation_.num_tokens());
  shared_.ahead.Drop();
}

Result<std::span<const float>> DocumentSession::NextLogits(int32_t id, size_t most,
                                                           std::span<const int32_t> given,
                                                           double kv_budget,
                                                           const AskOptions& options) {
  TokensAhead& ahead = shared_.ahead;
  if (!ahead.is_on()) return Step({&id, 1}, kv_budget, options.tail, options.cancel);
  ahead.proposals().Drew(id);
  if (ahead.Take(id)) {
    conversation_.Add(1);
    totals_.Add(ahead.taken());
    ahead.AddSums(sums_);
    return ahead.taken_logits();
  }
  DropAhead();
  most = std::min<size_t>({most, kMostProposed, reserved_.num_rows - num_past() - 1});
  std::span<const int32_t> proposed = given.first(std::min(most, given.size()));
  if (given.empty()) {
    const StepBatch::Outlook outlook = shared_.batch->outlook();
    // Before its first token a session takes the attention of the batch's last pass for its own.
    // Where nothing is known yet, nothing is proposed: with small models on long documents each
    // proposed token costs nearly as much as one that is drawn, all of it attention.
    const double attention = ahead.attention() > 0 ? ahead.attention() : outlook.attention;
    proposed = ahead.proposals().Next(attention > 0 ? most : 0,
                                      {outlook.linear, outlook.num_sessions, attention});
    if (ahead.proposals().has_declined()) shared_.batch->ForgetCosts();
  }
  // Nothing follows the end of the text.
  const auto end =
      std::ranges::find_if(proposed, [&](int32_t one) { return model_->IsEndOfText(one); });
  proposed = proposed.first(static_cast<size_t>(end - proposed.begin()));
  if (proposed.empty()) return Step({&id, 1}, kv_budget, options.tail, options.cancel);
  ahead.BeginPass(id, proposed);
  const Status status = Pass(ahead.ids(), kv_budget, options.tail, options.cancel, &ahead);
  if (status.ok()) return std::span<const float>(ahead.logits()[0], buffers_.logits.size());
  if (status.code() == Code::kCancelled) return status;
  // A token that is not drawn may have failed: without it the answer goes on.
  return Step({&id, 1}, kv_budget, options.tail, options.cancel);
}

}  // namespace lectern
