// Computes the frequencies of rotary position embedding (RoPE) by the recipes of transformers.
#ifndef LECTERN_ENGINE_MODEL_WEIGHTS_ROPE_H_
#define LECTERN_ENGINE_MODEL_WEIGHTS_ROPE_H_

#include <cstdint>
#include <vector>

namespace lectern {

// A recipe is `rope_scaling` of config.json (transformers 4) or `rope_parameters` (transformers 5,
// which holds rope_theta too); its kind is `type` or `rope_type`.
struct RopeRecipe {
  enum class Kind { kDefault, kLlama3, kLinear, kDynamic, kYarn, kLongRope };
  Kind kind = Kind::kDefault;
  double theta = 10000.0;
  uint32_t dims = 0;                       // of each head that are turned: even, at most head_dim
  double factor = 1.0;                     // all but kDefault and kLongRope
  double low_freq_factor = 1.0;            // kLlama3
  double high_freq_factor = 4.0;           // kLlama3
  double original_max_positions = 8192.0;  // all but kDefault and kLinear
  double beta_fast = 32, beta_slow = 1;    // kYarn
  bool truncate = true;                    // kYarn: its ramp begins and ends at whole pairs
  // Cosine and sine are multiplied with this (kYarn, kLongRope).
  double attention_factor = 1;
  // [dims / 2]: what frequencies are divided by, up to original_max_positions and past them;
  // kLongRope.
  std::vector<double> short_factors = {}, long_factors = {};
  // The model's file may have the result ready ("rope_freqs" of a GGUF): the frequency of each pair
  // is divided by these. [dims / 2] or empty.
  std::vector<float> divisors = {};
  // Rows of the query and key matrices are in the order in which pairs of a head are neighbours,
  // (0, 1), (2, 3), …; else a pair is (i, i + dims / 2), as in transformers.
  bool has_neighbours = false;

  bool operator==(const RopeRecipe&) const = default;
  // Whether the angles depend on how long the text is: a document's are frozen for its own length.
  bool depends_on_length() const { return kind == Kind::kDynamic || kind == Kind::kLongRope; }
};

struct RopeTable {
  std::vector<float> frequencies;  // [dims / 2]: radians per position of each pair
  float attention_factor;
};
// Makes the table for texts of `length` tokens (which matters where depends_on_length()), as
// transformers computes it in float32. `recipe`: as ReadRope checks it; nothing is checked here.
RopeTable MakeRopeTable(const RopeRecipe& recipe, uint64_t length);

}  // namespace lectern

#endif  // LECTERN_ENGINE_MODEL_WEIGHTS_ROPE_H_
