// Whether a model answers better with a focus (engine/asking/focus.h), as far as planted facts tell.
// Found once per model, together with its retrieval heads, and stored with its documents.
#ifndef LECTERN_ENGINE_DOCUMENT_FOCUS_TRIAL_H_
#define LECTERN_ENGINE_DOCUMENT_FOCUS_TRIAL_H_

#include <cstdint>
#include <optional>
#include <span>

#include "engine/document/retrieval_heads.h"
#include "engine/model/formats/json.h"

namespace lectern {

// How well a model says a known answer when it reads a text in one way.
struct ForcedTokens {
  double logprob = 0;     // mean over the answer's tokens of the logarithm of their probability
  bool is_likeliest = false;  // each of its tokens was the likeliest one
};

// The same answers with a focus and with the whole text in view (teacher forcing).
struct FocusTrial {
  uint32_t num_questions = 0;
  double gain = 0;   // mean over the questions: logprob with a focus less logprob without, in nats
  double error = 0;  // standard error of that mean
  uint32_t num_right = 0, num_right_whole = 0;  // ForcedTokens::is_likeliest, with and without

  // Whether the gain is above chance.
  bool Helps() const;
  bool operator==(const FocusTrial&) const = default;
};

// One entry of each list for each question, 2 or more.
FocusTrial CompareFocus(std::span<const ForcedTokens> focused, std::span<const ForcedTokens> whole);

// How a model reads documents, as planted facts show (engine/indexing/find_retrieval_heads.h).
struct ModelReading {
  RetrievalHeads heads;
  FocusTrial focus;  // with these heads
};

// {"questions", "gain", "error", "right", "right_whole"}, for the document's shard.
Json FocusTrialJson(const FocusTrial& trial);
// Reads and checks JSON that FocusTrialJson made; nullopt: it is damaged.
std::optional<FocusTrial> ParseFocusTrial(const Json& json);

}  // namespace lectern

#endif  // LECTERN_ENGINE_DOCUMENT_FOCUS_TRIAL_H_
