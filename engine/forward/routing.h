// Which experts the tokens of a step go to. The tokens of an expert become rows side by side, so
// that each matrix of an expert is multiplied once for all of them, and matrices of experts that no
// token chose are not read.
#ifndef LECTERN_ENGINE_FORWARD_ROUTING_H_
#define LECTERN_ENGINE_FORWARD_ROUTING_H_

#include <cstdint>
#include <vector>

#include "engine/model/weights/config.h"
#include "kernels/types.h"

namespace lectern {

// A token has as many rows as it has experts. Rows are in the order of experts, those of an expert
// in the order of tokens.
struct Routing {
  struct Group {
    uint32_t expert;
    size_t begin, end;  // its rows
  };
  std::vector<Group> groups;     // of the experts that were chosen, ascending
  std::vector<uint32_t> tokens;  // [rows]: whose the row is
  std::vector<float> weights;    // [rows]: its expert's output is multiplied by this
  std::vector<uint32_t> rows;    // [tokens, used]: rows of each token, ascending
  std::vector<float> scratch;    // of Route
  std::vector<uint32_t> chosen;  // likewise
};

// Chooses experts by `scores` [tokens, experts], as transformers does (Mixtral's and Qwen's
// routers; Shazeer et al. 2017, arXiv:1701.06538, equations 3 to 5, without noise): the
// experts.used largest, of equal ones the first; the softmax over those scores (experts.normalised)
// or over all of them is the weights. A NaN counts as the least score. Reuses the memory of
// `routing`.
void Route(Rows<const float> scores, const ExpertsConfig& experts, Routing* routing);

}  // namespace lectern

#endif  // LECTERN_ENGINE_FORWARD_ROUTING_H_
