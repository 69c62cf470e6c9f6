#include "cli/interrupt.h"

#include <gtest/gtest.h>

#include <csignal>

namespace infercast {
namespace {

TEST(InterruptGuardTest, TurnsTheFirstSignalIntoARequest) {
  {
    const InterruptGuard guard;
    EXPECT_FALSE(InterruptGuard::requested().load());
    std::raise(SIGINT);
    EXPECT_TRUE(InterruptGuard::requested().load());
    // The second one would end the program.
    struct sigaction now{};
    sigaction(SIGINT, nullptr, &now);
    EXPECT_EQ(now.sa_handler, SIG_DFL);
  }
  const InterruptGuard next;
  EXPECT_FALSE(InterruptGuard::requested().load());
}

TEST(InterruptGuardTest, PutsBackWhatWasThere) {
  struct sigaction before{}, after{};
  sigaction(SIGTERM, nullptr, &before);
  {
    const InterruptGuard guard;
  }
  sigaction(SIGTERM, nullptr, &after);
  EXPECT_EQ(before.sa_handler, after.sa_handler);
}

}  // namespace
}  // namespace infercast
