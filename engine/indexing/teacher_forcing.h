// Compares what a model says at a kv budget with exact mode, token by token: the exact answer's
// tokens are given to both (teacher forcing), so that one early difference does not hide the rest.
#ifndef LECTERN_ENGINE_INDEXING_TEACHER_FORCING_H_
#define LECTERN_ENGINE_INDEXING_TEACHER_FORCING_H_

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "engine/asking/ask.h"

namespace lectern {

// An exact answer, and for each of its tokens (the end of the text is one) the logits [vocab] that
// it was drawn from.
struct ExactAnswer {
  Answer answer;
  std::vector<int32_t> ids;
  std::vector<std::vector<float>> logits;
};

// The same answer forced at another budget.
struct ForcedAnswer {
  Answer answer;  // its counts of what was read; its text is the exact one's, or its beginning
  std::vector<double> divergences;  // nats, of each token: KL(exact || at the budget), at least 0
  size_t num_same = 0;              // tokens whose likeliest is the exact one's
};

// KL(softmax(exact) || softmax(other)) in nats, within 1e-4 (Backend::exp_rows), at least 0. Both
// have the same size, above 0, and finite logits.
double Divergence(const Backend& backend, std::span<const float> exact,
                  std::span<const float> other);

// Asks at a budget of 1 and greedily, with the other `options` as they are. The session stands
// after the answer. This and AskForced replace Probe::answer and Probe::on_token and leave both
// empty, after an error too. Errors of DocumentSession::Ask.
Result<ExactAnswer> AskExactly(DocumentSession& session, std::string_view question,
                               AskOptions options);

// Asks with `options`, but says `exact`, which was found for the same question: sampling and
// max_tokens do not count, and each token's logits are compared with the exact ones. The session
// must stand where it stood before AskExactly (a new one, or one that has forgotten); it stands
// after the answer then. `exact` has at least one token. An answer that ends early (cancelled,
// stopped by a text, or by the memory limit) is no error: divergences and text then end there.
// Errors of DocumentSession::Ask.
Result<ForcedAnswer> AskForced(DocumentSession& session, std::string_view question,
                               const ExactAnswer& exact, const AskOptions& options);

}  // namespace lectern

#endif  // LECTERN_ENGINE_INDEXING_TEACHER_FORCING_H_
