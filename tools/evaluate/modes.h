// The modes of lectern-evaluate: ways to choose the rows that a step reads, each with a name for
// the command line and the results. Lectern's default, its parts switched off one by one, an
// oracle, the paper's lookup, and experiments.
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

// The things that a selector for one question is made from; modes use those that they need. All
// pointers outlive the selector.
struct SelectorInputs {
  size_t group;                     // query heads of a kv head
  const TrueMass* truth = nullptr;  // for the oracle: of the step and layer that is running
  KeptSteps* kept = nullptr;        // for reuse-C: counted where given
  const RecalibratedHeads* recalibrated = nullptr;  // for modes of which NeedsThresholds is true
  const Document* evicted = nullptr;  // for HasEvictedTail: the document that keeps some rows
  double number = 0;                  // the N or C of the mode's name; MakeSelector sets it
};

// A line for each mode, for --help. Besides the modes of the list in the .cc, to which a new one is
// added, names can be put together:
//
// LAYERS+HEADS        Lookup by these policies (index/policies/)
// METHOD@KEEP         as default, of a document that keeps a share of its rows; :LAYERS+HEADS
//                     behind it: by these policies
// METHOD+tail@KEEP    reads all that such a document keeps; what is gone counts through clusters
// PREFILL/DECODING    two modes: one for the question's prefill, one for the answer's steps
std::string DescribeModes();
// The oracle at the bytes of the mode "default", which must be measured before it.
inline constexpr std::string_view kEqualOracle = "oracle-equal";

// Says why there is no such mode; empty: there is. With `answers` the mode must also be able to
// answer: the oracle cannot, because it knows the exact run's attention and not that of a run of
// its own.
std::string CheckMode(const std::string& mode, bool answers);
// Whether the mode needs thresholds calibrated on generic questions (SelectorInputs::recalibrated).
bool NeedsThresholds(const std::string& mode);
// Whether rows that are not read count through the tail in this mode; true for names that are put
// together.
bool HasTail(const std::string& mode);
// The policies of LAYERS+HEADS, also behind METHOD@KEEP; nothing where the mode names none. They
// may be unknown ones: CheckMode checks.
std::optional<PlanPolicies> PoliciesOf(const std::string& mode);
// The retention of METHOD@KEEP and METHOD+tail@KEEP; nothing for other modes. A KEEP that is no
// number becomes NaN, which CheckMode refuses.
std::optional<Retention> RetentionOfMode(const std::string& mode);
// METHOD@KEEP or METHOD+tail@KEEP without policies: it names the document that the mode makes.
// Other modes as they are.
std::string KeptName(const std::string& mode);
// Whether the mode is METHOD+tail@KEEP (tools/evaluate/evicted_tail.h).
bool HasEvictedTail(const std::string& mode);
// Makes the selector that takes the place of Lookup while one question is answered. It may keep
// what it chose from step to step: make a new one for each question. An empty selector: Lookup
// itself, or the paper's lookup, which is not made here. `mode` has passed CheckMode.
Selector MakeSelector(const std::string& mode, SelectorInputs inputs);

}  // namespace lectern::evaluate

#endif  // LECTERN_TOOLS_EVALUATE_MODES_H_
