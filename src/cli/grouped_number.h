// Numbers for people: thousands set apart by commas, parameters in billions.
#pragma once

#include <cstdint>
#include <string>

namespace infercast {

// "78,384".
inline std::string Grouped(std::int64_t value) {
  std::string text = std::to_string(value < 0 ? -value : value);
  for (std::size_t at = text.size(); at > 3;) text.insert(at -= 3, ",");
  return value < 0 ? "-" + text : text;
}

inline std::string Grouped(double value) {
  return Grouped(static_cast<std::int64_t>(value + (value < 0 ? -0.5 : 0.5)));
}

}  // namespace infercast
