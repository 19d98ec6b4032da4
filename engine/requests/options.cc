// The options of questions, of indexing and of changes to a plan. Those of the engine are in
// engine_options.cc, those of citations in cite_options.cc.
#include "engine/requests/options.h"

#include "index/policies/policy.h"

namespace lectern {
namespace {

constexpr unsigned kToolAndRequest = kCommandLine | kRequest, kEverywhere = 7;

// Nats a token. More than 100 would limit nothing and is refused as a mistake.
constexpr OptionRange kDivergence = {.least = 0, .most = 100, .is_open_below = true};

// All stop texts are compared with the end of the answer at each token.
constexpr double kMostStopBytes = 8192;

std::vector<std::string> LayerPolicies() {
  std::vector<std::string> names;
  for (const Policy& policy : Policies()) {
    if (policy.for_layers) names.emplace_back(policy.name);
  }
  return names;
}

std::vector<std::string> HeadPolicies() {
  std::vector<std::string> names;
  for (const Policy& policy : Policies()) {
    if (policy.for_heads) names.emplace_back(policy.name);
  }
  return names;
}

}  // namespace

// --- enumerations of the engine, by their numbers in lectern_c.h --------------------------------

static OptionValue ToValue(Fallback fallback) {
  return uint64_t{fallback == Fallback::kWarn ? LECTERN_FALLBACK_WARN : LECTERN_FALLBACK_EXACT};
}
static void FromValue(const OptionValue& value, Fallback& fallback) {
  const bool is_warn = std::get<uint64_t>(value) == LECTERN_FALLBACK_WARN;
  fallback = is_warn ? Fallback::kWarn : Fallback::kExact;
}

static constexpr Dtype kKvTypes[] = {Dtype::kF16, Dtype::kBf16, Dtype::kF32, Dtype::kQ8};
static_assert(LECTERN_KV_F16 == 1 && LECTERN_KV_BF16 == 2 && LECTERN_KV_F32 == 3 &&
              LECTERN_KV_Q8 == 4);
static OptionValue ToValue(Dtype dtype) {
  return static_cast<uint64_t>(std::ranges::find(kKvTypes, dtype) - kKvTypes) + 1;
}
static void FromValue(const OptionValue& value, Dtype& dtype) {
  dtype = kKvTypes[std::get<uint64_t>(value) - 1];
}

// --- asking -------------------------------------------------------------------------------------

std::span<const AskOptionRow> AskOptionRows() {
  using C = lectern_ask_options;
  using A = api::AskOptions;
  using E = AskOptions;
  using S = SamplingOptions;
  static constexpr AskOptionRow kRows[] = {
      {{.name = "kv_budget",
        .kind = OptionKind::kNumber,
        .surfaces = kEverywhere,
        .range = kShare,
        .word = "auto",
        .word_number = kAutoBudget,
        .help = "Share of the document's keys and values to read for the answer, above 0 and up to "
                "1; auto: as little as keeps {max_divergence}",
        .default_text = "as it was indexed with",
        .value_name = "F"},
       AtOrZero<&C::kv_budget>(),
       At<&A::kv_budget>(),
       AtOrZero<&E::kv_budget>()},
      {{.name = "max_divergence",
        .kind = OptionKind::kNumber,
        .surfaces = kToolAndRequest,
        .range = kDivergence,
        .help = "Most that answers may differ from exact ones, in nats a token (KL divergence, "
                "predicted for the document): {kv_budget} auto keeps it, a smaller budget warns",
        .default_text = "as it was indexed",
        .value_name = "D"},
       AtOrZero<&C::max_divergence>(),
       At<&A::max_divergence>(),
       AtOrZero<&E::max_divergence>()},
      {{.name = "tail",
        .kind = OptionKind::kFlag,
        .surfaces = kToolAndRequest,
        .is_on = true,
        .help = "Whether an average of the text that is not read counts (default: true)",
        .help_off = "Ignore the text that is not read; else an average of it counts"},
       AtFlag<&C::no_tail, false>(),
       At<&A::tail>(),
       At<&E::tail>()},
      {{.name = "max_missed",
        .kind = OptionKind::kNumber,
        .surfaces = kToolAndRequest,
        .range = kShareBelowOne,
        .help = "Read more than {kv_budget} where needed, until at most this share of the model's "
                "attention (an estimate, between 0 and 1) is on unread text",
        .value_name = "E"},
       AtOrZero<&C::max_missed>(),
       At<&A::max_missed>(),
       At<&E::max_missed>()},
      {{.name = "rule",
        .kind = OptionKind::kChoice,
        .surfaces = kToolAndRequest,
        .choices = {"default", "threshold", "cap", "top-p"},
        .help = "How the text to read is chosen: default; or, for experiments, whole clusters "
                "only, by threshold, cap or top-p",
        .default_text = "default",
        .value_name = "R"},
       AtText<&C::rule, &C::rule_len>(),
       At<&A::rule>(),
       At<&E::rule>()},
      {{.name = "focus",
        .kind = OptionKind::kChoice,
        .surfaces = kToolAndRequest,
        .choices = {"auto", "off", "words", "only"},
        .help =
            "only: read the passages that the question's words and the model's retrieval heads "
            "point to, and nothing else; small models answer better from less; words: read them "
            "first, and spend the rest of the budget as without focus; auto: only if the model's "
            "adapter was trained so",
        .default_text = "auto",
        .value_name = "F"},
       AtText<&C::focus, &C::focus_len>(),
       At<&A::focus>(),
       At<&E::focus>()},
      {{.name = "refuse_at",
        .kind = OptionKind::kNumber,
        .surfaces = kToolAndRequest,
        .range = kShare,
        .help = "For a model that was taught a sentence for it: answer that the document does not "
                "say where the model finds this at least so likely, and nowhere else; 1: where "
                "its answer comes to it, word by word",
        .default_text = "the model's",
        .value_name = "P"},
       AtOrZero<&C::refuse_at>(),
       At<&A::refuse_at>(),
       AtOrZero<&E::refuse_at>()},
      {{.name = "lookup_decoding",
        .kind = OptionKind::kChoice,
        .surfaces = kToolAndRequest,
        .choices = {"auto", "off"},
        .help = "auto: check several tokens at once where the answer quotes the document; the "
                "answer is the same, and is there sooner; off: decode them one by one",
        .default_text = "auto",
        .value_name = "L"},
       AtText<&C::lookup_decoding, &C::lookup_decoding_len>(),
       At<&A::lookup_decoding>(),
       At<&E::lookup_decoding>()},
      {{.name = "mass",
        .kind = OptionKind::kNumber,
        .surfaces = kToolAndRequest,
        .range = kShareBelowOne,
        .help = "With {rule} top-p: share of the attention to read",
        .default_text = "0.95",
        .value_name = "P"},
       AtOrZero<&C::mass>(),
       At<&A::mass>(),
       AtOrZero<&E::mass>()},
      {{.name = "layer_budget",
        .kind = OptionKind::kText,
        .surfaces = kToolAndRequest,
        .names = LayerPolicies,
        .help = "How the share to read is divided among the model's layers: uniform, pyramid, "
                "squeeze, kv-compress, dense-first",
        .default_text = "as the document was indexed",
        .value_name = "P"},
       AtText<&C::layer_budget, &C::layer_budget_len>(),
       At<&A::layer_budget>(),
       At<&E::layer_budget>()},
      {{.name = "head_budget",
        .kind = OptionKind::kText,
        .surfaces = kToolAndRequest,
        .names = HeadPolicies,
        .help = "How a layer's part of it is divided among its attention heads: global, uniform, "
                "kv-compress",
        .default_text = "as the document was indexed",
        .value_name = "P"},
       AtText<&C::head_budget, &C::head_budget_len>(),
       At<&A::head_budget>(),
       At<&E::head_budget>()},
      {{.name = "fallback",
        .kind = OptionKind::kEnumeration,
        .surfaces = kToolAndRequest,
        .choices = {"warn", "exact"},
        .help = "If a question needs much of the document: warn, or exact (start again and read "
                "the whole document)",
        .default_text = "warn",
        .value_name = "F"},
       AtOrZero<&C::fallback>(),
       At<&A::fallback>(),
       At<&E::fallback>()},
      {{.name = "max_session_rows",
        .kind = OptionKind::kWhole,
        .surfaces = kToolAndRequest,
        .range = {.least = 64},
        .most_of_request = 1 << 20,
        .help = "In a conversation: remember only the N tokens of earlier questions and answers "
                "that got the most attention, on average over the model's heads; 64 or more",
        .default_text = "all",
        .value_name = "N"},
       AtOrZero<&C::max_session_rows>(),
       At<&A::max_session_rows>(),
       AtOrZero<&E::max_session_rows>()},
      {{.name = "max_tokens",
        .kind = OptionKind::kWhole,
        .surfaces = kToolAndRequest,
        .range = {.least = 1},
        .most_of_request = 4096,
        .help = "Longest answer, in tokens",
        .default_text = "256",
        .value_name = "N"},
       AtOrZero<&C::max_tokens>(),
       At<&A::max_tokens>(),
       At<&E::max_tokens>()},
      {{.name = "max_evidence",
        .kind = OptionKind::kWhole,
        .surfaces = kToolAndRequest,
        .range = {.least = 1},
        .most_of_request = 16,
        .help = "Most passages of the document to show as evidence of the answer",
        .default_text = "3",
        .value_name = "N"},
       AtOrZero<&C::max_evidence>(),
       At<&A::max_evidence>(),
       AtOrZero<&E::max_evidence>()},
      {{.name = "temperature",
        .kind = OptionKind::kNumber,
        .surfaces = kEverywhere,
        .range = {.least = 0, .most = 10},
        .help = "Randomness of the answer, 0 to 10; 0 always takes the likeliest token",
        .default_text = "0",
        .value_name = "T"},
       AtOrZero<&C::temperature>(),
       At<&A::temperature>(),
       At<&E::sampling, &S::temperature>()},
      {{.name = "top_p",
        .kind = OptionKind::kNumber,
        .surfaces = kToolAndRequest,
        .range = kShare,
        .help = "With a temperature: choose among the likeliest tokens that have this probability "
                "together, above 0 and up to 1",
        .default_text = "1",
        .value_name = "P",
        .flag = "sample-top-p"},
       AtOrZero<&C::top_p>(),
       At<&A::top_p>(),
       At<&E::sampling, &S::top_p>()},
      {{.name = "top_k",
        .kind = OptionKind::kWhole,
        .surfaces = kToolAndRequest,
        .help = "With a temperature: choose among this many of the likeliest tokens; 0 is all",
        .default_text = "0",
        .value_name = "N"},
       AtOrZero<&C::top_k>(),
       At<&A::top_k>(),
       At<&E::sampling, &S::top_k>()},
      {{.name = "min_p",
        .kind = OptionKind::kNumber,
        .surfaces = kEverywhere,
        .range = {.least = 0, .most = 1},
        .help = "With a temperature: choose among tokens that are at least this share as likely as "
                "the likeliest one, 0 to 1",
        .default_text = "0",
        .value_name = "P"},
       AtOrZero<&C::min_p>(),
       At<&A::min_p>(),
       At<&E::sampling, &S::min_p>()},
      {{.name = "frequency_penalty",
        .kind = OptionKind::kNumber,
        .surfaces = kEverywhere,
        .range = {.least = -2, .most = 2},
        .help = "Makes a token less likely each time that the answer has it, -2 to 2; below 0 more "
                "likely",
        .default_text = "0",
        .value_name = "P"},
       AtOrZero<&C::frequency_penalty>(),
       At<&A::frequency_penalty>(),
       At<&E::sampling, &S::frequency_penalty>()},
      {{.name = "presence_penalty",
        .kind = OptionKind::kNumber,
        .surfaces = kEverywhere,
        .range = {.least = -2, .most = 2},
        .help = "Makes every token that the answer has already less likely, -2 to 2; below 0 more "
                "likely",
        .default_text = "0",
        .value_name = "P"},
       AtOrZero<&C::presence_penalty>(),
       At<&A::presence_penalty>(),
       At<&E::sampling, &S::presence_penalty>()},
      {{.name = "seed",
        .kind = OptionKind::kWhole,
        .surfaces = kToolAndRequest,
        .help = "With a temperature: the same seed gives the same answer again",
        .default_text = "0",
        .value_name = "N"},
       AtOrZero<&C::seed>(),
       At<&A::seed>(),
       At<&E::sampling, &S::seed>()},
      {{.name = "stop_texts",
        .kind = OptionKind::kTexts,
        .surfaces = kEverywhere,
        .range = {.most = kMostStopBytes},
        .help = "Text that ends the answer and is no part of it; several have at most 8,192 bytes "
                "together",
        .flag = "stop",
        .field = "stop"},
       {},
       At<&A::stop_texts>(),
       At<&E::stop_texts>()},
      {{.name = "json_schema", .kind = OptionKind::kText},
       AtText<&C::json_schema, &C::json_schema_len>(),
       At<&A::json_schema>(),
       At<&E::json_schema>()},
      {{.name = "strict_schema",
        .kind = OptionKind::kFlag,
        .surfaces = kToolAndRequest,
        .help = "Refuse a schema for the answer with keywords that cannot be kept; else a warning "
                "names them"},
       AtFlag<&C::strict_schema>(),
       At<&A::strict_schema>(),
       At<&E::strict_schema>()},
      {{.name = "top_logprobs", .kind = OptionKind::kWhole},
       AtOrZero<&C::top_logprobs>(),
       At<&A::top_logprobs>(),
       At<&E::top_logprobs>()},
  };
  return kRows;
}

// --- indexing -----------------------------------------------------------------------------------

std::span<const IndexOptionRow> IndexOptionRows() {
  using C = lectern_index_options;
  using A = api::IndexOptions;
  using E = IndexOptions;
  static constexpr IndexOptionRow kRows[] = {
      {{.name = "name",
        .kind = OptionKind::kText,
        .surfaces = kCommandLine,
        .help = "Name to ask the document by",
        .default_text = "the file's name, with folders where another file has it"},
       AtText<&C::name, &C::name_len>(),
       At<&A::name>(),
       At<&E::name>()},
      {{.name = "kv_type",
        .kind = OptionKind::kEnumeration,
        .surfaces = kToolAndRequest,
        .choices = {"f16", "bf16", "f32", "q8"},
        .help = "Number format in which the document's keys and values are stored: f16, bf16, f32, "
                "or q8 (half the size of f16, a little less exact)",
        .default_text = "f16",
        .value_name = "TYPE"},
       AtOrZero<&C::kv_type>(),
       At<&A::kv_type>(),
       At<&E::kv_dtype>()},
      {{.name = "kv_budget",
        .kind = OptionKind::kNumber,
        .surfaces = kToolAndRequest,
        .range = kShare,
        .word = "auto",
        .word_number = kAutoBudget,
        .help = "Share of the document's keys and values that a question reads where it names no "
                "other, above 0 and up to 1; auto: as little as keeps {max_divergence}",
        .default_text = "auto",
        .value_name = "F"},
       AtOrZero<&C::kv_budget>(),
       At<&A::kv_budget>(),
       At<&E::kv_budget>()},
      {{.name = "max_divergence",
        .kind = OptionKind::kNumber,
        .surfaces = kToolAndRequest,
        .range = kDivergence,
        .help = "Most that answers may differ from exact ones, in nats a token (KL divergence, "
                "measured while indexing): {kv_budget} auto keeps it, a smaller budget warns",
        .default_text = "0.01",
        .value_name = "D"},
       AtOrZero<&C::max_divergence>(),
       At<&A::max_divergence>(),
       At<&E::max_divergence>()},
      {{.name = "layer_budget",
        .kind = OptionKind::kText,
        .surfaces = kCommandLine,
        .names = LayerPolicies,
        .help = "How the share to read is divided among the model's layers: uniform, pyramid, "
                "squeeze, kv-compress, kv-compress-plain, kv-compress-full, dense-first",
        .default_text = "uniform",
        .value_name = "P"},
       AtText<&C::layer_budget, &C::layer_budget_len>(),
       At<&A::layer_budget>(),
       At<&E::layer_budget>()},
      {{.name = "head_budget",
        .kind = OptionKind::kText,
        .surfaces = kCommandLine,
        .names = HeadPolicies,
        .help = "How a layer's part of it is divided among its attention heads: global, uniform, "
                "kv-compress, kv-compress-plain, kv-compress-full",
        .default_text = "global",
        .value_name = "P"},
       AtText<&C::head_budget, &C::head_budget_len>(),
       At<&A::head_budget>(),
       At<&E::head_budget>()},
      {{.name = "keep",
        .kind = OptionKind::kNumber,
        .surfaces = kToolAndRequest,
        .range = kShare,
        .help = "Store only this share of the keys and values, to save disk space; no question can "
                "use the rest",
        .default_text = "1",
        .value_name = "F"},
       AtOrZero<&C::keep>(),
       At<&A::keep>(),
       At<&E::retention, &Retention::keep>()},
      {{.name = "retention",
        .kind = OptionKind::kText,
        .surfaces = kCommandLine,
        .help = "Method by which {keep} chooses what to store: kv-compress, pyramid, snapkv, "
                "kvcrush, kvcrush-random, kvcrush-alternating, kvcrush-pages, recent, spaced",
        .default_text = "kv-compress",
        .value_name = "M"},
       AtText<&C::retention, &C::retention_len>(),
       At<&A::retention>(),
       At<&E::retention, &Retention::method>()},
      {{.name = "representatives",
        .kind = OptionKind::kNumber,
        .surfaces = kCommandLine,
        .range = kShare,
        .help = "Share of what {keep} stores that is chosen to represent the rest, as KVCrush does",
        .default_text = "0; 0.25 with a kvcrush method",
        .value_name = "R"},
       AtOrZero<&C::representatives>(),
       At<&A::representatives>(),
       AtOrZero<&E::retention, &Retention::representatives>()},
      {{.name = "stats",
        .kind = OptionKind::kChoice,
        .surfaces = kCommandLine,
        .choices = {"window", "full"},
        .help = "Which attention {layer_budget}, {head_budget} and {retention} are based on: "
                "window (that of the document's last tokens) or full (that of all tokens; slower; "
                "kv-compress-full needs it)",
        .default_text = "window",
        .value_name = "S"},
       AtText<&C::stats, &C::stats_len>(),
       At<&A::stats>(),
       At<&E::stats>()},
      {{.name = "prefill",
        .kind = OptionKind::kChoice,
        .surfaces = kCommandLine,
        .choices = {"exact", "sparse"},
        .help = "How the model reads the document: exact (every token sees all text before it) or "
                "sparse (beyond 16,384 tokens it sees a part of that text; faster for very long "
                "documents, less exact)",
        .default_text = "exact",
        .value_name = "P"},
       AtText<&C::prefill, &C::prefill_len>(),
       At<&A::prefill>(),
       At<&E::prefill>()},
      {{.name = "prefill_budget",
        .kind = OptionKind::kNumber,
        .surfaces = kCommandLine,
        .range = {.least = 0.02, .most = 1},
        .help = "Share of the text further back that {prefill} sparse reads, 0.02 to 1",
        .default_text = "0.1",
        .value_name = "F"},
       AtOrZero<&C::prefill_budget>(),
       At<&A::prefill_budget>(),
       At<&E::prefill_budget>()},
      {{.name = "levels",
        .kind = OptionKind::kWhole,
        .surfaces = kCommandLine,
        .range = {.least = 1, .most = 3},
        .help = "Levels of clusters in the document's index: 1, 2 or 3",
        .default_text = "2",
        .value_name = "N"},
       AtOrZero<&C::num_levels>(),
       At<&A::num_levels>(),
       At<&E::num_levels>()},
      {{.name = "cluster_keys",
        .kind = OptionKind::kChoice,
        .surfaces = kCommandLine,
        .choices = {"auto", "queries", "unrotated", "stored"},
        .help = "How keys are grouped and coded: unrotated (grouped without their positions), "
                "queries (likewise, and coded for the text's own queries), stored (with their "
                "positions) or auto: queries, but stored on a GPU",
        .default_text = "auto",
        .value_name = "K"},
       AtText<&C::cluster_keys, &C::cluster_keys_len>(),
       At<&A::cluster_keys>(),
       At<&E::cluster_keys>()},
      {{.name = "seed", .kind = OptionKind::kWhole},
       AtOrZero<&C::seed>(),
       At<&A::seed>(),
       At<&E::seed>()},
      {{.name = "again",
        .kind = OptionKind::kFlag,
        .surfaces = kCommandLine,
        .help = "Index the document again even if it is there; questions use the old index until "
                "the new one is complete"},
       AtFlag<&C::again>(),
       At<&A::again>(),
       At<&E::again>()},
      {{.name = "source", .kind = OptionKind::kText},
       AtText<&C::source, &C::source_len>(),
       At<&A::source>(),
       At<&E::source>()},
      {{.name = "path", .kind = OptionKind::kText},
       AtText<&C::path, &C::path_len>(),
       At<&A::path>(),
       At<&E::path>()},
      {{.name = "keep_versions",
        .kind = OptionKind::kFlag,
        .surfaces = kCommandLine,
        .help = "Keep the version of the file that was indexed before; it can be asked by its id"},
       AtFlag<&C::keep_versions>(),
       At<&A::keep_versions>(),
       At<&E::keep_versions>()},
  };
  return kRows;
}

// --- changing a document's plan -----------------------------------------------------------------

std::span<const PlanOptionRow> PlanOptionRows() {
  using C = lectern_plan_options;
  using A = api::PlanChange;
  using E = PlanChange;
  static constexpr PlanOptionRow kRows[] = {
      {{.name = "layer_budget",
        .kind = OptionKind::kText,
        .surfaces = kCommandLine,
        .names = LayerPolicies,
        .help = "How the share to read is divided among the model's layers: uniform, pyramid, "
                "squeeze, kv-compress, kv-compress-plain, kv-compress-full, dense-first",
        .default_text = "unchanged",
        .value_name = "P"},
       AtText<&C::layer_budget, &C::layer_budget_len>(),
       At<&A::layer_budget>(),
       At<&E::layer_budget>()},
      {{.name = "head_budget",
        .kind = OptionKind::kText,
        .surfaces = kCommandLine,
        .names = HeadPolicies,
        .help = "How a layer's part of it is divided among its attention heads: global, uniform, "
                "kv-compress, kv-compress-plain, kv-compress-full",
        .default_text = "unchanged",
        .value_name = "P"},
       AtText<&C::head_budget, &C::head_budget_len>(),
       At<&A::head_budget>(),
       At<&E::head_budget>()},
      {{.name = "kv_budget",
        .kind = OptionKind::kNumber,
        .surfaces = kCommandLine,
        .range = kShare,
        .word = "auto",
        .word_number = kAutoBudget,
        .help = "Share of the document's keys and values that a question reads where it names no "
                "other; auto: as little as keeps {max_divergence}",
        .default_text = "unchanged",
        .value_name = "F"},
       AtOrZero<&C::kv_budget>(),
       At<&A::kv_budget>(),
       AtOrZero<&E::kv_budget>()},
      {{.name = "max_divergence",
        .kind = OptionKind::kNumber,
        .surfaces = kCommandLine,
        .range = kDivergence,
        .help = "Most that answers may differ from exact ones, in nats a token",
        .default_text = "unchanged",
        .value_name = "D"},
       AtOrZero<&C::max_divergence>(),
       At<&A::max_divergence>(),
       AtOrZero<&E::max_divergence>()},
  };
  return kRows;
}

}  // namespace lectern
