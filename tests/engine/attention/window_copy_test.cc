// Sinks and window of a lookup: the window is read from its q8 copy where there is one, counted at
// the copy's bytes, and as stored wherever exact masses are needed.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "engine/attention/document_attention.h"
#include "tests/engine/test_documents.h"

namespace lectern {
namespace {

using testing::Floats;
using testing::InventedText;
using testing::ReaderModel;
using testing::TempFolder;
using testing::TokenDocument;

constexpr uint32_t kCopyLayer = 2;

// A document of the bundled reader, whose heads have metrics; f16.
const Document& CopiedDocument() {
  static TempFolder folder;
  static TokenDocument document = [] {
    const auto model = Model::Load(Env::Default(), ReaderModel());
    const auto tokens = (*model)->EncodeDocument(InventedText(16000, 11));
    testing::TokenDocumentOptions options;
    options.kv_dtype = Dtype::kF16;
    options.by_queries = true;
    return testing::IndexTokens(ReaderModel(), tokens->ids, folder.path(), options);
  }();
  return *document.document;
}

// Queries and states of one step. Each row asks for a row of the window.
class CopyStep {
 public:
  explicit CopyStep(size_t num_rows) : heads_(*CopiedDocument().Heads(kCopyLayer)) {
    std::mt19937 engine(5);
    std::normal_distribution<float> normal(0, 1);
    dim_ = heads_[0].Keys({0, 104}).num_cols;
    for (const HeadIndex& head : heads_) {
      const std::vector<float> keys = Floats(head.Keys({0, head.num_exact()}));
      std::vector<float>& rows = queries_.emplace_back();
      for (size_t r = 0; r < num_rows; ++r) {
        const size_t wanted = 4 + engine() % 100;
        for (size_t c = 0; c < dim_; ++c) rows.push_back(keys[wanted * dim_ + c] + normal(engine));
      }
      views_.emplace_back(rows.data(), num_rows, dim_);
      numbers_.emplace_back(num_rows * (dim_ + 2));
      float* const base = numbers_.back().data();
      states_.push_back({{base, num_rows, dim_},
                         {base + num_rows * dim_, num_rows},
                         {base + num_rows * (dim_ + 1), num_rows}});
      ResetState(states_.back());
    }
  }

  struct How {
    double budget = 0.1;
    bool bound = false, as_stored = false;
    double max_missed = -1;
    std::span<const double> head_budgets = {};
  };
  Result<DocumentRead> Attend(const How& how) {
    DocumentRead read;
    LECTERN_RETURN_IF_ERROR(AttendDocument({.query = {.backend = *DefaultBackend(),
                                                      .threads = threads_,
                                                      .rows = {.queries = views_,
                                                               .num_tokens = 1,
                                                               .softcap = 0,
                                                               .states = states_},
                                                      .is_cancelled = {},
                                                      .workspace = workspace_},
                                            .document = CopiedDocument(),
                                            .layer = kCopyLayer,
                                            .kv_budget = how.budget,
                                            .tail = true,
                                            .head_budgets = how.head_budgets,
                                            .nominal_budget = how.budget,
                                            .max_missed = how.max_missed,
                                            .bound = how.bound,
                                            .as_stored = how.as_stored},
                                           read));
    return read;
  }

  // Log of the mass of sinks, window and selected rows, in double.
  double ReadMass(size_t h, size_t r, const HeadSelection& selection, bool window_copy) const {
    const HeadIndex& head = heads_[h];
    std::vector<float> keys = Floats(head.Keys({0, head.num_exact()}));
    if (window_copy) {
      const std::vector<float> copy = Floats(head.WindowCopyKeys());
      std::copy(copy.begin(), copy.end(), keys.begin() + static_cast<ptrdiff_t>(4 * dim_));
    }
    std::vector<std::byte> chosen, values;
    EXPECT_TRUE(head.GatherRows(selection.rows, chosen, values).ok());
    const std::vector<float> others = Floats(head.AsRows(chosen));
    keys.insert(keys.end(), others.begin(), others.end());
    double sum = 0;
    for (size_t row = 0; row < keys.size() / dim_; ++row) {
      double dot = 0;
      for (size_t c = 0; c < dim_; ++c) dot += double{views_[h][r][c]} * keys[row * dim_ + c];
      sum += std::exp(dot / std::sqrt(static_cast<double>(dim_)));
    }
    return std::log(sum);
  }

  // Expects that the step's masses are those of the window, or its copy, and not of the other.
  void ExpectMasses(const DocumentRead& read, bool window_copy) const {
    double largest = 0;
    for (size_t h = 0; h < heads_.size(); ++h) {
      EXPECT_EQ(read.heads[h].window_copy, window_copy);
      for (size_t r = 0; r < views_[h].num_rows; ++r) {
        const double mass = ReadMass(h, r, read.heads[h], window_copy);
        EXPECT_NEAR(read.read_lse[h][r], mass, 2e-4);
        largest = std::max(largest, std::abs(mass - ReadMass(h, r, read.heads[h], !window_copy)));
      }
    }
    EXPECT_GT(largest, 1e-3) << "the rounding does not show";
  }

  std::span<const HeadIndex> heads() const { return heads_; }

 private:
  const std::span<const HeadIndex> heads_;
  size_t dim_ = 0;
  std::vector<std::vector<float>> queries_, numbers_;
  std::vector<Rows<const float>> views_;
  std::vector<AttentionState> states_;
  ThreadPool threads_{2};
  AttentionWorkspace workspace_;
};

// More query rows take another path, which joins blocks.
TEST(WindowCopyTest, ALookupReadsTheCopy) {
  for (const size_t rows : {1, 2, 40, 300}) {
    CopyStep step(rows);
    const auto read = step.Attend({});
    ASSERT_TRUE(read.ok()) << read.status().message();
    step.ExpectMasses(*read, true);
  }
}

TEST(WindowCopyTest, ItsBytesLeaveRoomForRows) {
  CopyStep sparse(40), stored(40);
  const auto read = sparse.Attend({}), before = stored.Attend({.as_stored = true});
  ASSERT_TRUE(read.ok() && before.ok());
  size_t rows = 0, rows_before = 0;
  for (size_t h = 0; h < sparse.heads().size(); ++h) {
    rows += read->heads[h].rows.size();
    rows_before += before->heads[h].rows.size();
  }
  EXPECT_GT(rows, rows_before + 20);
  EXPECT_LE(static_cast<double>(read->bytes), 0.1 * static_cast<double>(read->dense_bytes));
  // A row more costs its own bytes, so that both fill the budget alike, to a row and its codes.
  EXPECT_NEAR(static_cast<double>(read->bytes), static_cast<double>(before->bytes), 600);
}

// The bound is of exact masses, and so is what estimates are calibrated with.
TEST(WindowCopyTest, ExactMassesNeedTheRowsAsStored) {
  for (const CopyStep::How& how : {CopyStep::How{.bound = true}, CopyStep::How{.as_stored = true},
                                   CopyStep::How{.max_missed = 1}}) {
    CopyStep step(40);
    const auto read = step.Attend(how);
    ASSERT_TRUE(read.ok()) << read.status().message();
    ASSERT_FALSE(read->exact);
    step.ExpectMasses(*read, false);
  }
}

TEST(WindowCopyTest, AHeadThatReadsAllReadsItAsStored) {
  CopyStep step(8);
  const std::vector<double> budgets = {1, 0.1};
  const auto read = step.Attend({.budget = 0.55, .head_budgets = budgets});
  ASSERT_TRUE(read.ok()) << read.status().message();
  EXPECT_FALSE(read->heads[0].window_copy);
  EXPECT_EQ(read->heads[0].bytes, step.heads()[0].dense_bytes());
  EXPECT_NEAR(read->read_lse[0][3], step.ReadMass(0, 3, read->heads[0], false), 2e-4);
  EXPECT_TRUE(read->heads[1].window_copy);
  EXPECT_NEAR(read->read_lse[1][3], step.ReadMass(1, 3, read->heads[1], true), 2e-4);
}

}  // namespace
}  // namespace lectern
