#include "store/status.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <set>

#include "tests/system_differences.h"

namespace lectern {
namespace {

TEST(StatusTest, EveryCodeHasItsOwnSnakeName) {
  std::set<std::string_view> names;
  for (int i = 0; i < kNumCodes; ++i) {
    const std::string_view name = CodeName(Code{i});
    EXPECT_EQ(name.find_first_not_of("abcdefghijklmnopqrstuvwxyz_"), std::string_view::npos);
    EXPECT_TRUE(names.insert(name).second) << name;
  }
  EXPECT_EQ(CodeName(Code::kModelMismatch), "model_mismatch");
}

TEST(StatusTest, NumbersThatAreNoCodesReadAsInternal) {
  EXPECT_EQ(CodeName(Code{-1}), "internal");
  EXPECT_EQ(CodeName(Code{kNumCodes}), "internal");
  EXPECT_EQ(ExitStatus(Code{999}), 1);
  EXPECT_EQ(HttpStatus(Code{999}), 500);
}

TEST(StatusTest, ExitStatusFollowsTheTable) {
  EXPECT_EQ(ExitStatus(Code::kOk), 0);
  EXPECT_EQ(ExitStatus(Code::kIoError), 1);
  EXPECT_EQ(ExitStatus(Code::kBudgetTooSmall), 2);
  EXPECT_EQ(ExitStatus(Code::kNotFound), 3);
  EXPECT_EQ(ExitStatus(Code::kModelMismatch), 4);
  EXPECT_EQ(ExitStatus(Code::kNoSpace), 5);
  EXPECT_EQ(ExitStatus(Code::kChecksumMismatch), 6);
  EXPECT_EQ(ExitStatus(Code::kCancelled), 130);
}

TEST(StatusTest, HttpStatusIsOkOnlyForOk) {
  EXPECT_EQ(HttpStatus(Code::kOk), 200);
  for (int i = 1; i < kNumCodes; ++i) {
    EXPECT_GE(HttpStatus(Code{i}), 400);
    EXPECT_LT(HttpStatus(Code{i}), 600);
  }
}

TEST(StatusTest, ErrnoGivesCodeAndText) {
  const Status status = ErrnoStatus(ENOSPC, "write", "/store/x");
  EXPECT_EQ(status.code(), Code::kNoSpace);
  EXPECT_EQ(status.message(), "write /store/x: No space left on device");
  EXPECT_EQ(ErrnoStatus(kQuotaError, "write", "x").code(), Code::kNoSpace);
  EXPECT_EQ(ErrnoStatus(EROFS, "create", "x").code(), Code::kReadOnly);
  EXPECT_EQ(ErrnoStatus(EACCES, "create", "x").code(), Code::kReadOnly);
  EXPECT_EQ(ErrnoStatus(EACCES, "read", "x").code(), Code::kIoError);
  EXPECT_EQ(ErrnoStatus(ENOENT, "read", "x").code(), Code::kMissingFile);
  EXPECT_EQ(ErrnoStatus(ENOMEM, "map", "x").code(), Code::kOutOfMemory);
  EXPECT_EQ(ErrnoStatus(EMFILE, "read", "x").code(), Code::kLimitExceeded);
  EXPECT_EQ(ErrnoStatus(EIO, "read", "x").code(), Code::kIoError);
}

TEST(StatusTest, ResultCarriesAValueOrAStatus) {
  const Result<int> good = 5;
  EXPECT_TRUE(good.ok());
  EXPECT_EQ(*good, 5);
  const Result<int> bad = Status(Code::kNotFound, "no").WithParam("document");
  EXPECT_FALSE(bad.ok());
  EXPECT_EQ(bad.status().param(), "document");
}

}  // namespace
}  // namespace lectern
