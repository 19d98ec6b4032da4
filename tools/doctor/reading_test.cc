#include "tools/doctor/reading_test.h"

#include <algorithm>
#include <cmath>

#include "engine/forward/transformer.h"
#include "tools/quantities.h"

namespace lectern::doctor {
namespace {

using tools::Short;

constexpr std::string_view kParagraph =
    "The river comes down from the hills in the north and passes three villages before it reaches "
    "the sea. In spring, when the snow melts, the water rises quickly, and the people who live "
    "near the bank move their animals to higher ground. Most of the houses were built more than a "
    "hundred years ago, and many of them still have marks that show how high the water stood in "
    "the worst years. There is a small school, a church with a wooden tower, and a shop that sells "
    "bread, milk and newspapers. On Saturdays farmers bring apples, eggs and cheese to the market, "
    "and children play football on the field behind the hall. Last winter the old bridge had to be "
    "closed because one of its pillars was damaged by ice. The council asked two engineers to "
    "examine it, and they said that the repair would take about six months and cost a good deal of "
    "money. Until then everybody has to use the road through the forest, which is longer but has a "
    "beautiful view of the valley. Some people hope that a new bridge will be built instead, "
    "because the old one is too narrow for buses.";

constexpr double kWords = 200;  // in the paragraph

// Measured with sound models and with models that were broken on purpose: perplexity of the
// paragraph / of its words in another order, and tokens a word where they matter.
//
//                                 SmolLM2 135M Q4_1     Gemma 3 270M Q4_K_M
//     as published                  22 /   857  1.1       15 /   811  1.1
//     one query row huge          1.6e6/  4e5             53 /  2015
//     rows of q and k in the        133 /  1487          599 /  2237
//       order of another RoPE
//     heads of q one too far       2711 /  3418         2830 /  3904
//     layers 8 and 12 exchanged      39 /  1034         4113 / 2.4e5
//     RoPE's base / 100              39 /  1853           15 /   849
//     rows of one down_proj          30 /  1042           54 /  1227
//       shuffled
//     embeddings one row too far  15634 / 12617         1.1e5 / 1.2e5
//     norms without their 1        9e5  /  7e5           1e9 / 1e9
//     k and v exchanged            1e7  /  4e6           7e4 / 3e5
//     half of the MLPs 0           9e4  /  8e6          6780 / 6e5
//     bundled reader               519  /   939  1.7 (invented English of 2,048 pieces)
//     tiny model, random          20125 / 18852  (a vocabulary of 400)
//
// So a conversion that is wrong in every layer has a perplexity above 100, or expects any order as
// much as the right one; a fault in one layer need not show. A vocabulary that cuts English into
// more than 1.4 tokens a word was not made for English, and its model need not know it: there only
// a perplexity above that of guessing (the size of the vocabulary) means something.
constexpr double kMostPerplexity = 100, kLeastGain = 8, kMostTokensPerWord = 1.4;

constexpr size_t kLogitRows = 16;  // tokens whose logits are held at a time: vocabularies are large

// The same words in another order: every seventh word, then every seventh from the second on, and
// so on. Neighbours are then seven words apart, and the order is the same in every run.
std::string InAnotherOrder(std::string_view text) {
  std::vector<std::string_view> words;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find(' ', begin), text.size());
    words.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  std::string other;
  constexpr size_t kStride = 7;
  for (size_t first = 0; first < kStride; ++first) {
    for (size_t i = first; i < words.size(); i += kStride) {
      other += (other.empty() ? "" : " ") + std::string(words[i]);
    }
  }
  return other;
}

// Dense causal attention of one layer among the `n` tokens of the step, which is all that a text
// without a document needs. Takes the step's queries, keys and values from `a` and leaves
// a.attended. Windowed layers see their window alone.
void AttendDensely(const Transformer& transformer, uint32_t layer, size_t n, Activations& a) {
  const ModelConfig& config = transformer.model().config();
  const size_t group = config.query_group(), dim = config.head_dim, rows = n * group;
  std::vector<uint32_t> visible(rows), first(rows);
  for (uint32_t r = 0; r < rows; ++r) {
    const auto token = static_cast<uint32_t>(r / group);
    visible[r] = token + 1;
    const bool is_cut = config.is_windowed(layer) && visible[r] > config.window;
    first[r] = is_cut ? visible[r] - config.window : 0;
  }
  transformer.threads().ParallelFor(config.num_kv_heads, [&](size_t head, size_t) {
    std::vector<float> keys(n * dim), values(n * dim), max(rows), sum(rows),
        scratch(AttendScratch(rows, dim));
    for (size_t t = 0; t < n; ++t) {
      const size_t from = (t * config.num_kv_heads + head) * dim;
      std::copy_n(a.keys.data() + from, dim, keys.data() + t * dim);
      std::copy_n(a.values.data() + from, dim, values.data() + t * dim);
    }
    const auto typed = [&](const std::vector<float>& of) {
      return TypedRows{reinterpret_cast<const std::byte*>(of.data()), Dtype::kF32, n, dim};
    };
    const Rows<float> queries = transformer.Grouped(a.queries, head, n);
    const AttentionState state = {transformer.Grouped(a.attended, head, n), max, sum};
    ResetState(state);
    transformer.backend().attend({.queries = Rows<const float>(queries.data, rows, dim),
                                  .keys = typed(keys),
                                  .values = typed(values),
                                  .scale = 1 / std::sqrt(static_cast<float>(dim)),
                                  .softcap = config.attention_softcap,
                                  .visible = visible,
                                  .first = first,
                                  .state = state,
                                  .logits = {},
                                  .scratch = scratch});
    FinishState(state, state.out, {});
  });
}

// -log of the softmax probability of token `id`, in double: exponentials of a large vocabulary add
// up.
double LossOf(std::span<const float> logits, int32_t id) {
  double largest = -INFINITY, sum = 0;
  for (const float logit : logits) largest = std::max(largest, double{logit});
  for (const float logit : logits) sum += std::exp(logit - largest);
  return largest + std::log(sum) - logits[static_cast<size_t>(id)];
}

// The mean loss of the tokens behind the first `given`, each predicted from all before it.
double MeanLoss(const Model& model, const Backend& backend, ThreadPool& threads,
                const std::vector<int32_t>& ids, size_t given) {
  const size_t n = ids.size(), vocab = model.config().vocab_size;
  const Transformer transformer(model, backend, threads, n);
  Activations a(model.config(), n, threads.num_threads());
  transformer.Embed(ids, 0, a);
  (void)transformer.RunLayers(n, a, [&](uint32_t layer) {  // on the CPU nothing fails
    AttendDensely(transformer, layer, n, a);
    return Status();
  });
  std::vector<float> logits(kLogitRows * vocab);
  double loss = 0;
  for (size_t begin = given - 1; begin + 1 < n; begin += kLogitRows) {
    const size_t count = std::min(kLogitRows, n - 1 - begin);
    (void)transformer.Logits(begin, count, a, {logits.data(), count, vocab});  // likewise
    std::vector<double> losses(count);
    threads.ParallelFor(count, [&](size_t r, size_t) {
      losses[r] = LossOf({logits.data() + r * vocab, vocab}, ids[begin + r + 1]);
    });
    for (const double one : losses) loss += one;
  }
  return loss / static_cast<double>(n - given);
}

// The two perplexities, tokens a word, and the size of the vocabulary.
struct Reading {
  double perplexity, other_order, tokens_per_word, vocabulary;
};

// The finding for a reading, by the limits above.
Finding Judge(const Reading& reading) {
  Finding finding{
      .name = "reads",
      .text = "perplexity of a paragraph of plain English: " + Short(reading.perplexity) +
              ", of its words in another order: " + Short(reading.other_order) +
              " (lower is better)"};
  const bool knows_words = reading.tokens_per_word <= kMostTokensPerWord;
  finding.values = {{"perplexity", reading.perplexity},
                    {"perplexity_of_other_order", reading.other_order},
                    {"tokens_per_word", reading.tokens_per_word},
                    {"is_made_for_english", knows_words},
                    {"limit", knows_words ? kMostPerplexity : reading.vocabulary}};
  const bool is_finite = std::isfinite(reading.perplexity) && std::isfinite(reading.other_order);
  if (!knows_words) finding.text += "; its vocabulary is not made for English";
  const bool reads = knows_words ? reading.perplexity <= kMostPerplexity &&
                                       reading.other_order >= kLeastGain * reading.perplexity
                                 : reading.perplexity < reading.vocabulary;
  if (is_finite && reads) return finding;
  if (!is_finite) finding.text = "its logits are not finite";
  return finding.Worsen(Verdict::kWarn,
                        "the model's file may be a broken conversion, or the model has learnt no "
                        "English: compare the file's checksum, or take another conversion");
}

}  // namespace

std::string_view ReadingParagraph() { return kParagraph; }

Result<Finding> TestReading(const Model& model, const Backend& backend, ThreadPool& threads) {
  const Tokenizer& tokenizer = model.tokenizer();
  const auto loss_of = [&](std::string_view text) -> Result<std::pair<double, size_t>> {
    LECTERN_ASSIGN(const TokenizedText tokens, tokenizer.Encode(text));
    std::vector<int32_t> ids;
    // Something must stand before the first word; what documents begin with, if there is such.
    if (tokenizer.bos_id() >= 0) ids.push_back(tokenizer.bos_id());
    ids.insert(ids.end(), tokens.ids.begin(), tokens.ids.end());
    if (ids.size() < 3 || ids.size() > 8 * kReadingTokens) {
      return Status(Code::kLimitExceeded, "the paragraph has " + std::to_string(ids.size()) +
                                              " tokens in this vocabulary");
    }
    return std::pair(MeanLoss(model, backend, threads, ids, 1), ids.size());
  };
  LECTERN_ASSIGN(const auto text, loss_of(kParagraph));
  LECTERN_ASSIGN(const auto other, loss_of(InAnotherOrder(kParagraph)));
  return Judge({.perplexity = std::exp(text.first),
                .other_order = std::exp(other.first),
                .tokens_per_word = static_cast<double>(text.second) / kWords,
                .vocabulary = static_cast<double>(model.config().vocab_size)});
}

}  // namespace lectern::doctor
