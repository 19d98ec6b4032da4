// The modes of lectern-evaluate: ways to choose what a step reads, by name.
#ifndef LECTERN_TOOLS_EVALUATE_MODES_H_
#define LECTERN_TOOLS_EVALUATE_MODES_H_

#include <optional>
#include <string>

#include "index/budget_plan.h"
#include "index/retention/retention.h"
#include "tools/evaluate/question_thresholds.h"
#include "tools/evaluate/selectors.h"
#include "tools/evaluate/true_mass.h"

namespace lectern::evaluate {

// The parts that the selector of one question is made from. Pointers outlive the selector.
struct SelectorInputs {
  size_t group;                     // query heads of a kv head
  const TrueMass* truth = nullptr;  // of the running step and layer; the oracle's alone
  KeptSteps* kept = nullptr;        // counted where given
  const RecalibratedHeads* recalibrated = nullptr;  // of the modes that NeedsThresholds names
  const Document* evicted = nullptr;                // that keeps some rows; of HasEvictedTail
  double number = 0;                                // of the mode's name
};

// Every mode: a new one is an entry of its list. Besides these,
//   LAYERS+HEADS        Lookup by these policies (index/policies/)
//   METHOD@KEEP         as default, of a document that keeps a share of its rows; :LAYERS+HEADS
//                       behind it: by these policies
//   METHOD+tail@KEEP    reads all that such a document keeps; what is gone counts through clusters
//   PREFILL/DECODING    two modes: one for the question's prefill, one for the answer's steps
std::string DescribeModes();
// The oracle at the bytes of the mode "default", which must be measured before it.
inline constexpr std::string_view kEqualOracle = "oracle-equal";

// Empty, or why there is no such mode. `answers`: nor one that can answer, as the oracle, which
// knows the exact run's attention and not that of its own, cannot.
std::string CheckMode(const std::string& mode, bool answers);
// Whether it needs thresholds calibrated on generic questions.
bool NeedsThresholds(const std::string& mode);
// Whether what is not read counts through the tail.
bool HasTail(const std::string& mode);
// The policies of LAYERS+HEADS, also behind METHOD@KEEP.
std::optional<PlanPolicies> PoliciesOf(const std::string& mode);
// The retention of METHOD@KEEP and METHOD+tail@KEEP (of as many bytes), which CheckMode checks.
std::optional<Retention> RetentionOfMode(const std::string& mode);
// METHOD@KEEP or METHOD+tail@KEEP, without policies: what names the document that it makes.
std::string KeptName(const std::string& mode);
// Whether it is METHOD+tail@KEEP (tools/evaluate/evicted_tail.h).
bool HasEvictedTail(const std::string& mode);
// Makes the selector that takes the place of Lookup while one question is answered: it may keep
// what it chose from step to step. Empty: Lookup itself, or the paper's lookup, which is not made
// here.
Selector MakeSelector(const std::string& mode, SelectorInputs inputs);

}  // namespace lectern::evaluate

#endif  // LECTERN_TOOLS_EVALUATE_MODES_H_
