// The older, nested form of an experiment, converted to flat fields.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "search/task_fields.h"

namespace infercast {

// A mapping whose values are plain or mappings again, in file order.
struct NestedFields {
  std::vector<std::pair<std::string, FieldValue>> values;
  struct NamedBlock;
  std::vector<NamedBlock> blocks;

  const FieldValue* Value(std::string_view name) const;
  const NestedFields* Block(std::string_view name) const;
};
struct NestedFields::NamedBlock {
  std::string name;
  NestedFields fields;
};

// An experiment with one of these keys has the older form.
inline constexpr std::array<std::string_view, 8> kNestedKeys = {"mode",
                                                                "config",
                                                                "profiles",
                                                                "worker_config",
                                                                "prefill_worker_config",
                                                                "decode_worker_config",
                                                                "replica_config",
                                                                "advanced_tuning_config"};

// kInvalidArgument lists everything that has no place in the flat form.
Result<std::vector<std::pair<std::string, FieldValue>>> FlattenNested(const NestedFields& nested);

}  // namespace infercast
