#include "tools/evaluate/selectors.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>

#include "index/head_lookup.h"

namespace lectern::evaluate {
namespace {

using Selections = std::vector<HeadSelection>;

// --- what a selection reads, for other queries than those that chose it -------------------------

// The choice made for one kv head, as lists of numbers that can be united and used again. All
// ascend.
struct Choice {
  std::vector<std::vector<uint32_t>> looked_up;  // [levels]: clusters
  std::vector<uint32_t> coded;                   // finest clusters
  std::vector<uint32_t> refined, rows;           // stored rows
  size_t tail_level = 0;  // whose mean values stand for unread keys of coded clusters
};

// Unites two ascending lists.
void Add(const std::vector<uint32_t>& more, std::vector<uint32_t>& into) {
  std::vector<uint32_t> both;
  std::set_union(into.begin(), into.end(), more.begin(), more.end(), std::back_inserter(both));
  into = std::move(both);
}

// The members of ranges, one by one.
std::vector<uint32_t> Numbers(const std::vector<IndexRange>& ranges) {
  std::vector<uint32_t> numbers;
  for (const IndexRange& range : ranges) {
    for (uint32_t i = range.begin; i < range.end; ++i) numbers.push_back(i);
  }
  return numbers;
}

// Unites a selection with a choice.
void Add(const HeadSelection& selection, Choice& into) {
  into.looked_up.resize(selection.looked_up.size());
  for (size_t level = 0; level < selection.looked_up.size(); ++level) {
    Add(Numbers(selection.looked_up[level]), into.looked_up[level]);
  }
  Add(Numbers(selection.coded), into.coded);
  Add(selection.refined, into.refined);
  Add(selection.rows, into.rows);
  into.tail_level = std::max<size_t>(into.tail_level, selection.logit_tail.level);
}

// The choice of each kv head.
std::vector<Choice> ChoicesOf(const Selections& selections) {
  std::vector<Choice> choices(selections.size());
  for (size_t h = 0; h < selections.size(); ++h) Add(selections[h], choices[h]);
  return choices;
}

// The clusters of a level with a child in `below`: those that were opened to look up these
// children.
std::vector<uint32_t> Opened(const HeadIndex::Level& level, const std::vector<uint32_t>& below) {
  std::vector<uint32_t> opened;
  for (uint32_t i = 0; i < level.num_clusters(); ++i) {
    if (std::binary_search(below.begin(), below.end(), level.children[i])) opened.push_back(i);
  }
  return opened;
}

// Places of `rows` among those that row_at(place) names, which they are all of (both ascending).
template <typename RowAt>
std::vector<uint32_t> Places(const RowAt& row_at, const std::vector<uint32_t>& rows) {
  std::vector<uint32_t> places;
  uint32_t place = 0;
  for (const uint32_t row : rows) {
    while (row_at(place) != row) ++place;
    places.push_back(place);
  }
  return places;
}

// Runs the lookup of each head again for the queries of `args`, but with every decision taken from
// `choices`: the same clusters, codes and rows are read, and what is not read gets its mass by the
// new queries. kInvalidArgument: the document has no row codes.
Result<Selections> Complete(const LookupArgs& args, const std::vector<Choice>& choices) {
  Selections selections(choices.size());
  for (size_t h = 0; h < choices.size(); ++h) {
    const Choice& choice = choices[h];
    const auto& levels = args.heads[h].levels();
    if (!args.heads[h].has_row_codes()) {
      return Status(Code::kInvalidArgument, "this mode needs documents with row codes");
    }
    // The lookup begins at the first level that the choice looked at; coarser ones were skipped.
    size_t level = 0;
    while (choice.looked_up[level].empty()) ++level;
    HeadBuffers buffers;
    HeadLookup lookup(args, h, level, buffers, selections[h]);
    if (levels.size() > 1 && choice.tail_level + 1 == levels.size()) lookup.UseFinestValues();
    for (; level + 1 < levels.size(); ++level) {
      LECTERN_RETURN_IF_ERROR(lookup.Score(level));
      LECTERN_RETURN_IF_ERROR(
          lookup.Descend(level, Opened(levels[level], choice.looked_up[level + 1])));
    }
    LECTERN_RETURN_IF_ERROR(lookup.Score(level));
    LECTERN_RETURN_IF_ERROR(lookup.ScoreRows(choice.coded));
    // Each stage takes places in the list of the stage before: coded rows, then refined ones.
    const auto coded = [&](size_t place) { return lookup.StoredRow(place); };
    const auto refined = [&](size_t place) { return choice.refined[place]; };
    LECTERN_RETURN_IF_ERROR(lookup.RefineRows(Places(coded, choice.refined)));
    LECTERN_RETURN_IF_ERROR(lookup.FinishRows(Places(refined, choice.rows)));
  }
  return selections;
}

// --- a question's prefill by blocks of rows -----------------------------------------------------

// Looks up what the query rows [begin, end) would choose if they were the whole question, with the
// whole budget. Their weights are scaled to sum 1; where none of them counts, all count alike.
Result<Selections> LookUpBlock(const LookupArgs& args, size_t begin, size_t end) {
  std::vector<Rows<const float>> queries;
  std::vector<std::vector<float>> known_lse;
  for (size_t h = 0; h < args.heads.size(); ++h) {
    queries.push_back(args.queries[h].Slice(begin, end));
    if (args.known_lse.empty()) continue;
    const auto first = args.known_lse[h].begin();
    known_lse.emplace_back(first + static_cast<ptrdiff_t>(begin),
                           first + static_cast<ptrdiff_t>(end));
  }
  std::vector<float> weights;
  double sum = 0;
  for (size_t r = begin; r < end; ++r) sum += args.row_weights[r];
  for (size_t r = begin; r < end && sum > 0; ++r) {
    weights.push_back(static_cast<float>(args.row_weights[r] / sum));
  }
  LookupArgs block = args;
  block.queries = queries;
  block.known_lse = known_lse;
  block.row_weights = weights;
  return Lookup(block);
}

// Unites the choices of all blocks. One token (no weights) is looked up as usual.
Result<Selections> LookUpBlocks(const LookupArgs& args, size_t rows) {
  if (args.row_weights.empty()) return Lookup(args);  // one token
  std::vector<Choice> choices(args.heads.size());
  for (size_t begin = 0; begin < args.row_weights.size(); begin += rows) {
    const size_t end = std::min(begin + rows, args.row_weights.size());
    LECTERN_ASSIGN(const Selections block, LookUpBlock(args, begin, end));
    for (size_t h = 0; h < block.size(); ++h) Add(block[h], choices[h]);
  }
  return Complete(args, choices);
}

// --- a selection kept for the next token --------------------------------------------------------

// A kept choice may miss this much more of the attention, by the estimate, than when it was made.
// Chosen, not measured.
constexpr double kMoreMissed = 0.01;

// The estimated missed attention, mean over kv heads.
double Missed(const Selections& selections) {
  double missed = 0;
  for (const HeadSelection& selection : selections) missed += selection.missed_mass;
  return missed / static_cast<double>(selections.size());
}

// The state of KeepChoices: the last choice of each layer.
class Reuse {
 public:
  Reuse(double least_cosine, KeptSteps* count) : least_cosine_(least_cosine), count_(count) {}

  // A question's choice is Lookup's, and is not kept. Errors of Lookup and Complete.
  Result<Selections> Select(uint32_t layer, const LookupArgs& args) {
    if (!args.row_weights.empty()) {  // a question
      chosen_.erase(layer);
      return Lookup(args);
    }
    const auto found = chosen_.find(layer);
    if (found == chosen_.end()) return Choose(layer, args);
    if (count_) ++count_->all;
    if (LeastCosine(found->second, args) < least_cosine_) return Choose(layer, args);
    LECTERN_ASSIGN(Selections kept, Complete(args, found->second.choices));
    if (Missed(kept) > found->second.missed + kMoreMissed) {
      LECTERN_ASSIGN(Selections anew, Choose(layer, args));
      for (size_t h = 0; h < kept.size(); ++h) {
        anew[h].bytes += LookupBytes(args.heads[h], kept[h]);  // the guard has read them
      }
      return anew;
    }
    if (count_) ++count_->kept;
    return kept;
  }

 private:
  // A choice, the queries that it was made for, and the attention that it missed then.
  struct Chosen {
    std::vector<std::vector<float>> queries;  // per kv head [rows * head_dim]
    std::vector<Choice> choices;              // per kv head
    double missed;                            // in [0, 1]
  };

  // Chooses anew, and remembers it.
  Result<Selections> Choose(uint32_t layer, const LookupArgs& args) {
    LECTERN_ASSIGN(Selections selections, Lookup(args));
    Chosen& chosen = chosen_[layer];
    chosen = {{}, ChoicesOf(selections), Missed(selections)};
    for (const Rows<const float>& rows : args.queries) {
      std::vector<float>& copy = chosen.queries.emplace_back();
      for (size_t r = 0; r < rows.num_rows; ++r) {
        copy.insert(copy.end(), rows[r], rows[r] + rows.num_cols);
      }
    }
    return selections;
  }

  // The least cosine between a query head's query now and at the time of the choice, over all
  // heads.
  static double LeastCosine(const Chosen& chosen, const LookupArgs& args) {
    double least = 1;
    for (size_t h = 0; h < args.queries.size(); ++h) {
      const Rows<const float> queries = args.queries[h];
      for (size_t r = 0; r < queries.num_rows; ++r) {
        const float* const before = &chosen.queries[h][r * queries.num_cols];
        double product = 0, norms[2] = {0, 0};
        for (size_t c = 0; c < queries.num_cols; ++c) {
          product += double{before[c]} * queries[r][c];
          norms[0] += double{before[c]} * before[c];
          norms[1] += double{queries[r][c]} * queries[r][c];
        }
        least = std::min(least, product / std::sqrt(norms[0] * norms[1]));
      }
    }
    return least;
  }

  // Bytes of a selection without its rows.
  static uint64_t LookupBytes(const HeadIndex& head, const HeadSelection& selection) {
    return selection.bytes - head.BlockBytes({0, head.num_exact()}) -
           selection.rows.size() * head.BlockBytes({0, 1});
  }

  const double least_cosine_;
  KeptSteps* const count_;
  std::map<uint32_t, Chosen> chosen_;  // by layer
};

}  // namespace

Selector SelectByBlocks(size_t rows) {
  return [rows](uint32_t, const LookupArgs& args) { return LookUpBlocks(args, rows); };
}

Selector KeepChoices(double least_cosine, KeptSteps* count) {
  const auto reuse = std::make_shared<Reuse>(least_cosine, count);
  return [reuse](uint32_t layer, const LookupArgs& args) { return reuse->Select(layer, args); };
}

}  // namespace lectern::evaluate
