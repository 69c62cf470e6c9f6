// Values of an option that are names of a closed set.
#pragma once

#include <fmt/format.h>

#include <string>
#include <vector>

#include "base/error.h"
#include "base/modes.h"
#include "base/near_names.h"

namespace infercast {

// kUnknownName that lists what is known and what is near.
template <NamedEnum E>
Result<E> ParseNamed(const std::string& text) {
  if (const std::optional<E> value = ParseEnum<E>(text)) return *value;
  std::vector<std::string> names;
  for (const std::string_view name : EnumNames<E>::kNames) names.emplace_back(name);
  return Fail(ErrorKind::kUnknownName,
              fmt::format("unknown {} '{}'{}; known: {}", EnumNames<E>::kType, text,
                          DidYouMean(text, names), JoinNames(names)));
}

}  // namespace infercast
