#include "tools/doctor/self_test.h"

#include <algorithm>
#include <cmath>
#include <sstream>

#include "engine/transformer.h"

namespace lectern::doctor {
namespace {

constexpr std::string_view kTexts[] = {
    "The bridge over the Aven was built in 1843.",
    "Two  spaces, a tab\tand\n\nline breaks\r\n",
    "naïve café, größer, Ελλάδα, Привет, 日本語, 한국어, 😀",
    "x = f(a[0], -3.14) // <b>markup</b> & \"quotes\"",
    "<s>[INST]<|im_start|>user<start_of_turn><|end|></s>",
};
constexpr size_t kNumTokens = 12;  // within the narrowest window
// Largest error of the layer's output, in standard deviations: of products of floats, and of those
// whose inputs are rounded to int8, where a rounding may fall to the other side.
constexpr double kMaxError = 1e-3, kMaxPackedError = 2e-2;

std::string Excerpt(std::string_view text) { return Json(text).Dump(); }

// What is wrong with the tokens of a text; empty: nothing.
std::string FaultOf(const TokenizedText& tokens, std::string_view text,
                    const Tokenizer& tokenizer) {
  if (tokens.ids.size() != tokens.ranges.size() || tokens.ids.empty()) return "no place of a token";
  uint64_t covered = 0;
  for (size_t i = 0; i < tokens.ids.size(); ++i) {
    const auto& [begin, end] = tokens.ranges[i];
    if (begin > end || begin > covered || end > text.size()) return "a token's place is wrong";
    covered = std::max(covered, end);
    if (tokenizer.TokenBytes(tokens.ids[i]).empty()) return "it became a control token";
  }
  return covered == text.size() ? "" : "its end is in no token";
}

std::string TextOf(const TokenizedText& tokens, const Tokenizer& tokenizer) {
  std::string text;
  for (const int32_t id : tokens.ids) text += tokenizer.TokenBytes(id);
  return text;
}

// The residual stream behind the first layer.
std::vector<float> FirstLayer(const Model& model, const Backend& backend, ThreadPool& threads,
                              std::span<const int32_t> ids) {
  const ModelConfig& config = model.config();
  const size_t group = config.query_group(), dim = config.head_dim, n = ids.size();
  const Transformer transformer(model, backend, threads, n);
  Activations a(config, n, threads.num_threads());
  transformer.Embed(ids, 0, a);
  (void)transformer.Project(0, n, a);  // on the CPU nothing fails
  std::vector<uint32_t> visible(n * group);
  for (size_t r = 0; r < visible.size(); ++r) visible[r] = static_cast<uint32_t>(r / group) + 1;
  std::vector<float> keys(n * dim), values(n * dim), max(n * group), sum(n * group),
      scratch(AttendScratch(n * group, dim));
  for (size_t head = 0; head < config.num_kv_heads; ++head) {
    for (size_t t = 0; t < n; ++t) {
      const size_t from = (t * config.num_kv_heads + head) * dim;
      std::copy_n(a.keys.data() + from, dim, keys.data() + t * dim);
      std::copy_n(a.values.data() + from, dim, values.data() + t * dim);
    }
    const auto rows = [&](const std::vector<float>& of) {
      return TypedRows{reinterpret_cast<const std::byte*>(of.data()), Dtype::kF32, n, dim};
    };
    const Rows<float> queries = transformer.Grouped(a.queries, head, n);
    const AttentionState state = {transformer.Grouped(a.attended, head, n), max, sum};
    ResetState(state);
    backend.attend({.queries = Rows<const float>(queries.data, queries.num_rows, dim),
                    .keys = rows(keys),
                    .values = rows(values),
                    .scale = 1 / std::sqrt(static_cast<float>(dim)),
                    .softcap = config.attention_softcap,
                    .visible = visible,
                    .state = state,
                    .logits = {},
                    .scratch = scratch});
    FinishState(state, state.out, {});
  }
  (void)transformer.Finish(0, n, a);
  a.residual.resize(n * config.hidden_size);
  return a.residual;
}

}  // namespace

Finding TestTokenizer(const Tokenizer& tokenizer) {
  Finding finding{
      .name = "tokenizer test",
      .text = std::to_string(std::size(kTexts)) + " texts came back, every byte in its place"};
  std::string faults, changed;
  for (const std::string_view text : kTexts) {
    const auto tokens = tokenizer.Encode(text);
    const std::string fault =
        tokens.ok() ? FaultOf(*tokens, text, tokenizer) : tokens.status().message();
    if (!fault.empty()) {
      faults += (faults.empty() ? "" : "; ") + Excerpt(text) + ": " + fault;
      continue;
    }
    const std::string back = TextOf(*tokens, tokenizer);
    const bool is_same =
        back == text || (tokenizer.has_dummy_prefix() && back == " " + std::string(text));
    if (!is_same) changed += (changed.empty() ? "" : ", ") + Excerpt(text);
  }
  finding.values = {{"texts", uint64_t{std::size(kTexts)}},
                    {"is_placed", faults.empty()},
                    {"is_reversible", changed.empty()}};
  if (!faults.empty()) {
    finding.text = faults;
    return finding.Worsen(Verdict::kFail, "do not index with this model; please report this");
  }
  if (!changed.empty()) {
    finding.text = "text is normalised or has characters that the vocabulary lacks: " + changed;
    finding.Worsen(Verdict::kWarn, "such characters are not told apart by this model");
  }
  return finding;
}

Finding TestKernels(const Model& model, const Backend& fast, ThreadPool& threads) {
  std::vector<int32_t> ids;
  for (size_t i = 0; i < kNumTokens; ++i) {
    ids.push_back(static_cast<int32_t>((i * 2654435761u + 17) % model.config().vocab_size));
  }
  const std::vector<float> defined = FirstLayer(model, *FindBackend("scalar"), threads, ids);
  const std::vector<float> output = FirstLayer(model, fast, threads, ids);
  double mean = 0, squares = 0, worst = 0;
  for (const float x : defined) mean += x / static_cast<double>(defined.size());
  bool is_finite = true;
  for (size_t i = 0; i < defined.size(); ++i) {
    squares += (defined[i] - mean) * (defined[i] - mean);
    worst = std::max(worst, std::abs(double{output[i]} - defined[i]));
    is_finite = is_finite && std::isfinite(output[i]);
  }
  const double error = worst / std::sqrt(squares / static_cast<double>(defined.size()));
  const double limit = model.weights().needs_packing() ? kMaxPackedError : kMaxError;
  std::ostringstream said;
  said.precision(2);
  said << "one layer with " << fast.name << " kernels is within " << error
       << " standard deviations of the definition";
  Finding finding{.name = "kernel test", .text = said.str()};
  finding.values = {{"kernels", fast.name}, {"error", error}, {"limit", limit}};
  if (is_finite && error <= limit) return finding;
  if (!is_finite)
    finding.text = "one layer with " + std::string(fast.name) + " kernels is not finite";
  return finding.Worsen(Verdict::kFail,
                        "set LECTERN_BACKEND=scalar, and check the memory and the processor; if "
                        "they are sound, please report this");
}

}  // namespace lectern::doctor
