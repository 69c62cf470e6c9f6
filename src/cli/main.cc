// The infercast program.
#include <fmt/core.h>

int main() {
  fmt::print("infercast {}\n", INFERCAST_VERSION);
  return 0;
}
