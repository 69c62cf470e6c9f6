// The few of a list of names that look most like what was typed.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace infercast {

// Nearest first by edit distance (letter case ignored, a name that contains the typed text counts
// as near); at most `limit`; none when nothing is near.
std::vector<std::string> NearestNames(std::string_view typed, std::span<const std::string> names,
                                      std::size_t limit = 3);

// " (did you mean a, b?)", or nothing.
std::string DidYouMean(std::string_view typed, std::span<const std::string> names);

// "a, b, c".
std::string JoinNames(std::span<const std::string> names);

}  // namespace infercast
