// The program builds with the language level the project relies on.
#include <expected>

#include <gtest/gtest.h>

namespace infercast {
namespace {

TEST(Toolchain, HasStdExpected) {
  std::expected<int, int> failed = std::unexpected(3);
  EXPECT_FALSE(failed.has_value());
  EXPECT_EQ(failed.error(), 3);
}

}  // namespace
}  // namespace infercast
