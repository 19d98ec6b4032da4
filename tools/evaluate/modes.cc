#include "tools/evaluate/modes.h"

#include <charconv>
#include <cmath>

#include "tools/evaluate/evicted_tail.h"

namespace lectern::evaluate {
namespace {

// TrueMass::BestRows of the step that is running.
Selector Oracle(const SelectorInputs& inputs) {
  return [truth = inputs.truth](uint32_t, const LookupArgs& args) {
    return Result<std::vector<HeadSelection>>(truth->BestRows(args));
  };
}

// N is in tokens, a selector's blocks in query rows.
Selector ByBlocks(const SelectorInputs& inputs) {
  return SelectByBlocks(static_cast<size_t>(inputs.number) * inputs.group);
}

Selector ByReuse(const SelectorInputs& inputs) { return KeepChoices(inputs.number, inputs.kept); }

// Lookup with one of its arguments changed.
template <void (*kChange)(LookupArgs&)>
Selector With(const SelectorInputs&) {
  return [](uint32_t, const LookupArgs& args) {
    LookupArgs changed = args;
    kChange(changed);
    return Lookup(changed);
  };
}

void WithoutCodes(LookupArgs& args) { args.row_codes = false; }
void WithoutVariances(LookupArgs& args) { args.second_order = false; }
template <Rule kRule>
void WithRule(LookupArgs& args) {
  args.rule = {.kind = kRule};
}

constexpr std::string_view kTailSuffix = "+tail";  // of METHOD+tail@KEEP
// A name that is needed twice: in the list, and where thresholds are made.
constexpr std::string_view kQuestionThresholds = "rule-threshold-questions";

// Lookup by the rule of thresholds, over the heads that have the recalibrated ones.
Selector ByQuestionThresholds(const SelectorInputs& inputs) {
  return [heads = inputs.recalibrated](uint32_t layer, const LookupArgs& args) {
    LookupArgs changed = args;
    changed.heads = heads->layers[layer];
    changed.rule = {.kind = Rule::kThreshold};
    return Lookup(changed);
  };
}

struct Mode {
  std::string_view name;                              // a capital at its end stands for a number
  std::string_view meaning;                           // for --help
  bool tail = true;                                   // HasTail
  Selector (*make)(const SelectorInputs&) = nullptr;  // nullptr: Lookup itself, or the paper's
  double least = 0, most = 0;                         // range of the number; both 0: none
};

constexpr Mode kModes[] = {
    {"default", "Lectern as it ships"},
    {"no-tail", "without the tail: rows that are not read do not count", false},
    {"no-codes", "without row codes: whole clusters", true, With<WithoutCodes>},
    {"first-order",
     "the attention of clusters is estimated by their centroids alone, without variances", true,
     With<WithoutVariances>},
    {"rule-threshold", "--rule threshold", true, With<WithRule<Rule::kThreshold>>},
    {kQuestionThresholds,
     "the same with thresholds from generic questions, not from the document's last tokens", true,
     ByQuestionThresholds},
    {"rule-cap", "--rule cap", true, With<WithRule<Rule::kCap>>},
    {"rule-top-p", "--rule top-p: 0.95 of the attention, whatever the budget", true,
     With<WithRule<Rule::kTopP>>},
    {"block-N",
     "a question reads the rows that any block of N of its tokens chooses, each block with the "
     "whole budget; every token attends to all of these rows",
     true, ByBlocks, 1, 1e6},
    {"reuse-C",
     "a token of the answer reads the rows that the token before chose, where no query head has "
     "moved to a cosine below C and hardly more attention is estimated to be missed",
     true, ByReuse, -1, 1},
    {"oracle", "the rows that get the most attention, and nothing else", false, Oracle},
    {kEqualOracle,
     "the same with the bytes that the default read in the same step and layer, which may be fewer "
     "than the budget",
     false, Oracle},
    {"paper-1", "Squeezed Attention, one level", false},
    {"paper-2", "Squeezed Attention, two levels", false},
};

bool IsNumbered(const Mode& mode) { return mode.least < mode.most; }

// The mode of this name, with the number in the name for modes that have one; nullptr: there is
// none, or the number is out of range.
const Mode* FindMode(std::string_view name, double& number) {
  for (const Mode& mode : kModes) {
    if (!IsNumbered(mode)) {
      if (mode.name == name) return &mode;
      continue;
    }
    const std::string_view prefix = mode.name.substr(0, mode.name.size() - 1);
    if (!name.starts_with(prefix)) continue;
    const char* const end = name.data() + name.size();
    const auto parsed = std::from_chars(name.data() + prefix.size(), end, number);
    const bool in_range = number >= mode.least && number <= mode.most;
    if (parsed.ec == std::errc() && parsed.ptr == end && in_range) return &mode;
  }
  return nullptr;
}

// The two modes of PREFILL/DECODING; nothing for other names.
std::optional<std::pair<std::string, std::string>> PhasesOf(const std::string& mode) {
  const size_t slash = mode.find('/');
  if (slash == mode.npos) return {};
  return std::pair(mode.substr(0, slash), mode.substr(slash + 1));
}

// Whether a mode can stand in PREFILL/DECODING: it changes only which rows are chosen, not how they
// are used.
bool IsPhase(const std::string& mode) {
  double number;
  const Mode* const found = FindMode(mode, number);
  return found && found->tail;
}

}  // namespace

std::string DescribeModes() {
  std::string list;
  for (const Mode& mode : kModes) {
    list += "\n  " + std::string(mode.name) + ": " + std::string(mode.meaning);
  }
  return list +
         "\n  LAYERS+HEADS: default, with these budget policies, such as pyramid+global"
         "\n  METHOD@KEEP: default, on a document that stores this share of its rows, such as "
         "kvcrush@0.25; budgets are shares of the whole document, which gives the exact answers; "
         "METHOD@KEEP:LAYERS+HEADS adds budget policies"
         "\n  METHOD+tail@KEEP: reads all rows that such a document stores, whatever the budget; "
         "the finest clusters of the whole document stand for the others, and take the place of "
         "some rows"
         "\n  PREFILL/DECODING: one mode for the question and one for the answer, such as "
         "block-8/reuse-0.8";
}

std::optional<PlanPolicies> PoliciesOf(const std::string& mode) {
  const size_t colon = mode.find(':');
  const std::string policies = mode.substr(colon == mode.npos ? 0 : colon + 1);
  const size_t plus = policies.find('+');
  if (plus == policies.npos || policies.find('@') != policies.npos) return {};
  return PlanPolicies{policies.substr(0, plus), policies.substr(plus + 1)};
}

std::optional<Retention> RetentionOfMode(const std::string& mode) {
  const std::string kept = KeptName(mode);
  const size_t at = kept.find('@');
  if (at == kept.npos) return {};
  Retention retention{NAN, kept.substr(0, at)};  // a share that is no number is refused
  double keep;
  const char* const end = kept.data() + kept.size();
  if (const auto parsed = std::from_chars(kept.data() + at + 1, end, keep);
      parsed.ec == std::errc() && parsed.ptr == end) {
    retention.keep = keep;
  }
  if (retention.method.ends_with(kTailSuffix)) {
    retention.method.resize(retention.method.size() - kTailSuffix.size());
  }
  return retention;
}

std::string KeptName(const std::string& mode) { return mode.substr(0, mode.find(':')); }

bool HasEvictedTail(const std::string& mode) {
  const size_t at = mode.find('@');
  return at != mode.npos && std::string_view(mode).substr(0, at).ends_with(kTailSuffix);
}

std::string CheckMode(const std::string& mode, bool answers) {
  const auto policies = PoliciesOf(mode);
  if (policies) {
    if (Status status = CheckPolicies(*policies); !status.ok()) return status.message();
  }
  if (const auto retention = RetentionOfMode(mode)) {
    const bool is_plain = KeptName(mode) == mode;
    if (!is_plain && !policies) return "after the colon: LAYERS+HEADS, not as in " + mode;
    if (!is_plain && HasEvictedTail(mode)) return "all that is kept is read: no policies";
    return CheckRetention(*retention).message();
  }
  if (policies) return "";
  const auto phases = PhasesOf(mode);
  double number;
  const bool known = phases ? IsPhase(phases->first) && IsPhase(phases->second)
                            : FindMode(mode, number) != nullptr;
  if (!known) return "unknown method: " + mode;
  return answers && mode.starts_with("oracle") ? "the oracle cannot answer" : "";
}

bool NeedsThresholds(const std::string& mode) {
  return mode.find(kQuestionThresholds) != mode.npos;
}

bool HasTail(const std::string& mode) {
  double number;
  const Mode* const found = FindMode(mode, number);
  return !found || found->tail;
}

Selector MakeSelector(const std::string& mode, SelectorInputs inputs) {
  if (HasEvictedTail(mode)) return SelectKeptRows(*inputs.evicted);
  if (const auto phases = PhasesOf(mode)) {
    return
        [prefill = MakeSelector(phases->first, inputs),
         decoding = MakeSelector(phases->second, inputs)](uint32_t layer, const LookupArgs& args) {
          const Selector& select = args.row_weights.empty() ? decoding : prefill;
          return select ? select(layer, args) : Lookup(args);
        };
  }
  const Mode* const found = FindMode(mode, inputs.number);
  return found && found->make ? found->make(inputs) : Selector();
}

}  // namespace lectern::evaluate
