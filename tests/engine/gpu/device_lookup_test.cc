// Lookups on a device: the best rows by row codes, within the budget, and what stands for the rest.
#include "engine/gpu/lookup.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <iterator>

#include "index/row_codes.h"
#include "kernels/second_order.h"
#include "tests/engine/device_machine.h"
#include "tests/kernels/matrix.h"

namespace lectern {
namespace {

using testing::IndexTokens;
using testing::Machine;
using testing::MachineName;
using testing::OnMachine;
using testing::TempFolder;
using testing::TextTokens;
using testing::TinyModel;
using testing::TokenDocument;

class DeviceLookupTest : public OnMachine {
 protected:
  void SetUp() override {
    OnMachine::SetUp();
    if (IsSkipped()) return;
    static const TempFolder folder;
    static const TokenDocument document =
        IndexTokens(TinyModel(), TextTokens(3000), folder.path(), {.kv_dtype = Dtype::kF16});
    Bring(document);
  }
  void Bring(const TokenDocument& document) {
    const auto heads = document.document->Heads(0);
    ASSERT_TRUE(heads.ok());
    heads_ = *heads;
    const auto stream = DeviceStream::Create(OpenDevice());
    ASSERT_TRUE(stream.ok());
    stream_ = *stream;
    ASSERT_TRUE(DeviceCodes::Has(heads_));
    auto codes = DeviceCodes::Bring(heads_, *DefaultBackend(), *stream_);
    ASSERT_TRUE(codes.ok()) << codes.status().message();
    codes_ = std::move(codes).value();
    ASSERT_NE(codes_, nullptr);
    Draw(4);
  }
  void ExpectBestRows(double budget, double tolerance);

  // Queries whose logits spread by a few units.
  void Draw(size_t num_queries) {
    queries_.clear();
    known_lse_.clear();
    for (size_t h = 0; h < heads_.size(); ++h) {
      queries_.push_back(Matrix::Random(num_queries, Dim(), 3 + h));
      for (float& x : queries_.back().data) x *= 0.7f;
      std::vector<std::byte> rounded(queries_.back().data.size() * 2);  // as the device will
      FromFloatRowsScalar(queries_.back(), codes_->dtype(), rounded.data());
      ToFloatRowsScalar({rounded.data(), codes_->dtype(), num_queries, Dim()},
                        queries_.back().rows);
      known_lse_.emplace_back(num_queries, 1.5f);
    }
    views_.assign(queries_.begin(), queries_.end());
  }
  size_t Dim() const { return heads_.front().levels().back().centroids.num_cols; }

  LookupArgs Args(double budget) {
    return {.backend = *DefaultBackend(),
            .threads = *threads_,
            .heads = heads_,
            .queries = views_,
            .scale = 1 / std::sqrt(static_cast<float>(Dim())),
            .kv_budget = budget,
            .tail = true,
            .known_lse = known_lse_};
  }

  // How well a row is known: by its cluster, its row code, or its fine code too.
  enum class Known { kCluster, kCode, kFineCode };
  using KnownRows = std::vector<std::vector<Known>>;  // [head][row]

  // The estimate of a row's logit from that knowledge.
  double Estimate(const LookupArgs& args, size_t h, size_t r, uint32_t row, Known known) const {
    const HeadIndex& head = heads_[h];
    const HeadIndex::Level& finest = head.levels().back();
    const size_t dim = finest.centroids.num_cols, plane_bytes = PlaneBytes(dim);
    const auto cluster =
        static_cast<size_t>(std::upper_bound(finest.children.begin(), finest.children.end(), row) -
                            finest.children.begin() - 1);
    std::vector<float> centroid(dim), rotated(queries_[h][r], queries_[h][r] + dim);
    DefaultBackend()->to_float_rows(finest.centroids.Slice(cluster, cluster + 1),
                                    {centroid.data(), 1, dim});
    double logit = 0;
    for (size_t c = 0; c < dim; ++c) logit += double{centroid[c]} * queries_[h][r][c];
    if (known == Known::kCluster) {
      const double norm = args.scale * Norm({queries_[h][r], dim});
      return args.scale * logit + LogMeanExp(norm * std::sqrt(double{finest.variances[cluster]}),
                                             double{finest.log_counts[cluster]});
    }
    const bool is_fine = known == Known::kFineCode;
    Rotate(rotated);
    const std::byte *const code = head.RowCodes(row), *const fine = head.FineCodes(row);
    std::vector<std::byte> signs(code, code + plane_bytes), low(fine, fine + plane_bytes),
        high(fine + plane_bytes, fine + 2 * plane_bytes);
    MakeFinePlanes(signs, low, high);
    double dot = 0;
    for (size_t c = 0; c < dim; ++c) {
      const auto sign = [c](const std::vector<std::byte>& plane) {
        return (static_cast<unsigned>(plane[c / 8]) >> (c % 8) & 1) != 0 ? 1 : -1;
      };
      dot += rotated[c] * (is_fine ? 4 * sign(signs) + sign(low) + 2 * sign(high) : sign(signs));
    }
    const double factor = is_fine ? FineFactor(fine, dim) : RowFactor(code, dim);
    return args.scale * (logit + factor * dot);
  }

  // Per head: masses of its rows, as shares [R][rows].
  std::vector<Matrix> Shares(const LookupArgs& args, const KnownRows& known) const {
    std::vector<Matrix> shares;
    for (size_t h = 0; h < heads_.size(); ++h) {
      const HeadIndex& head = heads_[h];
      Matrix& of_head = shares.emplace_back(queries_[h].rows.num_rows, head.num_rows());
      for (size_t r = 0; r < of_head.rows.num_rows; ++r) {
        double sum = std::exp(double{known_lse_[h][r]});
        for (uint32_t t = head.num_exact(); t < head.num_rows(); ++t) {
          of_head[r][t] = static_cast<float>(std::exp(Estimate(args, h, r, t, known[h][t])));
          sum += of_head[r][t];
        }
        for (uint32_t t = 0; t < head.num_rows(); ++t) {
          of_head[r][t] = t < head.num_exact() ? 0 : of_head[r][t] / static_cast<float>(sum);
        }
      }
    }
    return shares;
  }
  // Takes the rows that are known as `before`, and makes the `count` best of them known better. Rows
  // of a cluster that have the same score follow one another.
  void Learn(const std::vector<Matrix>& shares, size_t count, Known before, KnownRows& known) {
    std::vector<std::pair<double, std::pair<size_t, uint32_t>>> order;
    for (size_t h = 0; h < heads_.size(); ++h) {
      for (uint32_t t = heads_[h].num_exact(); t < heads_[h].num_rows(); ++t) {
        if (known[h][t] == before) order.push_back({-Score(shares[h], t), {h, t}});
      }
    }
    std::ranges::sort(order);
    ASSERT_GE(order.size(), count);
    order.resize(count);
    for (const auto& [score, row] : order) {
      known[row.first][row.second] = before == Known::kCluster ? Known::kCode : Known::kFineCode;
    }
  }
  static double Score(const Matrix& shares, uint32_t row) {
    double score = 0;
    for (size_t r = 0; r < shares.rows.num_rows; ++r) score += double{shares[r][row]};
    return score / static_cast<double>(shares.rows.num_rows);
  }

  std::span<const HeadIndex> heads_;
  std::shared_ptr<DeviceStream> stream_;
  std::unique_ptr<const DeviceCodes> codes_;
  std::vector<Matrix> queries_;
  std::vector<Rows<const float>> views_;
  std::vector<std::vector<float>> known_lse_;
};

// `tolerance`: of masses, as tables and centroids are rounded.
void DeviceLookupTest::ExpectBestRows(double budget, double tolerance) {
  SCOPED_TRACE(budget);
  DeviceLookup lookup(stream_, *DefaultBackend());
  const LookupArgs args = Args(budget);
  std::vector<HeadSelection> selections;
  const auto found = lookup.LookUp(*codes_, args, selections);
  ASSERT_TRUE(found.ok()) << found.status().message() << cuda_emulation::TakeReport();
  ASSERT_TRUE(*found);
  ASSERT_EQ(selections.size(), heads_.size());
  EXPECT_EQ(selections.front().logit_tail.num_clusters(), 0u);
  ASSERT_TRUE(lookup.BringTail(*codes_, args, selections).ok());
  const auto share = DeviceLookup::ShareOfToken(heads_, budget, true, 4);
  ASSERT_TRUE(share);
  double dense = 0, read = 0;
  size_t num_read = 0;
  KnownRows known;
  for (size_t h = 0; h < heads_.size(); ++h) {
    dense += static_cast<double>(heads_[h].dense_bytes());
    read += static_cast<double>(selections[h].bytes);
    num_read += selections[h].rows.size();
    known.emplace_back(heads_[h].num_rows(), Known::kCluster);
  }
  EXPECT_LE(read, budget * dense);
  EXPECT_NEAR(read, static_cast<double>(share->bytes), 0.01 * dense);
  EXPECT_EQ(num_read, share->num_wanted);

  Learn(Shares(args, known), share->num_coded, Known::kCluster, known);
  Learn(Shares(args, known), share->num_refined, Known::kCode, known);
  const std::vector<Matrix> shares = Shares(args, known);
  size_t num_refined = 0;            // of those read
  double left_out = 0, read_in = 0;  // of the refined ones: the best of those left, the least read
  std::vector<double> refined_left, refined_read;
  for (size_t h = 0; h < heads_.size(); ++h) {
    const HeadIndex& head = heads_[h];
    const HeadSelection& selection = selections[h];
    ASSERT_TRUE(std::ranges::is_sorted(selection.rows));
    std::vector<double> left(4, 0.0);
    for (uint32_t t = head.num_exact(); t < head.num_rows(); ++t) {
      const bool is_read = std::ranges::binary_search(selection.rows, t);
      if (known[h][t] == Known::kFineCode) {
        (is_read ? refined_read : refined_left).push_back(Score(shares[h], t));
        num_refined += is_read;
      }
      for (size_t r = 0; r < 4 && !is_read; ++r) left[r] += double{shares[h][r][t]};
    }
    const LogitTail& tail = selection.logit_tail;
    ASSERT_EQ(tail.logits.size(), 4 * tail.num_clusters());
    double missed = 0;
    for (size_t r = 0; r < 4; ++r) {
      double sum = 0, all = std::exp(double{known_lse_[h][r]});
      for (uint32_t t = head.num_exact(); t < head.num_rows(); ++t) {
        all += std::exp(Estimate(args, h, r, t, known[h][t]));
      }
      for (size_t i = 0; i < tail.num_clusters(); ++i) {
        sum += std::exp(tail.logits[r * tail.num_clusters() + i]) / all;
      }
      EXPECT_GT(sum, 0);
      EXPECT_NEAR(sum, left[r], tolerance * left[r]);
      missed += left[r] / 4;
    }
    EXPECT_NEAR(selection.missed_mass, missed, tolerance * missed);
  }
  // Rows near a cut, and rows that cuts before it took or left, may be others.
  EXPECT_GE(static_cast<double>(num_refined), 0.95 * static_cast<double>(num_read));
  ASSERT_FALSE(refined_left.empty() || refined_read.empty());
  std::ranges::sort(refined_left, std::greater<>());
  std::ranges::sort(refined_read);
  left_out = refined_left[refined_left.size() / 50];
  read_in = refined_read[refined_read.size() / 50];
  EXPECT_GE(read_in, left_out * (1 - 3 * tolerance));
}

// The host reads the same bytes of each kind, and nearly the same rows: its first look is ordered
// by thresholds of heads, too.
TEST_P(DeviceLookupTest, ReadsWhatTheHostReads) {
  for (const double budget : {0.3, 0.5}) {
    SCOPED_TRACE(budget);
    const LookupArgs args = Args(budget);
    DeviceLookup lookup(stream_, *DefaultBackend());
    std::vector<HeadSelection> there;
    const auto found = lookup.LookUp(*codes_, args, there);
    ASSERT_TRUE(found.ok() && *found) << cuda_emulation::TakeReport();
    auto here = Lookup(args);
    ASSERT_TRUE(here.ok());
    size_t num_there = 0, num_here = 0, num_both = 0;
    double missed_there = 0, missed_here = 0;
    for (size_t h = 0; h < heads_.size(); ++h) {
      num_there += there[h].rows.size();
      num_here += (*here)[h].rows.size();
      std::vector<uint32_t> both;
      std::ranges::set_intersection(there[h].rows, (*here)[h].rows, std::back_inserter(both));
      num_both += both.size();
      missed_there += there[h].missed_mass;
      missed_here += (*here)[h].missed_mass;
    }
    EXPECT_NEAR(static_cast<double>(num_there), static_cast<double>(num_here), 0.05 * num_here);
    EXPECT_GE(static_cast<double>(num_both), 0.98 * static_cast<double>(num_here));
    EXPECT_NEAR(missed_there, missed_here, 0.05 * missed_here);
  }
}

// A question's, of whose rows some choose. Of a small budget the host reads as many bytes of each
// kind, of a larger one fewer row codes and more rows.
TEST_P(DeviceLookupTest, OfAQuestionReadsNearlyWhatTheHostReads) {
  Draw(40);
  std::vector<float> weights(40, 0.0f);
  for (size_t r = 3; r < 40; r += 2) weights[r] = r < 39 ? 0.2f / 18 : 0.8f;
  for (const bool has_known : {true, false}) {
    for (const double budget : {0.12, 0.3}) {
      SCOPED_TRACE(budget);
      LookupArgs args = Args(budget);
      args.row_weights = weights;
      if (!has_known) args.known_lse = {};
      DeviceLookup lookup(stream_, *DefaultBackend());
      std::vector<HeadSelection> there;
      const auto found = lookup.LookUp(*codes_, args, there);
      ASSERT_TRUE(found.ok() && *found) << cuda_emulation::TakeReport();
      ASSERT_TRUE(lookup.BringTail(*codes_, args, there).ok());
      auto here = Lookup(args);
      ASSERT_TRUE(here.ok());
      size_t num_there = 0, num_here = 0, num_both = 0;
      double read = 0, dense = 0;
      for (size_t h = 0; h < heads_.size(); ++h) {
        const HeadSelection& selection = there[h];
        ASSERT_TRUE(std::ranges::is_sorted(selection.rows));
        ASSERT_GE(selection.rows.front(), heads_[h].num_exact());
        num_there += selection.rows.size();
        num_here += (*here)[h].rows.size();
        std::vector<uint32_t> both;
        std::ranges::set_intersection(selection.rows, (*here)[h].rows, std::back_inserter(both));
        num_both += both.size();
        read += static_cast<double>(selection.bytes);
        dense += static_cast<double>(heads_[h].dense_bytes());
        EXPECT_EQ(selection.logit_tail.logits.size(), 40 * selection.logit_tail.num_clusters());
        EXPECT_NEAR(selection.missed_mass, (*here)[h].missed_mass, 0.05 * selection.missed_mass);
      }
      EXPECT_LE(read, budget * dense);
      EXPECT_GE(read, 0.98 * budget * dense);
      EXPECT_NEAR(static_cast<double>(num_there), static_cast<double>(num_here), 0.05 * num_here);
      EXPECT_GE(static_cast<double>(num_both), 0.95 * static_cast<double>(num_here));
    }
  }
}

TEST_P(DeviceLookupTest, ReadsTheBestRowsThatTheBudgetAllows) {
  ExpectBestRows(0.3, 0.03);
  ExpectBestRows(0.6, 0.03);
}

TEST_P(DeviceLookupTest, OfABf16DocumentQueriesAndCentroidsAreOfItsType) {
  const TempFolder folder;
  const TokenDocument document =
      IndexTokens(TinyModel(), TextTokens(3000), folder.path(), {.kv_dtype = Dtype::kBf16});
  Bring(document);
  EXPECT_EQ(codes_->dtype(), Dtype::kBf16);
  ExpectBestRows(0.4, 0.06);
}

TEST_P(DeviceLookupTest, LeavesToTheHostWhatItDoesNotDo) {
  DeviceLookup lookup(stream_, *DefaultBackend());
  std::vector<HeadSelection> selections;
  const auto is_found = [&](double budget, const auto& change) {
    LookupArgs args = Args(budget);
    change(args);
    const auto found = lookup.LookUp(*codes_, args, selections);
    EXPECT_TRUE(found.ok());
    return found.ok() && *found;
  };
  const auto as_it_is = [](LookupArgs&) {};
  const std::vector<double> budgets(heads_.size(), 0.3);
  EXPECT_TRUE(is_found(0.3, as_it_is));
  EXPECT_FALSE(is_found(0.3, [](LookupArgs& args) { args.bound = true; }));
  EXPECT_FALSE(is_found(0.3, [](LookupArgs& args) { args.row_codes = false; }));
  EXPECT_FALSE(is_found(0.3, [](LookupArgs& args) { args.rule.kind = Rule::kTopP; }));
  EXPECT_FALSE(is_found(0.3, [&](LookupArgs& args) { args.head_budgets = budgets; }));
  EXPECT_FALSE(is_found(0.02, as_it_is));  // centroids alone are more
  Draw(kMostChosenQueries + 1);
  EXPECT_FALSE(is_found(0.3, as_it_is));
  std::vector<float> weights(kMostChosenQueries + 1, 0.0f);
  weights.back() = 1;
  EXPECT_TRUE(is_found(0.3, [&](LookupArgs& args) { args.row_weights = weights; }));
  if (GetParam() == Machine::kGpu) return;
  // Where there was no room for many query rows there may be for fewer.
  cuda_emulation::SetFaults({.allocations_left = 0});
  DeviceLookup other(stream_, *DefaultBackend());
  const auto is_found_by_other = [&] {
    const auto found = other.LookUp(*codes_, Args(0.3), selections);
    EXPECT_TRUE(found.ok());
    return found.ok() && *found;
  };
  Draw(100);
  EXPECT_FALSE(is_found_by_other());
  cuda_emulation::SetFaults({});
  EXPECT_FALSE(is_found_by_other());
  Draw(99);
  EXPECT_TRUE(is_found_by_other());
  Draw(100);
  EXPECT_FALSE(is_found_by_other());
  other.TryAgain();  // as every question does
  EXPECT_TRUE(is_found_by_other());
}

INSTANTIATE_TEST_SUITE_P(Machines, DeviceLookupTest,
                         ::testing::Values(Machine::kEmulated, Machine::kGpu), MachineName);

}  // namespace
}  // namespace lectern
