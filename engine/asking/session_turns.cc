// Begins a turn of a session's conversation, keeps it when it is answered, and gives it up
// otherwise.
#include <algorithm>
#include <utility>

#include "engine/asking/ask.h"

namespace lectern {

std::vector<int32_t> DocumentSession::BeginTurn(const NextPrompt& next) {
  said_.fed.Truncate(next.num_kept);
  if (said_.fed.ids.size() < num_past()) conversation_.Truncate(said_.fed.ids.size());
  std::vector<int32_t> ids(said_.fed.ids.begin() + static_cast<ptrdiff_t>(num_past()),
                           said_.fed.ids.end());
  ids.insert(ids.end(), next.rest.ids.begin(), next.rest.ids.end());
  return ids;
}

void DocumentSession::GiveUpTurn() {
  conversation_.Truncate(std::min(num_past(), said_.fed.ids.size()));
}

// Where the turn was fed otherwise than the conversation before it, rows of that are gone.
void DocumentSession::TakeBackTurn(Transcript before) {
  const auto same =
      std::ranges::mismatch(before.fed.ids, said_.fed.ids).in1 - before.fed.ids.begin();
  before.fed.Truncate(static_cast<size_t>(same));
  said_ = std::move(before);
  GiveUpTurn();
}

void DocumentSession::KeepTurn(Prompt prompt, std::span<const int32_t> sampled,
                               std::string_view question, const AskOptions& options,
                               const Answer& answer) {
  // All drawn tokens join `fed`; the last one may not have a row yet.
  Prompt fed{.text = std::move(prompt.text), .ids = said_.fed.ids, .ends = said_.fed.ends};
  fed.ids.insert(fed.ids.end(), prompt.ids.begin(), prompt.ids.end());
  fed.ends.insert(fed.ends.end(), prompt.ends.begin(), prompt.ends.end());
  const Tokenizer& tokenizer = model_->tokenizer();
  for (const int32_t id : sampled) {
    const std::string_view control = tokenizer.ControlText(id);
    fed.Add(id, control.empty() ? tokenizer.TokenBytes(id) : control);
  }
  ChatHistory history = said_.history.is_empty() ? options.history : said_.history;
  history.turns.push_back({std::string(question), answer.text, answer.reasoning});
  // Copying may run out of memory, moving cannot: both members change or none does.
  said_.fed = std::move(fed);
  said_.history = std::move(history);
}

}  // namespace lectern
