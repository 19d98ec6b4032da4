#include "kernels/backend.h"

#include <cstdlib>

#include "tests/kernels/kernel_case.h"
#include "tests/system_differences.h"

namespace lectern {
namespace {

// Sets LECTERN_BACKEND for one scope.
class ForcedBackend {
 public:
  explicit ForcedBackend(const char* name) {
    if (const char* before = std::getenv("LECTERN_BACKEND")) before_ = before;
    SetVariable("LECTERN_BACKEND", name);
  }
  ~ForcedBackend() { SetVariable("LECTERN_BACKEND", before_); }

 private:
  std::string before_;
};

TEST(BackendTest, ListsScalarFirst) {
  ASSERT_GE(AvailableBackends().size(), 2u);
  EXPECT_STREQ(AvailableBackends().front().name, "scalar");
}

TEST(BackendTest, DefaultIsTheFastest) {
  const ForcedBackend none("");
  EXPECT_EQ(DefaultBackend(), &AvailableBackends().back());
}

TEST(BackendTest, EnvironmentForcesOne) {
  for (const Backend& backend : AvailableBackends()) {
    const ForcedBackend forced(backend.name);
    ASSERT_EQ(DefaultBackend(), &backend);
  }
  const ForcedBackend forced("scalar");
  EXPECT_EQ(DefaultBackend()->matmul, MatMulScalar);  // the forced one's kernels really run
}

TEST(BackendTest, UnknownNameGivesNone) {
  const ForcedBackend forced("abacus");
  EXPECT_EQ(DefaultBackend(), nullptr);
  EXPECT_EQ(FindBackend("abacus"), nullptr);
}

TEST(BackendTest, EveryTableIsFull) {
  for (const Backend& b : AvailableBackends()) {
    EXPECT_TRUE(b.to_float_rows && b.from_float_rows && b.matmul && b.quantise_rows &&
                b.packed_matmul && b.plane_bounds && b.rms_norm && b.rope && b.glu && b.softcap &&
                b.attend && b.key_logits && b.add_row_lse && b.add_scores && b.assign_nearest)
        << b.name;
  }
}

TEST(BackendTest, TestsRunTheBestTargetOfThisMachine) {
  hwy::GetChosenTarget().DeInit();
  const std::string best = SimdTarget();
  bool is_tested = false;
  for (const KernelRun& run : AllRuns()) {
    is_tested |= run.target != 0 && best == hwy::TargetName(run.target);
  }
  EXPECT_TRUE(is_tested) << best;
}

}  // namespace
}  // namespace lectern
