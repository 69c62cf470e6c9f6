// The older, nested form of an experiment, converted to flat fields.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "search/task_fields.h"

namespace infercast {

// A mapping whose values are plain or mappings again, in file order.
struct NestedFields {
  std::vector<SourceField> values;
  struct NamedBlock;
  std::vector<NamedBlock> blocks;

  const SourceField* Field(std::string_view name) const;
  // Null where the field is absent.
  const FieldValue* Value(std::string_view name) const;
  const NestedFields* Block(std::string_view name) const;
};
struct NestedFields::NamedBlock {
  std::string name;
  NestedFields fields;
  int line = 0;  // as SourceField
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

// kInvalidArgument lists everything that has no place in the flat form, with its line.
Result<std::vector<SourceField>> FlattenNested(const NestedFields& nested);

}  // namespace infercast
