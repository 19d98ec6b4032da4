// Counts how evenly ranks share what lookups read: replays measured selections on any number of
// ranks (index/lookup_share.h), which need not be there.
//
//   rank_balance STORE MODEL DOCUMENT BUDGET ANSWER_TOKENS RANKS… < questions (a line each)
//
// Asks the questions, and for every layer of every pass adds up the bytes of rows, codes, centroids
// and mean values that fall to each rank. Prints a row of a Markdown table for each number of
// ranks: the busiest rank's bytes over the mean, in question passes and in tokens' passes (means
// over layers and passes: every layer waits for its busiest rank), and the same over whole answers.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <numeric>
#include <string>
#include <vector>

#include "engine/asking/ask.h"
#include "engine/engine.h"

namespace lectern {
namespace {

// The number of members of ascending, disjoint ranges that lie within another range.
uint64_t Within(const std::vector<IndexRange>& ranges, IndexRange part) {
  uint64_t count = 0;
  for (const IndexRange& range : ranges) {
    const uint32_t begin = std::max(range.begin, part.begin), end = std::min(range.end, part.end);
    if (begin < end) count += end - begin;
  }
  return count;
}

uint64_t Within(const std::vector<uint32_t>& ascending, IndexRange part) {
  return static_cast<uint64_t>(std::ranges::lower_bound(ascending, part.end) -
                               std::ranges::lower_bound(ascending, part.begin));
}

// Bytes of a selection that a rank reads.
uint64_t BytesOf(const HeadIndex& head, const HeadSelection& selection, const LookupShare& share) {
  const IndexRange rows = share.Rows(head);
  uint64_t bytes = Within(selection.rows, rows) * head.BlockBytes({0, 1}) +
                   Within(selection.refined, rows) * head.fine_code_bytes() + head.metric_bytes();
  if (share.owns_exact()) bytes += head.ExactBytes(selection.window_copy);
  const size_t finest = head.levels().size() - 1;
  const IndexRange clusters = share.Clusters(head, finest);
  for (const IndexRange& range : selection.coded) {
    const uint32_t begin = std::max(range.begin, clusters.begin);
    const uint32_t end = std::min(range.end, clusters.end);
    if (begin >= end) continue;
    const auto& children = head.levels().back().children;
    bytes += uint64_t{children[end] - children[begin]} * head.row_code_bytes();
  }
  for (size_t level = 0; level < head.levels().size(); ++level) {
    const HeadIndex::Level& view = head.levels()[level];
    const IndexRange own = share.Clusters(head, level);
    bytes += Within(selection.looked_up[level], own) * view.cluster_bytes();
    bytes += Within(selection.tail[level], own) * view.mean_values.row_bytes();
    if (level == selection.logit_tail.level) {
      bytes += Within(selection.logit_tail.clusters, own) * view.mean_values.row_bytes();
    }
  }
  return bytes;
}

// Sums over the layers of all passes of one kind.
struct Balance {
  double busiest_over_mean = 0;
  uint64_t layers = 0;
};

struct RankCounts {
  uint32_t size;
  Balance questions, tokens;
  std::vector<uint64_t> of_answer;  // [ranks]
};

Status Run(int argc, char** argv) {
  const std::string store = argv[1], model = argv[2], name = argv[3];
  AskOptions options;
  options.kv_budget = std::strtof(argv[4], nullptr);
  options.max_tokens = static_cast<uint32_t>(std::strtoul(argv[5], nullptr, 10));
  std::vector<RankCounts> counts;
  for (int i = 6; i < argc; ++i) {
    const auto size = static_cast<uint32_t>(std::strtoul(argv[i], nullptr, 10));
    counts.push_back({size, {}, {}, std::vector<uint64_t>(size)});
  }
  LECTERN_ASSIGN(const auto engine, Engine::Create({.store = store, .model = model}));
  LECTERN_ASSIGN(auto opened, engine->Open(name));
  LECTERN_ASSIGN(const auto session, AsDocumentSession(std::move(opened)));
  session->probe().on_layer = [&](const LayerStep& step) {
    const auto heads = session->indexed().Heads(step.layer);
    if (!heads.ok() || step.read.exact) return;
    for (RankCounts& of : counts) {
      uint64_t most = 0, all = 0;
      for (uint32_t rank = 0; rank < of.size; ++rank) {
        uint64_t bytes = 0;
        for (size_t h = 0; h < heads->size(); ++h) {
          bytes += BytesOf((*heads)[h], step.read.heads[h], {nullptr, rank, of.size});
        }
        most = std::max(most, bytes);
        all += bytes;
        of.of_answer[rank] += bytes;
      }
      Balance& balance = step.num_tokens > 1 ? of.questions : of.tokens;
      balance.busiest_over_mean += static_cast<double>(most) * of.size / static_cast<double>(all);
      ++balance.layers;
    }
  };
  std::string question;
  size_t asked = 0;
  while (std::getline(std::cin, question)) {
    session->Forget();
    LECTERN_RETURN_IF_ERROR(session->Ask(question, options).status());
    ++asked;
  }
  std::printf(
      "%zu questions, budget %s\n\n| ranks | question pass | token's pass | whole answers |\n"
      "|---|---|---|---|\n",
      asked, argv[4]);
  for (const RankCounts& of : counts) {
    const uint64_t most = *std::ranges::max_element(of.of_answer);
    const uint64_t all = std::accumulate(of.of_answer.begin(), of.of_answer.end(), uint64_t{0});
    const auto mean = [](const Balance& balance) {
      return balance.busiest_over_mean / static_cast<double>(std::max<uint64_t>(1, balance.layers));
    };
    std::printf("| %u | %.2f | %.2f | %.2f |\n", of.size, mean(of.questions), mean(of.tokens),
                static_cast<double>(most) * of.size / static_cast<double>(all));
  }
  return {};
}

}  // namespace
}  // namespace lectern

int main(int argc, char** argv) {
  if (argc < 7) {
    std::fputs("usage: rank_balance STORE MODEL DOCUMENT BUDGET ANSWER_TOKENS RANKS… < questions\n",
               stderr);
    return 2;
  }
  const lectern::Status status = lectern::Run(argc, argv);
  if (status.ok()) return 0;
  std::fprintf(stderr, "rank_balance: %s\n", status.message().c_str());
  return 1;
}
